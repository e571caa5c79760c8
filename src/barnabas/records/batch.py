"""A record batch of magic 2: its header, and the ways in and out of its records.

::

    baseOffset:int64 batchLength:int32 partitionLeaderEpoch:int32 magic:int8 crc:uint32 attributes:int16
    lastOffsetDelta:int32 baseTimestamp:int64 maxTimestamp:int64 producerId:int64 producerEpoch:int16
    baseSequence:int32 recordCount:int32 records

`batchLength` counts what follows it. The CRC-32C covers everything from the attributes on, so a broker may
stamp base offset and leader epoch in place without touching it. Compression covers the records only.
A batch is opaque bytes wherever that suffices: most of a broker sees no more of it than a `BatchHeader`.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    CompressionError,
    codec_of,
    compress,
    decompress,
)
from barnabas.records.crc import crc32c
from barnabas.records.record import (
    Record,
    RecordMaker,
    decode_records,
    decode_runs,
    encode_record,
    make_record,
)

R = TypeVar("R")

MAGIC: Final = 2
LOG_OVERHEAD: Final = 12
"""Bytes before and including the length: what `batchLength` does not count."""
HEADER_SIZE: Final = 61
MAGIC_OFFSET: Final = 16
CRC_COVERS_FROM: Final = 21
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC: Final = struct.Struct(">I")
_FRONT: Final = struct.Struct(">8xi4xb")
_PRODUCER: Final = struct.Struct(">43xqh")
_ATTRIBUTES_LOW: Final = 22
"""Where the lower byte of the attributes is: all bits that mean something."""
"""Attributes, producer id and epoch of a batch."""
"""Length and magic, which lie at the same place in every message format."""
_V0_OVERHEAD: Final = 14
"""The shortest length of any format: that of an empty message of format 0."""
PLACE: Final = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta: all that a search for an offset needs of a header."""
_FIRST_OF_HEADER: Final = struct.Struct(">qii")
"""Base offset, length and leader epoch."""
_ATTRIBUTES_TO_MAX_TIMESTAMP: Final = struct.Struct(">hiqq")


class TimestampType(IntEnum):
    """Who set the timestamps (attribute bit 3)."""

    NO_TIMESTAMP_TYPE = -1
    """Records of format 0 have no timestamps."""
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """The name that Kafka's tools print."""
        return {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}[self.value]


class BatchHeader:
    """The 61 bytes in front of a batch's records, and where in the buffer they were found."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        base_offset: int,
        length: int,
        leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        count: int,
        position: int,
    ) -> None:
        self.base_offset = base_offset
        self.length = length
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.count = count
        self.position = position

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.length

    @property
    def end(self) -> int:
        return self.position + LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """The offset of the last record; compaction keeps it even when that record is removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """How the records are compressed; raises CORRUPT_MESSAGE for an unknown codec."""
        return codec_of(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes & TIMESTAMP_TYPE_BIT) >> 3)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction (markers do as well)."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records (markers) instead of data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop tombstones and markers of the batch, if it has decided (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; sequences wrap from 2^31-1 to 0. -1 for none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    def __repr__(self) -> str:
        return (
            f"<BatchHeader {self.base_offset}..{self.last_offset} epoch={self.leader_epoch} of {self.size}"
            f" bytes at {self.position}>"
        )


# Bound once: a broker parses a header for every batch that goes through it.
_unpack_header: Final = _HEADER.unpack_from
_pack_first: Final = _FIRST_OF_HEADER.pack_into


def _header_of(fields: tuple[Any, ...], position: int) -> BatchHeader:
    # One by one: compiled, a call with *fields makes a list and a tuple of them first.
    offset, length, epoch, magic, crc, attributes, delta, base_ms, max_ms, producer, of, sequence, count = (
        fields
    )
    return BatchHeader(
        offset,
        length,
        epoch,
        magic,
        crc,
        attributes,
        delta,
        base_ms,
        max_ms,
        producer,
        of,
        sequence,
        count,
        position,
    )


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; raises CORRUPT_MESSAGE when the buffer ends inside it."""
    try:
        fields: tuple[Any, ...] = _unpack_header(buffer, position)
    except struct.error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Record batch at position {position} is cut inside its header"
        ) from None
    return _header_of(fields, position)


def parse_header_at(buffer: Buffer, index: int, position: int) -> BatchHeader:
    """The header at an index of a buffer;
    `position` is where the batch lies in the file that the buffer was read from.
    """
    return _header_of(_unpack_header(buffer, index), position)


def only_header(buffer: Buffer) -> BatchHeader:
    """The header of the one batch of magic 2 that the buffer must be (``ProduceRequest.validateRecords``).

    Raises CORRUPT_MESSAGE for what no message format has, INVALID_RECORD for an older format, a part of a
    batch or more than one.
    """
    size = len(buffer)
    if size >= HEADER_SIZE:
        header = parse_header(buffer)
        if header.length + LOG_OVERHEAD == size and header.magic == MAGIC:
            return header
    if size >= _FRONT.size:
        length, magic = _FRONT.unpack_from(buffer)
        is_too_short = length + LOG_OVERHEAD == size < HEADER_SIZE and magic == MAGIC
        if length < _V0_OVERHEAD or not 0 <= magic <= MAGIC or is_too_short:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A batch of {length} bytes and magic {magic}")
    raise KafkaError(ErrorCode.INVALID_RECORD, f"{size} bytes are not one batch of magic {MAGIC}")


def transactional_producer(buffer: Buffer) -> tuple[int, int] | None:
    """Id and epoch that the first batch names, if it is transactional: a look that parses no header.
    Raises CORRUPT_MESSAGE for a magic that no format has.
    """
    magic = buffer[MAGIC_OFFSET] if len(buffer) > MAGIC_OFFSET else MAGIC
    if magic > MAGIC:
        signed = magic - 256 * (magic > 127)
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {signed}")
    if len(buffer) < HEADER_SIZE or magic != MAGIC or not buffer[_ATTRIBUTES_LOW] & TRANSACTIONAL_BIT:
        return None
    producer_id, epoch = _PRODUCER.unpack_from(buffer)
    return producer_id, epoch


def batch_headers(buffer: Buffer, position: int = 0) -> Iterator[BatchHeader]:
    """The headers of all whole batches, in order; a batch that is cut off at the end is left out.

    Raises CORRUPT_MESSAGE at a length that no batch can have.
    """
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = parse_header(buffer, position)
        if header.length < HEADER_SIZE - LOG_OVERHEAD:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Found record size {header.length} smaller than minimum record overhead"
                f" ({HEADER_SIZE - LOG_OVERHEAD}) at position {position}",
            )
        if header.end > end:
            return
        yield header
        position = header.end


def compute_crc(buffer: Buffer, header: BatchHeader) -> int:
    position = header.position
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    return crc32c(view[position + CRC_COVERS_FROM : position + LOG_OVERHEAD + header.length])


def has_valid_crc(buffer: Buffer, header: BatchHeader) -> bool:
    return compute_crc(buffer, header) == header.crc


def stamp(buffer: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch of a batch in place; the CRC does not cover them."""
    # The length lies between the two: with it they are one call.
    _pack_first(buffer, header.position, base_offset, header.length, leader_epoch)


def stamp_timestamps(
    buffer: bytearray | memoryview, header: BatchHeader, timestamp_type: TimestampType, max_timestamp: int
) -> None:
    """Writes timestamp type and max timestamp in place, and the new CRC; the deltas of the records stay."""
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT | timestamp_type << 3
    _ATTRIBUTES_TO_MAX_TIMESTAMP.pack_into(
        buffer,
        header.position + CRC_COVERS_FROM,
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        max_timestamp,
    )
    _CRC.pack_into(buffer, header.position + 17, compute_crc(buffer, header))


def decompress_records(buffer: Buffer, header: BatchHeader, limit: int) -> bytes:
    """The plain bytes of the records;
    raises CompressionError, TooLargeError for more than `limit` of them.
    """
    start, end = header.position + HEADER_SIZE, header.end
    # Nearly every batch of a coordinator: a slice is half of the time of what follows.
    if not header.attributes & CODEC_MASK and end - start <= limit and isinstance(buffer, bytes):
        return buffer[start:end]
    with memoryview(buffer) as view, view[start:end] as section:
        return decompress(header.codec, section, limit)


def records_section(buffer: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The plain bytes of the records; raises CORRUPT_MESSAGE when they cannot be decompressed in `limit`."""
    try:
        return decompress_records(buffer, header, limit)
    except CompressionError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt: {error}") from error


def decode_batch(buffer: Buffer, position: int = 0, limit: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """The records of the batch at `position`, control records included.

    Raises CORRUPT_MESSAGE or INVALID_RECORD; decompression stops at `limit` bytes.
    """
    return decode_records_of(buffer, parse_header(buffer, position), limit)


def decode_records_of(
    buffer: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """As `decode_batch`, for a header that was parsed before."""
    section = _whole_section(buffer, header, limit)
    append_time = _append_time(header)
    return decode_records(
        make_record, section, header.count, header.base_offset, header.base_timestamp, append_time
    )


def decode_runs_of(
    make: RecordMaker[R], buffer: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[list[R]]:
    """As `decode_records_of`, for records of another type and in runs: a batch of some kilobytes may have
    millions of them.
    """
    section = _whole_section(buffer, header, limit)
    append_time = _append_time(header)
    yield from decode_runs(
        make, section, header.count, header.base_offset, header.base_timestamp, append_time
    )


def _whole_section(buffer: Buffer, header: BatchHeader, limit: int) -> bytes:
    if header.end > len(buffer) or header.length < HEADER_SIZE - LOG_OVERHEAD:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "Record batch is longer than the bytes that hold it")
    return records_section(buffer, header, limit)


def _append_time(header: BatchHeader) -> int | None:
    return header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None


def build_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """A batch of these records, in rising order of offset; base offset and time are the first record's."""
    if not records:
        raise ValueError("a batch needs at least one record")
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    section = b"".join(
        encode_record(
            record.offset - base_offset,
            record.timestamp - base_timestamp,
            record.key,
            record.value,
            record.headers,
        )
        for record in records
    )
    return wrap_section(
        compress(codec, section, level),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=codec | timestamp_type << 3 | transactional * TRANSACTIONAL_BIT | control * CONTROL_BIT,
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(records),
    )


def wrap_section(
    section: bytes,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """Header and checksum around a records section that is compressed already."""
    buffer = bytearray(HEADER_SIZE + len(section))
    buffer[HEADER_SIZE:] = section
    _HEADER.pack_into(
        buffer,
        0,
        base_offset,
        len(buffer) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    with memoryview(buffer) as view, view[CRC_COVERS_FROM:] as covered:
        _CRC.pack_into(buffer, 17, crc32c(covered))
    return bytes(buffer)
