"""The lag of groups now, as brokers say it: in records, in seconds, and how long the next record will be
there.

The driver's half asks for what takes one request a broker or a group; the times of the records that groups
read next are fetched by tasks, as each takes a fetch.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.admin import Admin, ConfigResource, ResourceType
from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from barnabas.core.errors import BarnabasError, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.spark.groups.options import GroupOptions
from barnabas.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.spark.kafka import KafkaFetcher

_FETCH_BYTES: Final = str(64 << 10)
"""One record is wanted of each partition; a broker gives a whole batch of any size."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A group in a partition, and how far the partition's log is."""

    group: str
    tp: TopicPartition
    committed: int
    start: int | None
    """The log start offset; None for a topic that was deleted."""
    end: int | None
    newest_ms: int
    """The greatest time of a record; -1 where there is none."""
    retention_ms: int
    """-1 where time removes nothing."""

    @property
    def size(self) -> int:
        """One look-up."""
        return 1

    @property
    def next_offset(self) -> int | None:
        """Of the record that the group reads next, if there is one."""
        if self.start is None or self.end is None:
            return None
        position = max(self.committed, self.start)
        return position if position < self.end else None


def standings(admin: Admin, options: GroupOptions) -> list[Standing]:
    """Every committed position of the wanted groups. Raises KafkaError."""
    groups = sorted(one.group_id for one in admin.groups.list() if options.wants(one.group_id))
    committed = admin.groups.offsets(groups) if groups else {}
    return standings_of(
        admin,
        {
            group: {tp: one.offset for tp, one in committed[group].items() if one is not None}
            for group in groups
        },
    )


def standings_of(admin: Admin, committed: Mapping[str, Mapping[TopicPartition, int]]) -> list[Standing]:
    """The standings of these positions by group. Raises KafkaError."""
    partitions = {tp for positions in committed.values() for tp in positions}
    starts, ends, newest = (
        _listed(admin, partitions, kind) for kind in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP)
    )
    retention = _retentions(admin, {tp.topic for tp in starts})
    return [
        Standing(
            group=group,
            tp=tp,
            committed=position,
            start=starts[tp][0] if tp in starts else None,
            end=ends[tp][0] if tp in ends else None,
            newest_ms=newest[tp][1] if tp in newest else -1,
            retention_ms=retention.get(tp.topic, -1),
        )
        for group, positions in committed.items()
        for tp, position in sorted(positions.items())
    ]


def _listed(
    admin: Admin, partitions: set[TopicPartition], kind: int
) -> dict[TopicPartition, tuple[int, int]]:
    """Offset and time by partition, without those that were deleted. Raises KafkaError."""
    found = {}
    for tp, one in (admin.offsets.try_list(dict.fromkeys(partitions, kind)) if partitions else {}).items():
        if not isinstance(one, BarnabasError):
            found[tp] = one.offset, one.timestamp
        elif not isinstance(one, KafkaError) or one.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise one
    return found


def _retentions(admin: Admin, topics: set[str]) -> dict[str, int]:
    """``retention.ms`` of the topics that delete by time."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(topics)]
    found = {}
    for resource, entries in (admin.configs.try_describe(resources) if resources else {}).items():
        if not isinstance(entries, BarnabasError) and "delete" in (entries["cleanup.policy"].value or ""):
            found[resource.name] = int(entries["retention.ms"].value or -1)
    return found


def one_record_at_a_time(client: Mapping[str, str]) -> dict[str, str]:
    """The ``kafka.*`` options of a fetcher for `lag_rows`."""
    return {"max.partition.fetch.bytes": _FETCH_BYTES, **client}


def lag_rows(mine: Sequence[Standing], fetcher: "KafkaFetcher", timeout_ms: int) -> "pa.RecordBatch":
    """A row for each standing, with the time of the record that the group reads next. Raises KafkaError,
    TimeoutError.

    Nobody else may use the fetcher meanwhile.
    """
    import pyarrow as pa

    schema = pa.schema(
        {
            "group": pa.string(), "topic": pa.string(), "partition": pa.int32(),
            "committedOffset": pa.int64(),
            "logStartOffset": pa.int64(), "logEndOffset": pa.int64(), "lag": pa.int64(),
            "lagSeconds": pa.float64(),
            "lost": pa.int64(), "nextTimestamp": pa.timestamp("us", tz="UTC"),
            "newestTimestamp": pa.timestamp("us", tz="UTC"), "secondsToDataLoss": pa.float64(),
        }
    )  # fmt: skip
    times: dict[tuple[TopicPartition, int], int] = {}
    for wanted in rounds(mine):
        found = fetcher.first_times(wanted, timeout_ms)
        times |= {(piece.tp, piece.start): found[piece.tp] for piece in wanted if piece.tp in found}
    now_ms = time.time() * 1000
    rows = [_row(one, times.get((one.tp, one.next_offset or 0)), now_ms) for one in mine]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def rounds(standings: Sequence[Standing]) -> Iterator[list[OffsetRange]]:
    """Where to look for the next record of each, each place once:
    a fetcher reads a partition at one at a time.
    """
    left = sorted(
        {
            OffsetRange(one.tp, one.next_offset, one.end)
            for one in standings
            if one.next_offset is not None and one.end is not None
        }
    )
    while left:
        now = list({piece.tp: piece for piece in left}.values())
        yield now
        left = sorted(set(left) - set(now))


def _row(one: Standing, next_ms: int | None, now_ms: float) -> Mapping[str, object]:
    lag = lost = None
    if one.start is not None and one.end is not None:
        lag, lost = max(one.end - one.committed, 0), max(one.start - one.committed, 0)
    behind = None
    if one.next_offset is None and lag is not None:
        behind = 0.0
    elif next_ms is not None and one.newest_ms >= 0:
        behind = max(one.newest_ms - next_ms, 0) / 1000
    leaves = next_ms is not None and one.retention_ms >= 0
    return {
        "group": one.group,
        "topic": one.tp.topic,
        "partition": one.tp.partition,
        "committedOffset": one.committed,
        "logStartOffset": one.start,
        "logEndOffset": one.end,
        "lag": lag,
        "lagSeconds": behind,
        "lost": lost,
        "nextTimestamp": None if next_ms is None else next_ms * 1000,
        "newestTimestamp": one.newest_ms * 1000 if one.newest_ms >= 0 else None,
        "secondsToDataLoss": (next_ms + one.retention_ms - now_ms) / 1000
        if leaves and next_ms is not None
        else None,
    }
