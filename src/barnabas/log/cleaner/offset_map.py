"""The last offset of each key, in one flat buffer of 24 bytes a key (``SkimpyOffsetMap``).

::

    slot = fingerprint:16 bytes, offset + 1:int64          an offset of 0 marks a slot that is free

Keys of up to 15 bytes are their own fingerprint, padded and with their length behind; longer ones have their
MD5. Two long keys with one MD5 would be taken for one key, as in Kafka. A slot is found by Python's hash of
the fingerprint, which differs from process to process, so that no client can choose keys that meet in one
slot; taken slots are stepped over.

Keys come by the batch, as the walk over them is most of what a cleaning does. Half of that is waiting for
memory: two buffers, one for fingerprints and one for offsets, take half as long again.
"""

import struct
from collections.abc import Iterable, Sequence
from hashlib import md5
from typing import Final

from barnabas.core.config import LONG_MAX

SLOT_BYTES: Final = 24
KEYLESS: Final = LONG_MAX
"""What stands for the last offset of a record without a key."""
_INLINE_MAX: Final = 15
_PADDINGS: Final = [bytes(_INLINE_MAX - length) + bytes([length]) for length in range(_INLINE_MAX + 1)]
_SLOT: Final = struct.Struct(">16sq")
_slot_at: Final = _SLOT.unpack_from
_put_slot: Final = _SLOT.pack_into


def fingerprints(keys: Iterable[bytes | None]) -> list[bytes | None]:
    """The 16 bytes that stand for each key; None where there is no key."""
    paddings = _PADDINGS
    return [
        None
        if key is None
        else key + paddings[len(key)]
        if len(key) <= _INLINE_MAX
        else md5(key, usedforsecurity=False).digest()
        for key in keys
    ]


class OffsetMap:
    """Offsets by key; who puts keys sees first that there is room for them (`fits`)."""

    __slots__ = ("_table", "capacity", "latest_offset", "size", "slots")

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self.slots = max(2, memory_bytes // SLOT_BYTES)
        self.capacity = max(1, min(self.slots - 1, int(self.slots * load_factor)))
        """How many keys there may be."""
        self.size = 0
        self.latest_offset = -1
        """The last offset that the map knows about; what lies behind it is not judged."""
        self._table = bytearray(self.slots * SLOT_BYTES)

    def fits(self, keys: Sequence[bytes | None]) -> bool:
        """Whether there is room for a batch's keys: for those of them that are new."""
        # As if all were new, which is cheap to see; only near the end are the new ones counted.
        if self.size + len(keys) <= self.capacity:
            return True
        return self.size + self.last_offsets(list(set(keys))).count(-1) <= self.capacity

    def put(self, keys: Sequence[bytes | None], offset_deltas: Sequence[int], base_offset: int) -> None:
        """Notes a batch's offsets as the last ones of its keys; records without a key have none."""
        table, slots, stored_base = self._table, self.slots, base_offset + 1
        for wanted, offset_delta in zip(fingerprints(keys), offset_deltas, strict=True):
            if wanted is None:
                continue
            position = hash(wanted) % slots * SLOT_BYTES
            while True:
                found, stored = _slot_at(table, position)
                # A free slot: the key is new.
                if not stored:
                    self.size += 1
                    assert self.size < slots, "an offset map has a free slot, or a look-up would not end"
                    break
                # An earlier offset of the key, which is overwritten.
                if found == wanted:
                    break
                position = (position + SLOT_BYTES) % len(table)
            _put_slot(table, position, wanted, stored_base + offset_delta)

    def last_offsets(self, keys: Sequence[bytes | None]) -> list[int]:
        """The last offset of each key: -1 for one that is not in the map, `KEYLESS` where there is no key."""
        table, slots = self._table, self.slots
        last_offsets: list[int] = []
        for wanted in fingerprints(keys):
            if wanted is None:
                last_offsets.append(KEYLESS)
                continue
            position = hash(wanted) % slots * SLOT_BYTES
            found, stored = _slot_at(table, position)
            while stored and found != wanted:
                position = (position + SLOT_BYTES) % len(table)
                found, stored = _slot_at(table, position)
            last_offsets.append(stored - 1)
        return last_offsets

    def __repr__(self) -> str:
        return f"<OffsetMap {self.size}/{self.capacity} keys, up to {self.latest_offset}>"
