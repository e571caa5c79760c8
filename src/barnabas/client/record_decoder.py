"""Record batches to `ConsumerRecord`s."""

from barnabas.client.types import ConsumerRecord, Headers
from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import BatchHeader, decode_batch_as, has_valid_crc


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
    topic, partition = tp
    kind, epoch = header.timestamp_type, header.leader_epoch
    new = tuple.__new__

    def make(
        offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> ConsumerRecord:
        return new(ConsumerRecord, (topic, partition, offset, timestamp, kind, key, value, headers, epoch))

    records = decode_batch_as(make, buffer, header)
    if header.base_offset >= from_offset:
        return records
    return [record for record in records if record.offset >= from_offset]
