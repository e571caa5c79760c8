"""The metrics of a broker: each name, what it means, and where it is read.

The names are those that the usual rules of the Prometheus JMX exporter make of Kafka's MBeans: domain, type
and name in lower case, ``PerSec`` becomes ``total``, the keys of an MBean are labels. A dashboard for Kafka
finds them here. What Kafka has no MBean for begins with ``barnabas_``.
"""

import math
import posixpath
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import eq
from typing import Final

from barnabas.broker.request_metrics import Answered, RequestMetrics, by_name, local_ms, remote_ms, total_ms
from barnabas.core.ids import TopicPartition
from barnabas.core.metrics import Histogram, Kind, Reading, Registry, distribution
from barnabas.log.cleaner.log_cleaner import LogCleaner
from barnabas.log.log import Log
from barnabas.log.manager import LogManager
from barnabas.node.client_metrics import ClientMetrics
from barnabas.node.group_lag_metrics import add_group_lag
from barnabas.node.parts import Parts
from barnabas.node.quota_metrics import add_quotas
from barnabas.replica.fetcher.manager import ReplicaFetcherManager
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.partition import Partition
from barnabas.replica.topic_stats import BrokerTopicStats, TopicStats

COUNTER, GAUGE, SUMMARY = Kind.COUNTER, Kind.GAUGE, Kind.SUMMARY

_OF_PARTITION: Final = ("topic", "partition")
_OF_REQUEST: Final = ("request",)

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000
"""How long after the longest time-out an open transaction counts as late."""

_GROUP_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")
"""Of classic groups, as Kafka names the metrics of its coordinator."""


def broker_metrics(
    parts: Parts,
    logs: LogManager,
    requests: Mapping[int, RequestMetrics],
    loop_lag: Histogram,
    *,
    cleaner: LogCleaner | None,
    connections: Callable[[], Mapping[str, int]],
    broker_state: Callable[[], int],
    group_lag: bool,
) -> Registry:
    """All metrics of one broker; they are read from the thread of its loop only.
    `connections` counts them by listener; `group_lag` is whether the lag of groups is among them.
    """
    registry = Registry()
    registry.gauge(
        "kafka_server_kafkaserver_brokerstate",
        "The state of the broker: 3 it runs, 6 it hands over its leaderships to stop.",
        broker_state,
    )
    _add_requests(registry, by_name(requests))
    _add_topics(registry, parts.replicas.topic_stats)
    _add_replicas(registry, parts.replicas)
    _add_fetchers(registry, parts.fetchers)
    _add_logs(registry, logs)
    if cleaner is not None:
        _add_cleaner(registry, cleaner, logs)
    _add_controller(registry, parts)
    _add_groups(registry, parts)
    if group_lag:
        add_group_lag(registry, parts.group_coordinator, parts.replicas)
    _add_transactions(registry, parts)
    _add_load_times(registry, parts)
    _add_loop(registry, loop_lag, connections)
    _add_client_metrics(registry, parts.client_metrics)
    add_quotas(registry, parts.services.quotas)
    return registry


def _add_requests(registry: Registry, named: Sequence[tuple[str, tuple[RequestMetrics, ...]]]) -> None:
    def counts() -> Iterator[Reading | None]:
        for name, kinds in named:
            for version, counted in enumerate(zip(*(kind.requests for kind in kinds), strict=True)):
                if any(counted):
                    yield (name, str(version)), sum(counted)

    registry.add(
        "kafka_network_requestmetrics_requests_total",
        COUNTER,
        "Requests that were answered.",
        counts,
        ("request", "version"),
    )

    def summary(name: str, doc: str, value: Callable[[Answered], float]) -> None:
        def readings() -> Iterator[Reading | None]:
            for request, kinds in named:
                recent = [value(each) for kind in kinds for each in kind.recent]
                if recent:
                    yield (request,), distribution(sum(sum(kind.requests) for kind in kinds), recent)
                    yield None

        registry.add(f"kafka_network_requestmetrics_{name}", SUMMARY, doc, readings, _OF_REQUEST)

    summary("totaltimems", "Milliseconds from a request to its answer, of the last 1,028.", total_ms)
    summary("localtimems", "Of them, milliseconds until its handler had returned.", local_ms)
    summary(
        "remotetimems",
        "Of them, milliseconds for which the answer waited: for replicas, for records, for other members.",
        remote_ms,
    )
    summary("requestbytes", "Bytes of a request.", lambda each: each[3])
    summary(
        "throttletimems", "Milliseconds for which the answer asks the client to wait.", lambda each: each[4]
    )


def _add_client_metrics(registry: Registry, pushed: ClientMetrics | None) -> None:
    """All of them are 0 on a broker to which clients do not push."""

    def figure(read: Callable[[ClientMetrics], float]) -> Callable[[], float]:
        return lambda: 0 if pushed is None else read(pushed)

    registry.gauge(
        "barnabas_client_metrics_instances",
        "Clients that pushed their metrics here, or asked for what to push, lately.",
        figure(lambda parts: parts.manager.instance_count()),
    )
    registry.gauge(
        "barnabas_client_metrics_series",
        "Series that clients have pushed; what they are follows the metrics of the broker.",
        figure(lambda parts: parts.receiver.series_count),
    )

    def each(name: str, doc: str, read: Callable[[ClientMetrics], Iterator[Reading]]) -> None:
        """One figure for each client."""
        registry.add(
            f"barnabas_client_metrics_{name}",
            Kind.GAUGE,
            doc,
            lambda: () if pushed is None else read(pushed),
            ("client_id", "client_instance_id"),
        )

    each(
        "push_age_seconds",
        "How long ago a client has pushed.",
        lambda parts: parts.receiver.push_ages(),
    )
    each(
        "lifetime_seconds",
        "After how many seconds without a push the metrics of a client go.",
        lambda parts: parts.receiver.lifetimes(),
    )

    def counter(name: str, doc: str, read: Callable[[ClientMetrics], float]) -> None:
        registry.counter(f"barnabas_client_metrics_{name}_total", doc, figure(read))

    counter("pushes", "Pushes that were taken.", lambda parts: parts.receiver.pushes)
    counter("malformed", "Pushes that could not be read.", lambda parts: parts.receiver.malformed)
    counter(
        "left_out",
        "Values beyond what is kept of a push, a client or all clients.",
        lambda parts: parts.receiver.left_out,
    )
    counter(
        "throttled",
        "Requests of clients before the time of their next push.",
        lambda parts: parts.manager.throttled,
    )
    counter(
        "unknown_subscriptions",
        "Pushes for a subscription that was changed meanwhile.",
        lambda parts: parts.manager.unknown_subscriptions,
    )
    if pushed is not None:
        registry.include(pushed.receiver.families)


def _add_topics(registry: Registry, stats: BrokerTopicStats) -> None:
    def counter(name: str, doc: str, value: Callable[[TopicStats], int]) -> None:
        def readings() -> Iterator[Reading | None]:
            # As Kafka's: without a topic it is the sum of all, those that were deleted included.
            yield ("",), value(stats.total())
            for topic, each in list(stats.topics.items()):
                yield (topic,), value(each)

        registry.add(f"kafka_server_brokertopicmetrics_{name}_total", COUNTER, doc, readings, ("topic",))

    counter(
        "messagesin",
        "Records that producers have appended; without a topic, of all.",
        lambda each: each.messages_in,
    )
    counter(
        "bytesin",
        "Bytes of these records, as compressed; without a topic, of all.",
        lambda each: each.bytes_in,
    )
    counter(
        "bytesout",
        "Bytes of records that consumers were sent; without a topic, of all.",
        lambda each: each.bytes_out,
    )
    counter(
        "bytesrejected",
        "Bytes of batches that were larger than max.message.bytes; without a topic, of all.",
        lambda each: each.bytes_rejected,
    )
    counter(
        "failedproducerequests",
        "Appends to a partition that were refused for what was in them, or failed; without a topic, of all.",
        lambda each: each.failed_produces,
    )
    counter(
        "failedfetchrequests",
        "Reads of a partition that failed in a way that no error code is for; without a topic, of all.",
        lambda each: each.failed_fetches,
    )
    registry.counter(
        "kafka_server_brokertopicmetrics_replicationbytesout_total",
        "Bytes of records that followers were sent.",
        lambda: stats.replication_bytes_out,
    )


def _add_replicas(registry: Registry, replicas: ReplicaManager) -> None:
    partitions = replicas.partitions

    def count(name: str, doc: str, matches: Callable[[Partition], bool]) -> None:
        registry.gauge(
            f"kafka_server_replicamanager_{name}", doc, lambda: sum(1 for each in partitions if matches(each))
        )

    count("partitioncount", "Partitions that this broker has a replica of.", lambda _: True)
    count("leadercount", "Of them, those that it leads.", lambda each: each.leader_log is not None)
    count(
        "underreplicatedpartitions",
        "Partitions led here that have replicas outside the ISR.",
        lambda each: each.is_under_replicated,
    )
    count(
        "underminisrpartitioncount",
        "Partitions led here with fewer replicas in the ISR than min.insync.replicas: they refuse acks=all.",
        lambda each: each.under_min_isr,
    )
    registry.gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Replicas in log directories that have failed.",
        lambda: partitions.offline_count,
    )
    changes = replicas.isr_changes
    registry.counter(
        "kafka_server_replicamanager_isrshrinks_total", "ISRs that lost a replica.", lambda: changes.shrinks
    )
    registry.counter(
        "kafka_server_replicamanager_isrexpands_total", "ISRs that gained a replica.", lambda: changes.expands
    )
    purgatories = {
        "Produce": replicas.produce_purgatory,
        "Fetch": replicas.fetch_purgatory,
        "DeleteRecords": replicas.delete_records_purgatory,
    }
    registry.add(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        GAUGE,
        "Requests that wait: for replicas, for records, for followers to delete.",
        lambda: [((name,), each.size) for name, each in purgatories.items()],
        ("delayedoperation",),
    )


def _add_fetchers(registry: Registry, fetchers: ReplicaFetcherManager) -> None:
    def gauge(name: str, doc: str, read: Callable[[], int]) -> None:
        registry.add(
            f"kafka_server_replicafetchermanager_{name}",
            GAUGE,
            doc,
            lambda: ((("Replica",), read()),),
            ("clientid",),
        )

    gauge(
        "maxlag",
        "Records by which the partition that is the furthest behind lacks its leader's high watermark.",
        lambda: fetchers.max_lag,
    )
    gauge(
        "failedpartitionscount",
        "Partitions that are not copied until the controller says more of them.",
        lambda: len(fetchers.failed_partitions),
    )
    registry.counter(
        "kafka_server_brokertopicmetrics_replicationbytesin_total",
        "Bytes of records that were copied from leaders.",
        lambda: fetchers.fetched.total,
    )


def _add_cleaner(registry: Registry, cleaner: LogCleaner, logs: LogManager) -> None:
    def uncleanable() -> list[Reading]:
        counts = Counter(posixpath.dirname(log.directory) for log in cleaner.uncleanable)
        return [((path,), counts[path]) for path in logs.online_directories]

    registry.add(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        GAUGE,
        "Partitions that are not compacted until the broker starts again, by log directory.",
        uncleanable,
        ("logdirectory",),
    )
    registry.gauge(
        "kafka_log_logcleanermanager_max_dirty_percent",
        "The greatest share of a log that is not compacted yet, of 100, when a log to compact was last "
        "looked for.",
        lambda: int(100 * cleaner.max_dirty_ratio),
    )
    registry.gauge(
        "kafka_log_logcleanermanager_time_since_last_run_ms",
        "Milliseconds since a log to compact was looked for.",
        lambda: int(cleaner.since_last_look_ms),
    )
    registry.gauge(
        "kafka_log_logcleaner_max_clean_time_secs",
        "Seconds that the last compaction of a log took, the longest of all cleaners.",
        lambda: int(cleaner.max_clean_time_ms / 1000),
    )
    registry.gauge(
        "kafka_log_logcleaner_cleaner_recopy_percent",
        "The share of what was read that was written again, of 100, in the last compactions.",
        lambda: int(100 * cleaner.recopied),
    )


def _add_logs(registry: Registry, logs: LogManager) -> None:
    def of_each(name: str, doc: str, value: Callable[[Log], int]) -> None:
        def readings() -> Iterator[Reading | None]:
            # A list: partitions come and go while others are served.
            for tp, log in list(logs.logs.items()):
                yield _labels(tp), value(log)

        registry.add(f"kafka_log_log_{name}", GAUGE, doc, readings, _OF_PARTITION)

    of_each("size", "Bytes of a partition's log on this broker.", lambda log: log.size)
    of_each("logstartoffset", "Its first offset.", lambda log: log.log_start_offset)
    of_each("logendoffset", "The offset that its next record gets.", lambda log: log.log_end_offset)
    of_each("numlogsegments", "Its segments.", lambda log: len(log.segments))
    registry.gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that have failed.",
        lambda: len(logs.directories) - len(logs.online_directories),
    )


def _labels(tp: TopicPartition) -> tuple[str, str]:
    return tp.topic, str(tp.partition)


def _add_controller(registry: Registry, parts: Parts) -> None:
    controller = parts.controller

    def gauge(name: str, doc: str, read: Callable[[], float]) -> None:
        registry.gauge(f"kafka_controller_kafkacontroller_{name}", doc, read)

    gauge(
        "activecontrollercount",
        "1 where this broker is the controller, else 0.",
        lambda: controller.is_active,
    )
    gauge(
        "activebrokercount",
        "Brokers that are registered; 0 where this broker is not the controller, as in the next ones.",
        lambda: len(context.live_brokers) if (context := controller.context) else 0,
    )
    gauge(
        "globaltopiccount",
        "Topics of the cluster.",
        lambda: len(context.topics) if (context := controller.context) else 0,
    )
    gauge(
        "globalpartitioncount",
        "Partitions of the cluster.",
        lambda: sum(map(len, context.assignments.values())) if (context := controller.context) else 0,
    )
    gauge(
        "offlinepartitionscount",
        "Partitions that have no leader, without those of topics that are being deleted.",
        lambda: context.offline_partition_count if (context := controller.context) else 0,
    )


def _add_groups(registry: Registry, parts: Parts) -> None:
    coordinator = parts.group_coordinator

    def count(name: str, doc: str, matches: Callable[[str], bool]) -> None:
        def readings() -> Iterator[Reading | None]:
            found = 0
            for state in coordinator.group_states():
                found += matches(state)
                yield None
            yield (), found

        registry.add(f"kafka_coordinator_group_groupmetadatamanager_{name}", GAUGE, doc, readings)

    count("numgroups", "Groups that this broker coordinates, of both protocols.", lambda _: True)
    for state in _GROUP_STATES:
        count(f"numgroups{state.lower()}", f"Of them, those in the state {state}.", partial(eq, state))


def _add_transactions(registry: Registry, parts: Parts) -> None:
    coordinator, replicas, clock = parts.transaction_coordinator, parts.replicas, parts.services.clock
    markers, verifier = coordinator.markers, parts.verifier

    def stable_lags() -> Iterator[Reading]:
        # A list: partitions come and go while others are served.
        for partition in list(replicas.partitions):
            log = partition.log
            if log is not None:
                yield _labels(partition.tp), log.high_watermark - log.last_stable_offset

    registry.add(
        "kafka_cluster_partition_laststableoffsetlag",
        GAUGE,
        "Records between the last stable offset, where readers of committed records stop, and the high "
        "watermark.",
        stable_lags,
        _OF_PARTITION,
    )

    def late_transactions() -> int:
        """Partitions led here whose oldest transaction should have been ended by its time-out long ago."""
        latest_ms = clock.time_ms() - coordinator.settings.max_timeout_ms - LATE_TRANSACTION_BUFFER_MS
        logs = (partition.leader_log for partition in replicas.partitions)
        oldest = (log.producers.oldest_transaction_ms for log in logs if log is not None)
        return sum(1 for last_ms in oldest if last_ms is not None and 0 < last_ms < latest_ms)

    registry.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions led here with a transaction that nobody has written to, or ended, for five minutes "
        "longer than transaction.max.timeout.ms.",
        late_transactions,
    )
    registry.gauge(
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
        "Transactions with markers for partitions that have no leader which can be reached.",
        lambda: markers.unknown_destination_queue_size,
    )
    registry.gauge(
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize",
        "Transactions whose markers are all written, and whose last record could not be yet.",
        lambda: markers.log_append_retry_queue_size,
    )
    registry.counter(
        "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total",
        "Partitions that a coordinator did not count to a transaction which was about to begin there.",
        lambda: verifier.failures,
    )
    registry.add(
        "kafka_server_addpartitionstotxnmanager_verificationtimems",
        SUMMARY,
        "Milliseconds from the question whether a transaction has a partition to the coordinator's answer.",
        lambda: (((), verifier.times_ms.distribution()),),
    )

    def open_count() -> Iterator[Reading | None]:
        found = 0
        for since_ms in coordinator.open_since_ms():
            found += since_ms is not None
            yield None
        yield (), found

    def oldest_age() -> Iterator[Reading | None]:
        now_ms = oldest_ms = clock.time_ms()
        for since_ms in coordinator.open_since_ms():
            if since_ms is not None and since_ms < oldest_ms:
                oldest_ms = since_ms
            yield None
        yield (), now_ms - oldest_ms

    registry.add(
        "barnabas_open_transactions",
        GAUGE,
        "Transactions of this coordinator that are open, or whose markers are on their way.",
        open_count,
    )
    registry.add(
        "barnabas_oldest_open_transaction_age_ms",
        GAUGE,
        "Milliseconds since the oldest of them began; 0 where there is none.",
        oldest_age,
    )


def _add_load_times(registry: Registry, parts: Parts) -> None:
    def gauge(coordinator: str, name: str, doc: str, of: Callable[[list[float]], float]) -> None:
        times = parts.loaders[coordinator].times

        def read() -> float:
            recent_ms = times.recent_ms()
            return of(recent_ms) if recent_ms else math.nan

        registry.gauge(
            f"kafka_server_{coordinator}_coordinator_metrics_partition_load_time_{name}", doc, read
        )

    for coordinator in parts.loaders:
        gauge(
            coordinator,
            "max",
            f"Milliseconds that the {coordinator} coordinator's longest load of a partition in the last "
            "minute took; NaN where there was none.",
            max,
        )
        gauge(coordinator, "avg", "The mean of them.", lambda times_ms: sum(times_ms) / len(times_ms))


def _add_loop(registry: Registry, lag: Histogram, connections: Callable[[], Mapping[str, int]]) -> None:
    registry.add(
        "barnabas_connections",
        GAUGE,
        "Connections that are open.",
        lambda: [((listener,), count) for listener, count in connections().items()],
        ("listener",),
    )
    registry.add(
        "barnabas_event_loop_lag_ms",
        SUMMARY,
        "Milliseconds that a timer of the event loop comes too late, of the last 1,028: what a request waits "
        "for others.",
        lambda: (((), lag.distribution()),),
    )
    registry.counter(
        "barnabas_event_loop_busy_seconds_total",
        "Processor time of the event loop's thread; its rate is the share of a core that is used.",
        time.thread_time,
    )
