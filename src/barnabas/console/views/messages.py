"""Records of a topic: from an offset, a time or the newest ones, with a filter that is a text, not a program.

An answer says which offsets were read and which are left, and where to go on (`next`): what a filter did
not find is told from what was not looked at.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.client import AsyncConsumer, ConsumerRecord
from barnabas.console.watched import WatchedCluster
from barnabas.core.ids import TopicPartition
from barnabas.operations.errors import OperationError

COUNT_MAX: Final = 500
_SCANNED_MAX: Final = 50_000
"""Records that one answer looks at."""
_TIME_S: Final = 4.0
_SHOWN_MAX: Final = 4_000
"""Characters of a value that are shown."""
_OPTIONS: Final = {
    "auto.offset.reset": "earliest",
    "max.partition.fetch.bytes": 1 << 20,
    "fetch.max.bytes": 8 << 20,
    "fetch.max.wait.ms": 100,
}


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """Bytes as a text: UTF-8, else hexadecimal digits."""

    text: str | None
    bytes: int
    """-1 for null."""
    is_text: bool
    is_cut: bool


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record."""

    partition: int
    offset: int
    timestamp_ms: int
    key: ShownBytes
    value: ShownBytes
    headers: Sequence[tuple[str, ShownBytes]]


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What was read of a partition: the offsets from `start` up to but not including `stop`."""

    partition: int
    start: int
    stop: int
    left: int
    """Offsets up to the end that were not looked at."""


@dataclass(frozen=True, slots=True)
class MessagesView:
    """What was found, and where."""

    topic: str
    partitions: Sequence[int]
    records: Sequence[RecordRow]
    ranges: Sequence[ReadRange]
    scanned: int
    next: str | None
    """For the parameter `positions`: where to go on; None where nothing is left."""
    stopped: str
    """Why it ended: all read, enough found, so many looked at, the time was over."""


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """What is looked for."""

    topic: str
    partition: int | None = None
    start: str = "latest"
    """``earliest``, ``latest``, an offset, or a time as ``@MILLISECONDS``."""
    positions: str | None = None
    """Where an earlier answer stopped: ``0:12,1:40``."""
    contains: str = ""
    where: str = "any"
    """``key``, ``value``, ``header`` or ``any``."""
    count: int = 50
    committed_only: bool = False


async def messages(watched: WatchedCluster, wanted: MessageQuery) -> MessagesView:
    """Records. Raises OperationError for what cannot be read, KafkaError."""
    isolation = "read_committed" if wanted.committed_only else "read_uncommitted"
    return await watched.read(
        lambda consumer: _browse(consumer, wanted), **_OPTIONS, **{"isolation.level": isolation}
    )


async def _browse(consumer: AsyncConsumer, wanted: MessageQuery) -> MessagesView:
    numbers = sorted(await consumer.partitions_for(wanted.topic))
    if wanted.partition is not None and wanted.partition not in numbers:
        raise OperationError(
            f"topic {wanted.topic} has no partition {wanted.partition}: it has {len(numbers)}"
        )
    chosen = [TopicPartition(wanted.topic, each) for each in numbers if wanted.partition in {None, each}]
    begins, ends = await consumer.beginning_offsets(chosen), await consumer.end_offsets(chosen)
    starts = await _starts(consumer, wanted, begins, ends)
    positions = {tp: start for tp, start in starts.items() if start < ends[tp]}
    consumer.assign(list(positions))
    for tp, start in positions.items():
        consumer.seek(tp, start)
    found: list[ConsumerRecord] = []
    scanned, stopped = 0, "all was read"
    deadline = asyncio.get_running_loop().time() + _TIME_S
    needle = wanted.contains.encode()
    while positions:
        if asyncio.get_running_loop().time() > deadline:
            stopped = "the time was over"
            break
        # The newest of each partition: their number is bounded by where they start.
        room = COUNT_MAX if wanted.start == "latest" and not wanted.positions else wanted.count - len(found)
        records = await consumer.poll(200, max_records=room if not needle else 500)
        scanned += len(records)
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            if record.offset < ends[tp] and _matches(record, needle, wanted.where):
                found.append(record)
        for tp in list(positions):
            positions[tp] = await consumer.position(tp)
            if positions[tp] >= ends[tp]:
                del positions[tp]
        consumer.assign(list(positions))
        if positions and len(found) >= wanted.count and room != COUNT_MAX:
            stopped = "enough was found"
            break
        if positions and scanned >= _SCANNED_MAX:
            stopped = f"{scanned} records were looked at"
            break
    ranges = [
        ReadRange(
            tp.partition, start, stop := positions.get(tp, max(start, ends[tp])), max(ends[tp] - stop, 0)
        )
        for tp, start in sorted(starts.items())
    ]
    left = [f"{one.partition}:{one.stop}" for one in ranges if one.left]
    found.sort(key=lambda one: (one.timestamp, one.partition, one.offset))
    return MessagesView(
        wanted.topic,
        numbers,
        [_row(one) for one in found],
        ranges,
        scanned,
        ",".join(left) or None,
        stopped,
    )


async def _starts(
    consumer: AsyncConsumer,
    wanted: MessageQuery,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where to begin in each partition."""
    if wanted.positions:
        given = _positions(wanted.positions)
        return {tp: max(given[tp.partition], begins[tp]) for tp in begins if tp.partition in given}
    if wanted.start == "earliest":
        return dict(begins)
    if wanted.start == "latest":
        each = max(1, wanted.count // max(len(begins), 1))
        return {tp: max(begins[tp], ends[tp] - each) for tp in begins}
    if wanted.start.startswith("@"):
        asked = dict.fromkeys(begins, _whole(wanted.start[1:], "a time in milliseconds"))
        at = await consumer.offsets_for_times(asked)
        return {tp: one.offset if (one := at.get(tp)) is not None else ends[tp] for tp in begins}
    offset = _whole(wanted.start, "earliest, latest, an offset, or @ and a time in milliseconds")
    return {tp: min(max(offset, begins[tp]), ends[tp]) for tp in begins}


def _positions(text: str) -> dict[int, int]:
    try:
        return {int(one.partition(":")[0]): int(one.partition(":")[2]) for one in text.split(",")}
    except ValueError:
        raise OperationError("positions are PARTITION:OFFSET, with commas") from None


def _whole(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise OperationError(f"{text!r} is none of: {what}")
    return int(text)


def _matches(record: ConsumerRecord, needle: bytes, where: str) -> bool:
    if not needle:
        return True
    return (
        (where in {"any", "key"} and needle in (record.key or b""))
        or (where in {"any", "value"} and needle in (record.value or b""))
        or (
            where in {"any", "header"}
            and any(needle in name.encode() or needle in (value or b"") for name, value in record.headers)
        )
    )


def _row(record: ConsumerRecord) -> RecordRow:
    return RecordRow(
        record.partition,
        record.offset,
        record.timestamp,
        _text(record.key),
        _text(record.value),
        [(name[:_SHOWN_MAX], _text(value)) for name, value in record.headers[:100]],
    )


def _text(data: bytes | None) -> ShownBytes:
    if data is None:
        return ShownBytes(None, -1, True, False)
    # Cut before it is decoded: a record may have 50 MB.
    piece = bytes(data[: _SHOWN_MAX * 4])
    try:
        text, is_text = piece.decode(), True
    except UnicodeDecodeError as error:
        if len(piece) < len(data) and error.start >= len(piece) - 4:
            text, is_text = piece[: error.start].decode(), True  # a character was cut
        else:
            text, is_text = piece[: _SHOWN_MAX // 2].hex(" "), False
    is_cut = len(text) > _SHOWN_MAX or len(piece) < len(data) or (not is_text and len(data) > _SHOWN_MAX // 2)
    return ShownBytes(text[:_SHOWN_MAX], len(data), is_text, is_cut)
