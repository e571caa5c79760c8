"""Kafka 3.9's keys that this broker knows and does not obey: with the type, default, range and scope that
Kafka gives them.

Each group has the reason, which DescribeConfigs shows as documentation. Where a value would mislead, as a
broker without TLS that was given a keystore, every value but the default is refused with the reason; in the
other groups it is taken, and a line in the log says that it is not obeyed.
"""

from dataclasses import replace
from typing import Any, Final

from barnabas.core.config import (
    LONG_MAX,
    BadItem,
    Check,
    ConfigKey,
    ConfigType,
    Scope,
    at_least,
    between,
    each_of,
)

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = ConfigType


def _not_obeyed(reason: str, *keys: ConfigKey) -> tuple[ConfigKey, ...]:
    return tuple(replace(key, doc=reason, not_obeyed=reason) for key in keys)


def _refused(reason: str, *keys: ConfigKey) -> tuple[ConfigKey, ...]:
    return tuple(replace(key, check=_default_only(key, reason)) for key in _not_obeyed(reason, *keys))


def _default_only(key: ConfigKey, reason: str) -> Check:
    def check(value: Any) -> str | BadItem | None:
        if value == key.default or value in ("", []):
            return None
        problem = key.check(value) if key.check else None
        return problem or reason

    return check


# One row a key: name, type, default, no text of its own, what is allowed.
# fmt: off
KEYS_NOT_OBEYED: Final = (
    *_refused(
        "Whether a certificate of ZooKeeper was revoked is not asked for in this version.",
        ConfigKey("zookeeper.ssl.crl.enable", BOOLEAN, False, ""),
        ConfigKey("zookeeper.ssl.ocsp.enable", BOOLEAN, False, ""),
    ),
    *_refused(
        "OpenSSL encrypts here, and no class or provider of Java.",
        ConfigKey("security.providers", STRING, None, ""),
        ConfigKey("ssl.engine.factory.class", CLASS, None, "", scope=Scope.PER_BROKER),
        ConfigKey("ssl.keymanager.algorithm", STRING, "SunX509", "", scope=Scope.PER_BROKER),
        ConfigKey("ssl.provider", STRING, None, "", scope=Scope.PER_BROKER),
        ConfigKey("ssl.secure.random.implementation", STRING, None, "", scope=Scope.PER_BROKER),
        ConfigKey("ssl.trustmanager.algorithm", STRING, "PKIX", "", scope=Scope.PER_BROKER),
    ),
    *_refused(
        "Of parts of security that this version does not have.",
        ConfigKey("principal.builder.class", CLASS,
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", "",
            scope=Scope.PER_BROKER),
        ConfigKey("sasl.client.callback.handler.class", CLASS, None, ""),
        ConfigKey("sasl.login.class", CLASS, None, ""),
        ConfigKey("sasl.mechanism.controller.protocol", STRING, "GSSAPI", ""),
    ),
    *_not_obeyed(
        "The library of Kerberos gets tickets by itself, and others before they end.",
        ConfigKey("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", "", scope=Scope.PER_BROKER),
        ConfigKey("sasl.kerberos.min.time.before.relogin", LONG, 60000, "", scope=Scope.PER_BROKER),
        ConfigKey("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, "", scope=Scope.PER_BROKER),
        ConfigKey("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, "", scope=Scope.PER_BROKER),
    ),
    *_refused(
        "This broker loads no classes of Java.",
        ConfigKey("alter.config.policy.class.name", CLASS, None, ""),
        ConfigKey("client.quota.callback.class", CLASS, None, ""),
        ConfigKey("create.topic.policy.class.name", CLASS, None, ""),
    ),
    *_refused(
        "This broker keeps its metadata in ZooKeeper or in its own store; it has no KRaft mode.",
        ConfigKey("controller.listener.names", STRING, None, ""),
        ConfigKey("controller.quorum.bootstrap.servers", LIST, [], ""),
        ConfigKey("controller.quorum.voters", LIST, [], ""),
        ConfigKey("early.start.listeners", STRING, None, ""),
        ConfigKey("eligible.leader.replicas.enable", BOOLEAN, False, ""),
        ConfigKey("process.roles", LIST, [], "", each_of("broker", "controller")),
        ConfigKey("zookeeper.metadata.migration.enable", BOOLEAN, False, ""),
    ),
    *_not_obeyed(
        "Of KRaft mode; with ZooKeeper Kafka does not obey it either.",
        ConfigKey("alter.config.policy.kraft.compatibility.enable", BOOLEAN, False, ""),
        ConfigKey("broker.heartbeat.interval.ms", INT, 2000, ""),
        ConfigKey("broker.session.timeout.ms", INT, 9000, ""),
        ConfigKey("controller.quorum.append.linger.ms", INT, 25, ""),
        ConfigKey("controller.quorum.election.backoff.max.ms", INT, 1000, ""),
        ConfigKey("controller.quorum.election.timeout.ms", INT, 1000, ""),
        ConfigKey("controller.quorum.fetch.timeout.ms", INT, 2000, ""),
        ConfigKey("controller.quorum.request.timeout.ms", INT, 2000, ""),
        ConfigKey("controller.quorum.retry.backoff.ms", INT, 20, ""),
        ConfigKey("initial.broker.registration.timeout.ms", INT, 60000, ""),
        ConfigKey("log.dir.failure.timeout.ms", LONG, 30000, "", at_least(1)),
        ConfigKey("metadata.log.dir", STRING, None, ""),
        ConfigKey("metadata.log.max.record.bytes.between.snapshots", LONG, 20_971_520, "", at_least(1)),
        ConfigKey("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, "", at_least(0)),
        ConfigKey("metadata.log.segment.bytes", INT, 1_073_741_824, "", at_least(12)),
        ConfigKey("metadata.log.segment.ms", LONG, 604_800_000, ""),
        ConfigKey("metadata.max.idle.interval.ms", INT, 500, "", at_least(0)),
        ConfigKey("metadata.max.retention.bytes", LONG, 104_857_600, ""),
        ConfigKey("metadata.max.retention.ms", LONG, 604_800_000, ""),
    ),
    *_refused(
        "Tiered storage is not available in this broker.",
        ConfigKey("remote.log.storage.system.enable", BOOLEAN, False, ""),
    ),
    *_not_obeyed(
        "Of tiered storage, which is not available in this broker.",
        ConfigKey("remote.fetch.max.wait.ms", INT, 500, "", at_least(1), scope=Scope.CLUSTER_WIDE),
        ConfigKey("remote.log.index.file.cache.total.size.bytes", LONG, 1_073_741_824, "", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("remote.log.manager.copier.thread.pool.size", INT, -1, ""),
        ConfigKey("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, "", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("remote.log.manager.copy.quota.window.num", INT, 11, "", at_least(1)),
        ConfigKey("remote.log.manager.copy.quota.window.size.seconds", INT, 1, "", at_least(1)),
        ConfigKey("remote.log.manager.expiration.thread.pool.size", INT, -1, ""),
        ConfigKey("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, "", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("remote.log.manager.fetch.quota.window.num", INT, 11, "", at_least(1)),
        ConfigKey("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, "", at_least(1)),
        ConfigKey("remote.log.manager.task.interval.ms", LONG, 30000, "", at_least(1)),
        ConfigKey("remote.log.manager.thread.pool.size", INT, 10, "", at_least(1)),
        ConfigKey("remote.log.metadata.custom.metadata.max.bytes", INT, 128, "", at_least(0)),
        ConfigKey("remote.log.metadata.manager.class.name", STRING,
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", ""),
        ConfigKey("remote.log.metadata.manager.class.path", STRING, None, ""),
        ConfigKey("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", ""),
        ConfigKey("remote.log.metadata.manager.listener.name", STRING, None, ""),
        ConfigKey("remote.log.reader.max.pending.tasks", INT, 100, "", at_least(1)),
        ConfigKey("remote.log.reader.threads", INT, 10, "", at_least(1)),
        ConfigKey("remote.log.storage.manager.class.name", STRING, None, ""),
        ConfigKey("remote.log.storage.manager.class.path", STRING, None, ""),
        ConfigKey("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", ""),
    ),
    *_refused(
        "The requests in memory are bounded for each connection, by "
     "queued.max.requests and socket.request.max.bytes.",
        ConfigKey("queued.max.request.bytes", LONG, -1, ""),
    ),
    *_not_obeyed(
        "Of metrics of Java, which this broker does not have.",
        ConfigKey("auto.include.jmx.reporter", BOOLEAN, True, ""),
        ConfigKey("kafka.metrics.polling.interval.secs", INT, 10, "", at_least(1)),
        ConfigKey("kafka.metrics.reporters", LIST, [], ""),
        ConfigKey("metric.reporters", LIST, [], "", scope=Scope.CLUSTER_WIDE),
        ConfigKey("metrics.num.samples", INT, 2, "", at_least(1)),
        ConfigKey("metrics.recording.level", STRING, "INFO", ""),
        ConfigKey("metrics.sample.window.ms", LONG, 30000, "", at_least(1)),
    ),
    *_not_obeyed(
        "Of share groups, which Kafka 3.9 does not serve with ZooKeeper either.",
        ConfigKey("group.share.delivery.count.limit", INT, 5, "", between(2, 10)),
        ConfigKey("group.share.heartbeat.interval.ms", INT, 5000, "", at_least(1)),
        ConfigKey("group.share.max.groups", SHORT, 10, "", between(1, 100)),
        ConfigKey("group.share.max.heartbeat.interval.ms", INT, 15000, "", at_least(1)),
        ConfigKey("group.share.max.record.lock.duration.ms", INT, 60000, "", between(30000, 3600000)),
        ConfigKey("group.share.max.session.timeout.ms", INT, 60000, "", at_least(1)),
        ConfigKey("group.share.max.size", SHORT, 200, "", between(10, 1000)),
        ConfigKey("group.share.min.heartbeat.interval.ms", INT, 5000, "", at_least(1)),
        ConfigKey("group.share.min.record.lock.duration.ms", INT, 15000, "", between(1000, 30000)),
        ConfigKey("group.share.min.session.timeout.ms", INT, 45000, "", at_least(1)),
        ConfigKey("group.share.partition.max.record.locks", INT, 200, "", between(100, 10000)),
        ConfigKey("group.share.record.lock.duration.ms", INT, 30000, "", between(1000, 60000)),
        ConfigKey("group.share.session.timeout.ms", INT, 45000, "", at_least(1)),
    ),
    *_not_obeyed(
        "Of the inside of Kafka's broker: here purgatories keep nothing that is done, and "
     "appends of one turn go to the disk together.",
        ConfigKey("delete.records.purgatory.purge.interval.requests", INT, 1, ""),
        ConfigKey("fetch.purgatory.purge.interval.requests", INT, 1000, ""),
        ConfigKey("group.coordinator.append.linger.ms", INT, 10, "", at_least(0)),
        ConfigKey("group.coordinator.threads", INT, 1, "", at_least(1)),
        ConfigKey("producer.purgatory.purge.interval.requests", INT, 1000, ""),
        ConfigKey("zookeeper.max.in.flight.requests", INT, 10, "", at_least(1)),
    ),
)
# fmt: on
