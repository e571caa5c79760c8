"""What judges have in common: a reading that is not there, or too old, is never good."""

from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.console.health.outcome import Measured
from barnabas.console.reading import Freshness, Observation
from barnabas.console.snapshot import Scrape


def not_read(reading: Observation[Any], what: str, now_ms: int) -> Measured | None:
    """What is said where nothing can be."""
    if reading.state(now_ms) is Freshness.UNKNOWN:
        return Measured(unknown=[f"{what}: {reading.error}"])
    return None


def stale(reading: Observation[Any], what: str, now_ms: int) -> list[str]:
    """Why a value that is there is not to be relied on; nothing where it is."""
    return [f"{what}: {reading.error or 'too old'}"] if reading.state(now_ms) is Freshness.STALE else []


def compared(
    readings: Iterable[tuple[str, Observation[Scrape]]], name: str, limit: float, below: bool, now_ms: int
) -> Measured:
    """One figure of each server against the limit: above it is wrong, or below it."""
    values: list[tuple[float, str]] = []
    unknown, silent = [], False
    for subject, reading in readings:
        figures: Mapping[str, float] = reading.value or {}
        if reading.state(now_ms) is not Freshness.OK:
            unknown.append(f"{subject}: {reading.error or 'too old'}")
        elif name not in figures:
            silent = True
        else:
            values.append((figures[name], subject))
    if silent and not values and not unknown:
        return Measured(no_source="these servers do not say it")
    values.sort(reverse=not below)
    bad = [f"{subject} {value:g}" for value, subject in values if (value < limit if below else value > limit)]
    return Measured(values[0][0] if values else None, bad, unknown)
