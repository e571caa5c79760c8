"""What a leader demands of a batch before it goes into the log, and what it changes in it (``LogValidator``).

A batch is judged by its header and its checksum alone wherever Kafka's answer can be known from them. Its
records are walked for compacted topics (each needs a key), where timestamps are limited, for
recompression, and for all topics with ``barnabas.validate.records=true``: without that a batch that lies
about its inside is caught by its reader, which is a listed deviation.

A kilobyte may hold a million records. A batch that would hold the event loop is refused with
`HeavyBatchError` before anything is changed: `validate_elsewhere` does the same work in a child process, and
its result is appended.
"""

from typing import Final, TypeAlias

from barnabas.core.chunks import Buffer
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError, RecordValidationError
from barnabas.core.ids import TopicPartition
from barnabas.log.config import LogConfig
from barnabas.log.producers import AppendOrigin
from barnabas.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    TimestampType,
    decompress_records,
    has_valid_crc,
    parse_header,
    stamp_timestamps,
    wrap_section,
)
from barnabas.records.compression import (
    Codec,
    CompressionError,
    TooLargeError,
    codec_of,
    compress,
)
from barnabas.records.record import decode_runs, make_record, offsets_are_consecutive

# Bound once: looking up an enum's member costs as much as parsing a header.
_CLIENT: Final = AppendOrigin.CLIENT
_CODEC_MAX: Final = int(max(Codec))
_UNUSUAL: Final = CONTROL_BIT | TIMESTAMP_TYPE_BIT
_TIMESTAMP_REFUSED: Final = "One or more records have been rejected due to invalid timestamp"


RECORDS_AT_ONCE: Final = 2048
"""Records of one batch that are walked on the event loop, in 1 ms."""
PLAIN_BYTES_AT_ONCE: Final = 1 << 20
"""What a batch may decompress to on the event loop: 4 ms with gzip, the slowest codec."""
RECORD_ERRORS_MAX: Final = 100
"""Records of a batch that are named when they are refused; Kafka names them all."""
PLAIN_FACTOR_MAX: Final = 64
"""How many times ``max.message.bytes`` a batch may decompress to where it is looked into;
Kafka has no bound.
"""


class HeavyBatchError(BarnabasError):
    """A batch that takes too long to look into for the event loop."""


Validated: TypeAlias = tuple[bytearray | memoryview, BatchHeader]
"""A batch that may be appended: its (writable) bytes and their header."""


def corrupt(tp: TopicPartition, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{reason} in topic partition {tp}.")


def check_frame(buffer: Buffer, header: BatchHeader, tp: TopicPartition) -> None:
    """Size, magic and checksum: what every batch must have, wherever it comes from."""
    if header.magic != MAGIC:
        raise corrupt(tp, f"Record batch has magic {header.magic}, only {MAGIC} is supported,")
    if header.length < HEADER_SIZE - LOG_OVERHEAD or header.end > len(buffer):
        raise corrupt(tp, f"Record batch of {header.size} bytes does not fit its {len(buffer)} bytes")
    if not has_valid_crc(buffer, header):
        raise corrupt(tp, f"Record is corrupt (stored crc = {header.crc})")


def validate(
    buffer: bytearray | memoryview,
    *,
    tp: TopicPartition,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
    header: BatchHeader | None = None,
    at_once: bool = True,
) -> Validated:
    """``analyzeAndValidateRecords``, ``validateMessagesAndAssignOffsets``: the batch in `buffer`, checked,
    and changed where the topic's configuration asks for it.

    Raises KafkaError with the code and the words that Kafka answers; with `at_once`, HeavyBatchError for a
    client's batch that would hold the event loop.
    """
    if header is None:
        header = parse_header(buffer)
    if (
        config.takes_batches_as_they_are
        and _is_ordinary(header, len(buffer), config.max_message_bytes)
        and has_valid_crc(buffer, header)
    ):
        return buffer, header
    if origin is _CLIENT and header.base_offset != 0 and header.magic >= MAGIC:
        raise _invalid(
            f"The baseOffset of the record batch in the append to {tp} should be 0, but it is"
            f" {header.base_offset}"
        )
    if header.size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {tp} is {header.size} bytes which exceeds the maximum"
            f" configured value of {config.max_message_bytes}.",
        )
    check_frame(buffer, header, tp)
    if header.size != len(buffer):
        raise _invalid("Compressed outer record has more than one batch")
    if origin is _CLIENT:
        _check_client(header, tp)
    if header.attributes & TIMESTAMP_TYPE_BIT and not config.uses_append_time:
        # Only the broker may say that it set the time.
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, _TIMESTAMP_REFUSED)
    codec = codec_of(header.attributes & CODEC_MASK)  # an unknown one raises
    if config.takes_batches_as_they_are:
        return buffer, header
    target = config.target_codec
    at_once = at_once and origin is _CLIENT
    plain_bytes_max = PLAIN_FACTOR_MAX * config.max_message_bytes
    if target is not None and target is not codec:
        section = plain_section(buffer, header, plain_bytes_max, at_once=at_once)
        return _recompress(section, header, tp=tp, config=config, origin=origin, now_ms=now_ms)
    # A coordinator's batch was made in this process: its records need no look unless their times do.
    doubted = origin is _CLIENT and (config.is_compacted or config.validate_records)
    if doubted or config.limits_timestamps:
        section = plain_section(buffer, header, plain_bytes_max, at_once=at_once)
        _check_records(section, header, tp=tp, config=config, origin=origin, now_ms=now_ms)
    return _apply_timestamp_type(buffer, header, config, now_ms)


def _is_ordinary(header: BatchHeader, size: int, bytes_max: int) -> bool:
    """Whether the header passes everything below at once, as nearly every producer's does."""
    return (
        size == header.length + LOG_OVERHEAD <= bytes_max
        and header.magic == MAGIC
        and header.base_offset == 0
        and 0 < header.count == header.last_offset_delta + 1
        and (header.producer_id < 0 or header.base_sequence >= 0)
        and not header.attributes & _UNUSUAL
        and header.attributes & CODEC_MASK <= _CODEC_MAX
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def _check_client(header: BatchHeader, tp: TopicPartition) -> None:
    """What only the header of a client's batch can do wrong (``validateBatch``)."""
    span = header.last_offset_delta + 1
    if span <= 0:
        raise _invalid(
            f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}] in topic"
            f" partition {tp}"
        )
    if header.count <= 0:
        raise _invalid(f"Invalid reported count for record batch: {header.count} in topic partition {tp}")
    if span != header.count:
        raise _invalid(
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] and count of"
            f" records {header.count} in topic partition {tp}"
        )
    if header.attributes & CONTROL_BIT:
        raise _invalid(f"Clients are not allowed to write control records in topic partition {tp}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId"
            f" {header.producer_id} in topic partition {tp}"
        )


def validate_elsewhere(records: bytes, tp: TopicPartition, config: LogConfig, now_ms: int) -> bytes | None:
    """As `validate`, for a client's heavy batch and another process:
    the changed batch, None for one as it was.
    """
    buffer, _ = validate(
        bytearray(records), tp=tp, config=config, origin=_CLIENT, now_ms=now_ms, at_once=False
    )
    changed = bytes(buffer)
    return None if changed == records else changed


def plain_section(buffer: Buffer, header: BatchHeader, limit: int, *, at_once: bool) -> bytes:
    """The plain bytes of a batch's records, at most `limit` of them.

    Raises CORRUPT_MESSAGE or MESSAGE_TOO_LARGE; with `at_once`, HeavyBatchError for a batch that would hold
    the event loop.
    """
    if at_once:
        if header.count > RECORDS_AT_ONCE:
            raise HeavyBatchError(f"{header.count} records")
        limit = min(limit, PLAIN_BYTES_AT_ONCE)
    try:
        return decompress_records(buffer, header, max(limit, header.size - HEADER_SIZE))
    except TooLargeError as error:
        if at_once:
            raise HeavyBatchError(str(error)) from error
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"The record batch is too large: {error}") from error
    except CompressionError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt: {error}") from error


def _check_records(
    section: bytes,
    header: BatchHeader,
    *,
    tp: TopicPartition,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
) -> None:
    next_offset = header.base_offset
    limited = config.limits_timestamps and not config.uses_append_time
    # KIP-937: how far before and after the broker's clock a producer's timestamp may be.
    oldest = now_ms - config.message_timestamp_before_max_ms
    newest = now_ms + config.message_timestamp_after_max_ms
    errors: list[tuple[int, str]] = []
    refused = 0
    code = ErrorCode.INVALID_RECORD
    for records in decode_runs(make_record, section, header.count, header.base_offset, header.base_timestamp):
        if header.is_control:
            continue
        if origin is _CLIENT and not offsets_are_consecutive(records, next_offset):
            raise _invalid(f"Records of a batch do not count up from 0 in topic partition {tp}")
        next_offset += len(records)
        if not (config.is_compacted or limited):
            continue
        for record in records:
            if config.is_compacted and record.key is None:
                reason = f"Compacted topic cannot accept message without key in topic partition {tp}"
            elif limited and record.timestamp != -1 and not oldest <= record.timestamp <= newest:
                code = ErrorCode.INVALID_TIMESTAMP
                reason = (
                    f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range."
                    f" The timestamp should be within [{oldest}, {newest}]"
                )
            else:
                continue
            refused += 1
            if refused <= RECORD_ERRORS_MAX:
                errors.append((record.offset - header.base_offset, reason))
    if refused:
        raise RecordValidationError(code, _summary(code, refused, errors), errors)


def _summary(code: ErrorCode, refused: int, errors: list[tuple[int, str]]) -> str:
    """``processRecordErrors``."""
    if code is ErrorCode.INVALID_TIMESTAMP:
        return _TIMESTAMP_REFUSED
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{reason}')" for index, reason in errors[:3])
    return (
        f"One or more records have been rejected due to {refused} record errors in total, and only showing"
        f" the first three errors at most: [{shown}]"
    )


def _apply_timestamp_type(
    buffer: bytearray | memoryview, header: BatchHeader, config: LogConfig, now_ms: int
) -> Validated:
    if config.uses_append_time:
        stamp_timestamps(buffer, header, TimestampType.LOG_APPEND_TIME, now_ms)
        return buffer, parse_header(buffer)
    return buffer, header


def _recompress(
    section: bytes,
    header: BatchHeader,
    *,
    tp: TopicPartition,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
) -> Validated:
    """The same records under the topic's own codec; deltas and sequences stay as they are."""
    _check_records(section, header, tp=tp, config=config, origin=origin, now_ms=now_ms)
    target = config.target_codec
    assert target is not None, "recompression needs a codec"
    section = compress(target, section, config.compression_level(target))
    attributes = header.attributes & ~(CODEC_MASK | TIMESTAMP_TYPE_BIT) | target
    batch = bytearray(
        wrap_section(
            section,
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            attributes=attributes | config.timestamp_type << 3,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=header.base_timestamp,
            max_timestamp=now_ms if config.uses_append_time else header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            count=header.count,
        )
    )
    if len(batch) > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"Message batch size is {len(batch)} bytes in append topartition {tp} which exceeds the maximum"
            f" configured size of {config.max_message_bytes}.",
        )
    return batch, parse_header(batch)
