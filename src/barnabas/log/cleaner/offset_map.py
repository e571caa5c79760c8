"""The last offset of each key, in one flat buffer of 24 bytes a key (``SkimpyOffsetMap``).

::

    slot = fingerprint:16 bytes, offset + 1:int64          an offset of 0 marks a slot that is free

Keys of up to 15 bytes are their own fingerprint, padded and with their length behind; longer ones have their MD5. Two
long keys with one MD5 would be taken for one key, as in Kafka. A slot is found by Python's hash of the fingerprint, which
differs from process to process, so that no client can choose keys that meet in one slot; taken slots are stepped over.
"""

import struct
from hashlib import md5
from typing import Final

SLOT_BYTES: Final = 24
_INLINE_MAX: Final = 15
_SLOT: Final = struct.Struct(">16sq")
_LENGTHS: Final = [bytes([length]) for length in range(_INLINE_MAX + 1)]

_slot_at: Final = _SLOT.unpack_from
_put_slot: Final = _SLOT.pack_into


def fingerprint(key: bytes) -> bytes:
    """The 16 bytes that stand for a key."""
    size = len(key)
    if size <= _INLINE_MAX:
        return key.ljust(_INLINE_MAX, b"\0") + _LENGTHS[size]
    return md5(key, usedforsecurity=False).digest()


class OffsetMap:
    """Offsets by key; raises nothing when it is full: ask `is_full` before `put`."""

    __slots__ = ("_end", "_table", "capacity", "latest_offset", "size", "slots")

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self.slots = max(2, memory_bytes // SLOT_BYTES)
        self.capacity = max(1, min(self.slots - 1, int(self.slots * load_factor)))
        """How many keys there may be."""
        self.size = 0
        self.latest_offset = -1
        """The last offset that the map knows about; what lies behind it is not judged."""
        self._table = bytearray(self.slots * SLOT_BYTES)
        self._end = len(self._table)

    @property
    def is_full(self) -> bool:
        return self.size >= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        """Notes the offset as the key's last."""
        wanted = fingerprint(key)
        table = self._table
        position = hash(wanted) % self.slots * SLOT_BYTES
        while True:
            found, known = _slot_at(table, position)
            if not known:
                self.size += 1
                assert self.size < self.slots, "an offset map has a free slot, or a look-up would not end"
            elif found != wanted:
                position += SLOT_BYTES
                if position == self._end:
                    position = 0
                continue
            _put_slot(table, position, wanted, offset + 1)
            return

    def get(self, key: bytes) -> int:
        """The key's last offset; -1 for a key that is not in the map."""
        wanted = fingerprint(key)
        table = self._table
        position = hash(wanted) % self.slots * SLOT_BYTES
        while True:
            found, known = _slot_at(table, position)
            if not known:
                return -1
            if found == wanted:
                offset: int = known - 1
                return offset
            position += SLOT_BYTES
            if position == self._end:
                position = 0

    def __repr__(self) -> str:
        return f"<OffsetMap {self.size}/{self.capacity} keys, up to {self.latest_offset}>"
