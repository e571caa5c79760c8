"""The lines of ``dump-log`` for a ``.log`` file:
one a batch, and one a record (``DumpLogSegments.dumpLog``).
"""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final

import click

from barnabas.cli.record_parsers import RecordParser
from barnabas.core.chunks import Buffer
from barnabas.core.errors import KafkaError
from barnabas.records.batch import (
    MAGIC,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    BatchHeader,
    batch_headers,
    decode_records_of,
    has_valid_crc,
)
from barnabas.records.control import ControlType, control_type, parse_marker
from barnabas.records.record import Record

BYTES_MAX: Final = 2**31 - 1
"""Java's greatest int: no limit."""
_INDENT: Final = "| "
_CONTROL_KEY: Final = Struct(">hh")


@dataclass
class LogDump:
    """Prints logs, and remembers what is odd about them."""

    parse: RecordParser | None
    """What prints keys and values; None prints neither."""
    deep: bool
    """Whether records are looked at, and not only batches."""
    record_metadata: bool = True
    bytes_max: int = BYTES_MAX
    notices: Sequence[str] = ()
    """Lines that stand above each file's own."""
    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By file: offsets that do not follow each other."""

    def lines(self, path: Path) -> Iterator[str]:
        """The lines of one file. Raises ClickException where its bytes cannot be batches."""
        yield from self.notices
        yield f"Log starting offset: {base_offset_of(path)}"
        data = map_file(path)
        wanted = data[: self.bytes_max]
        valid_bytes = 0
        last_offset = -1
        for header in headers_of(wanted, path):
            yield _batch_line(wanted, header)
            valid_bytes = header.end
            if self.deep:
                for record in _records(wanted, header, path):
                    self._notice_gap(path, last_offset, record.offset)
                    last_offset = record.offset
                    yield self._record_line(header, record)
        trailing = len(data) - valid_bytes
        if trailing > 0 and self.bytes_max == BYTES_MAX:
            yield f"Found {trailing} invalid bytes at the end of {path.name}"

    def _notice_gap(self, path: Path, last_offset: int, offset: int) -> None:
        if last_offset not in {-1, offset - 1}:
            self.gaps.setdefault(str(path.absolute()), []).insert(0, (last_offset, offset))

    def _record_line(self, header: BatchHeader, record: Record) -> str:
        line = _record_metadata(header, record) if self.record_metadata else ""
        if self.parse is None or header.is_control:
            return line
        key, payload = self.parse(record)
        if key is not None:
            line += f"{' ' if line else _INDENT}key: {key}"
        return line if payload is None else f"{line} payload: {payload}"

    def complaints(self) -> Iterator[str]:
        """What is odd about the files, for stderr."""
        for name, gaps in self.gaps.items():
            yield f"Non-consecutive offsets in {name}"
            yield from (f"  {first} is followed by {second}" for first, second in gaps)


def base_offset_of(path: Path) -> int:
    """The offset that a segment's file is named after."""
    name = path.name.split(".")[0]
    if not name.isdecimal():
        raise click.ClickException(f"{path} is not named after an offset")
    return int(name)


def map_file(path: Path) -> Buffer:
    """The bytes of a file, without reading them all."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return b""
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def headers_of(data: Buffer, path: Path) -> Iterator[BatchHeader]:
    """The headers of all whole batches. Raises ClickException for bytes that cannot be one."""
    try:
        for header in batch_headers(data):
            if header.magic != MAGIC:
                raise click.ClickException(
                    f"{path} has a batch of magic {header.magic} at position {header.position}; "
                    f"this tool reads magic {MAGIC}, which Kafka writes since 0.11"
                )
            yield header
    except KafkaError as error:
        raise click.ClickException(f"{error} in file {path.name}.") from error


def _records(data: Buffer, header: BatchHeader, path: Path) -> list[Record]:
    try:
        return decode_records_of(data, header)
    except KafkaError as error:
        raise click.ClickException(f"{error} (file {path}, position {header.position})") from error


def optional_long(value: int | None) -> str:
    """As Java prints an ``OptionalLong``."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _batch_line(data: Buffer, header: BatchHeader) -> str:
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count}"
        f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_bool(header.is_transactional)}"
        f" isControl: {_bool(header.is_control)} deleteHorizonMs: {optional_long(header.delete_horizon_ms)}"
        f" position: {header.position} {header.timestamp_type.label}: {header.max_timestamp}"
        f" size: {header.size} magic: {header.magic} compresscodec: {header.codec.name.lower()}"
        f" crc: {header.crc} isvalid: {_bool(has_valid_crc(data, header))}"
    )


def _record_metadata(header: BatchHeader, record: Record) -> str:
    names = ",".join(name for name, _ in record.headers)
    line = (
        f"{_INDENT}offset: {record.offset} {header.timestamp_type.label}: {record.timestamp}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
        f" sequence: {_sequence(header, record)} headerKeys: [{names}]"
    )
    return line + _control(record) if header.is_control else line


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _sequence(header: BatchHeader, record: Record) -> int:
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return (header.base_sequence + record.offset - header.base_offset) & SEQUENCE_MAX


def _control(record: Record) -> str:
    kind = control_type(record.key)
    if kind in {ControlType.ABORT, ControlType.COMMIT}:
        return f" endTxnMarker: {kind.name} coordinatorEpoch: {parse_marker(record).coordinator_epoch}"
    return f" controlType: {kind.name}({_CONTROL_KEY.unpack_from(record.key or b'')[1]})"
