"""The checks, with their limits: KnowStreaming's twelve about brokers, topics, groups and ZooKeeper, and
more.

The limits differ from KnowStreaming's where its units were wrong: an idle share is a number between 0 and
1, and what ZooKeeper has sent is a rate, not a counter.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from barnabas.client.metadata import PartitionMetadata
from barnabas.console.health.outcome import HealthCheck, Level, Measured
from barnabas.console.lag import all_lags
from barnabas.console.reading import Freshness, Observation, known
from barnabas.console.snapshot import ClusterSnapshot, Scrape
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition

_METRICS: Final = "give the brokers' metrics with --metrics"
_ZOOKEEPER: Final = "give the servers with --zookeeper"
_PER_BROKER: Final = frozenset(
    {
        "advertised.listeners",
        "advertised.host.name",
        "advertised.port",
        "broker.id",
        "broker.rack",
        "host.name",
        "listeners",
        "log.dir",
        "log.dirs",
        "metrics.port",
        "node.id",
        "port",
        "process.roles",
        "ssl.keystore.location",
    }
)
"""Keys that differ between brokers on purpose."""


def _not_read(reading: Observation[Any], what: str, now_ms: int) -> Measured | None:
    """What is said where nothing can be."""
    if reading.state(now_ms) is Freshness.UNKNOWN:
        return Measured(unknown=[f"{what}: {reading.error}"])
    return None


def _partitions(snapshot: ClusterSnapshot) -> Iterator[tuple[TopicPartition, PartitionMetadata]]:
    for name, topic in (snapshot.topics.value or {}).items():
        for one in topic.partitions:
            yield TopicPartition(name, one.partition), one


def _stale(reading: Observation[Any], what: str, now_ms: int) -> list[str]:
    return [f"{what}: {reading.error or 'too old'}"] if reading.state(now_ms) is Freshness.STALE else []


def controller(snapshot: ClusterSnapshot, _limit: float, now_ms: int) -> Measured:
    """One controller, which is in the cluster."""
    reading = snapshot.cluster
    if nothing := _not_read(reading, "the cluster", now_ms):
        return nothing
    there = reading.value is not None and reading.value.controller is not None
    bad = [] if there else ["no controller"]
    return Measured(float(there), bad, _stale(reading, "the cluster", now_ms))


def missing_brokers(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Brokers that have replicas and are not in the cluster."""
    if nothing := _not_read(snapshot.topics, "topics", now_ms):
        return nothing
    alive = {one.node_id for one in snapshot.cluster.value.brokers} if snapshot.cluster.value else set()
    wanted: Counter[int] = Counter()
    for _, one in _partitions(snapshot):
        wanted.update(broker for broker in one.replicas if broker not in alive)
    bad = [f"broker {broker} with {count} replicas" for broker, count in wanted.most_common()]
    return Measured(len(bad), bad if len(bad) > limit else [], _stale(snapshot.topics, "topics", now_ms))


def no_leader(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Partitions that nobody can read or write."""
    if nothing := _not_read(snapshot.topics, "topics", now_ms):
        return nothing
    alive = {one.node_id for one in snapshot.cluster.value.brokers} if snapshot.cluster.value else set()
    bad = [str(tp) for tp, one in _partitions(snapshot) if one.leader < 0 or one.leader not in alive]
    return Measured(len(bad), bad if len(bad) > limit else [], _stale(snapshot.topics, "topics", now_ms))


def under_replicated(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Partitions whose in-sync replicas are too few for so many minutes."""
    if nothing := _not_read(snapshot.topics, "topics", now_ms):
        return nothing
    since = snapshot.under_replicated_since_ms
    minutes = sorted(((now_ms - at) / 60_000, str(tp)) for tp, at in since.items())[::-1]
    bad = [f"{tp} for {each:.0f} min" for each, tp in minutes if each >= limit]
    return Measured(minutes[0][0] if minutes else 0, bad, _stale(snapshot.topics, "topics", now_ms))


def under_min_isr(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Partitions that refuse acks=all."""
    if nothing := _not_read(snapshot.topics, "topics", now_ms):
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


def offline_log_dirs(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Log directories that a disk error took out of service."""
    bad, unknown = [], []
    for broker, reading in snapshot.log_dirs.items():
        if reading.state(now_ms, _SELDOM_MS) is not Freshness.OK:
            unknown.append(f"broker {broker}: {reading.error}")
        for path, one in (reading.value or {}).items():
            if one.error is not None and one.error.code is not ErrorCode.NONE:
                bad.append(f"{path} of broker {broker}: {one.error}")
    if not snapshot.log_dirs:
        unknown.append("log directories: not read yet")
    return Measured(len(bad), bad if len(bad) > limit else [], unknown)


def disk_used(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """The share of each disk that is used."""
    bad, unknown, worst = [], [], 0.0
    for broker, reading in snapshot.log_dirs.items():
        if reading.state(now_ms, _SELDOM_MS) is not Freshness.OK:
            unknown.append(f"broker {broker}: {reading.error}")
        for path, one in (reading.value or {}).items():
            if one.total_bytes > 0:
                used = 1 - one.usable_bytes / one.total_bytes
                worst = max(worst, used)
                if used > limit:
                    bad.append(f"{path} of broker {broker} {used:.0%}")
    return Measured(worst, bad, unknown)


def leaders_uneven(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """The broker with most leaders against the mean."""
    if nothing := _not_read(snapshot.topics, "topics", now_ms):
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


def config_differences(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Keys that are not the same on all brokers."""
    unknown = [
        f"broker {broker}: {reading.error}"
        for broker, reading in snapshot.broker_configs.items()
        if reading.state(now_ms, _SELDOM_MS) is not Freshness.OK
    ]
    bad = [f"{key}: {values}" for key, values in differences(snapshot).items()]
    return Measured(len(bad), bad if len(bad) > limit else [], unknown)


def differences(snapshot: ClusterSnapshot) -> dict[str, str]:
    """Keys that differ between brokers, with the values and the brokers that have them."""
    values: dict[str, dict[str, list[int]]] = {}
    for broker, reading in sorted(snapshot.broker_configs.items()):
        for name, entry in (reading.value or {}).items():
            if name not in _PER_BROKER and not name.startswith("listener.name.") and not entry.is_sensitive:
                values.setdefault(name, {}).setdefault(str(entry.value), []).append(broker)
    return {
        name: "; ".join(
            f"{value or '(empty)'} on {','.join(map(str, brokers))}" for value, brokers in found.items()
        )
        for name, found in values.items()
        if len(found) > 1
    }


def rebalancing(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Groups that rebalance for so many minutes."""
    times = sorted(((now_ms - at) / 60_000, name) for name, at in snapshot.rebalancing_since_ms.items())[::-1]
    bad = [f"{name} for {minutes:.1f} min" for minutes, name in times if minutes >= limit]
    return Measured(times[0][0] if times else 0, bad, _unread_groups(snapshot, now_ms))


def _unread_groups(snapshot: ClusterSnapshot, now_ms: int) -> list[str]:
    return [
        f"groups of broker {broker}: {reading.error or 'too old'}"
        for broker, reading in snapshot.group_listings.items()
        if reading.state(now_ms) is not Freshness.OK
    ]


def lag_seconds(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Groups that are behind for so many seconds."""
    times, unknown = [], _unread_groups(snapshot, now_ms)
    for name, whole in all_lags(snapshot, now_ms).items():
        found = whole.seconds
        if isinstance(found.value, int | float):
            times.append((found.value, name))
        elif found.why not in _NOTHING_TO_SAY:
            unknown.append(f"{name}: {found.why}")
    times.sort(reverse=True)
    bad = [f"{name} {seconds:.0f} s" for seconds, name in times if seconds > limit]
    return Measured(times[0][0] if times else 0, bad, unknown)


_NOTHING_TO_SAY: Final = frozenset(
    {"no position was committed", "the group has no positions", "the topic was deleted"}
)


def data_loss(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Groups that retention overtakes within so many hours, or has overtaken."""
    bad, soonest = [], None
    for name, whole in all_lags(snapshot, now_ms).items():
        if whole.lost:
            bad.append(f"{name} has lost {whole.lost} records to retention")
        elif whole.seconds_to_data_loss is not None:
            hours = whole.seconds_to_data_loss / 3600
            soonest = hours if soonest is None else min(soonest, hours)
            if hours < limit:
                bad.append(f"{name} in {max(hours, 0):.1f} h")
    return Measured(soonest, bad)


def _scraped(name: str, *, below: bool) -> Any:
    """A check of one figure of each broker's metrics: above the limit is wrong, or below it."""

    def judge(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
        if not snapshot.scrapes:
            return Measured(no_source=_METRICS)
        return _compared(
            ((f"broker {broker}", one) for broker, one in snapshot.scrapes.items()),
            name,
            limit,
            below,
            now_ms,
        )

    return judge


def _of_zookeeper(name: str) -> Any:
    def judge(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
        if not snapshot.zookeeper:
            return Measured(no_source=_ZOOKEEPER)
        return _compared(snapshot.zookeeper.items(), name, limit, False, now_ms)

    return judge


def _compared(
    readings: Iterable[tuple[str, Observation[Scrape]]], name: str, limit: float, below: bool, now_ms: int
) -> Measured:
    values: list[tuple[float, str]] = []
    unknown, silent = [], False
    for subject, reading in readings:
        figures: Mapping[str, float] = reading.value or {}
        if reading.state(now_ms) is not Freshness.OK:
            unknown.append(f"{subject}: {reading.error or 'too old'}")
        elif name not in figures:
            silent = True
        else:
            values.append((figures[name], subject))
    if silent and not values and not unknown:
        return Measured(no_source="these servers do not say it")
    values.sort(reverse=not below)
    bad = [f"{subject} {value:g}" for value, subject in values if (value < limit if below else value > limit)]
    return Measured(values[0][0] if values else None, bad, unknown)


def one_zookeeper_leader(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """BrainSplit: exactly one server leads, or one stands alone."""
    if not snapshot.zookeeper:
        return Measured(no_source=_ZOOKEEPER)
    leaders = [name for name, one in snapshot.zookeeper.items() if (one.value or {}).get("is_leader")]
    unknown = [
        f"{name}: {one.error}"
        for name, one in snapshot.zookeeper.items()
        if one.state(now_ms) is not Freshness.OK
    ]
    many = [f"{len(leaders)} leaders: {', '.join(leaders)}"] if len(leaders) > limit else []
    none = ["no server leads"] if not leaders and not unknown else []
    return Measured(len(leaders), many or none, unknown)


_SELDOM_MS: Final = 300_000

CHECKS: Final = (
    HealthCheck(
        "controller",
        "cluster",
        "a controller is elected",
        1,
        Level.CRITICAL,
        controller,
        "Without one no leader is elected and no topic is made.",
    ),
    HealthCheck(
        "missing-brokers",
        "cluster",
        "all brokers that have replicas are there",
        0,
        Level.WARNING,
        missing_brokers,
    ),
    HealthCheck(
        "no-leader",
        "topic",
        "partitions without a leader: at most {limit}",
        0,
        Level.CRITICAL,
        no_leader,
        "Nobody can read or write them: start the brokers that hold their in-sync replicas.",
    ),
    HealthCheck(
        "under-min-isr",
        "topic",
        "partitions below min.insync.replicas: at most {limit}",
        0,
        Level.CRITICAL,
        under_min_isr,
        "Producers with acks=all are refused there.",
    ),
    HealthCheck(
        "under-replicated",
        "topic",
        "no partition is under-replicated for {limit} min",
        8,
        Level.WARNING,
        under_replicated,
    ),
    HealthCheck(
        "offline-log-dirs",
        "broker",
        "log directories that are offline: at most {limit}",
        0,
        Level.CRITICAL,
        offline_log_dirs,
    ),
    HealthCheck(
        "disk-used", "broker", "at most {limit} of each disk is used", 0.85, Level.WARNING, disk_used
    ),
    HealthCheck(
        "request-queue",
        "broker",
        "requests that wait on a broker: at most {limit}",
        10,
        Level.WARNING,
        _scraped("request_queue_size", below=False),
    ),
    HealthCheck(
        "network-idle",
        "broker",
        "network threads are idle for at least {limit} of the time",
        0.3,
        Level.WARNING,
        _scraped("network_idle", below=True),
    ),
    HealthCheck(
        "handler-idle",
        "broker",
        "request handlers are idle for at least {limit} of the time",
        0.3,
        Level.WARNING,
        _scraped("handler_idle", below=True),
    ),
    HealthCheck(
        "leaders-uneven",
        "broker",
        "no broker leads more than {limit} times the mean",
        1.5,
        Level.WARNING,
        leaders_uneven,
        "Elect the preferred leaders, or reassign.",
    ),
    HealthCheck(
        "config-differences",
        "broker",
        "keys that differ between brokers: at most {limit}",
        0,
        Level.WARNING,
        config_differences,
    ),
    HealthCheck("rebalancing", "group", "no group rebalances for {limit} min", 8, Level.WARNING, rebalancing),
    HealthCheck(
        "lag-seconds", "group", "no group is more than {limit} s behind", 300, Level.WARNING, lag_seconds
    ),
    HealthCheck(
        "data-loss",
        "group",
        "no group loses records to retention within {limit} h",
        24,
        Level.CRITICAL,
        data_loss,
    ),
    HealthCheck(
        "zk-brain-split", "zookeeper", "one ZooKeeper server leads", 1, Level.CRITICAL, one_zookeeper_leader
    ),
    HealthCheck(
        "zk-outstanding",
        "zookeeper",
        "requests that wait: at most {limit}",
        80,
        Level.WARNING,
        _of_zookeeper("outstanding_requests"),
    ),
    HealthCheck(
        "zk-watches",
        "zookeeper",
        "watches: at most {limit}",
        80_000,
        Level.WARNING,
        _of_zookeeper("watch_count"),
    ),
    HealthCheck(
        "zk-connections",
        "zookeeper",
        "connections: at most {limit}",
        8_000,
        Level.WARNING,
        _of_zookeeper("alive_connections"),
    ),
    HealthCheck(
        "zk-data-size",
        "zookeeper",
        "bytes of data: at most {limit}",
        419_430_400,
        Level.WARNING,
        _of_zookeeper("data_size"),
    ),
    HealthCheck(
        "zk-sent-rate",
        "zookeeper",
        "packets sent a second: at most {limit}",
        400_000,
        Level.WARNING,
        _of_zookeeper("sent_rate"),
    ),
)
