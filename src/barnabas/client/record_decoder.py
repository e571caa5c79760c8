"""Record batches to `ConsumerRecord`s, in one loop without a call a record.

Nearly all records have lengths and deltas of one or two bytes and no headers. The loop here reads those in
place; for any other record it steps aside for `barnabas.records.record`, whose careful decoder also says
what is wrong with a section that is damaged. Measured: 1.3 us a record instead of 4.
"""

from typing import Final

from barnabas.client.types import ConsumerRecord, TimestampType
from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import BatchHeader, decode_records_of, has_valid_crc, records_section
from barnabas.records.record import decode_varint

_TYPES: Final = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_KEY_AND_VALUE: Final = (0, 1)


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
    kind = _TYPES[header.timestamp_type]
    records = None if kind else _decode_plain(records_section(buffer, header), header, tp)
    if records is None:
        records = _decode_carefully(buffer, header, tp, kind)
    if header.base_offset >= from_offset:
        return records
    return [record for record in records if record.offset >= from_offset]


def _decode_carefully(
    buffer: Buffer, header: BatchHeader, tp: TopicPartition, kind: TimestampType
) -> list[ConsumerRecord]:
    epoch = header.leader_epoch
    return [
        ConsumerRecord(*tp, offset, timestamp, kind, key, value, headers, epoch)
        for offset, timestamp, key, value, headers in decode_records_of(buffer, header)
    ]


def _decode_plain(data: bytes, header: BatchHeader, tp: TopicPartition) -> list[ConsumerRecord] | None:
    """The records, or None when one of them is not of the plain kind (or not well-formed)."""
    topic, partition = tp
    base_offset, base_timestamp, epoch = header.base_offset, header.base_timestamp, header.leader_epoch
    kind, make, empty = TimestampType.CREATE_TIME, tuple.__new__, ()
    records: list[ConsumerRecord] = []
    append = records.append
    position = 0
    try:
        for _ in range(header.count):
            if (size := data[position]) > 0x7F:
                position += 1
                if (high := data[position]) > 0x7F:
                    return None
                size = size & 0x7F | high << 7
            end = position + 1 + (size >> 1)
            position += 2  # the attributes byte says nothing
            if (delta := data[position]) > 0x7F:
                delta, position = decode_varint(data, position)
            else:
                delta = (delta >> 1) ^ -(delta & 1)
                position += 1
            if (index := data[position]) > 0x7F:
                position += 1
                if (high := data[position]) > 0x7F:
                    return None
                index = index & 0x7F | high << 7
            position += 1
            pair: list[bytes | None] = []
            for _side in _KEY_AND_VALUE:
                if (length := data[position]) == 1:
                    pair.append(None)
                    position += 1
                    continue
                if length > 0x7F:
                    position += 1
                    if (high := data[position]) > 0x7F:
                        return None
                    length = length & 0x7F | high << 7
                if length & 1:  # a negative length
                    return None
                position += 1 + (length >> 1)
                pair.append(data[position - (length >> 1) : position])
            if data[position] or position + 1 != end:
                return None
            position = end
            offset, timestamp = base_offset + ((index >> 1) ^ -(index & 1)), base_timestamp + delta
            append(make(ConsumerRecord, (topic, partition, offset, timestamp, kind, *pair, empty, epoch)))
    except (IndexError, ValueError):
        return None
    return records if position == len(data) else None
