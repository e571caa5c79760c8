"""How much room disks have, look after look: whether one will be full."""

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.admin import LogDirDescription
from barnabas.console.reading import Observation

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
