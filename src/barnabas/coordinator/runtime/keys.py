"""Which partition of a coordinator's topic a key belongs to (``partitionFor``)."""

from functools import lru_cache
from typing import Final

from barnabas.core.ids import java_abs, java_hash
from barnabas.protocol.wire import STRING_LENGTH_MAX

NO_PARTITION: Final = -1
"""Where a name belongs that cannot be stored: nobody coordinates it."""
_KNOWN_NAMES_MAX: Final = 65536
_KNOWN_LENGTH_MAX: Final = 255


def partition_of(key: str, partition_count: int) -> int:
    """The partition of an internal topic that a group or transactional id belongs to."""
    # Clients choose the names, as long as they like: only those of a sane length are remembered.
    if len(key) <= _KNOWN_LENGTH_MAX:
        return _known_partition(key, partition_count)
    return _partition(key, partition_count) if is_storable(key) else NO_PARTITION


def is_storable(key: str) -> bool:
    """Whether a name fits into a record, and into the answers that list it.

    What came as bytes that are no UTF-8 is longer as text: each of them is three bytes.
    """
    return 3 * len(key) <= STRING_LENGTH_MAX or len(key.encode(errors="replace")) <= STRING_LENGTH_MAX


def _partition(key: str, partition_count: int) -> int:
    return java_abs(java_hash(key)) % partition_count


_known_partition: Final = lru_cache(_KNOWN_NAMES_MAX)(_partition)
