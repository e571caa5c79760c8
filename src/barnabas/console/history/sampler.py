"""What of a snapshot is remembered: numbers by series, ``METRIC/SUBJECT``.

Only what is known and fresh is a sample: a gap says that nothing was known then. Series of the cluster as a
whole have an empty subject (``cluster.records_per_s/``). A group's position in a partition, and how far it
was behind when we saw it, are kept when they change: that is our own observation of its commits.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from barnabas.console.figure import Figure
from barnabas.console.health.outcome import Level
from barnabas.console.health.verdict import Verdict
from barnabas.console.lag import all_lags
from barnabas.console.reading import Freshness, known
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.console.trend import Trend
from barnabas.core.ids import TopicPartition

LEVELS: Final = {Level.GOOD: 0, Level.UNKNOWN: 1, Level.WARNING: 2, Level.CRITICAL: 3}

METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "cluster.level": ("verdict (0 good, 1 unknown, 2 warning, 3 critical)", "number"),
    "cluster.records_per_s": ("records a second", "number"),
    "cluster.size_bytes": ("size of all replicas", "size"),
    "cluster.brokers": ("brokers", "number"),
    "cluster.under_replicated": ("under-replicated partitions", "number"),
    "cluster.without_leader": ("partitions without a leader", "number"),
    "cluster.lag": ("lag of all groups, in records", "number"),
    "broker.records_per_s": ("records a second, of partitions it leads", "number"),
    "broker.size_bytes": ("size of its replicas", "size"),
    "broker.leaders": ("partitions it leads", "number"),
    "broker.out_of_sync": ("replicas that are not in sync", "number"),
    "broker.request_queue_size": ("requests that wait", "number"),
    "broker.network_idle": ("idle share of network threads", "number"),
    "broker.handler_idle": ("idle share of request handlers", "number"),
    "broker.produce_ms": ("99th percentile of Produce, in ms", "number"),
    "broker.fetch_consumer_ms": ("99th percentile of FetchConsumer, in ms", "number"),
    "log_dir.usable_bytes": ("room that is left", "size"),
    "topic.records_per_s": ("records a second", "number"),
    "topic.size_bytes": ("size of all replicas", "size"),
    "topic.under_replicated": ("under-replicated partitions", "number"),
    "group.lag": ("lag in records", "number"),
    "group.lag_seconds": ("lag in seconds", "seconds"),
    "group.members": ("members", "number"),
    "group.offset": ("committed offset", "number"),
    "group.offset_lag": ("lag in a partition, when it changed", "number"),
    "check.number": ("number of a check", "number"),
    "check.bad": ("how many are beyond a check's limit", "number"),
    "check.unknown": ("1 while a check is not known", "number"),
}
"""Each metric with what it is and how its numbers are written."""


def samples_of(snapshot: ClusterSnapshot, trend: Trend, verdict: Verdict, now_ms: int) -> dict[str, float]:
    """The samples of this time."""
    found: dict[str, float] = {"cluster.level/": LEVELS[verdict.level]}
    _of_checks(found, verdict)
    if snapshot.topics.state(now_ms) is Freshness.OK:
        _of_topics(found, snapshot, trend)
    if snapshot.cluster.value is not None and snapshot.cluster.state(now_ms) is Freshness.OK:
        found["cluster.brokers/"] = len(snapshot.cluster.value.brokers)
    _of_log_dirs(found, snapshot, now_ms)
    _of_groups(found, snapshot, now_ms)
    for broker, scrape in snapshot.scrapes.items():
        if scrape.state(now_ms) is Freshness.OK:
            for name, value in (scrape.value or {}).items():
                if f"broker.{name}" in METRICS:
                    found[f"broker.{name}/{broker}"] = value
    return found


def _of_checks(found: dict[str, float], verdict: Verdict) -> None:
    for one in verdict.checks:
        if one.level is Level.NO_SOURCE:
            continue
        if one.number is not None:
            found[f"check.number/{one.key}"] = float(one.number)
        unknown = one.level is Level.UNKNOWN
        found[f"check.unknown/{one.key}"] = float(unknown)
        if not unknown:
            found[f"check.bad/{one.key}"] = float(one.count)


def _of_topics(found: dict[str, float], snapshot: ClusterSnapshot, trend: Trend) -> None:
    leaders: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    rates: defaultdict[int, float] = defaultdict(float)
    under_all = without_leader = 0
    for name, topic in (snapshot.topics.value or {}).items():
        under = 0
        rate = trend.rate(name)
        for one in topic.partitions:
            leaders[one.leader] += 1
            under += snapshot.is_under_replicated(name, one)
            if len(one.isr) < len(one.replicas):
                behind.update(set(one.replicas) - set(one.isr))
            if one.leader < 0:
                without_leader += 1
            elif rate:
                rates[one.leader] += trend.partition_rate(TopicPartition(name, one.partition))
        if under:
            found[f"topic.under_replicated/{name}"] = under
            under_all += under
        if rate is not None:
            found[f"topic.records_per_s/{name}"] = round(rate, 2)
        if (size := snapshot.topic_sizes.get(name)) is not None:
            found[f"topic.size_bytes/{name}"] = size
    found["cluster.under_replicated/"] = under_all
    found["cluster.without_leader/"] = without_leader
    if trend.cluster_rate:
        found["cluster.records_per_s/"] = round(trend.cluster_rate[-1], 2)
    for broker in [one.node_id for one in snapshot.cluster.value.brokers] if snapshot.cluster.value else []:
        found[f"broker.leaders/{broker}"] = leaders[broker]
        found[f"broker.out_of_sync/{broker}"] = behind[broker]
        if trend.cluster_rate:
            found[f"broker.records_per_s/{broker}"] = round(rates[broker], 2)


def _of_log_dirs(found: dict[str, float], snapshot: ClusterSnapshot, now_ms: int) -> None:
    total, whole = 0, bool(snapshot.log_dirs)
    for broker, reading in snapshot.log_dirs.items():
        if reading.value is None or reading.state(now_ms) is not Freshness.OK:
            whole = False
            continue
        size = sum(replica.size for one in reading.value.values() for replica in one.replicas.values())
        total += size
        found[f"broker.size_bytes/{broker}"] = size
        for path, one in reading.value.items():
            if one.usable_bytes >= 0 and one.error is None:
                found[f"log_dir.usable_bytes/{broker}:{path}"] = one.usable_bytes
    if whole:
        found["cluster.size_bytes/"] = total


def _of_groups(found: dict[str, float], snapshot: ClusterSnapshot, now_ms: int) -> None:
    total, some = 0.0, False
    for name, whole in all_lags(snapshot, now_ms).items():
        if (lag := _fresh(whole.lag)) is not None:
            found[f"group.lag/{name}"] = lag
            total, some = total + lag, True
        if (seconds := _fresh(whole.seconds)) is not None:
            found[f"group.lag_seconds/{name}"] = round(seconds, 1)
        described = snapshot.groups[name]
        if described.value is not None and described.state(now_ms) is Freshness.OK:
            found[f"group.members/{name}"] = len(described.value.members)
    if some:
        found["cluster.lag/"] = total


def _fresh(figure: Figure) -> float | None:
    return figure.value if isinstance(figure.value, int | float) and figure.state is Freshness.OK else None


class CommitWatch:
    """Tells which positions, and which lags, have changed since it was asked last."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, TopicPartition], tuple[int, int | None]] = {}

    def samples(self, snapshot: ClusterSnapshot) -> dict[str, float]:
        """The positions that are new, and how far groups are behind where that is new."""
        found: dict[str, float] = {}
        seen: dict[tuple[str, TopicPartition], tuple[int, int | None]] = {}
        for group, positions in snapshot.positions.items():
            for tp, one in (positions.value or {}).items():
                if one is None:
                    continue
                end = known(snapshot.ends, tp)
                lag = None if end is None else max(end - one.offset, 0)
                before = self._seen.get((group, tp), (None, None))
                seen[group, tp] = one.offset, lag
                if before[0] != one.offset:
                    found[f"group.offset/{group}/{tp}"] = one.offset
                if lag is not None and before != (one.offset, lag):
                    found[f"group.offset_lag/{group}/{tp}"] = lag
        self._seen = seen
        return found
