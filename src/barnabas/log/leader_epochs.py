"""The leader epochs of a log and where each began (``LeaderEpochFileCache``, KIP-101).

A follower that comes back compares epochs, not high watermarks, to find where its log parts from the
leader's. The file ``leader-epoch-checkpoint`` has one ``epoch start-offset`` line for each; both columns rise.
"""

from bisect import bisect_right
from typing import NamedTuple

from barnabas.core.ids import NO_EPOCH
from barnabas.log.checkpoint import LEADER_EPOCHS, CheckpointError, decode_checkpoint, encode_checkpoint
from barnabas.log.filesystem import Filesystem

UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """The epoch of a leader and the first offset that it wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Where an epoch ends in a log: the largest epoch not above the one asked for, and its end offset."""

    epoch: int = NO_EPOCH
    end_offset: int = UNDEFINED_OFFSET

    @property
    def known(self) -> bool:
        return self.epoch != NO_EPOCH and self.end_offset != UNDEFINED_OFFSET


class LeaderEpochCache:
    """The entries in memory; every change is written to the file before the call returns."""

    __slots__ = ("_entries", "_filesystem", "path")

    def __init__(self, filesystem: Filesystem, directory: str) -> None:
        self._filesystem = filesystem
        self.path = f"{directory}/{LEADER_EPOCHS}"
        self._entries: list[EpochEntry] = self._load()

    def _load(self) -> list[EpochEntry]:
        try:
            lines = decode_checkpoint(self._filesystem.read(self.path), self.path)
            return [EpochEntry(int(epoch), int(start)) for epoch, start in lines]
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise CheckpointError(f"{self.path}: {error}") from error

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int | None:
        return self._entries[-1].epoch if self._entries else None

    @property
    def earliest(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    def previous_epoch(self) -> int | None:
        return self._entries[-2].epoch if len(self._entries) > 1 else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that the epoch begins at the offset, unless that adds nothing.

        Entries that would contradict it (same or newer epochs, same or later starts) go.
        """
        assert epoch >= 0, f"a leader epoch cannot be {epoch}"
        assert start_offset >= 0, f"an epoch cannot start at {start_offset}"
        entries = self._entries
        if entries and epoch == entries[-1].epoch and start_offset >= entries[-1].start_offset:
            return
        kept = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
        # The first entry of a log needs no sync: any batch that survives a loss of power has it.
        self._replace([*kept, EpochEntry(epoch, start_offset)], sync=bool(entries))

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch under which the record at this offset was written."""
        place = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[place - 1].epoch if place else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The end of the epoch, or of the greatest one below it that is known."""
        entries = self._entries
        if epoch == NO_EPOCH:
            return EpochEnd()
        if entries and epoch == entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        place = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if place == len(entries):
            return EpochEnd()
        if place == 0:
            # Older than anything known: its data is gone, the first known start is where the log begins.
            return EpochEnd(epoch, entries[0].start_offset)
        return EpochEnd(entries[place - 1].epoch, entries[place].start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Forgets epochs that begin at or after the new end of the log."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        if len(kept) != len(self._entries):
            self._replace(kept, sync=True)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forgets epochs that end before the new start; the one that spans it begins there now."""
        removed = [entry for entry in self._entries if entry.start_offset <= start_offset]
        kept = self._entries[len(removed) :]
        if (removed and removed[-1].start_offset < start_offset) or len(removed) > 1:
            self._replace([EpochEntry(removed[-1].epoch, start_offset), *kept], sync=True)

    def clear(self) -> None:
        """Forgets everything, for a log that begins again at another offset."""
        if self._entries:
            self._replace([], sync=True)

    def _replace(self, entries: list[EpochEntry], *, sync: bool) -> None:
        lines = (f"{entry.epoch} {entry.start_offset}" for entry in entries)
        self._filesystem.write_atomic(self.path, encode_checkpoint(lines), sync=sync)
        self._entries = entries

    def __repr__(self) -> str:
        return f"<LeaderEpochCache {[tuple(entry) for entry in self._entries]}>"
