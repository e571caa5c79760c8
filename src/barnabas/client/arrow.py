"""Fetched batches as pyarrow; imported where it is wanted, since it brings numba and pyarrow."""

import pyarrow as pa

from barnabas.client.types import RawFetch
from barnabas.records import columnar


def decode(raw: RawFetch, *, include_headers: bool, check_crc: bool) -> pa.RecordBatch:
    """The records from the position on. Raises ColumnarError for damaged batches."""
    return columnar.decode_to_arrow(
        raw.records,
        topic=raw.tp.topic,
        partition=raw.tp.partition,
        start_offset=raw.position,
        aborted=raw.aborted,
        include_headers=include_headers,
        check_crc=check_crc,
    )
