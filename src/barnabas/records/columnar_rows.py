"""The arrays that decoded records are written into; Arrow's buffers are views of them."""

import threading
from typing import Any, Final, NamedTuple

import numpy as np

from barnabas.core.spare_blocks import SpareBlocks

SPARE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Memory for decoded records that a thread keeps."""

_ALIGNMENT: Final = 64
"""Where Arrow wants its buffers to begin."""


class _Own(threading.local):
    """What each thread has for itself."""

    def __init__(self) -> None:
        self.blocks = SpareBlocks(SPARE_BYTES_MAX)


_own: Final = _Own()


class Rows(NamedTuple):
    """The arrays that `decode_records` writes; numba takes them as one argument."""

    counts: Any
    """The number of rows and of headers that were written."""
    offsets: Any
    timestamps: Any
    """Microseconds since 1970."""
    timestamp_types: Any
    key_valid: Any
    key_ends: Any
    key_data: Any
    value_valid: Any
    value_ends: Any
    value_data: Any
    header_ends: Any
    header_key_ends: Any
    header_key_data: Any
    header_valid: Any
    header_value_ends: Any
    header_value_data: Any


def make_rows(count: int, size: int, *, with_headers: bool) -> Rows:
    """Arrays for `count` records in `size` bytes: as large as the worst case; untouched memory costs nothing.

    They lie in one block of this thread's, which is used again once nothing refers to any of them.
    """
    headers, header_bytes = (size // 2, size) if with_headers else (0, 0)
    shapes = Rows(
        counts=(np.int64, 2),
        offsets=(np.int64, count),
        timestamps=(np.int64, count),
        timestamp_types=(np.int32, count),
        key_valid=(np.bool_, count),
        key_ends=(np.int32, count + 1),
        key_data=(np.uint8, size),
        value_valid=(np.bool_, count),
        value_ends=(np.int32, count + 1),
        value_data=(np.uint8, size),
        header_ends=(np.int32, (count if with_headers else 0) + 1),
        header_key_ends=(np.int32, headers + 1),
        header_key_data=(np.uint8, header_bytes),
        header_valid=(np.bool_, headers),
        header_value_ends=(np.int32, headers + 1),
        header_value_data=(np.uint8, header_bytes),
    )
    places, total = [], 0
    for kind, length in shapes:
        places.append(total)
        total += -(-length * np.dtype(kind).itemsize // _ALIGNMENT) * _ALIGNMENT
    block = _own.blocks.take(total) or memoryview(bytearray(total))
    arrays: list[Any] = [
        np.frombuffer(block, kind, length, place)
        for (kind, length), place in zip(shapes, places, strict=True)
    ]
    rows = Rows(*arrays)
    for ends in (
        rows.key_ends,
        rows.value_ends,
        rows.header_ends,
        rows.header_key_ends,
        rows.header_value_ends,
    ):
        ends[0] = 0
    return rows
