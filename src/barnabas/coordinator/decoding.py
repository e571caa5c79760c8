"""Bytes of ``__consumer_offsets`` into plain values: what a child process does of a load.

Theory of operation
-------------------
Only functions over plain values, so that they run anywhere. A stretch of whole batches becomes *steps*, in the
order of the log::

    (OFFSETS, producer_id, [(group, topic, partition, journal_offset, value), ...])
        value   (offset, leader_epoch, metadata, commit_timestamp, expire_timestamp), or None for a tombstone
    (RECORDS, producer_id, [(key bytes, value bytes or None), ...])
    (MARKER, producer_id, committed)

Offsets are nearly everything there is, a million of them in a big partition, so they are taken apart here,
by hand. All other records travel as bytes and are decoded by their schemas where they are replayed. The
producer's id is -1 outside of transactions. Steps hold a few hundred records each: who replays them takes
others' turns into account between two steps.
"""

import marshal
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.core.chunks import Buffer
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.log.filesystem import Filesystem
from barnabas.protocol.coordinator.offset_commit import OffsetCommitValue
from barnabas.protocol.errors import ProtocolError
from barnabas.records.batch import BatchHeader, batch_headers, decode_records_of
from barnabas.records.control import ControlType, control_type, marker_of
from barnabas.records.record import Record

_events: Final = EventLog("coordinator.decoding")

OFFSETS: Final = 0
RECORDS: Final = 1
MARKER: Final = 2

STEP_RECORDS_MAX: Final = 500
_STEP_BYTES_MAX: Final = 64 * 1024
_NAMES_MAX: Final = 100_000

Step: TypeAlias = tuple[int, int, Any]

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_V0_TO_2: Final = struct.Struct(">hqh")
_V3: Final = struct.Struct(">hqih")
_TIMESTAMP: Final = struct.Struct(">q")
_TIMESTAMPS: Final = struct.Struct(">qq")


class Decoded(NamedTuple):
    """A stretch of the log, decoded."""

    next_offset: int
    """Where to go on."""
    blobs: list[bytes]
    """Its steps, each packed by itself: unpacking all of them at once would hold the loop."""


def decode_range(filesystem: Filesystem, path: str, position: int, size: int) -> Decoded:
    """The whole batches in a range of a file. Raises OSError, and KafkaError for what is no batch."""
    data = filesystem.open(path).pread(size, position)
    next_offset = -1
    for header in batch_headers(data):
        next_offset = header.next_offset
    return Decoded(next_offset, [marshal.dumps(step) for step in steps_of(data)])


def unpack(blob: bytes) -> Step:
    """A step that `decode_range` packed."""
    step: Step = marshal.loads(blob)  # noqa: S302 - from our own child process
    return step


def steps_of(data: Buffer) -> Iterator[Step]:
    """The steps of all whole batches, in order; a batch that cannot be read is left out, with a word in the log."""
    names: dict[bytes, tuple[str, str]] = {}
    for header in batch_headers(data):
        if header.is_control:
            yield from _marker(data, header)
            continue
        try:
            records = decode_records_of(data, header)
        except KafkaError as error:
            _events.error("load.batch_unreadable", offset=header.base_offset, reason=error)
            continue
        producer_id = header.producer_id if header.is_transactional else -1
        yield from _split(records, producer_id, names)


def _marker(data: Buffer, header: BatchHeader) -> Iterable[Step]:
    marker = marker_of(data, header)
    kind = None if marker is None else control_type(marker.key)
    if kind in {ControlType.COMMIT, ControlType.ABORT}:
        yield MARKER, header.producer_id, kind is ControlType.COMMIT


def _split(records: list[Record], producer_id: int, names: dict[bytes, tuple[str, str]]) -> Iterator[Step]:
    """One batch's records in runs of one kind."""
    if not records:
        return
    journal_offset = records[0].offset
    kind, run, size = OFFSETS, [], 0  # type: int, list[tuple[Any, ...]], int
    for _, _, key, value, _ in records:
        if key is None:
            continue
        entry = _offset(key, value, journal_offset, names)
        found = RECORDS if entry is None else OFFSETS
        size += len(key) + len(value or b"")
        if run and (found != kind or len(run) >= STEP_RECORDS_MAX or size > _STEP_BYTES_MAX):
            yield kind, producer_id, run
            run, size = [], 0
        kind = found
        run.append((key, value) if entry is None else entry)
    if run:
        yield kind, producer_id, run


def _offset(
    key: bytes, value: bytes | None, journal_offset: int, names: dict[bytes, tuple[str, str]]
) -> tuple[Any, ...] | None:
    """An offset commit; None for a record of another kind, and for one that is not as its type says."""
    # Types 0 and 1 (OffsetCommitKey): group, topic, then the partition in the last four bytes.
    if key[:2] not in (b"\x00\x01", b"\x00\x00"):
        return None
    try:
        prefix = key[2:-4]
        both = names.get(prefix)
        if both is None:
            if len(names) >= _NAMES_MAX:
                names.clear()
            both = names[prefix] = _group_and_topic(prefix)
        (partition,) = _INT32.unpack_from(key, len(key) - 4)
        return *both, partition, journal_offset, None if value is None else _committed(value)
    except (struct.error, ValueError, ProtocolError):
        return None


def _group_and_topic(prefix: bytes) -> tuple[str, str]:
    group_size = _INT16.unpack_from(prefix)[0]
    group = prefix[2 : 2 + group_size]
    topic_size = _INT16.unpack_from(prefix, 2 + group_size)[0]
    topic = prefix[4 + group_size :]
    if len(topic) != topic_size:
        raise ValueError(f"a topic of {topic_size} bytes in {len(topic)}")
    return group.decode(), topic.decode()


def _committed(value: bytes) -> tuple[int, int, str, int, int]:
    version = _INT16.unpack_from(value)[0]
    if version == 3:
        _, offset, leader_epoch, size = _V3.unpack_from(value)
        metadata = value[16 : 16 + size].decode() if size else ""
        return offset, leader_epoch, metadata, _TIMESTAMP.unpack_from(value, 16 + size)[0], -1
    if 0 <= version <= 2:
        _, offset, size = _V0_TO_2.unpack_from(value)
        metadata = value[12 : 12 + size].decode()
        if version == 1:
            return offset, -1, metadata, *_TIMESTAMPS.unpack_from(value, 12 + size)
        return offset, -1, metadata, _TIMESTAMP.unpack_from(value, 12 + size)[0], -1
    found = OffsetCommitValue.from_bytes(value)
    return (
        found.offset,
        found.leader_epoch,
        found.metadata,
        found.commit_timestamp,
        found.expire_timestamp,
    )
