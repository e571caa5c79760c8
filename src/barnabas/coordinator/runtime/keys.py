"""Which partition of a coordinator's topic a key belongs to (``partitionFor``)."""

from functools import lru_cache
from typing import Final

from barnabas.core.ids import java_abs, java_hash

_KNOWN_NAMES_MAX: Final = 65536
_KNOWN_LENGTH_MAX: Final = 255


def partition_of(key: str, partition_count: int) -> int:
    """The partition of an internal topic that a group or transactional id belongs to."""
    # Clients choose the names, as long as they like: only those of a sane length are remembered.
    return (_known_partition if len(key) <= _KNOWN_LENGTH_MAX else _partition)(key, partition_count)


def _partition(key: str, partition_count: int) -> int:
    return java_abs(java_hash(key)) % partition_count


_known_partition: Final = lru_cache(_KNOWN_NAMES_MAX)(_partition)
