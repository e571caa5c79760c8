"""`Figure`: a reading as a page or an answer shows it, with its state, its age and the reason."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from barnabas.console.reading import Freshness, Observation

Value: TypeAlias = int | float | str | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A value, how far it can be relied on, and why it is not better."""

    value: Value
    state: Freshness = Freshness.OK
    age_s: float | None = None
    why: str | None = None

    @property
    def number(self) -> float:
        """For comparisons: what is unknown is below everything."""
        return self.value if isinstance(self.value, int | float) else -1


def unknown(why: str) -> Figure:
    """Nothing is known, for this reason."""
    return Figure(None, Freshness.UNKNOWN, None, why)


def unread(reading: Observation[Any], now_ms: int) -> str | None:
    """Why a reading says nothing, or only what was; None where it says what is."""
    state = reading.state(now_ms)
    if state is Freshness.UNKNOWN:
        return reading.error or "not read yet"
    if state is Freshness.STALE:
        age_s = (now_ms - reading.at_ms) // 1000
        return f"not since {age_s} s" + (f": {reading.error}" if reading.error else "")
    return None


def figure(reading: Observation[Any] | None, now_ms: int, value: Value = None) -> Figure:
    """What was read, or another value made of it, with the state of the reading."""
    if reading is None or (state := reading.state(now_ms)) is Freshness.UNKNOWN:
        return unknown((reading.error if reading else None) or "not read yet")
    age_s = (now_ms - reading.at_ms) / 1000
    shown = reading.value if value is None else value
    return Figure(shown, state, age_s, reading.error)


def total(parts: Iterable[Figure]) -> Figure:
    """The sum of what is known; unknown where nothing is, stale where a part is not known or old."""
    known, problems, age_s = [], [], 0.0
    for part in parts:
        if part.state is not Freshness.UNKNOWN:
            known.append(part)
            age_s = max(age_s, part.age_s or 0)
        if part.state is not Freshness.OK:
            problems.append(part)
    if problems and not known:
        return problems[0]
    whole = sum(part.number for part in known)
    if not problems:
        return Figure(whole, Freshness.OK, age_s)
    missing = sum(part.state is Freshness.UNKNOWN for part in problems)
    why = f"without {missing} that are not known: {problems[0].why}" if missing else problems[0].why
    return Figure(whole, Freshness.STALE, age_s, why)
