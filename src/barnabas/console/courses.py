"""What is read again and again, and told by how it goes on: room on disks, last stable offsets that stand
still.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.admin import LogDirDescription
from barnabas.client.types import OffsetAndTimestamp
from barnabas.console.reading import Observation, known
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition

POINTS_MAX: Final = 60
_SPAN_MS_MIN: Final = 600_000
"""A shorter time says nothing of a disk: segments are made at once and deleted at once."""

LogDirectory = tuple[int, str]
"""A broker, and a path of it."""
Room = tuple[int, int]
"""A time in ms and the bytes that were left then."""


def rooms_of(
    before: Mapping[LogDirectory, Sequence[Room]],
    log_dirs: Mapping[int, Observation[Mapping[str, LogDirDescription]]],
) -> dict[LogDirectory, list[Room]]:
    """The room of each directory over the last looks, the newest last."""
    found: dict[LogDirectory, list[Room]] = {}
    for broker, reading in log_dirs.items():
        for path, one in (reading.value or {}).items():
            points = list(before.get((broker, path), ()))
            if one.usable_bytes >= 0 and (not points or points[-1][0] != reading.at_ms):
                points.append((reading.at_ms, one.usable_bytes))
            found[broker, path] = points[-POINTS_MAX:]
    return found


def bytes_per_s(points: Sequence[Room]) -> float | None:
    """How fast room goes (above 0) or comes: the slope through all points; None where they say nothing
    yet.
    """
    if len(points) < 3 or points[-1][0] - points[0][0] < _SPAN_MS_MIN:
        return None
    mean_at = sum(at for at, _ in points) / len(points)
    mean_room = sum(room for _, room in points) / len(points)
    square = sum((at - mean_at) ** 2 for at, _ in points)
    return -sum((at - mean_at) * (room - mean_room) for at, room in points) / square * 1000


@dataclass(frozen=True, slots=True)
class HeldOffset:
    """A last stable offset below the end: a transaction is open there, at this offset, since."""

    offset: int
    since_ms: int


def held_of(
    before: Mapping[TopicPartition, HeldOffset],
    ends: Mapping[TopicPartition, Observation[int]],
    stable: Mapping[TopicPartition, Any],
    now_ms: int,
) -> dict[TopicPartition, HeldOffset]:
    """Partitions whose last stable offset is below an end that was read before it. One that did not answer
    stays as it was.
    """
    found: dict[TopicPartition, HeldOffset] = {}
    for tp, answer in stable.items():
        was, end = before.get(tp), known(ends, tp)
        if isinstance(answer, BarnabasError):
            if was is not None:
                found[tp] = was
        elif isinstance(answer, OffsetAndTimestamp) and end is not None and answer.offset < end:
            stands = was is not None and was.offset == answer.offset
            found[tp] = was if was is not None and stands else HeldOffset(answer.offset, now_ms)
    return found
