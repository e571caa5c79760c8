"""Which partition a record goes to, as Java's producer decides.

A record with a key goes to ``murmur2(key) & 0x7fffffff`` modulo the number of partitions
(``BuiltInPartitioner.partitionForKey``), so records of one key stay in order and all Kafka clients agree.
Records without a key stick to one partition until a batch's worth of bytes went there, then to another one
(KIP-480, KIP-794): large batches beat an even spread of small ones. The next one is drawn, the more probably
the less waits for it: a slow broker gets less. One whose broker takes nothing at all is left out.
"""

import random
import struct
from collections.abc import Callable, Sequence
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


_LOOKED_AT_MAX: Final = 64
"""Of a topic with more partitions a sample is compared: a choice costs the same for every topic."""


class StickyPartitioner:
    """The partition that key-less records of one topic go to at the moment (``BuiltInPartitioner``)."""

    __slots__ = ("_loads", "_random", "_sticky_bytes", "bytes_left", "partition")

    def __init__(
        self,
        sticky_bytes: int,
        loads: Callable[[Sequence[int]], Sequence[int | None]] | None = None,
        source: random.Random | None = None,
    ) -> None:
        """`loads` are those of the partitions of these numbers; without it each is as good as any other."""
        self.partition = -1
        self.bytes_left = sticky_bytes
        """How much goes there until another one is chosen; below 0 where its last batch is not full yet."""
        # Seeded by the process's own generator, so that a simulation decides.
        self._random = source or random.Random(random.getrandbits(64))
        self._sticky_bytes = sticky_bytes
        self._loads = loads

    def choose(self, available: Sequence[int]) -> int:
        """The partition for the next record; `available` are the partitions that have a leader."""
        if self.partition not in available:
            self.partition = self._next(available)
            self.bytes_left = self._sticky_bytes
        return self.partition

    def produced(self, size_bytes: int, *, batch_is_full: bool) -> None:
        """A record of this size went to the partition. Another one is chosen after ``batch.size`` bytes,
        where a batch ends, so that none is left half empty; after twice as many in any case.
        """
        self.bytes_left -= size_bytes
        if self.bytes_left <= (0 if batch_is_full else -self._sticky_bytes):
            self.partition = -1

    def _next(self, available: Sequence[int]) -> int:
        if self._loads is None or len(available) < 2:
            return self._random.choice(available)
        if len(available) > _LOOKED_AT_MAX:
            available = self._random.sample(available, _LOOKED_AT_MAX)
        loads = self._loads(available)
        usable = [(number, load) for number, load in zip(available, loads, strict=True) if load is not None]
        # Where no broker takes anything, it does not matter which.
        if not usable:
            return self._random.choice(available)
        # KIP-794: the longest queue has the weight 1, each shorter one as much more as it is shorter.
        most = max(load for _, load in usable)
        weights = [most + 1 - load for _, load in usable]
        return self._random.choices(usable, weights)[0][0]

    def __repr__(self) -> str:
        return f"<StickyPartitioner on {self.partition}, {self.bytes_left} bytes left>"
