"""The record of a batch that a time names (``FileRecords.searchForTimestamp``)."""

from barnabas.log.results import TimestampAndOffset
from barnabas.log.validator import plain_section
from barnabas.records.batch import TIMESTAMP_TYPE_BIT, parse_header
from barnabas.records.compression import DECOMPRESSED_BYTES_MAX
from barnabas.records.record import decode_runs, make_record


def search_batch(
    batch: bytes, target_ms: int, start_offset: int, *, at_once: bool = False
) -> TimestampAndOffset | None:
    """The first record at or after both the time and the offset. Raises KafkaError for a damaged batch.

    With `at_once`, raises HeavyBatchError for a batch that would hold the event loop: then a child process
    does the same without.
    """
    header = parse_header(batch)
    section = plain_section(batch, header, DECOMPRESSED_BYTES_MAX, at_once=at_once)
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    runs = decode_runs(
        make_record, section, header.count, header.base_offset, header.base_timestamp, append_time
    )
    for records in runs:
        for record in records:
            if record.timestamp >= target_ms and record.offset >= start_offset:
                return TimestampAndOffset(record.timestamp, record.offset, header.leader_epoch)
    return None
