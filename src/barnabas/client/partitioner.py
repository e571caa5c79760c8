"""Which partition a record goes to, as Java's producer decides.

A record with a key goes to ``murmur2(key) & 0x7fffffff`` modulo the number of partitions
(``BuiltInPartitioner.partitionForKey``), so records of one key stay in order and all Kafka clients agree.
Records without a key stick to one partition until a batch's worth of bytes went there, then to another one
by chance (KIP-480, KIP-794): large batches beat an even spread of small ones.
"""

import random
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_CACHED_KEYS: Final = 65_536


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Kafka's ``Utils.murmur2``, as a signed integer."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for (k,) in struct.iter_unpack("<I", memoryview(data)[:whole]):
        k = (k * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    if whole < length:
        h = ((h ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


@lru_cache(maxsize=_CACHED_KEYS)
def key_hash(key: bytes) -> int:
    """``Utils.toPositive(murmur2(key))``; keys repeat, so the last ones are remembered."""
    return murmur2(key) & 0x7FFFFFFF


class StickyPartitioner:
    """The partition that key-less records of one topic go to at the moment."""

    __slots__ = ("_bytes_left", "_random", "_sticky_bytes", "partition")

    def __init__(self, sticky_bytes: int, source: random.Random | None = None) -> None:
        self.partition = -1
        # Seeded by the process's own generator, so that a simulation decides.
        self._random = source or random.Random(random.getrandbits(64))
        self._sticky_bytes = sticky_bytes
        self._bytes_left = 0

    def choose(self, size_bytes: int, available: Sequence[int]) -> int:
        """The partition for a record of this size; `available` are the partitions that have a leader."""
        if self._bytes_left <= 0 or self.partition not in available:
            self.partition = self._random.choice(available)
            self._bytes_left = self._sticky_bytes
        self._bytes_left -= size_bytes
        return self.partition

    def __repr__(self) -> str:
        return f"<StickyPartitioner on {self.partition}, {self._bytes_left} bytes left>"
