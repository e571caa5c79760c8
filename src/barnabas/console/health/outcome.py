"""What a check says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from barnabas.console.snapshot import ClusterSnapshot

SUBJECTS_MAX: Final = 20
"""So many are named; their number is said in any case."""


class Level(StrEnum):
    """From good to bad; the worst of the checks is the cluster's."""

    NO_SOURCE = "no source"
    """Nothing was given that could say it; the verdict is made without."""
    GOOD = "good"
    UNKNOWN = "unknown"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured."""

    number: float | None = None
    """What is compared with the limit; the worst one where there are several."""
    bad: Sequence[str] = ()
    """What is beyond the limit, the worst first."""
    unknown: Sequence[str] = ()
    """What could not be judged, with the reason."""
    no_source: str | None = None
    """Which option would say it."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One check: `judge` gets the snapshot, the limit and the time in ms."""

    key: str
    dimension: str
    title: str
    """What is right, with {limit} for the limit."""
    wrong: str
    """What is wrong where it is not right, for the verdict's reasons."""
    limit: float
    level: Level
    """When it is not right."""
    judge: Callable[[ClusterSnapshot, float, int], Measured] = field(repr=False)
    advice: str = ""
    unit: str = ""
    """Of the number and the limit, where they are not counts, shares or multiples."""

    def write(self, number: float) -> str:
        """A number of this check, with its unit."""
        return f"{number:,.10g} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """A check's answer."""

    key: str
    dimension: str
    title: str
    wrong: str
    """What is wrong where it is beyond the limit."""
    level: Level
    number: float | None
    limit: float
    count: int
    """How many are beyond the limit."""
    subjects: Sequence[str]
    why: str
    """In a sentence."""
    unit: str
    """Of the number and the limit; empty for counts, shares and multiples."""


def outcome(check: HealthCheck, snapshot: ClusterSnapshot, limit: float, now_ms: int) -> CheckOutcome:
    """The check's answer about a snapshot."""
    found = check.judge(snapshot, limit, now_ms)
    title = check.title.format(limit=check.write(limit))
    subjects: Sequence[str] = ()
    if found.no_source is not None:
        level, why = Level.NO_SOURCE, f"not measured: {found.no_source}"
    elif found.bad:
        level, subjects = check.level, found.bad[:SUBJECTS_MAX]
        more = f" and {len(found.bad) - 3} more" if len(found.bad) > 3 else ""
        why = f"{', '.join(found.bad[:3])}{more}. {check.advice}".strip()
    elif found.unknown:
        level, subjects = Level.UNKNOWN, found.unknown[:SUBJECTS_MAX]
        why = f"not known: {found.unknown[0]}"
    else:
        level, why = Level.GOOD, "as it should be"
    return CheckOutcome(
        check.key,
        check.dimension,
        title,
        check.wrong.format(limit=check.write(limit)),
        level,
        found.number,
        limit,
        len(found.bad),
        subjects,
        why,
        check.unit,
    )
