"""The order in which Java walks a hash map: Kafka's tools print their lines in it.

A HashMap keeps an entry in the bucket that its hash, folded, names, and walks bucket by bucket; entries of
one bucket stay in the order in which they came. The number of buckets is a power of two that doubles when the
map is more than three quarters full.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from barnabas.core.ids import TopicPartition, java_hash

K = TypeVar("K")

_BUCKETS: Final = 16


def text_order(texts: Iterable[str], buckets: int | None = None) -> list[str]:
    """Texts as the keys of a HashMap come; without a number of buckets, of a map that grew from empty."""
    keys = list(dict.fromkeys(texts))
    return _walked(keys, java_hash, grown(len(keys)) if buckets is None else buckets)


def number_order(numbers: Iterable[int], buckets: int | None = None) -> list[int]:
    """The same for integers."""
    keys = list(dict.fromkeys(numbers))
    return _walked(keys, lambda number: number, grown(len(keys)) if buckets is None else buckets)


def long_order(numbers: Iterable[int]) -> list[int]:
    """The same for integers of 64 bits, of a map that grew from empty."""
    keys = list(dict.fromkeys(numbers))
    return _walked(keys, lambda number: number ^ number >> 32, grown(len(keys)))


def partition_order(partitions: Iterable[TopicPartition], buckets: int | None = None) -> list[TopicPartition]:
    """Partitions as the keys of a HashMap come;
    without a number of buckets, of a map that grew from empty.
    """
    keys = list(dict.fromkeys(partitions))
    return _walked(keys, partition_hash, grown(len(keys)) if buckets is None else buckets)


def partition_hash(tp: TopicPartition) -> int:
    """``TopicPartition.hashCode``."""
    return 31 * (31 + tp.partition) + java_hash(tp.topic)


def grown(count: int) -> int:
    """The buckets of a map into which `count` entries were put one by one."""
    buckets = _BUCKETS
    while count > buckets * 3 // 4:
        buckets *= 2
    return buckets


def sized(count: int) -> int:
    """The buckets of a map that was made for `count` entries (``new HashMap<>(count)``) and holds them."""
    buckets = 1
    while buckets < count:
        buckets *= 2
    return buckets if count <= buckets * 3 // 4 else buckets * 2


def copied(count: int) -> int:
    """The buckets of an empty map into which another one of `count` entries was copied."""
    wanted = int(count / 0.75 + 1)
    buckets = 1
    while buckets < wanted:
        buckets *= 2
    return buckets


def _walked(keys: list[K], hash_of: Callable[[K], int], buckets: int) -> list[K]:
    def bucket(key: K) -> int:
        folded = hash_of(key) & 0xFFFFFFFF
        return (folded ^ folded >> 16) & (buckets - 1)

    return sorted(keys, key=bucket)
