"""The table of checks with their limits: KnowStreaming's twelve about brokers, topics, groups and ZooKeeper,
and more.

The limits differ from KnowStreaming's where its units were wrong: an idle share is a number between 0 and
1, and what ZooKeeper has sent is a rate, not a counter.
"""

from typing import Final

from barnabas.console.health.groups import data_loss, hanging_transactions, lag_seconds, rebalancing
from barnabas.console.health.machines import (
    certificates,
    config_differences,
    disk_full,
    disk_used,
    offline_log_dirs,
    scraped,
)
from barnabas.console.health.outcome import HealthCheck, Level
from barnabas.console.health.partitions import (
    controller,
    leaders_uneven,
    missing_brokers,
    no_leader,
    under_min_isr,
    under_replicated,
)
from barnabas.console.health.zookeeper import of_zookeeper, one_zookeeper_leader

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
        "disk-full",
        "broker",
        "no disk is full within {limit} h",
        24,
        Level.CRITICAL,
        disk_full,
        "Shorten retention, move replicas away, or add disk.",
    ),
    HealthCheck(
        "request-queue",
        "broker",
        "requests that wait on a broker: at most {limit}",
        10,
        Level.WARNING,
        scraped("request_queue_size", below=False),
    ),
    HealthCheck(
        "network-idle",
        "broker",
        "network threads are idle for at least {limit} of the time",
        0.3,
        Level.WARNING,
        scraped("network_idle", below=True),
    ),
    HealthCheck(
        "handler-idle",
        "broker",
        "request handlers are idle for at least {limit} of the time",
        0.3,
        Level.WARNING,
        scraped("handler_idle", below=True),
    ),
    HealthCheck(
        "produce-latency",
        "broker",
        "99 of 100 Produce requests take at most {limit} ms",
        1_000,
        Level.WARNING,
        scraped("produce_ms", below=False),
    ),
    HealthCheck(
        "fetch-latency",
        "broker",
        "99 of 100 Fetch requests of consumers take at most {limit} ms",
        2_000,
        Level.WARNING,
        scraped("fetch_consumer_ms", below=False),
        "What consumers wait for new records (fetch.max.wait.ms) is in it.",
    ),
    HealthCheck(
        "loop-idle",
        "broker",
        "the event loop is idle for at least {limit} of the time",
        0.1,
        Level.WARNING,
        scraped("loop_idle", below=True),
        "Of brokers of Barnabas: move leaders, or add a broker.",
    ),
    HealthCheck(
        "old-clients",
        "broker",
        "requests a second in versions that Kafka 4.0 refuses: at most {limit}",
        0,
        Level.WARNING,
        scraped("old_requests_per_s", below=False),
        "These clients have to be updated before the brokers are (KIP-896).",
    ),
    HealthCheck(
        "certificates",
        "broker",
        "no certificate of a broker ends within {limit} days",
        14,
        Level.WARNING,
        certificates,
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
        "hanging-transactions",
        "group",
        "no last stable offset stands still for {limit} min",
        20,
        Level.WARNING,
        hanging_transactions,
        "Look at the hanging transactions; what no coordinator knows is aborted there.",
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
        of_zookeeper("outstanding_requests"),
    ),
    HealthCheck(
        "zk-watches",
        "zookeeper",
        "watches: at most {limit}",
        80_000,
        Level.WARNING,
        of_zookeeper("watch_count"),
    ),
    HealthCheck(
        "zk-connections",
        "zookeeper",
        "connections: at most {limit}",
        8_000,
        Level.WARNING,
        of_zookeeper("alive_connections"),
    ),
    HealthCheck(
        "zk-data-size",
        "zookeeper",
        "bytes of data: at most {limit}",
        419_430_400,
        Level.WARNING,
        of_zookeeper("data_size"),
    ),
    HealthCheck(
        "zk-sent-rate",
        "zookeeper",
        "packets sent a second: at most {limit}",
        400_000,
        Level.WARNING,
        of_zookeeper("sent_rate"),
    ),
)
