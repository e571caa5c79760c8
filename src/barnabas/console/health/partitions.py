"""Judges of the cluster and its partitions."""

from collections import Counter
from collections.abc import Iterator

from barnabas.client.metadata import PartitionMetadata
from barnabas.console.health.outcome import Measured
from barnabas.console.health.reads import not_read, stale
from barnabas.console.reading import known
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.core.ids import TopicPartition


def _partitions(snapshot: ClusterSnapshot) -> Iterator[tuple[TopicPartition, PartitionMetadata]]:
    for name, topic in (snapshot.topics.value or {}).items():
        for one in topic.partitions:
            yield TopicPartition(name, one.partition), one


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
    alive = {one.node_id for one in snapshot.cluster.value.brokers} if snapshot.cluster.value else set()
    wanted: Counter[int] = Counter()
    for _, one in _partitions(snapshot):
        wanted.update(broker for broker in one.replicas if broker not in alive)
    bad = [f"broker {broker} with {count} replicas" for broker, count in wanted.most_common()]
    return Measured(len(bad), bad if len(bad) > limit else [], stale(snapshot.topics, "topics", now_ms))


def no_leader(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Partitions that nobody can read or write."""
    if nothing := not_read(snapshot.topics, "topics", now_ms):
        return nothing
    alive = {one.node_id for one in snapshot.cluster.value.brokers} if snapshot.cluster.value else set()
    bad = [str(tp) for tp, one in _partitions(snapshot) if one.leader < 0 or one.leader not in alive]
    return Measured(len(bad), bad if len(bad) > limit else [], stale(snapshot.topics, "topics", now_ms))


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
        elif len(one.isr) < int(entry.value or 1):
            bad.append(f"{tp} has {len(one.isr)} of {entry.value}")
    unknown = [f"configuration of {name}" for name in sorted(unread)]
    return Measured(len(bad), bad if len(bad) > limit else [], unknown)


def leaders_uneven(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """The broker with most leaders against the mean."""
    if nothing := not_read(snapshot.topics, "topics", now_ms):
        return nothing
    cluster = snapshot.cluster.value
    counts = Counter({one.node_id: 0 for one in cluster.brokers} if cluster else {})
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
    return Measured(most / mean, bad)
