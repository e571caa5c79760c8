"""Reads records of a topic: from an offset, a time, the newest ones, or from where an answer stopped.

An answer says which offsets were read and which are left, on both sides, and where to go on: what a
condition did not find is told from what was not looked at. Reading is bounded by records, by time and by
what is shown of each.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.client import AsyncConsumer, ClientTimeoutError
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations.errors import OperationError
from barnabas.operations.messages.filters import RecordFilter
from barnabas.operations.messages.reading import RecordReader, SeenRecord, ShownBytes

COUNT_MAX: Final = 500
_HEADERS_SHOWN: Final = 100
_SCANNED_MAX: Final = 50_000
"""Records that one answer looks at."""
_FILTERED_MAX: Final = 2_000
"""The newest records that a condition is asked of."""
_TIME_S: Final = 4.0
_TOPIC_MS: Final = 1_000
"""How long a topic is waited for that brokers do not know: one that has just been made is known by then."""
OPTIONS: Final = {
    "auto.offset.reset": "earliest",
    "max.partition.fetch.bytes": 1 << 20,
    "fetch.max.bytes": 8 << 20,
    "fetch.max.wait.ms": 100,
}
"""Of the consumer that reads."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record."""

    partition: int
    offset: int
    timestamp_ms: int
    key: ShownBytes
    value: ShownBytes
    headers: Sequence[tuple[str, ShownBytes]]
    headers_left_out: int
    """Headers beyond the first hundred, which are searched and not shown."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What was read of a partition: the offsets from `start` up to but not including `stop`."""

    partition: int
    start: int
    stop: int
    left: int
    """Offsets up to the end that were not looked at."""
    earlier: int
    """Offsets before `start` that this answer did not look at."""


@dataclass(frozen=True, slots=True)
class MessagesView:
    """What was found, and where."""

    topic: str
    partitions: Sequence[int]
    records: Sequence[RecordRow]
    ranges: Sequence[ReadRange]
    scanned: int
    unjudged: int
    """Records of which a condition says nothing, because their fields cannot be read."""
    next: str | None
    """For the parameter `positions`: where to go on; None where nothing is left, unless it is followed."""
    back: str | None
    """The same for the records before these."""
    stopped: str
    """Why it ended: all read, enough found, so many looked at, the time was over."""
    is_masked: bool
    """Whether something of this topic's records is hidden."""


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """What is looked for."""

    topic: str
    partition: int | None = None
    start: str = "latest"
    """``earliest``, ``latest``, an offset, or a time as ``@MILLISECONDS``."""
    positions: str | None = None
    """Where an earlier answer stopped: ``0:12,1:40``; ``0:12-20`` ends before 20."""
    contains: str = ""
    where: str = "any"
    """``key``, ``value``, ``header`` or ``any``."""
    conditions: Sequence[RecordFilter] = ()
    """All of them hold."""
    count: int = 50
    committed_only: bool = False
    follow: bool = False
    """Whether somebody goes on with what comes: `next` is given at the end, too."""
    left_out: Sequence[int] = ()
    """Partitions that are not looked at, as nobody leads them: one of these would hold all others."""

    @property
    def options(self) -> dict[str, object]:
        """Those of the consumer."""
        level = "read_committed" if self.committed_only else "read_uncommitted"
        return {**OPTIONS, "isolation.level": level}


class _Section(NamedTuple):
    """What is to be read of a partition."""

    start: int
    stop: int


async def browse(consumer: AsyncConsumer, wanted: MessageQuery, reader: RecordReader) -> MessagesView:
    """Records. Raises OperationError for what cannot be read, KafkaError."""
    numbers = await _partitions(consumer, wanted.topic)
    if wanted.partition is not None and wanted.partition not in numbers:
        raise OperationError(
            f"topic {wanted.topic} has no partition {wanted.partition}: it has {len(numbers)}"
        )
    chosen = [
        TopicPartition(wanted.topic, each)
        for each in numbers
        if wanted.partition in {None, each} and each not in wanted.left_out
    ]
    if not chosen:
        which = "no partition" if wanted.partition is None else f"partition {wanted.partition}"
        has = "has a leader" if wanted.partition is None else "has no leader"
        raise OperationError(f"{which} of topic {wanted.topic} {has}: nobody can read it now")
    begins, ends = await consumer.beginning_offsets(chosen), await consumer.end_offsets(chosen)
    sections = await _sections(consumer, wanted, begins, ends)
    found = await _read(consumer, wanted, reader, sections)
    ranges = []
    for tp, (start, bound) in sorted(sections.items()):
        stop = found.positions.get(tp, max(start, bound))
        ranges.append(
            ReadRange(tp.partition, start, stop, max(ends[tp] - stop, 0), max(start - begins[tp], 0))
        )
    left = {
        f"{tp.partition}:{one.stop}" + (f"-{bound}" if bound < ends[tp] else "")
        for one, (tp, (_, bound)) in zip(ranges, sorted(sections.items()), strict=True)
        if one.stop < bound or wanted.follow
    }
    # Who goes on from here reads these once they are led again.
    left |= {one for one in (wanted.positions or "").split(",") if one and _number(one) in wanted.left_out}
    each = _share(wanted, len(sections))
    back = {
        f"{one.partition}:{max(one.start - each, one.start - one.earlier)}-{one.start}"
        for one in ranges
        if one.earlier
    }
    found.rows.sort(key=lambda one: (one.timestamp_ms, one.partition, one.offset))
    return MessagesView(
        wanted.topic,
        numbers,
        found.rows,
        ranges,
        found.scanned,
        found.unjudged,
        _cursor(left),
        _cursor(back),
        found.stopped,
        bool(reader.masks),
    )


async def _partitions(consumer: AsyncConsumer, topic: str) -> list[int]:
    try:
        return sorted(await consumer.partitions_for(topic, timeout_ms=_TOPIC_MS))
    except ClientTimeoutError as error:
        answer = error.__cause__
    if isinstance(answer, KafkaError) and answer.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise OperationError(f"there is no topic {topic}")
    # No broker has answered yet, or no partition has a leader: that may change.
    return sorted(await consumer.partitions_for(topic))


def _cursor(parts: set[str]) -> str | None:
    return ",".join(sorted(parts, key=_number)) or None


def _number(part: str) -> int:
    """The partition that a part of a cursor is of."""
    return int(part.partition(":")[0])


@dataclass(slots=True)
class _Finds:
    positions: dict[TopicPartition, int]
    """Of the partitions that were not read to their bound."""
    rows: list[RecordRow]
    scanned: int = 0
    unjudged: int = 0
    stopped: str = "all was read"


async def _read(
    consumer: AsyncConsumer,
    wanted: MessageQuery,
    reader: RecordReader,
    sections: Mapping[TopicPartition, _Section],
) -> _Finds:
    positions = {tp: one.start for tp, one in sections.items() if one.start < one.stop}
    found = _Finds(positions, [])
    consumer.assign(list(positions))
    for tp, start in positions.items():
        consumer.seek(tp, start)
    time = asyncio.get_running_loop().time
    deadline = time() + _TIME_S
    # The newest ones and those before an answer: their number is bounded by where they start.
    is_bounded = _is_newest(wanted) or "-" in (wanted.positions or "")
    enough = COUNT_MAX if is_bounded else wanted.count
    is_filtered = bool(wanted.contains or wanted.conditions)
    while positions:
        if time() > deadline:
            found.stopped = "the time was over"
            break
        if len(found.rows) >= enough:
            found.stopped = "enough was found"
            break
        if found.scanned >= _SCANNED_MAX:
            found.stopped = f"{found.scanned} records were looked at"
            break
        room = 500 if is_filtered else enough - len(found.rows)
        records = await consumer.poll(200, max_records=room)
        found.scanned += len(records)
        # A registry that is slow takes no more than the time of the answer.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(deadline - time(), 0.1)):
                await reader.prepare(records)
        stopped_at: dict[TopicPartition, int] = {}
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            if record.offset >= sections[tp].stop:
                continue
            if len(found.rows) >= enough or time() > deadline:
                # One poll may bring more than is wanted: who goes on from here reads these.
                stopped_at.setdefault(tp, record.offset)
                found.scanned -= 1
                continue
            seen = reader.seen(record)
            holds = _holds(seen, wanted)
            found.unjudged += holds is None
            if holds:
                found.rows.append(_row(seen))
        for tp in list(positions):
            positions[tp] = stopped_at.get(tp, await consumer.position(tp))
            if positions[tp] >= sections[tp].stop:
                del positions[tp]
        consumer.assign(list(positions))
    return found


_FAR: Final = (1 << 63) - 1
"""The greatest offset, and time, that a request can have."""


def _is_newest(wanted: MessageQuery) -> bool:
    return wanted.start == "latest" and not wanted.positions


def _share(wanted: MessageQuery, partitions: int) -> int:
    """How many of the newest records of each partition are looked at."""
    is_filtered = bool(wanted.contains or wanted.conditions)
    return max(1, (_FILTERED_MAX if is_filtered else wanted.count) // max(partitions, 1))


async def _sections(
    consumer: AsyncConsumer,
    wanted: MessageQuery,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, _Section]:
    """What is to be read of each partition."""
    if wanted.positions:
        given = _positions(wanted.positions)
        return {
            tp: _Section(max(given[tp.partition].start, begins[tp]), min(given[tp.partition].stop, ends[tp]))
            for tp in begins
            if tp.partition in given
        }
    starts = await _starts(consumer, wanted, begins, ends)
    return {tp: _Section(start, ends[tp]) for tp, start in starts.items()}


async def _starts(
    consumer: AsyncConsumer,
    wanted: MessageQuery,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if wanted.start == "earliest":
        return dict(begins)
    if wanted.start == "latest":
        each = _share(wanted, len(begins))
        return {tp: max(begins[tp], ends[tp] - each) for tp in begins}
    if wanted.start.startswith("@"):
        asked = dict.fromkeys(begins, _whole(wanted.start[1:], "a time in milliseconds"))
        at = await consumer.offsets_for_times(asked)
        return {tp: one.offset if (one := at.get(tp)) is not None else ends[tp] for tp in begins}
    offset = _whole(wanted.start, "earliest, latest, an offset, or @ and a time in milliseconds")
    return {tp: min(max(offset, begins[tp]), ends[tp]) for tp in begins}


def _positions(text: str) -> dict[int, _Section]:
    found = {}
    for one in text.split(","):
        number, _, offsets = one.partition(":")
        start, dash, stop = offsets.partition("-")
        what = "positions are PARTITION:OFFSET or PARTITION:OFFSET-END, with commas"
        found[_whole(number, what)] = _Section(_whole(start, what), _whole(stop, what) if dash else _FAR)
    return found


def _whole(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > _FAR:
        raise OperationError(f"{text!r} is none of: {what}")
    return int(text)


def _holds(record: SeenRecord, wanted: MessageQuery) -> bool | None:
    """Whether a record is looked for; None where nobody knows."""
    if wanted.contains and not _contains(record, wanted.contains, wanted.where):
        return False
    answers = [one.holds(record) for one in wanted.conditions]
    if False in answers:
        return False
    return None if None in answers else True


def _contains(record: SeenRecord, needle: str, where: str) -> bool:
    raw = needle.encode()
    return (
        (where in {"any", "key"} and record.key.contains(needle, raw))
        or (where in {"any", "value"} and record.value.contains(needle, raw))
        or (
            where in {"any", "header"}
            and any(needle in name or part.contains(needle, raw) for name, part in record.headers())
        )
    )


def _row(record: SeenRecord) -> RecordRow:
    return RecordRow(
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.key.shown(),
        record.value.shown(),
        [(name[:4_000], part.shown()) for name, part in record.headers(_HEADERS_SHOWN)],
        max(len(record.raw_headers) - _HEADERS_SHOWN, 0),
    )
