"""`AlertRule` and `RuleState`: when a rule fires, sample after sample; live and over the history alike.

A rule watches the series of a name, or of a prefix with ``*``. It fires when the numbers have been beyond its
limit for so long, and its incident is over with the first number that is not. A time without a sample
neither begins nor ends anything: what is not known is neither bad nor good.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from barnabas.console.history.sampler import METRICS
from barnabas.operations.errors import OperationError

_NAME_MAX: Final = 200
_SERIES_MAX: Final = 1_000
_FOR_S_MAX: Final = 7 * 86_400
TimeMs: TypeAlias = Annotated[int, Field(ge=0, le=253_402_300_799_000)]
"""Milliseconds since 1970, up to where calendars end. Bounds are looked at where a file or a body is read."""


@dataclass(frozen=True, slots=True)
class AlertRule:
    """What is watched: `series` is ``METRIC/SUBJECT``, or a prefix that ends with ``*``."""

    name: str
    series: str
    limit: float
    when: Literal["above", "below"] = "above"
    for_s: int = 300

    def check(self) -> "AlertRule":
        """The rule itself. Raises OperationError where it can watch nothing."""
        if not self.name.strip() or len(self.name) > _NAME_MAX or not self.name.isprintable():
            raise OperationError(f"a rule has a name of 1 to {_NAME_MAX} characters")
        if len(self.series) > _SERIES_MAX:
            raise OperationError(f"a series has at most {_SERIES_MAX} characters")
        metric = self.series.partition("/")[0]
        if "/" not in self.series or metric not in METRICS:
            raise OperationError(f"{self.series!r} is no METRIC/SUBJECT; metrics are {', '.join(METRICS)}")
        if not 0 <= self.for_s <= _FOR_S_MAX:
            raise OperationError(f"for_s is from 0 to {_FOR_S_MAX}")
        if self.limit != self.limit or abs(self.limit) == float("inf"):
            raise OperationError("the limit is a number")
        return self

    def watches(self, series: str) -> bool:
        """Whether the rule is about this series."""
        prefix = self.series.removesuffix("*")
        return series.startswith(prefix) if prefix != self.series else series == self.series

    def is_beyond(self, value: float) -> bool:
        """Whether a number is beyond the limit."""
        return value > self.limit if self.when == "above" else value < self.limit


@dataclass(slots=True)
class Incident:
    """A rule that fired, with the numbers it came from."""

    id: str
    rule: str
    series: str
    begun_ms: TimeMs
    """The first number beyond the limit."""
    fired_ms: TimeMs
    limit: float
    value: float
    """When it fired."""
    worst: float
    ended_ms: TimeMs | None = None


@dataclass(slots=True)
class RuleState:
    """Where a rule stands with one series."""

    begun_ms: int | None = None
    worst: float = 0.0
    incident: Incident | None = None

    def step(self, rule: AlertRule, cluster: str, series: str, at_ms: int, value: float) -> Incident | None:
        """Takes one more sample; the incident if it began or ended with it."""
        if not rule.is_beyond(value):
            ended, self.incident, self.begun_ms = self.incident, None, None
            if ended is not None:
                ended.ended_ms = at_ms
            return ended
        if self.begun_ms is None:
            self.begun_ms, self.worst = at_ms, value
        self.worst = max(self.worst, value) if rule.when == "above" else min(self.worst, value)
        if self.incident is not None:
            self.incident.worst = self.worst
        elif at_ms - self.begun_ms >= rule.for_s * 1000:
            name = f"{cluster}/{rule.name}/{series}/{self.begun_ms}"
            self.incident = Incident(
                name, rule.name, series, self.begun_ms, at_ms, rule.limit, value, self.worst
            )
            return self.incident
        return None


def rehearse(
    rule: AlertRule, cluster: str, series: str, points: Iterable[tuple[int, float]]
) -> list[Incident]:
    """The incidents that the rule would have made of these samples; the last one may not be over."""
    state, found = RuleState(), []
    for at_ms, value in points:
        incident = state.step(rule, cluster, series, at_ms, value)
        if incident is not None and incident.ended_ms is None:
            found.append(incident)
    return found
