"""Judges of the cluster and its partitions."""

from collections import Counter
from collections.abc import Iterator

from barnabas.client.metadata import PartitionMetadata
from barnabas.console.health.outcome import Measured
from barnabas.console.health.reads import not_read, stale
from barnabas.console.reading import known
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.core.ids import TopicPartition
from barnabas.operations.partition_states import is_unavailable, is_under_min_isr


def _partitions(snapshot: ClusterSnapshot) -> Iterator[tuple[TopicPartition, PartitionMetadata]]:
    for name, topic in (snapshot.topics.value or {}).items():
        for one in topic.partitions:
            yield TopicPartition(name, one.partition), one


def _alive(snapshot: ClusterSnapshot) -> set[int]:
    """The brokers that are in the cluster; none where that was never read."""
    cluster = snapshot.cluster.value
    return {one.node_id for one in cluster.brokers} if cluster else set()


def _stale(snapshot: ClusterSnapshot, now_ms: int) -> list[str]:
    """Why topics together with the brokers are not to be relied on."""
    return [*stale(snapshot.topics, "topics", now_ms), *stale(snapshot.cluster, "the cluster", now_ms)]


def controller(snapshot: ClusterSnapshot, _limit: float, now_ms: int) -> Measured:
    """One controller, which is in the cluster."""
    reading = snapshot.cluster
    if nothing := not_read(reading, "the cluster", now_ms):
        return nothing
    there = reading.value is not None and reading.value.controller is not None
    bad = [] if there else ["no controller"]
    return Measured(float(there), bad, stale(reading, "the cluster", now_ms))


def missing_brokers(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Brokers that have replicas and are not in the cluster."""
    if nothing := not_read(snapshot.topics, "topics", now_ms):
        return nothing
    # Without the list of brokers nobody knows who is missing: not all of them are.
    if nothing := not_read(snapshot.cluster, "the cluster", now_ms):
        return nothing
    alive = _alive(snapshot)
    wanted: Counter[int] = Counter()
    for _, one in _partitions(snapshot):
        wanted.update(broker for broker in one.replicas if broker not in alive)
    bad = [f"broker {broker} with {count} replicas" for broker, count in wanted.most_common()]
    return Measured(len(bad), bad if len(bad) > limit else [], _stale(snapshot, now_ms))


def no_leader(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Partitions that nobody can read or write."""
    if nothing := not_read(snapshot.topics, "topics", now_ms):
        return nothing
    alive = _alive(snapshot)
    # Without the list of brokers a leader that is named is taken for alive, and the check is not good either.
    is_known = snapshot.cluster.value is not None
    bad = [
        str(tp)
        for tp, one in _partitions(snapshot)
        if one.leader < 0 or (is_known and is_unavailable(one, alive))
    ]
    unknown = [] if is_known else [f"the cluster: {snapshot.cluster.error}"]
    return Measured(len(bad), bad if len(bad) > limit else [], [*unknown, *_stale(snapshot, now_ms)])


def under_replicated(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Partitions whose in-sync replicas are too few for so many minutes."""
    if nothing := not_read(snapshot.topics, "topics", now_ms):
        return nothing
    since = snapshot.under_replicated_since_ms
    minutes = sorted(((now_ms - at) / 60_000, str(tp)) for tp, at in since.items())[::-1]
    bad = [f"{tp} for {each:.0f} min" for each, tp in minutes if each >= limit]
    return Measured(minutes[0][0] if minutes else 0, bad, stale(snapshot.topics, "topics", now_ms))


def under_min_isr(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Partitions that refuse acks=all."""
    if nothing := not_read(snapshot.topics, "topics", now_ms):
        return nothing
    bad, unread = [], set()
    for tp, one in _partitions(snapshot):
        entries = known(snapshot.topic_configs, tp.topic)
        entry = entries.get("min.insync.replicas") if entries else None
        if entry is None:
            unread.add(tp.topic)
        elif is_under_min_isr(one, int(entry.value or 1)):
            bad.append(
                f"{tp} has {len(one.isr)} of {entry.value}" if one.leader >= 0 else f"{tp} has no leader"
            )
    unknown = [f"configuration of {name}" for name in sorted(unread)]
    old = stale(snapshot.topics, "topics", now_ms)
    return Measured(len(bad), bad if len(bad) > limit else [], [*unknown, *old])


def leaders_uneven(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """The broker with most leaders against the mean."""
    if nothing := not_read(snapshot.topics, "topics", now_ms):
        return nothing
    if nothing := not_read(snapshot.cluster, "the cluster", now_ms):
        return nothing
    counts = Counter(dict.fromkeys(_alive(snapshot), 0))
    counts.update(one.leader for _, one in _partitions(snapshot) if one.leader >= 0)
    mean = sum(counts.values()) / max(len(counts), 1)
    if not mean:
        return Measured(0)
    broker, most = counts.most_common(1)[0]
    # A few partitions are never spread evenly.
    bad = (
        [f"broker {broker} leads {most}, the mean is {mean:.1f}"]
        if most > max(mean * limit, mean + 1)
        else []
    )
    return Measured(most / mean, bad, _stale(snapshot, now_ms))
