"""Bytes of a coordinator's partition into plain values: what a child process does of a load.

Theory of operation
-------------------
Only functions over plain values, so that they run in any process. A stretch of whole batches becomes *steps*,
in the order of the log. A step is a producer's id (-1 outside of transactions) and whether its marker
commits, *pieces*, or why a batch cannot be read::

    (producer_id, committed)
    (producer_id, [piece, ...])
    (producer_id, reason)                               a batch that cannot be read, and why

    piece = (journal_offset, key bytes, value bytes or None)    a record, decoded by its schema where it is
                                                                replayed
          | anything of another length                          what the state machine's `BulkDecoder` made
                                                                of records

A step holds a few hundred records: between two steps the loop serves others.
"""

import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.core.chunks import Buffer
from barnabas.core.errors import KafkaError
from barnabas.log.filesystem import Filesystem
from barnabas.records.batch import BatchHeader, batch_headers, records_section
from barnabas.records.control import ControlType, control_type, marker_of
from barnabas.records.record import decode_keys_and_values

STEP_RECORDS_MAX: Final = 500
STEP_BYTES_MAX: Final = 64 * 1024
NO_PRODUCER_ID: Final = -1

KeyValue: TypeAlias = tuple[bytes | None, bytes | None]
Piece: TypeAlias = tuple[Any, ...]
RECORD_PIECE_LENGTH: Final = 3
Step: TypeAlias = tuple[int, bool | list[Piece] | str]

BulkDecoder: TypeAlias = Callable[[list[KeyValue], int, dict[Any, Any]], list[Piece]]
"""Records of one batch, the offset of its first and a memo that lives as long as the stretch; the pieces, of
values that `marshal` knows. A function of a module, so that a child process can find it. Records without a
key say nothing.
"""


class Decoded(NamedTuple):
    """A stretch of the log, decoded."""

    next_offset: int
    """The offset behind the last whole batch; -1 when the range holds none."""
    blobs: list[bytes]
    """Its steps, each packed by itself: unpacking all of them at once would hold the loop."""


def decode_range(filesystem: Filesystem, path: str, position: int, size: int, bulk: BulkDecoder) -> Decoded:
    """The whole batches in a range of a file. Raises OSError, and KafkaError for what is no batch."""
    data = filesystem.open(path).pread(size, position)
    headers = list(batch_headers(data))
    return Decoded(next_offset_of(headers), [marshal.dumps(step) for step in steps_of(data, headers, bulk)])


def unpack(blob: bytes) -> Step:
    """A step that `decode_range` packed."""
    step: Step = marshal.loads(blob)  # noqa: S302 - from our own child process
    return step


def next_offset_of(headers: Sequence[BatchHeader]) -> int:
    """The offset after the last batch; -1 when there is none."""
    return headers[-1].next_offset if headers else -1


def steps_of(data: Buffer, headers: Iterable[BatchHeader], bulk: BulkDecoder) -> Iterator[Step]:
    """The steps of these batches, in order; of one that cannot be read, its reason."""
    memo: dict[Any, Any] = {}
    producer_id = NO_PRODUCER_ID
    pieces: list[Piece] = []
    count = size = 0
    for header in headers:
        # Of a batch outside of transactions it does not matter which producer wrote it: its records count at
        # once.
        written_by = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        if pieces and (header.is_control or written_by != producer_id):
            # A step is of one producer, and a marker decides on all that came before it.
            yield producer_id, pieces
            pieces = []
            count = size = 0
        producer_id = written_by
        try:
            if header.is_control:
                # The step of the producer's records went out before, so the marker decides on all of them.
                yield from _marker(data, header)
                continue
            section = records_section(data, header)
            records = decode_keys_and_values(section, header.count)
        except KafkaError as error:
            # One damaged batch must not cost what all others say: the state machine decides what is refused
            # for it.
            yield producer_id, f"batch at offset {header.base_offset}: {error}"
            continue
        # A large batch becomes several steps: the loop serves others between them.
        for start in range(0, len(records), STEP_RECORDS_MAX):
            portion = records[start : start + STEP_RECORDS_MAX]
            pieces += bulk(portion, header.base_offset, memo)
            count += len(portion)
            # The portion's share of the batch; uncompressed, because that is what the replay walks over.
            size += len(section) * len(portion) // len(records)
            if count >= STEP_RECORDS_MAX or size >= STEP_BYTES_MAX:
                yield producer_id, pieces
                pieces = []
                count = size = 0
    if pieces:
        yield producer_id, pieces


def _marker(data: Buffer, header: BatchHeader) -> Iterator[Step]:
    marker = marker_of(data, header)
    kind = None if marker is None else control_type(marker.key)
    # Other control types (a leader change of KRaft, one of a later version) end no transaction.
    if kind in {ControlType.COMMIT, ControlType.ABORT}:
        yield header.producer_id, kind is ControlType.COMMIT
