"""Bytes of ``__consumer_offsets`` into plain values: what a child process does of a load.

Theory of operation
-------------------
Only functions over plain values, so that they run anywhere. A stretch of whole batches becomes *steps*, in the
order of the log. A step is a producer's id (-1 outside of transactions) and either whether its marker commits,
or *pieces*::

    (producer_id, committed)
    (producer_id, [piece, ...])

    piece = (group, topic, [partition, ...], [commit, ...])    offsets that follow each other in the log
          | (journal_offset, key bytes, value bytes or None)   any other record

    commit = the fields of a `CommittedOffset`, in their order; None takes an offset back

Offsets are nearly everything there is, a million of them in a big partition, so what Kafka writes for them today
(key type 1, value version 3) is taken apart here, by hand. All else travels as bytes and is decoded by its schema
where it is replayed. A step holds a few hundred records: whoever replays steps lets others have their turn between two.
"""

import marshal
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from barnabas.core.chunks import Buffer
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.log.filesystem import Filesystem
from barnabas.records.batch import BatchHeader, batch_headers, records_section
from barnabas.records.control import ControlType, control_type, marker_of
from barnabas.records.record import decode_keys_and_values

_events: Final = EventLog("coordinator.decoding")

STEP_RECORDS_MAX: Final = 500
STEP_BYTES_MAX: Final = 64 * 1024
_NO_TIMESTAMP: Final = -1

Commit: TypeAlias = tuple[int, int, str, int, int, int]
OffsetsPiece: TypeAlias = tuple[str, str, list[int], list[Commit | None]]
RecordPiece: TypeAlias = tuple[int, bytes, bytes | None]
Step: TypeAlias = tuple[int, "bool | list[OffsetsPiece | RecordPiece]"]

_OFFSET_KEY: Final = b"\x00\x01"
# version, offset, leader epoch, length of the metadata; then the metadata and the time of the commit
_VALUE_HEAD: Final = struct.Struct(">hqih")
_TIMESTAMP: Final = struct.Struct(">q")
_INT16: Final = struct.Struct(">h")


class Decoded(NamedTuple):
    """A stretch of the log, decoded."""

    next_offset: int
    """Where to go on; -1 when the range holds no whole batch."""
    blobs: list[bytes]
    """Its steps, each packed by itself: unpacking all of them at once would hold the loop."""


def decode_range(filesystem: Filesystem, path: str, position: int, size: int) -> Decoded:
    """The whole batches in a range of a file. Raises OSError, and KafkaError for what is no batch."""
    data = filesystem.open(path).pread(size, position)
    return Decoded(next_offset_of(data), [marshal.dumps(step) for step in steps_of(data)])


def unpack(blob: bytes) -> Step:
    """A step that `decode_range` packed."""
    step: Step = marshal.loads(blob)  # noqa: S302 - from our own child process
    return step


def next_offset_of(data: Buffer) -> int:
    """The offset after the last whole batch; -1 when there is none."""
    next_offset = -1
    for header in batch_headers(data):
        next_offset = header.next_offset
    return next_offset


def steps_of(data: Buffer) -> Iterator[Step]:
    """The steps of all whole batches, in order.

    A batch that cannot be read is left out, with a line in the log: Kafka would end the load there.
    """
    pile = _Pile()
    for header in batch_headers(data):
        producer_id = header.producer_id if header.is_transactional else -1
        if header.is_control or producer_id != pile.producer_id:
            yield from pile.take_off(producer_id)
        try:
            if header.is_control:
                yield from _marker(data, header)
                continue
            records = decode_keys_and_values(records_section(data, header), header.count)
        except KafkaError as error:
            _events.error("load.batch_unreadable", offset=header.base_offset, reason=error)
            continue
        for start in range(0, len(records), STEP_RECORDS_MAX):
            pile.put_on(records[start : start + STEP_RECORDS_MAX], header.base_offset)
            if pile.is_full:
                yield from pile.take_off(producer_id)
    yield from pile.take_off(-1)


def _marker(data: Buffer, header: BatchHeader) -> Iterator[Step]:
    marker = marker_of(data, header)
    kind = None if marker is None else control_type(marker.key)
    if kind in {ControlType.COMMIT, ControlType.ABORT}:
        yield header.producer_id, kind is ControlType.COMMIT


class _Pile:
    """The next step as it grows."""

    __slots__ = ("_bytes", "_names", "_pieces", "_records", "producer_id")

    def __init__(self) -> None:
        self.producer_id = -1
        self._pieces: list[OffsetsPiece | RecordPiece] = []
        self._records = 0
        self._bytes = 0
        self._names: dict[bytes, tuple[str, str]] = {}

    @property
    def is_full(self) -> bool:
        return self._records >= STEP_RECORDS_MAX or self._bytes >= STEP_BYTES_MAX

    def take_off(self, next_producer_id: int) -> Iterator[Step]:
        """What has been piled up; the next step is of this producer."""
        if self._pieces:
            yield self.producer_id, self._pieces
        self.producer_id = next_producer_id
        self._pieces = []
        self._records = self._bytes = 0

    def put_on(self, records: list[tuple[bytes | None, bytes | None]], journal_offset: int) -> None:
        """Puts records of one batch on the pile; those without a key say nothing."""
        self._records += len(records)
        run_prefix: bytes | None = None
        partitions: list[int] = []
        commits: list[Commit | None] = []
        for key, value in records:
            if key is None:
                continue
            prefix = key[:-4]
            if prefix == run_prefix or prefix[:2] == _OFFSET_KEY:
                try:
                    commit = None if value is None else _commit(value, journal_offset)
                    if prefix != run_prefix:
                        names = self._group_and_topic(prefix)
                        partitions, commits = [], []
                        self._pieces.append((*names, partitions, commits))
                        run_prefix = prefix
                except (struct.error, ValueError):
                    pass  # another version, or damaged: the schema will say
                else:
                    partitions.append(int.from_bytes(key[-4:], "big"))
                    commits.append(commit)
                    continue
            self._bytes += len(key) + len(value or b"")
            self._pieces.append((journal_offset, key, value))
            run_prefix = None

    def _group_and_topic(self, prefix: bytes) -> tuple[str, str]:
        """Out of a key up to the partition: type, group, topic."""
        names = self._names.get(prefix)
        if names is None:
            group_end = 4 + _INT16.unpack_from(prefix, 2)[0]
            topic_start = group_end + 2
            if _INT16.unpack_from(prefix, group_end)[0] != len(prefix) - topic_start:
                raise ValueError("a key whose topic does not end before its partition")
            names = self._names[prefix] = prefix[4:group_end].decode(), prefix[topic_start:].decode()
        return names


def _commit(value: bytes, journal_offset: int) -> Commit:
    """Raises ValueError or struct.error for what is not a whole value of version 3."""
    version, offset, leader_epoch, size = _VALUE_HEAD.unpack_from(value)
    end = _VALUE_HEAD.size + size
    if version != 3 or size < 0 or end + _TIMESTAMP.size > len(value):
        raise ValueError(f"a value of version {version} with {size} bytes of metadata in {len(value)}")
    metadata = value[_VALUE_HEAD.size : end].decode() if size else ""
    return offset, leader_epoch, metadata, *_TIMESTAMP.unpack_from(value, end), _NO_TIMESTAMP, journal_offset
