"""The configuration of a broker: Kafka's keys that this broker obeys, with Kafka 3.9's defaults.

A key that is not here is not obeyed, and `barnabas serve` says so in a warning. Keys with the prefix
``barnabas.`` are our own, and so are those that begin with ``metrics.`` and are below.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from barnabas.core.api_profile import AUTO, KAFKA_3_9, KAFKA_4_4, api_profile, defaults_of
from barnabas.core.config import (
    Config,
    ConfigKey,
    ConfigTable,
    ConfigType,
    Scope,
    Source,
    at_least,
    base_name,
    between,
    each_of,
    gzip_level,
    octal,
    one_of,
)
from barnabas.core.coordinator_config import GROUP_KEYS, TRANSACTION_KEYS, check_group_keys
from barnabas.core.descriptors import RESERVE
from barnabas.core.errors import ConfigError
from barnabas.core.keys_not_obeyed import KEYS_NOT_OBEYED
from barnabas.core.oauthbearer_config import LOGIN_KEYS, VALIDATOR_KEYS
from barnabas.core.version_names import version_name

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
PASSWORD: Final = ConfigType.PASSWORD

# One row a key, however long: name, type, default, what it does, what is allowed.
# fmt: off
BROKER_CONFIG: Final = ConfigTable(
    [
        # Identity
        ConfigKey("broker.id", INT, -1,
            "The number of this broker; -1 takes the one in meta.properties, else the next free one."),
        ConfigKey("node.id", INT, -1, "Another name of broker.id, with the same value."),
        ConfigKey("broker.id.generation.enable", BOOLEAN, True,
            "Whether a broker without an id is given one."),
        ConfigKey("reserved.broker.max.id", INT, 1000, "Generated broker ids begin above this.", at_least(0)),
        ConfigKey("broker.rack", STRING, None,
            "The rack, so that replicas of a partition are spread over racks."),
        ConfigKey("inter.broker.protocol.version", STRING, "3.9-IV0",
            "The protocol between brokers; this broker speaks that of Kafka 3.9.", one_of("3.9-IV0", "3.9")),
        # Delegation tokens
        ConfigKey("delegation.token.secret.key", PASSWORD, None,
            "What the secrets of delegation tokens are made of, the same on all brokers; without it there are"
            " no tokens."),
        ConfigKey("delegation.token.master.key", PASSWORD, None,
            "The old name of delegation.token.secret.key, which wins."),
        ConfigKey("delegation.token.max.lifetime.ms", LONG, 604_800_000,
            "After what time a token ends, however often it is renewed.", at_least(1)),
        ConfigKey("delegation.token.expiry.time.ms", LONG, 86_400_000,
            "How long a token is good until it is renewed.", at_least(1)),
        ConfigKey("delegation.token.expiry.check.interval.ms", LONG, 3_600_000,
            "How often the controller removes tokens that have expired.", at_least(1)),
        # Access rules
        ConfigKey("authorizer.class.name", STRING, "",
            "kafka.security.authorizer.AclAuthorizer: access rules say who may do what. Empty: everyone may"
            " do everything.", one_of("", "kafka.security.authorizer.AclAuthorizer")),
        ConfigKey("super.users", STRING, "",
            "With an authorizer: principals who may do everything, as User:alice;User:bob.",
            internal=True),
        ConfigKey("allow.everyone.if.no.acl.found", BOOLEAN, False,
            "With an authorizer: whether everyone may use a resource that no rule is for.",
            internal=True),
        # Listeners
        ConfigKey("listeners", STRING, "PLAINTEXT://:9092",
            "Where the broker listens: NAME://host:port, separated by commas.", scope=Scope.PER_BROKER),
        ConfigKey("advertised.listeners", STRING, None,
            "What the broker tells clients to connect to; the listeners themselves where not set.",
            scope=Scope.PER_BROKER),
        ConfigKey("listener.security.protocol.map", STRING,
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "The security protocol of each listener name.", scope=Scope.PER_BROKER),
        ConfigKey("inter.broker.listener.name", STRING, None,
            "The listener that brokers use among themselves."),
        ConfigKey("security.inter.broker.protocol", STRING, "PLAINTEXT",
            "The same by security protocol; give one of the two.",
            one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        ConfigKey("control.plane.listener.name", STRING, None,
            "The listener for the controller's requests, where it has one of its own."),
        # Sockets and requests
        ConfigKey("socket.request.max.bytes", INT, 104857600,
            "The largest request in bytes; a larger one closes its connection.", at_least(1)),
        ConfigKey("max.request.partition.size.limit", INT, 2000,
            "How many partitions an answer to DescribeTopicPartitions has at most.", at_least(1)),
        ConfigKey("barnabas.request.elements.max", INT, 250_000,
            "How many elements all arrays of one request may have together (eight numbers count as one); "
            "more close its connection.", at_least(65_536)),
        ConfigKey("socket.send.buffer.bytes", INT, 102400,
            "SO_SNDBUF of client connections; -1 leaves it to the system."),
        ConfigKey("socket.receive.buffer.bytes", INT, 102400,
            "SO_RCVBUF of client connections; -1 leaves it to the system."),
        ConfigKey("socket.listen.backlog.size", INT, 50, "How many connections may wait to be accepted.",
            at_least(1)),
        ConfigKey("connections.max.idle.ms", LONG, 600000,
            "A connection without a request for this long is closed."),
        ConfigKey("max.connections", INT, 2147483647, "The most connections of this broker.", at_least(0),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("max.connection.creation.rate", INT, 2147483647,
            "The most connections that are accepted in a second.", at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("quota.window.num", INT, 11,
            "How many samples the rates of clients and of new connections are measured over.", at_least(1)),
        ConfigKey("quota.window.size.seconds", INT, 1,
            "How long each of these samples lasts, in seconds; also the longest that a client waits for its "
            "quota of time, and that a listener accepts nothing for its rate.", at_least(1)),
        ConfigKey("controller.quota.window.num", INT, 11,
            "As many times the next key a client may save up what it did not use of its quota of "
            "partitions that are made and removed.", at_least(1)),
        ConfigKey("controller.quota.window.size.seconds", INT, 1,
            "How long each sample of this quota lasts, in seconds.", at_least(1)),
        ConfigKey("max.connections.per.ip", INT, 2147483647, "The most connections from one address.",
            at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("max.connections.per.ip.overrides", STRING, "",
            "The same for single addresses: host:count, separated by commas.", scope=Scope.CLUSTER_WIDE),
        ConfigKey("queued.max.requests", INT, 500,
            "How many requests of one connection may wait for their answer before it is read no further.",
            at_least(1)),
        ConfigKey("request.timeout.ms", INT, 30000,
            "How long the controller waits for a broker's answer, and how long a request for producer ids "
            "may take.", at_least(1)),
        ConfigKey("socket.connection.setup.timeout.ms", LONG, 10000,
            "How long a connection to another broker may take to be made."),
        ConfigKey("socket.connection.setup.timeout.max.ms", LONG, 30000,
            "The most to which this grows while attempts fail."),
        ConfigKey("num.network.threads", INT, 3,
            "Accepted for compatibility: one event loop serves all connections of a process.", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("num.io.threads", INT, 8,
            "Accepted for compatibility: requests are handled on the event loop.", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("background.threads", INT, 10,
            "Accepted for compatibility: background work runs in child processes and slices.", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("barnabas.bootstrap.port", INT, -1,
            "A port that brokers of this machine share: a client begins there with any of them, as at its "
            "first listener for clients, and goes on at the addresses that this one advertises; -1 is none.",
            between(-1, 65_535)),
        ConfigKey("barnabas.busy.poll.us", INT, 50,
            "How long, in microseconds, asyncio's event loop (uvloop does not) stays awake after a small "
            "request while others follow it closely; 0 lets it sleep at once.", between(0, 10_000)),
        ConfigKey("barnabas.reserved.descriptors", INT, RESERVE,
            "File descriptors that connections leave to logs and the store, a quarter of the process's limit "
            "at most: while fewer are free, new connections are refused.", at_least(0)),
        # Metrics
        ConfigKey("metrics.port", INT, -1,
            "The port on which metrics are served over HTTP, in the Prometheus text format; 0 takes a free "
            "one, -1 serves none.", between(-1, 65_535)),
        ConfigKey("metrics.user", STRING, "metrics", "Who may scrape, with metrics.password."),
        ConfigKey("metrics.password", PASSWORD, None,
            "Without it whoever reaches the port may scrape; with it HTTP asks for it (Basic)."),
        ConfigKey("metrics.tls", BOOLEAN, False,
            "Whether metrics are served over TLS, with ssl.keystore.* or listener.name.metrics.ssl.*."),
        ConfigKey("metrics.host", STRING, None,
            "The address of that port. Where not set that of the first listener; the loopback where a "
            "listener asks who comes and metrics.password is not set."),
        ConfigKey("barnabas.group.lag.metrics.enable", BOOLEAN, True,
            "Whether metrics.port shows the lag of the groups that this broker coordinates, in records and "
            "in seconds."),
        ConfigKey("barnabas.client.telemetry.enable", BOOLEAN, True,
            "Whether clients may push metrics (KIP-714), which metrics.port then shows; in profile 4.4, "
            "where that port is on and the extra 'telemetry' is installed."),
        ConfigKey("barnabas.client.telemetry.series.max", INT, 20_000,
            "How many series of clients are kept; what is beyond is left out and counted.", at_least(0)),
        ConfigKey("telemetry.max.bytes", INT, 1_048_576, "The largest push of a client, in bytes as sent.",
            at_least(1)),
        # Metadata store
        ConfigKey("zookeeper.connect", STRING, None,
            "The ZooKeeper servers, as host:port,host:port/path; not set means the embedded store."),
        ConfigKey("zookeeper.session.timeout.ms", INT, 18000,
            "How long the store waits for a silent broker before it counts as gone.", at_least(1)),
        ConfigKey("zookeeper.connection.timeout.ms", INT, None,
            "How long to wait for ZooKeeper at start; the session timeout where not set."),
        ConfigKey("zookeeper.set.acl", BOOLEAN, False,
            "Whether only clients that log in to ZooKeeper as this broker does may change its znodes, and "
            "see those with credentials."),
        ConfigKey("zookeeper.ssl.client.enable", BOOLEAN, False, "Whether connections to ZooKeeper are TLS."),
        ConfigKey("zookeeper.clientCnxnSocket", STRING, None,
            "With TLS org.apache.zookeeper.ClientCnxnSocketNetty, as Kafka's brokers have it.",
            one_of("org.apache.zookeeper.ClientCnxnSocketNetty", "org.apache.zookeeper.ClientCnxnSocketNIO")),
        ConfigKey("zookeeper.ssl.cipher.suites", LIST, None, "As ssl.cipher.suites."),
        ConfigKey("zookeeper.ssl.enabled.protocols", LIST, None,
            "The versions of TLS; zookeeper.ssl.protocol where not set."),
        ConfigKey("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS",
            "HTTPS compares a server's name with its certificate; empty does not."),
        ConfigKey("zookeeper.ssl.keystore.location", STRING, None,
            "A private key with its certificate, for servers that ask for one: PEM, PKCS12 or JKS."),
        ConfigKey("zookeeper.ssl.keystore.password", PASSWORD, None,
            "The password of that file, and of the key in it."),
        ConfigKey("zookeeper.ssl.keystore.type", STRING, None, "PEM, PKCS12 or JKS; it is seen."),
        ConfigKey("zookeeper.ssl.protocol", STRING, "TLSv1.2", "The version of TLS.",
            one_of("TLSv1.2", "TLSv1.3")),
        ConfigKey("zookeeper.ssl.truststore.location", STRING, None,
            "Certificates that are trusted, those of the system where not set."),
        ConfigKey("zookeeper.ssl.truststore.password", PASSWORD, None, "The password of that file."),
        ConfigKey("zookeeper.ssl.truststore.type", STRING, None, "PEM, PKCS12 or JKS; it is seen."),
        ConfigKey("barnabas.api.profile", STRING, AUTO,
            "The Kafka that clients find here: 3.9, 4.4, or auto, which is 4.4 on the embedded store, and "
            "with ZooKeeper while no broker of Kafka 3.9 is registered.",
            one_of(KAFKA_3_9, KAFKA_4_4, AUTO)),
        ConfigKey("barnabas.metadata.path", STRING, None,
            "The file of the embedded store, which brokers on one machine may share; metadata.sqlite in the "
            "first log directory where not set."),
        ConfigKey("barnabas.metadata.synchronous", STRING, "FULL",
            "SQLite's synchronous level of the embedded store.", one_of("FULL", "NORMAL")),
        ConfigKey("barnabas.data.umask", STRING, "077",
            "The permissions that files and directories of the data and of the store do not get, in octal, "
            "beside those that the process's own umask takes away.", octal(0o777)),
        # Topics
        ConfigKey("auto.create.topics.enable", BOOLEAN, True,
            "Whether asking for an unknown topic creates it."),
        ConfigKey("barnabas.create.topics.max.partitions", INT, 10000,
            "The most partitions that one request may create.", at_least(1)),
        ConfigKey("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted."),
        ConfigKey("num.partitions", INT, 1, "Partitions of a topic that does not say how many.", at_least(1)),
        ConfigKey("default.replication.factor", INT, 1, "Replicas of a topic that does not say how many."),
        ConfigKey("unclean.leader.election.enable", BOOLEAN, False,
            "Whether a replica outside the ISR may lead, at the price of lost records.",
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("min.insync.replicas", INT, 1,
            "How many replicas must have a record before acks=all is answered.", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("message.max.bytes", INT, 1048588, "The largest record batch, in bytes as stored.",
            at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("compression.type", STRING, "producer",
            "The codec on disk; 'producer' keeps whatever the producer chose.",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), scope=Scope.CLUSTER_WIDE),
        ConfigKey("compression.gzip.level", INT, -1, "The gzip level where the broker compresses.",
            gzip_level, scope=Scope.CLUSTER_WIDE),
        ConfigKey("compression.lz4.level", INT, 9, "The lz4 level where the broker compresses.",
            between(1, 17), scope=Scope.CLUSTER_WIDE),
        ConfigKey("compression.zstd.level", INT, 3, "The zstd level where the broker compresses.",
            between(-131072, 22), scope=Scope.CLUSTER_WIDE),
        # Log
        ConfigKey("log.dir", STRING, "/tmp/kafka-logs", "The log directory where log.dirs is not set."),  # noqa: S108
        ConfigKey("log.dirs", STRING, None, "The log directories, separated by commas."),
        ConfigKey("cordoned.log.dirs", LIST, [],
            "Those of log.dirs that get no new replicas, * for all (KIP-1066).",
            scope=Scope.PER_BROKER, internal=True),
        ConfigKey("log.segment.bytes", INT, 1073741824, "The size at which a segment is closed.",
            at_least(14), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.roll.ms", LONG, None,
            "The age at which a segment is closed; log.roll.hours where not set.", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.roll.hours", INT, 168, "The same in hours.", at_least(1)),
        ConfigKey("log.roll.jitter.ms", LONG, None,
            "A random part taken off that age; log.roll.jitter.hours where not set.", at_least(0),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.roll.jitter.hours", INT, 0, "The same in hours.", at_least(0)),
        ConfigKey("log.retention.ms", LONG, None,
            "The age at which a segment is deleted; log.retention.minutes where not set.",
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.retention.minutes", INT, None,
            "The same in minutes; log.retention.hours where not set."),
        ConfigKey("log.retention.hours", INT, 168, "The same in hours."),
        ConfigKey("log.retention.bytes", LONG, -1,
            "The size of a partition above which old segments are deleted.", scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.retention.check.interval.ms", LONG, 300000,
            "How often segments are looked at for deletion.", at_least(1)),
        ConfigKey("log.cleanup.policy", LIST, ["delete"],
            "What happens to old segments: delete, compact, or both.", each_of("compact", "delete"),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.index.size.max.bytes", INT, 10485760, "The size that an offset index is given.",
            at_least(4), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.index.interval.bytes", INT, 4096, "Bytes between two entries of the offset index.",
            at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.flush.interval.messages", LONG, 9223372036854775807,
            "Force the log to disk after this many records; 1 before every acknowledgement (group commit).",
            at_least(1), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.flush.interval.ms", LONG, None,
            "Force the log to disk when records have waited this long.", scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.flush.scheduler.interval.ms", LONG, 9223372036854775807,
            "How often logs are looked at for flushing by time."),
        ConfigKey("log.flush.offset.checkpoint.interval.ms", INT, 60000,
            "How often recovery points are written.", at_least(0)),
        ConfigKey("log.flush.start.offset.checkpoint.interval.ms", INT, 60000,
            "How often log start offsets are written.", at_least(0)),
        ConfigKey("log.initial.task.delay.ms", LONG, 30000,
            "How long after the start the log's periodic work begins.", at_least(0), internal=True),
        ConfigKey("log.segment.delete.delay.ms", LONG, 60000, "How long the files of a deleted segment stay.",
            at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.preallocate", BOOLEAN, False,
            "Whether a new segment's file is given its full size at once.", scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.message.timestamp.type", STRING, "CreateTime",
            "Whether a record keeps its producer's time or gets the broker's.",
            one_of("CreateTime", "LogAppendTime"), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.message.timestamp.before.max.ms", LONG, 9223372036854775807,
            "How far a record's time may lie before the broker's.", at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.message.timestamp.after.max.ms", LONG, 9223372036854775807,
            "How far a record's time may lie after the broker's.", at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.message.timestamp.difference.max.ms", LONG, 9223372036854775807,
            "The older form of those two limits.", at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.message.format.version", STRING, "3.0-IV1", "Ignored since 3.0, as in Kafka.",
            version_name),
        ConfigKey("log.message.downconversion.enable", BOOLEAN, True,
            "Whether old message formats are served; this broker stores magic 2 only.",
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.local.retention.bytes", LONG, -2, "Tiered storage: bytes kept on local disk.",
            at_least(-2), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.local.retention.ms", LONG, -2, "Tiered storage: time kept on local disk.",
            at_least(-2), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.enable", BOOLEAN, True,
            "Whether logs are compacted at all; without it, compacted topics and __consumer_offsets grow."),
        ConfigKey("log.cleaner.threads", INT, 1,
            "How many logs are compacted at a time, each by a child process.", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.dedupe.buffer.size", LONG, 134217728,
            "Memory for the offset maps of all cleaners together: 24 bytes a key.", scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, "How full an offset map may get.",
            between(0.01, 1), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.io.buffer.size", INT, 524288,
            "Memory for what all cleaners together read and write at once.", at_least(0),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308,
            "How many bytes all cleaners together read and write in a second.", scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.backoff.ms", LONG, 15000,
            "How long a cleaner waits when no log is dirty enough.", at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.delete.retention.ms", LONG, 86400000, "How long tombstones stay readable.",
            at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.min.compaction.lag.ms", LONG, 0,
            "How long a record stays uncompacted at least.", at_least(0), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.max.compaction.lag.ms", LONG, 9223372036854775807,
            "The longest that a record may escape compaction.", at_least(1), scope=Scope.CLUSTER_WIDE),
        ConfigKey("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5,
            "The share of a log that must be dirty before it is compacted.", between(0, 1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("num.recovery.threads.per.data.dir", INT, 1,
            "How many recovery processes a log directory may use after an unclean stop.", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("barnabas.log.names", STRING, "barnabas",
            "Whether lines of the broker's own log are our events, or are in Kafka's words with the names of "
            "its loggers.", one_of("barnabas", "kafka")),
        ConfigKey("barnabas.log.files.check.interval.ms", LONG, 1000,
            "How often a log that was appended to is looked at, whether its files are still there.",
            at_least(1)),
        ConfigKey("barnabas.log.stray.delete.delay.ms", LONG, 604_800_000,
            "How long the directory of a replica that a reassignment took away while this broker was down is "
            "kept, under the suffix -stray; -1 keeps it.", at_least(-1)),
        ConfigKey("barnabas.validate.records", BOOLEAN, False,
            "Walk the records inside produced batches, as Kafka does, at 0.3 us a record."),
        # Replicas
        ConfigKey("fetch.max.bytes", INT, 57671680, "The largest answer to a fetch, in bytes.",
            at_least(1024)),
        ConfigKey("max.incremental.fetch.session.cache.slots", INT, 1000, "How many fetch sessions are kept.",
            at_least(0)),
        ConfigKey("num.replica.fetchers", INT, 1,
            "How many fetchers, each with a connection of its own, copy from one broker.", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("replica.fetch.max.bytes", INT, 1048576,
            "How much of one partition a follower asks for, in bytes; a larger batch comes all the same.",
            at_least(0)),
        ConfigKey("replica.fetch.wait.max.ms", INT, 500,
            "How long a leader may wait for something to answer a follower with; at most "
            "replica.lag.time.max.ms."),
        ConfigKey("replica.fetch.min.bytes", INT, 1,
            "How much there should be before it answers at once, in bytes."),
        ConfigKey("replica.fetch.response.max.bytes", INT, 10485760,
            "How much a follower asks for at once, in bytes; a larger batch comes all the same.",
            at_least(0)),
        ConfigKey("replica.fetch.backoff.ms", INT, 1000,
            "How long a follower waits after an error of its leader or of one partition.", at_least(0)),
        ConfigKey("replica.socket.timeout.ms", INT, 30000,
            "How long a follower tries to connect to its leader; at least replica.fetch.wait.max.ms."),
        ConfigKey("replica.socket.receive.buffer.bytes", INT, 65536,
            "SO_RCVBUF of a follower's connections to leaders; -1 leaves it to the system."),
        ConfigKey("replica.selector.class", STRING, None,
            "Which replica a consumer that says its rack (client.rack) is sent to: one in its rack, or "
            "always the leader.",
            one_of("org.apache.kafka.common.replica.RackAwareReplicaSelector",
                   "org.apache.kafka.common.replica.LeaderSelector")),
        ConfigKey("alter.log.dirs.replication.quota.window.num", INT, 11,
            "How many samples the rate of moves between log directories is measured over.", at_least(1)),
        ConfigKey("alter.log.dirs.replication.quota.window.size.seconds", INT, 1,
            "How long each of these samples lasts, in seconds.", at_least(1)),
        ConfigKey("num.replica.alter.log.dirs.threads", INT, None,
            "How many partitions are copied between log directories at a time; by default as many as there "
            "are directories."),
        ConfigKey("replication.quota.window.num", INT, 11,
            "How many samples the rate of throttled replicas is measured over.", at_least(1)),
        ConfigKey("replication.quota.window.size.seconds", INT, 1,
            "How long each of these samples lasts, in seconds.", at_least(1)),
        ConfigKey("replica.lag.time.max.ms", LONG, 30000,
            "A follower that has not caught up for this long leaves the ISR."),
        ConfigKey("replica.high.watermark.checkpoint.interval.ms", LONG, 5000,
            "How often high watermarks are written."),
        ConfigKey("producer.id.expiration.ms", INT, 86400000,
            "How long an idle producer's sequence numbers are remembered.", at_least(1),
            scope=Scope.CLUSTER_WIDE),
        ConfigKey("producer.id.expiration.check.interval.ms", INT, 600000, "How often that is looked at.",
            at_least(1), internal=True),
        # Who connects
        *LOGIN_KEYS,
        *VALIDATOR_KEYS,
        ConfigKey("sasl.enabled.mechanisms", LIST, ["GSSAPI"],
            "How clients may log in on SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.",
            scope=Scope.PER_BROKER),
        ConfigKey("sasl.jaas.config", PASSWORD, None,
            "Users, and who this broker is for others; obeyed with a listener and a mechanism in front:"
            " listener.name.<name>.<mechanism>.sasl.jaas.config.",
            scope=Scope.PER_BROKER),
        ConfigKey("sasl.kerberos.principal.to.local.rules", LIST, ["DEFAULT"],
            "How a principal of Kerberos becomes the name of a user.", scope=Scope.PER_BROKER),
        ConfigKey("sasl.kerberos.service.name", STRING, None,
            "The service that brokers are to Kerberos, mostly kafka; or serviceName of the JAAS line.",
            scope=Scope.PER_BROKER),
        ConfigKey("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI",
            "How this broker logs in at others, where their listener for brokers asks for SASL.",
            scope=Scope.PER_BROKER),
        ConfigKey("sasl.server.max.receive.size", INT, 524288,
            "The largest request, in bytes, of a client that has not logged in yet."),
        ConfigKey("connection.failed.authentication.delay.ms", INT, 100,
            "How long a client that is refused waits for the answer.", at_least(0)),
        ConfigKey("connections.max.reauth.ms", LONG, 0,
            "After what time a client has to log in again (KIP-368); 0 means never."),
        ConfigKey("password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding",
            "How passwords that are set while brokers run are encrypted; there is no other way here.",
            one_of("AES/CBC/PKCS5Padding")),
        ConfigKey("password.encoder.iterations", INT, 4096,
            "How much work it is to make the key for that of the secret.", at_least(1024)),
        ConfigKey("password.encoder.key.length", INT, 128, "The length of that key in bits.", at_least(8)),
        ConfigKey("password.encoder.keyfactory.algorithm", STRING, None,
            "How that key is made: PBKDF2WithHmacSHA512, unless another is named."),
        ConfigKey("password.encoder.old.secret", PASSWORD, None,
            "The secret of before, which opens what was encrypted with it."),
        ConfigKey("password.encoder.secret", PASSWORD, None,
            "What passwords that are set while brokers run are encrypted with, in the metadata store;"
            " without it none can be set."),
        ConfigKey("ssl.allow.dn.changes", BOOLEAN, False,
            "Whether a listener's new certificate may have another subject while the broker runs."),
        ConfigKey("ssl.allow.san.changes", BOOLEAN, False,
            "Whether a listener's new certificate may lack names of hosts that the one before had."),
        ConfigKey("ssl.cipher.suites", LIST, [],
            "The suites of TLS by Java's names, all where it is empty; of TLS 1.3 all three or none.",
            scope=Scope.PER_BROKER),
        ConfigKey("ssl.client.auth", STRING, "none",
            "Whether a client on an SSL listener shows a certificate; on SASL_SSL only where it is set for"
            " the listener.",
            one_of("required", "requested", "none"),
            scope=Scope.PER_BROKER),
        ConfigKey("ssl.enabled.protocols", LIST, ["TLSv1.2", "TLSv1.3"],
            "The versions of TLS, the newest that both sides have is used.", scope=Scope.PER_BROKER),
        ConfigKey("ssl.endpoint.identification.algorithm", STRING, "https",
            "https has this broker compare the names of others with their certificates; empty not.",
            scope=Scope.PER_BROKER),
        ConfigKey("ssl.key.password", PASSWORD, None,
            "The password of the private key, where it has one.", scope=Scope.PER_BROKER),
        ConfigKey("ssl.keystore.certificate.chain", PASSWORD, None,
            "The broker's certificate and those that signed it, in PEM.", scope=Scope.PER_BROKER),
        ConfigKey("ssl.keystore.key", PASSWORD, None,
            "The broker's private key, in PEM.", scope=Scope.PER_BROKER),
        ConfigKey("ssl.keystore.location", STRING, None,
            "A file with both: PEM, PKCS12 or JKS.", scope=Scope.PER_BROKER),
        ConfigKey("ssl.keystore.password", PASSWORD, None,
            "The password of that file.", scope=Scope.PER_BROKER),
        ConfigKey("ssl.keystore.type", STRING, "JKS",
            "PEM, PKCS12 or JKS; the last two are told apart by what is in the file.",
            scope=Scope.PER_BROKER),
        ConfigKey("ssl.principal.mapping.rules", STRING, "DEFAULT",
            "How the name in a client's certificate becomes a principal."),
        ConfigKey("ssl.protocol", STRING, "TLSv1.3",
            "Changes nothing, as in Kafka: ssl.enabled.protocols has the versions.",
            one_of("TLS", "TLSv1.2", "TLSv1.3"), scope=Scope.PER_BROKER),
        ConfigKey("ssl.truststore.certificates", PASSWORD, None,
            "Certificates that are trusted, in PEM.", scope=Scope.PER_BROKER),
        ConfigKey("ssl.truststore.location", STRING, None,
            "A file of them: PEM, PKCS12 or JKS.", scope=Scope.PER_BROKER),
        ConfigKey("ssl.truststore.password", PASSWORD, None,
            "The password of that file.", scope=Scope.PER_BROKER),
        ConfigKey("ssl.truststore.type", STRING, "JKS",
            "As ssl.keystore.type.", scope=Scope.PER_BROKER),
        # Controller
        ConfigKey("auto.leader.rebalance.enable", BOOLEAN, True,
            "Whether leadership is moved back to preferred replicas by itself."),
        ConfigKey("leader.imbalance.check.interval.seconds", LONG, 300,
            "How often the controller looks at the balance.", at_least(1)),
        ConfigKey("leader.imbalance.per.broker.percentage", INT, 10,
            "The share of a broker's partitions that may be led elsewhere."),
        ConfigKey("controller.socket.timeout.ms", INT, 30000,
            "How long a broker waits for the controller's answer."),
        ConfigKey("controlled.shutdown.enable", BOOLEAN, True,
            "Whether a stopping broker first hands over its leaderships."),
        ConfigKey("controlled.shutdown.max.retries", INT, 3, "How often it tries."),
        ConfigKey("controlled.shutdown.retry.backoff.ms", LONG, 5000, "The pause between two tries."),
        # Coordinators
        *GROUP_KEYS,
        *TRANSACTION_KEYS,
        # What is known only
        *KEYS_NOT_OBEYED,
    ]
)
# fmt: on

SHIPPED_VALUES: Final[Mapping[str, str]] = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""What the ``server.properties`` that Kafka ships sets for one broker; used where no file is given."""
WITHOUT_FILE: Final[Mapping[str, str]] = {
    "broker.id": "0",
    "log.dirs": "barnabas-data",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    **SHIPPED_VALUES,
}
"""What a broker starts from that no file describes: that of ``barnabas serve``, and one inside a program."""


def broker_config(given: Mapping[str, Any]) -> Config:
    """The broker's configuration from texts by key. Raises ConfigError with one line for a bad value."""
    config = BROKER_CONFIG.parse(_with_both_ids(given))
    config = config.with_defaults(defaults_of(api_profile(config)))
    check_broker_keys(config)
    return config


def with_profile(config: Config, profile: str) -> Config:
    """This configuration for a broker that is that Kafka to its clients, with the defaults of it."""
    chosen = config.with_values({"barnabas.api.profile": profile}, Source.STATIC_BROKER)
    plain = {name: BROKER_CONFIG[name].default for name in defaults_of(KAFKA_4_4)}
    return chosen.with_defaults({**plain, **defaults_of(profile)})


ALL_DIRECTORIES: Final = "*"


def cordoned_log_directories(config: Config) -> frozenset[str]:
    """Those of `log_directories` that get no new replicas (KIP-1066). Raises ConfigError."""
    named, known = config["cordoned.log.dirs"], log_directories(config)
    if named == [ALL_DIRECTORIES]:
        return frozenset(known)
    if ALL_DIRECTORIES in named:
        raise ConfigError(
            "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values"
        )
    if len(set(named)) < len(named):
        raise ConfigError("Configuration 'cordoned.log.dirs' values must not be duplicated.")
    if missing := [each for each in named if each not in known]:
        raise ConfigError(
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {','.join(missing)}"
        )
    return frozenset(named)


def _with_both_ids(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """``populateSynonyms``: one of broker.id and node.id stands for both."""
    if ("broker.id" in given) == ("node.id" in given):
        return given
    broker_id = given.get("broker.id", given.get("node.id"))
    return {**given, "broker.id": broker_id, "node.id": broker_id}


def check_broker_keys(config: Config) -> None:
    """What no key can tell alone (``KafkaConfig.validateValues``). Raises ConfigError."""
    cordoned_log_directories(config)
    if config["node.id"] != config["broker.id"]:
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
    if config["broker.id"] > config["reserved.broker.max.id"] and config["broker.id.generation.enable"]:
        raise ConfigError(
            f"Invalid value {config['broker.id']} for configuration broker.id: it must be at most "
            f"reserved.broker.max.id ({config['reserved.broker.max.id']}) while broker.id.generation.enable "
            "is true"
        )
    retention_ms = next(
        (
            value
            for key in ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
            if (value := config[key]) is not None
        ),
        -1,
    )
    if retention_ms == 0:
        raise ConfigError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    if config["max.connections.per.ip"] == 0 and not config["max.connections.per.ip.overrides"]:
        raise ConfigError(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is "
            "set."
        )
    _check_fetch_wait(config)
    _check_cleaner_memory(config)
    check_group_keys(config)


def _check_cleaner_memory(config: Config) -> None:
    if config["log.cleaner.dedupe.buffer.size"] // config["log.cleaner.threads"] <= 1024 * 1024:
        raise ConfigError("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")


def _check_fetch_wait(config: Config) -> None:
    """A fetch that waits longer than these would break its connection, or cost its follower the ISR."""
    wait_ms = config["replica.fetch.wait.max.ms"]
    if wait_ms > config["replica.socket.timeout.ms"]:
        raise ConfigError(
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms"
            " to prevent unnecessary socket timeouts"
        )
    if wait_ms > config["replica.lag.time.max.ms"]:
        raise ConfigError(
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
            " to prevent frequent changes in ISR"
        )


def not_obeyed(config: Config) -> list[tuple[str, str]]:
    """The keys that were set to something else than their default though this broker does not obey them, and
    why.
    """
    return [
        (name, reason)
        for name in sorted(config.explicit())
        if (reason := config.table[base_name(name)].not_obeyed)
        and config[name] != config.table[base_name(name)].default
    ]


def log_directories(config: Config) -> list[str]:
    """The log directories: ``log.dirs``, else ``log.dir``. Raises ConfigError when they name none."""
    listed = config["log.dirs"] or config["log.dir"]
    directories = [directory.strip() for directory in listed.split(",") if directory.strip()]
    if not directories:
        raise ConfigError(
            f"Invalid value {listed} for configuration log.dirs: at least one directory is needed"
        )
    return directories


def read_properties(text: str) -> dict[str, str]:
    r"""The keys and values of a ``server.properties`` file in Java's format (``Properties.load``): what ends
    with a backslash goes on in the next line, ``\n``, ``\t`` and ``\uXXXX`` are characters, and any other
    backslash makes the next character plain.

    Raises ConfigError that names the line which is not ``key=value``, or has a NUL: no path and no host can
    have one.
    """
    values: dict[str, str] = {}
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        line = line.strip()
        while _goes_on(line):
            line = line[:-1] + next(lines, (0, ""))[1].strip()
        if not line or line[0] in "#!":
            continue
        if "\0" in _unescaped(line):
            raise ConfigError(f"line {number} has a NUL character")
        name, separator, value = line.partition("=")
        if not separator:
            name, separator, value = line.partition(":")
        if not separator or not name.strip():
            # The line itself is not shown: it may be a piece of a private key.
            raise ConfigError(f"line {number} is not of the form key=value")
        values[_unescaped(name.strip())] = _unescaped(value.strip())
    return values


_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def _goes_on(line: str) -> bool:
    """Whether the last of a line's backslashes stands alone."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]), text
    )
