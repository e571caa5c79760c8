"""Which protocol wins a vote, ties included (``GroupMetadata.selectProtocol``).

Kafka takes the first of the protocols with the most votes, in the order of a Scala hash map. That order is no
accident of a run: it follows from the names alone, so two members who each put their own favourite first get the
same protocol from every broker. Whoever coordinates next must not decide otherwise.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from barnabas.core.ids import java_hash

_BITS: Final = 5
_WORD: Final = 0xFFFF_FFFF


def winner(votes: Iterable[str]) -> str:
    """The protocol with the most votes; there must be a vote."""
    counts = Counter(votes)
    # Names without a chance are in the map as well, and move those that they share bits with.
    return max(_hash_map_order(list(counts)), key=counts.__getitem__)


def _hash_map_order(names: Sequence[str], shift: int = 0) -> list[str]:
    """The names as ``scala.collection.immutable.HashMap`` iterates: by five bits of their hashes, those that
    share all five after those that are alone, by the next five.
    """

    def bits(name: str) -> int:
        return _spread(java_hash(name)) >> shift & 31

    if shift > 32 or len(names) == 1:
        return list(names)
    branches = [list(branch) for _, branch in groupby(sorted(names, key=bits), bits)]
    alone = [branch[0] for branch in branches if len(branch) == 1]
    return alone + [
        name for branch in branches if len(branch) > 1 for name in _hash_map_order(branch, shift + _BITS)
    ]


def _spread(value: int) -> int:
    """``scala.collection.Hashing.improve``, in 32 bits."""
    value &= _WORD
    value = (value + (~(value << 9) & _WORD)) & _WORD
    value ^= value >> 14
    value = (value + (value << 4)) & _WORD
    return value ^ (value >> 10)
