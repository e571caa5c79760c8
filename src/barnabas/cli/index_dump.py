"""The lines of ``dump-log`` for what stands beside a log: its indexes, snapshots and aborted transactions.

An index is compared with the log it belongs to; what does not fit is remembered, and printed at the end.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from barnabas.cli.log_dump import base_offset_of, headers_of, map_file, optional_long
from barnabas.core.chunks import Buffer
from barnabas.core.errors import KafkaError
from barnabas.log.producer_snapshot import SnapshotEntry, SnapshotError, decode_snapshot
from barnabas.log.txn_index import decode_txn_index
from barnabas.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    SEQUENCE_MAX,
    BatchHeader,
    decode_records_of,
    parse_header,
)

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
NO_TIMESTAMP: Final = -1

Pairs = dict[str, list[tuple[int, int]]]


@dataclass
class IndexDump:
    """Prints indexes, and remembers where they and their logs differ."""

    sanity_only: bool = False
    verify_only: bool = False
    message_bytes_max: int = 5 * 1024 * 1024
    mismatches: Pairs = field(default_factory=dict)
    wrong_times: Pairs = field(default_factory=dict)
    disordered_times: Pairs = field(default_factory=dict)
    missing_offsets: Pairs = field(default_factory=dict)

    # The offset index

    def offset_lines(self, path: Path) -> Iterator[str]:
        base = base_offset_of(path)
        log = map_file(_log_of(path))
        data = map_file(path)
        if len(data) < _OFFSET_ENTRY.size:
            yield f"{path} is empty."
            return
        if self.sanity_only:
            _check_offset_index(path, data)
            yield f"{path} passed sanity check."
            return
        for number, (relative, position) in enumerate(_entries(data, _OFFSET_ENTRY)):
            # What was preallocated and never written is zero.
            if not relative and number:
                return
            self._compare(path, log, base + relative, position)
            if not self.verify_only:
                yield f"offset: {base + relative} position: {position}"

    def _compare(self, path: Path, log: Buffer, offset: int, position: int) -> None:
        header = parse_header(log, position) if 0 <= position <= len(log) - HEADER_SIZE else None
        if header is None or header.length < HEADER_SIZE - LOG_OVERHEAD:
            raise click.ClickException(f"{path} points to position {position}, where its log has no batch")
        if header.end > min(len(log), position + self.message_bytes_max):
            raise click.ClickException(
                f"{path} points to position {position}, where its log has no batch of up to "
                f"{self.message_bytes_max} bytes (--max-message-size)"
            )
        if header.last_offset != offset:
            self.mismatches.setdefault(str(path.absolute()), []).insert(0, (offset, header.last_offset))

    # The time index

    def time_lines(self, path: Path) -> Iterator[str]:
        base = base_offset_of(path)
        data = map_file(path)
        if self.sanity_only:
            _check_time_index(path, data)
            yield f"{path} passed sanity check."
            return
        log = map_file(_log_of(path))
        headers = list(headers_of(log, _log_of(path)))
        last_offsets = [header.last_offset for header in headers]
        previous = NO_TIMESTAMP
        for number, (timestamp, relative) in enumerate(_entries(data, _TIME_ENTRY)):
            if not relative and number:
                return
            found = bisect_left(last_offsets, base + relative)
            batch = headers[found] if found < len(headers) else None
            self._compare_time(path, log, batch, base + relative, timestamp, previous)
            if not self.verify_only:
                yield f"timestamp: {timestamp} offset: {base + relative}"
            previous = timestamp

    def _compare_time(
        self, path: Path, log: Buffer, batch: BatchHeader | None, offset: int, timestamp: int, previous: int
    ) -> None:
        name = str(path.absolute())
        if batch is None or batch.last_offset != offset:
            found = -1 if batch is None else batch.last_offset
            self.missing_offsets.setdefault(name, []).append((offset, found))
            return
        try:
            latest = max((record.timestamp for record in decode_records_of(log, batch)), default=NO_TIMESTAMP)
        except KafkaError as error:
            raise click.ClickException(f"{error} (the log of {path}, position {batch.position})") from error
        if latest != timestamp:
            self.wrong_times.setdefault(name, []).append((timestamp, latest))
        if previous >= timestamp:
            self.disordered_times.setdefault(name, []).append((timestamp, previous))

    # What was odd

    def offset_complaints(self) -> Iterator[str]:
        """Where offset indexes and logs differ, for stderr."""
        for name, pairs in self.mismatches.items():
            yield f"Mismatches in :{name}"
            yield from (f"  Index offset: {index}, log offset: {log}" for index, log in pairs)

    def time_complaints(self) -> Iterator[str]:
        """Where time indexes and logs differ, for stderr."""
        for name, pairs in self.wrong_times.items():
            yield f"Found timestamp mismatch in :{name}"
            yield from (f"  Index timestamp: {index}, log timestamp: {log}" for index, log in pairs)
        for name, pairs in self.disordered_times.items():
            yield f"Found out of order timestamp in :{name}"
            yield from (
                f"  Index timestamp: {index}, Previously indexed timestamp: {before}"
                for index, before in pairs
            )
        for pairs in self.missing_offsets.values():
            yield "The following indexed offsets are not found in the log."
            yield from (f"Indexed offset: {index}, found log offset: {log}" for index, log in pairs)


def _log_of(path: Path) -> Path:
    return path.with_name(path.name.split(".")[0] + ".log")


def _entries(data: Buffer, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    # One at a time: an index that is preallocated has a million of them, nearly all zero.
    return entry.iter_unpack(data[: len(data) // entry.size * entry.size])


def _last_entry(data: Buffer, entry: struct.Struct) -> tuple[int, ...]:
    return entry.unpack_from(data, (len(data) // entry.size - 1) * entry.size)


def _check_size(path: Path, data: Buffer, entry: struct.Struct, kind: str) -> None:
    if len(data) % entry.size:
        raise click.ClickException(
            f"{kind} file {path.absolute()} is corrupt, found {len(data)} bytes which is neither positive "
            f"nor a multiple of {entry.size}"
        )


def _check_offset_index(path: Path, data: Buffer) -> None:
    base = base_offset_of(path)
    last_relative, _ = _last_entry(data, _OFFSET_ENTRY)
    if last_relative < 0:
        raise click.ClickException(
            f"Corrupt index found, index file {path.absolute()} has non-zero size but the last offset is "
            f"{base + last_relative} which is less than the base offset {base}"
        )
    _check_size(path, data, _OFFSET_ENTRY, "Index")


def _check_time_index(path: Path, data: Buffer) -> None:
    if len(data) < _TIME_ENTRY.size:
        _check_size(path, data, _TIME_ENTRY, "Time index")
        return
    base = base_offset_of(path)
    first, _ = _TIME_ENTRY.unpack_from(data)
    last, relative = _last_entry(data, _TIME_ENTRY)
    what = f"Corrupt time index found, time index file ({path.absolute()}) has non-zero size but the last"
    if last < first:
        raise click.ClickException(
            f"{what} timestamp is {last} which is less than the first timestamp {first}"
        )
    if relative < 0:
        raise click.ClickException(
            f"{what} offset is {base + relative} which is less than the first offset {base}"
        )
    _check_size(path, data, _TIME_ENTRY, "Time index")


# Producers and transactions


def snapshot_lines(path: Path) -> Iterator[str]:
    """The producers of a ``.snapshot`` file; what is wrong with it goes to stderr."""
    try:
        entries = decode_snapshot(path.read_bytes())
    except SnapshotError as error:
        click.echo(str(error), err=True)
        return
    for entry in entries:
        yield _producer_line(entry)


def _producer_line(entry: SnapshotEntry) -> str:
    first_offset = entry.current_txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch}"
        f" currentTxnFirstOffset: {optional_long(first_offset if first_offset >= 0 else None)}"
        f" lastTimestamp: {entry.timestamp} "
    )
    if entry.last_offset < 0:
        return line
    first_sequence = (entry.last_sequence - entry.offset_delta) & SEQUENCE_MAX
    return (
        f"{line}firstSequence: {first_sequence} lastSequence: {entry.last_sequence}"
        f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )


def transaction_lines(path: Path) -> Iterator[str]:
    """The aborted transactions of a ``.txnindex`` file."""
    try:
        for txn in decode_txn_index(path.read_bytes(), str(path)):
            yield (
                f"version: 0 producerId: {txn.producer_id} firstOffset: {txn.first_offset} "
                f"lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}"
            )
    except ValueError as error:
        raise click.ClickException(str(error)) from error
