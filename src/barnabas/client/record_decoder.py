"""Record batches to `ConsumerRecord`s."""

from barnabas.client.types import ConsumerRecord
from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import BatchHeader, decode_batch_as, has_valid_crc
from barnabas.records.record import placed_maker


def decode_consumer_records(
    buffer: Buffer, header: BatchHeader, tp: TopicPartition, from_offset: int, *, check_crc: bool
) -> list[ConsumerRecord]:
    """The records of a batch from this offset on; raises CORRUPT_MESSAGE or INVALID_RECORD."""
    if check_crc and not has_valid_crc(buffer, header):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record batch for partition {tp} at offset {header.base_offset} is invalid: its checksum is not"
            f" that of its bytes",
        )
    make = placed_maker(ConsumerRecord, *tp, header.timestamp_type, header.leader_epoch)
    records = decode_batch_as(make, buffer, header)
    if header.base_offset >= from_offset:
        return records
    return [record for record in records if record.offset >= from_offset]
