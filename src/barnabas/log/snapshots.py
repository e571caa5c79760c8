"""The producer snapshots in a partition's directory: one at each roll and one at the end of a clean close."""

from collections.abc import Container
from typing import Final

from barnabas.core.eventlog import EventLog
from barnabas.log.filesystem import Filesystem
from barnabas.log.names import SNAPSHOT_SUFFIX, offset_name, offset_of
from barnabas.log.producer_snapshot import SnapshotError, decode_snapshot, encode_snapshot
from barnabas.log.producers import ProducerStateManager

_events: Final = EventLog("log.snapshots")


class SnapshotStore:
    """Writes, finds and removes snapshots; knows which exist without listing the directory again."""

    __slots__ = ("_directory", "_filesystem", "_offsets")

    def __init__(self, filesystem: Filesystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        found = (offset_of(name, SNAPSHOT_SUFFIX) for name in filesystem.listdir(directory))
        self._offsets = sorted(offset for offset in found if offset is not None)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offsets that snapshots exist for, rising."""
        return tuple(self._offsets)

    def take(self, producers: ProducerStateManager) -> None:
        """Writes the state at `map_end_offset`, unless that snapshot exists or the log is empty."""
        offset = producers.map_end_offset
        if not offset or (self._offsets and self._offsets[-1] >= offset):
            return
        data = encode_snapshot(producers.snapshot())
        self._filesystem.write_atomic(self._path(offset), data, sync=False)
        self._offsets.append(offset)

    def load_into(
        self, producers: ProducerStateManager, log_start_offset: int, *, at_most: int | None = None
    ) -> None:
        """Restores the newest snapshot that can be read; the log's start with nothing when none can.

        Snapshots above `at_most` are passed over.
        """
        for offset in reversed(self.offsets):
            if at_most is not None and offset > at_most:
                continue
            try:
                entries = decode_snapshot(self._filesystem.read(self._path(offset)))
            except SnapshotError as error:
                _events.warning("snapshot.unreadable", path=self._path(offset), reason=error)
                self.remove(offset)
            else:
                producers.restore(entries, offset)
                return
        producers.clear(log_start_offset)

    def remove(self, offset: int) -> None:
        if offset in self._offsets:
            self._offsets.remove(offset)
            self._filesystem.remove(self._path(offset))

    def remove_outside(self, low: int, high: int) -> None:
        """Removes snapshots at or below `low` and above `high`."""
        for offset in self.offsets:
            if not low < offset <= high:
                self.remove(offset)

    def remove_strays(self, base_offsets: Container[int]) -> None:
        """Keeps the newest snapshot and those at the start of a segment."""
        for offset in self.offsets[:-1]:
            if offset not in base_offsets:
                self.remove(offset)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset, SNAPSHOT_SUFFIX)}"

    def __repr__(self) -> str:
        return f"<SnapshotStore {self._directory} {self._offsets}>"
