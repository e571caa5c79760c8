"""The clusters, and one cluster at a glance."""

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.console.figure import Figure, figure, unknown
from barnabas.console.health.outcome import Level
from barnabas.console.health.verdict import Verdict
from barnabas.console.reading import oldest
from barnabas.console.snapshot import ClusterChange
from barnabas.console.watched import WatchedCluster

CHANGES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster in the list."""

    name: str
    bootstrap: str
    level: Level
    reasons: Sequence[str]
    brokers: Figure
    topics: Figure
    partitions: Figure
    groups: Figure


@dataclass(frozen=True, slots=True)
class Overview:
    """One cluster."""

    name: str
    bootstrap: str
    cluster_id: Figure
    controller: Figure
    brokers: Figure
    topics: Figure
    partitions: Figure
    under_replicated: Figure
    without_leader: Figure
    groups: Figure
    size_bytes: Figure
    """Of all replicas."""
    records_per_s: Figure
    trend: Sequence[float]
    """Records a second, the newest last."""
    verdict: Verdict
    changes: Sequence[ClusterChange]
    """The newest first."""
    refreshed_s: Figure
    """How long ago the last look was over."""
    round_ms: int
    requests: int


def cluster_row(watched: WatchedCluster, now_ms: int) -> ClusterRow:
    """A cluster in the list."""
    whole = overview(watched, now_ms)
    return ClusterRow(
        whole.name,
        whole.bootstrap,
        whole.verdict.level,
        whole.verdict.reasons[:3],
        whole.brokers,
        whole.topics,
        whole.partitions,
        whole.groups,
    )


def overview(watched: WatchedCluster, now_ms: int) -> Overview:
    """The cluster at a glance."""
    snapshot = watched.snapshot
    cluster, topics = snapshot.cluster, snapshot.topics
    partitions = [one for topic in (topics.value or {}).values() for one in topic.partitions]
    controller = cluster.value.controller if cluster.value else None
    listings = list(snapshot.group_listings.values())
    of_groups = oldest(listings)
    rates = list(watched.trend.cluster_rate)
    sizes = oldest(snapshot.log_dirs.values())
    return Overview(
        watched.name,
        watched.bootstrap,
        figure(cluster, now_ms, (cluster.value.cluster_id if cluster.value else None) or "none"),
        figure(cluster, now_ms, "none" if controller is None else f"broker {controller.node_id}"),
        figure(cluster, now_ms, len(cluster.value.brokers) if cluster.value else None),
        figure(topics, now_ms, len(topics.value or ())),
        figure(topics, now_ms, len(partitions)),
        figure(
            topics,
            now_ms,
            sum(
                snapshot.is_under_replicated(name, one)
                for name, topic in (topics.value or {}).items()
                for one in topic.partitions
            ),
        ),
        figure(topics, now_ms, sum(one.leader < 0 for one in partitions)),
        figure(of_groups, now_ms, sum(len(one.value or ()) for one in listings)),
        figure(sizes, now_ms, sum(snapshot.topic_sizes.values())),
        figure(topics, now_ms, rates[-1]) if rates else figure(None, now_ms),
        rates,
        watched.verdict(now_ms),
        list(reversed(snapshot.changes[-CHANGES_SHOWN:])),
        figure(topics, now_ms, (now_ms - snapshot.refreshed_ms) // 1000)
        if snapshot.refreshed_ms
        else unknown("the first look is not over"),
        snapshot.round_ms,
        snapshot.requests,
    )
