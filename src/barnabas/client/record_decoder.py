"""Record batches to `ConsumerRecord`s."""

from collections.abc import Iterator

from barnabas.client.types import ConsumerRecord
from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import BatchHeader, decode_runs_of, has_valid_crc
from barnabas.records.record import placed_maker


def decode_consumer_records(
    buffer: Buffer, header: BatchHeader, tp: TopicPartition, from_offset: int, *, check_crc: bool
) -> Iterator[tuple[list[ConsumerRecord], int]]:
    """The records of a batch from this offset on, in runs, each with the position behind it: a batch of a few
    kilobytes may decompress to millions of records, of which the next ones are decoded when they are asked
    for. Raises CORRUPT_MESSAGE or INVALID_RECORD.
    """
    if check_crc and not has_valid_crc(buffer, header):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record batch for partition {tp} at offset {header.base_offset} is invalid: its checksum is not"
            f" that of its bytes",
        )
    make = placed_maker(ConsumerRecord, *tp, header.timestamp_type, header.leader_epoch)
    left = header.count
    for records in decode_runs_of(make, buffer, header):
        left -= len(records)
        behind = records[-1].offset + 1 if left else header.next_offset
        if header.base_offset < from_offset:
            records = [record for record in records if record.offset >= from_offset]
        yield records, behind
