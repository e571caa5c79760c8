"""The leader epochs of a log and where each began (``LeaderEpochFileCache``, KIP-101).

A follower that comes back compares epochs, not high watermarks, to find where its log parts from the
leader's. The file ``leader-epoch-checkpoint`` has one ``epoch start-offset`` line for each; both columns
rise.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

from barnabas.core.ids import NO_EPOCH
from barnabas.log.checkpoint import LEADER_EPOCHS, CheckpointError, decode_checkpoint, encode_checkpoint
from barnabas.log.filesystem import Filesystem
from barnabas.log.shortage import is_full

UNDEFINED_OFFSET = -1

# How the file stands to the entries in memory.
_SAYS_THE_SAME: Final = 0
_SAYS_MORE: Final = 1
"""Entries that nobody needs, left where no record can follow them: see `LeaderEpochCache.fit`."""
_IS_UNSURE: Final = 2
"""A change was refused; the file may be the old one or the new one."""


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
    """The entries in memory; every change is written to the file before the call returns, but for one: see
    `fit`.
    """

    __slots__ = ("_entries", "_file", "_filesystem", "path")

    def __init__(self, filesystem: Filesystem, directory: str) -> None:
        self._filesystem = filesystem
        self.path = f"{directory}/{LEADER_EPOCHS}"
        self._entries: list[EpochEntry] = self._load()
        self._file = _SAYS_THE_SAME

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
        # The only entry of a log needs no sync: any batch that survives a loss of power has it. So thousands
        # of empty partitions change their leader without a wait for the disk.
        self._replace([*kept, EpochEntry(epoch, start_offset)], sync=bool(kept))

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
            # Older than anything known: its data was deleted, the first known start is where the log begins.
            return EpochEnd(epoch, entries[0].start_offset)
        return EpochEnd(entries[place - 1].epoch, entries[place].start_offset)

    def fit(self, start_offset: int, end_offset: int) -> None:
        """Forgets what lies outside a log that is being loaded (``truncateFromEndAsyncFlush``).

        This needs no sync: the next start forgets the same, also if a loss of power brings the old file back.
        Where nothing is left, as in an empty log, the file is not even written: no record comes in before its
        epoch is noted, and that replaces all of the file. So thousands of empty partitions are loaded without
        a wait for the disk.
        """
        fitting = _from_start(_to_end(self._entries, end_offset), start_offset)
        if fitting:
            self._change(fitting, sync=False)
        elif self._entries:
            self._entries, self._file = [], _SAYS_MORE

    def truncate_from_end(self, end_offset: int) -> None:
        """Forgets epochs that begin at or after the new end of the log."""
        self._change(_to_end(self._entries, end_offset), sync=True)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forgets epochs that end before the new start; the one that spans it begins there now."""
        self._change(_from_start(self._entries, start_offset), sync=True)

    def _change(self, entries: list[EpochEntry], *, sync: bool) -> None:
        if entries != self._entries or self._file != _SAYS_THE_SAME:
            self._replace(entries, sync=sync)

    def clear(self) -> None:
        """Forgets everything, for a log that begins again at another offset."""
        if self._entries or self._file != _SAYS_THE_SAME:
            self._replace([], sync=True)

    def settle(self) -> None:
        """Has the file say what is in memory, where a change was refused half-way."""
        if self._file == _IS_UNSURE:
            self._replace(self._entries, sync=False)

    def _replace(self, entries: list[EpochEntry], *, sync: bool) -> None:
        lines = (f"{entry.epoch} {entry.start_offset}" for entry in entries)
        data = encode_checkpoint(lines)
        try:
            self._filesystem.write_atomic(self.path, data, sync=sync)
        except OSError as error:
            if not is_full(error):
                # Perhaps only the name could not be synced, and the file is the new one already.
                self._file = _IS_UNSURE
                raise
            self._overwrite(data)
        self._entries, self._file = entries, _SAYS_THE_SAME

    def _overwrite(self, data: bytes) -> None:
        """Writes where the file has its room already: a role must change, and a log be cut, on a full disk
        too.

        What a loss of power leaves half-written here has another number of entries than it says, and is torn
        to recovery.
        """
        file = self._filesystem.open(self.path, create=True)
        file.pwrite(data, 0)
        file.truncate(len(data))
        file.sync()

    def __repr__(self) -> str:
        return f"<LeaderEpochCache {[tuple(entry) for entry in self._entries]}>"


def _to_end(entries: list[EpochEntry], end_offset: int) -> list[EpochEntry]:
    return [entry for entry in entries if entry.start_offset < end_offset]


def _from_start(entries: list[EpochEntry], start_offset: int) -> list[EpochEntry]:
    reached = [entry for entry in entries if entry.start_offset <= start_offset]
    if not reached:
        return entries
    return [EpochEntry(reached[-1].epoch, start_offset), *entries[len(reached) :]]
