"""The aborted transactions of a segment (``TransactionIndex``); the file exists only where there is one.

::

    .txnindex = {version:int16=0 producerId:int64 firstOffset:int64 lastOffset:int64 lastStableOffset:int64}*

The last stable offset is the one right after the transaction was aborted: a reader who stops below it need
not look further.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from barnabas.log.filesystem import Filesystem
from barnabas.log.shortage import is_passing

_ENTRY: Final = struct.Struct(">hqqqq")
_LAST_OFFSET: Final = itemgetter(2)


class AbortedTxn(NamedTuple):
    """One aborted transaction, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one segment, in the order of their markers."""

    __slots__ = ("_entries", "_filesystem", "_written", "path")

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self._filesystem = filesystem
        self.path = path
        self._entries: list[AbortedTxn] | None = None
        self._written = 0
        """How many of the entries are in the file."""

    @property
    def entries(self) -> list[AbortedTxn]:
        """All entries, read at the first use; raises ValueError for a file that cannot be one."""
        if self._entries is None:
            self._entries = self._load()
            self._written = len(self._entries)
        return self._entries

    def sanity_check(self, base_offset: int) -> None:
        """Raises ValueError for entries that cannot be those of the segment that begins at the offset.

        The file has no checksum, and one that is missing says that nothing was aborted: readers of committed
        data would see what an entry that was damaged leaves out.
        """
        ended = base_offset - 1
        for txn in self.entries:
            # Markers follow each other; what is stable then ends behind the marker at most.
            rises = 0 <= txn.first_offset < txn.last_offset and ended < txn.last_offset
            if txn.producer_id < 0 or not rises or not 0 <= txn.last_stable_offset <= txn.last_offset + 1:
                raise ValueError(f"{self.path} has an entry that cannot be: {txn}")
            ended = txn.last_offset

    def append(self, txn: AbortedTxn) -> None:
        """Adds the transaction; its marker is in the log already, so a lack of descriptors or of room only
        delays the file.
        """
        self.entries.append(txn)
        try:
            self.write()
        except OSError as error:
            if not is_passing(error):
                raise

    def write(self) -> None:
        """Puts into the file what is not there yet. Raises OSError."""
        missing = self.entries[self._written :]
        if missing:
            file = self._filesystem.open(self.path, create=True)
            file.pwrite(b"".join(_ENTRY.pack(0, *txn) for txn in missing), self._written * _ENTRY.size)
            self._written += len(missing)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """Transactions that overlap the range, and whether no later segment can have more of them."""
        found = []
        entries = self.entries
        # In the order of their markers: what ended before the range is not looked at. A reader who comes
        # through a hundred thousand of them would else see each with every fetch.
        for txn in islice(entries, bisect_left(entries, fetch_offset, key=_LAST_OFFSET), None):
            if txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Forgets transactions whose marker is at or above the offset."""
        kept = [txn for txn in self.entries if txn.last_offset < offset]
        if len(kept) != len(self.entries):
            self._filesystem.open(self.path, create=True).truncate(len(kept) * _ENTRY.size)
            self._entries = kept
            self._written = min(self._written, len(kept))

    def _load(self) -> list[AbortedTxn]:
        if not self._filesystem.exists(self.path):
            return []
        return list(decode_txn_index(self._filesystem.read(self.path), self.path))


def decode_txn_index(data: bytes, path: str) -> Iterator[AbortedTxn]:
    """The entries in the bytes of a file; raises ValueError when they cannot be ones."""
    if len(data) % _ENTRY.size:
        raise ValueError(f"{path} has {len(data)} bytes, no multiple of {_ENTRY.size}")
    for version, *fields in _ENTRY.iter_unpack(data):
        if version != 0:
            raise ValueError(f"{path} has an entry of version {version}")
        yield AbortedTxn(*fields)
