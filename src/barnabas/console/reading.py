"""`Observation`: a value as it was last read, when, and why it was not read since."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from barnabas.core.errors import BarnabasError

T = TypeVar("T")
K = TypeVar("K")

FRESH_MS: Final = 60_000
"""What is older than this is stale, also when nothing has failed, where its reader says nothing else."""


class Freshness(StrEnum):
    """How far a value can be relied on. What is unknown is never good."""

    OK = "ok"
    STALE = "stale"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Observation(Generic[T]):
    """A value, the time in ms of its reading (0 for none yet), and the error of a later try."""

    value: T | None = None
    at_ms: int = 0
    error: str | None = "not read yet"
    fresh_ms: int = FRESH_MS
    """How long it is fresh: its reader knows when it reads again (`collector.Pace`)."""

    def failed(self, error: BarnabasError | str) -> "Observation[T]":
        """The value as it was, and why it is not newer."""
        return replace(self, error=str(error) or type(error).__name__)

    def state(self, now_ms: int) -> Freshness:
        """Whether the value is to be relied on."""
        if not self.at_ms or self.value is None:
            return Freshness.UNKNOWN
        return Freshness.STALE if self.error or now_ms - self.at_ms > self.fresh_ms else Freshness.OK


def read(value: T, now_ms: int, fresh_ms: int = FRESH_MS) -> Observation[T]:
    """A value that was just read."""
    return Observation(value, now_ms, None, fresh_ms)


def merged(
    old: Mapping[K, Observation[T]],
    answers: Mapping[K, T | BarnabasError],
    now_ms: int,
    there: Iterable[K] | None = None,
    fresh_ms: int = FRESH_MS,
) -> dict[K, Observation[T]]:
    """The readings with these answers worked in; of what is no longer `there` nothing is kept."""
    found = dict(old) if there is None else {key: old[key] for key in there if key in old}
    nothing: Observation[T] = Observation()
    for key, answer in answers.items():
        if isinstance(answer, BarnabasError):
            found[key] = old.get(key, nothing).failed(answer)
        else:
            found[key] = Observation(answer, now_ms, None, fresh_ms)
    return found


def known(readings: Mapping[K, Observation[T]], key: K) -> T | None:
    """The value of a table's entry, None where it is not known."""
    reading = readings.get(key)
    return None if reading is None else reading.value


def oldest(readings: Iterable[Observation[Any]]) -> Observation[Any]:
    """The one that was read longest ago: what is made of all of them is as old. Not read where there is
    none.
    """
    return min(readings, key=lambda one: one.at_ms, default=Observation())
