"""Topics, and one topic with its partitions, its configuration and its readers."""

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.admin import PartitionReassignment, TopicDescription
from barnabas.client.metadata import PartitionMetadata
from barnabas.console.figure import Figure, figure, unknown, unread
from barnabas.console.lag import group_lag, partition_lags
from barnabas.console.reading import known, oldest
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.console.trend import Trend
from barnabas.console.views.brokers import ConfigRow, config_rows
from barnabas.console.views.paging import Paging, cut
from barnabas.core.ids import ZERO_UUID, TopicPartition, uuid_text
from barnabas.operations.partition_states import is_under_min_isr


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in the list."""

    name: str
    is_internal: bool
    partitions: Figure
    replication_factor: int
    under_replicated: Figure
    without_leader: Figure
    size_bytes: Figure
    records_per_s: Figure
    trend: Sequence[float]


@dataclass(frozen=True, slots=True)
class TopicsView:
    """A page of topics."""

    rows: Sequence[TopicRow]
    paging: Paging
    search: str
    sort: str
    state: Figure
    """How many topics there are before the search."""


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A replica of a partition."""

    broker: int
    in_sync: bool
    lag: Figure
    """Offsets behind, as its broker says."""
    size_bytes: Figure
    log_dir: str | None


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition."""

    partition: int
    leader: Figure
    leader_epoch: int
    is_preferred: bool
    """Whether the first of its replicas leads."""
    isr: Sequence[int]
    replicas: Sequence[ReplicaRow]
    start: Figure
    end: Figure
    under_min_isr: bool
    under_replicated: bool
    adding: Sequence[int]
    removing: Sequence[int]


@dataclass(frozen=True, slots=True)
class ReaderRow:
    """A group that has a position in the topic."""

    group: str
    lag: Figure
    seconds: Figure


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic."""

    name: str
    topic_id: str | None
    row: TopicRow
    partitions: Sequence[PartitionRow]
    paging: Paging
    readers: Sequence[ReaderRow]
    configs: Sequence[ConfigRow]
    """Those that the console watches; all of them are at ``configs/topic/NAME``."""
    moves_unread: str | None
    """Why it is not known which partitions move."""


def topics(
    snapshot: ClusterSnapshot,
    trend: Trend,
    now_ms: int,
    *,
    search: str,
    sort: str,
    page: int,
    size: int,
    internal: bool,
) -> TopicsView:
    """A page of the topics whose names have the text, in any case of letters."""
    there = snapshot.topics.value or {}
    wanted = search.casefold()
    found = [
        topic
        for name, topic in there.items()
        if wanted in name.casefold() and (internal or not topic.is_internal)
    ]
    keys = {
        "name": lambda one: one.name,
        "partitions": lambda one: (-len(one.partitions), one.name),
        "size": lambda one: (-snapshot.topic_sizes.get(one.name, 0), one.name),
        "rate": lambda one: (-_rate(trend, one.name), one.name),
        "under_replicated": lambda one: (-_under_replicated(snapshot, one), one.name),
    }
    sort = sort if sort in keys else "name"
    found.sort(key=keys[sort])
    shown, paging = cut(found, page, size)
    rows = [_row(snapshot, trend, topic, now_ms) for topic in shown]
    return TopicsView(rows, paging, search, sort, figure(snapshot.topics, now_ms, len(there)))


def _rate(trend: Trend, name: str) -> float:
    rates = trend.rates(name)
    return rates[-1] if rates else -1.0


def _under_replicated(snapshot: ClusterSnapshot, topic: TopicDescription) -> int:
    return sum(snapshot.is_under_replicated(topic.name, one) for one in topic.partitions)


def _row(snapshot: ClusterSnapshot, trend: Trend, topic: TopicDescription, now_ms: int) -> TopicRow:
    rates = trend.rates(topic.name)
    sizes = oldest(snapshot.log_dirs.values())
    size = snapshot.topic_sizes.get(topic.name)
    return TopicRow(
        topic.name,
        topic.is_internal,
        figure(snapshot.topics, now_ms, len(topic.partitions)),
        max((snapshot.replication_factor(topic.name, one) for one in topic.partitions), default=0),
        figure(snapshot.topics, now_ms, _under_replicated(snapshot, topic)),
        figure(snapshot.topics, now_ms, sum(one.leader < 0 for one in topic.partitions)),
        figure(sizes, now_ms, size)
        if size is not None
        else unknown("log directories were not read since the topic is there"),
        figure(snapshot.topics, now_ms, rates[-1]) if rates else unknown("it takes two looks"),
        list(rates),
    )


def topic(
    snapshot: ClusterSnapshot, trend: Trend, name: str, now_ms: int, *, page: int, size: int
) -> TopicView | None:
    """One topic; None where there is none of this name."""
    found = (snapshot.topics.value or {}).get(name)
    if found is None:
        return None
    shown, paging = cut(found.partitions, page, size)
    entries = known(snapshot.topic_configs, name) or {}
    minimum = int(entry.value or 1) if (entry := entries.get("min.insync.replicas")) else 1
    moving = snapshot.reassignments.value or {}
    return TopicView(
        name,
        None if found.topic_id == ZERO_UUID else uuid_text(found.topic_id),
        _row(snapshot, trend, found, now_ms),
        [
            _partition(snapshot, name, one, minimum, moving.get(TopicPartition(name, one.partition)), now_ms)
            for one in shown
        ],
        paging,
        readers(snapshot, name, now_ms),
        config_rows(entries),
        unread(snapshot.reassignments, now_ms),
    )


def _partition(
    snapshot: ClusterSnapshot,
    name: str,
    one: PartitionMetadata,
    minimum: int,
    moving: PartitionReassignment | None,
    now_ms: int,
) -> PartitionRow:
    tp = TopicPartition(name, one.partition)
    return PartitionRow(
        one.partition,
        figure(snapshot.topics, now_ms, one.leader if one.leader >= 0 else "none"),
        one.leader_epoch,
        bool(one.replicas) and one.leader == one.replicas[0],
        sorted(one.isr),
        [_replica(snapshot, tp, broker, broker in one.isr, now_ms) for broker in one.replicas],
        figure(snapshot.starts.get(tp), now_ms),
        figure(snapshot.ends.get(tp), now_ms),
        is_under_min_isr(one, minimum),
        snapshot.is_under_replicated(name, one),
        list(moving.adding) if moving else [],
        list(moving.removing) if moving else [],
    )


def _replica(
    snapshot: ClusterSnapshot, tp: TopicPartition, broker: int, in_sync: bool, now_ms: int
) -> ReplicaRow:
    reading = snapshot.log_dirs.get(broker)
    for path, directory in ((reading.value if reading else None) or {}).items():
        found = directory.replicas.get(tp)
        if found is not None and not found.is_future:
            return ReplicaRow(
                broker,
                in_sync,
                figure(reading, now_ms, found.offset_lag)
                if found.offset_lag >= 0
                else unknown("its broker cannot say"),
                figure(reading, now_ms, found.size),
                path,
            )
    nothing = unknown("its broker did not name it among its replicas")
    if reading is None or reading.value is None:
        nothing = figure(reading, now_ms)
    return ReplicaRow(broker, in_sync, nothing, nothing, None)


def readers(snapshot: ClusterSnapshot, topic_name: str, now_ms: int) -> list[ReaderRow]:
    """The groups that have positions in a topic."""
    rows = []
    for group, reading in snapshot.positions.items():
        if any(tp.topic == topic_name for tp in reading.value or ()):
            parts = [one for one in partition_lags(snapshot, group, now_ms) if one.topic == topic_name]
            whole = group_lag(parts)
            rows.append(ReaderRow(group, whole.lag, whole.seconds))
    return sorted(rows, key=lambda one: (-one.seconds.number, one.group))
