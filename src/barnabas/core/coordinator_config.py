"""The broker's keys for the group and transaction coordinators (``GroupCoordinatorConfig``,
``OffsetConfig``).
"""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.core.config import INT_MAX, ConfigKey, ConfigType, Scope, at_least, each_of, one_of
from barnabas.core.errors import ConfigError

STRING, INT, SHORT, LONG, LIST = (
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.LIST,
)

UNIFORM_ASSIGNOR: Final = "org.apache.kafka.coordinator.group.assignor.UniformAssignor"
RANGE_ASSIGNOR: Final = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"

# One row a key, however long: name, type, default, what it does, what is allowed.
# fmt: off
GROUP_KEYS: Final = (
    # The topic of groups and offsets
    ConfigKey("offsets.topic.num.partitions", INT, 50, "Partitions of __consumer_offsets.", at_least(1)),
    ConfigKey("offsets.topic.replication.factor", SHORT, 3, "Replicas of __consumer_offsets.", at_least(1)),
    ConfigKey("offsets.topic.segment.bytes", INT, 104857600, "The segment size of __consumer_offsets.",
        at_least(1)),
    ConfigKey("offsets.topic.compression.codec", INT, 0,
        "How what is written there is compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        lambda codec: None if 0 <= codec <= 4 else f"Unknown compression type id: {codec}"),
    # Offsets
    ConfigKey("offset.metadata.max.bytes", INT, 4096,
        "The longest text that a client may leave beside an offset."),
    ConfigKey("offsets.load.buffer.size", INT, 5242880, "Bytes read at a time while offsets are loaded.",
        at_least(1)),
    ConfigKey("offsets.retention.minutes", INT, 10080,
        "How long offsets stay after their group became empty, or after their commit where nobody joins.",
        at_least(1)),
    ConfigKey("offsets.retention.check.interval.ms", LONG, 600000,
        "How often expired offsets are looked for.", at_least(1)),
    ConfigKey("offsets.commit.timeout.ms", INT, 5000,
        "How long a commit waits for the replicas of __consumer_offsets.", at_least(1)),
    ConfigKey("offsets.commit.required.acks", SHORT, -1,
        "Acknowledgements that a commit waits for; deprecated: leave it at -1, all in-sync replicas."),
    # Groups whose members agree among themselves
    ConfigKey("group.min.session.timeout.ms", INT, 6000, "The shortest session that a member may ask for."),
    ConfigKey("group.max.session.timeout.ms", INT, 1800000, "The longest session that a member may ask for."),
    ConfigKey("group.initial.rebalance.delay.ms", INT, 3000,
        "How long an empty group waits for more members before its first assignment."),
    ConfigKey("group.max.size", INT, INT_MAX, "The most members of a group.", at_least(1)),
    # Groups that the coordinator assigns
    ConfigKey("group.coordinator.rebalance.protocols", LIST, ["classic"],
        "The protocols that groups may use; consumer (KIP-848) needs a cluster without Kafka 3.9 brokers.",
        each_of("classic", "consumer", may_be_empty=False)),
    ConfigKey("group.consumer.session.timeout.ms", INT, 45000, "The session of a member (KIP-848).",
        at_least(1)),
    ConfigKey("group.consumer.min.session.timeout.ms", INT, 45000, "The shortest such session.", at_least(1)),
    ConfigKey("group.consumer.max.session.timeout.ms", INT, 60000, "The longest such session.", at_least(1)),
    ConfigKey("group.consumer.heartbeat.interval.ms", INT, 5000, "How often a member speaks (KIP-848).",
        at_least(1)),
    ConfigKey("group.consumer.min.heartbeat.interval.ms", INT, 5000, "The shortest such interval.",
        at_least(1)),
    ConfigKey("group.consumer.max.heartbeat.interval.ms", INT, 15000, "The longest such interval.",
        at_least(1)),
    ConfigKey("group.consumer.assignment.interval.ms", INT, 0,
        "The shortest time between two assignments of such a group (KIP-1263); profile 4.4: 1000.",
        at_least(0), scope=Scope.CLUSTER_WIDE, internal=True),
    ConfigKey("group.consumer.min.assignment.interval.ms", INT, 0, "The shortest such time.", at_least(0),
        internal=True),
    ConfigKey("group.consumer.max.assignment.interval.ms", INT, 15000, "The longest such time.", at_least(0),
        internal=True),
    ConfigKey("group.consumer.max.size", INT, INT_MAX, "The most members of such a group.", at_least(1)),
    ConfigKey("group.consumer.assignors", LIST, [UNIFORM_ASSIGNOR, RANGE_ASSIGNOR],
        "Who assigns partitions, the first unless a member asks for another: uniform, range, or Kafka's "
        "classes.", each_of("uniform", "range", UNIFORM_ASSIGNOR, RANGE_ASSIGNOR, may_be_empty=False)),
    ConfigKey("group.consumer.migration.policy", STRING, "disabled",
        "Whether groups with members change between the protocols: upgrade, downgrade, bidirectional, "
        "disabled.",
        lambda policy: one_of("disabled", "upgrade", "downgrade", "bidirectional")(policy.lower()),
        internal=True),
)
TRANSACTION_KEYS: Final = (
    ConfigKey("transaction.state.log.replication.factor", SHORT, 3, "Replicas of __transaction_state.",
        at_least(1)),
    ConfigKey("transaction.state.log.num.partitions", INT, 50, "Partitions of __transaction_state.",
        at_least(1)),
    ConfigKey("transaction.state.log.min.isr", INT, 2, "min.insync.replicas of __transaction_state.",
        at_least(1)),
    ConfigKey("transaction.state.log.segment.bytes", INT, 104857600,
        "The segment size of __transaction_state.", at_least(1)),
    ConfigKey("transaction.state.log.load.buffer.size", INT, 5_242_880,
        "How many bytes of __transaction_state are read at a time while it is loaded.", at_least(1)),
    ConfigKey("transaction.max.timeout.ms", INT, 900000,
        "The longest transaction that a producer may ask for.", at_least(1)),
    ConfigKey("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10000,
        "How often it is looked for transactions that are open for longer than their producer asked for.",
        at_least(1)),
    ConfigKey("transactional.id.expiration.ms", INT, 604_800_000,
        "How long a transactional id is remembered that nothing happens to.", at_least(1)),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000,
        "How often it is looked for such ids.", at_least(1)),
    ConfigKey("transaction.partition.verification.enable", ConfigType.BOOLEAN, True,
        "Whether a partition's leader asks a transaction's coordinator before its first batch (KIP-890).",
        scope=Scope.CLUSTER_WIDE),
)
# fmt: on


def check_group_keys(config: Mapping[str, Any]) -> None:
    """What no key can tell alone. Raises ConfigError with Kafka's words."""
    replicas = config["offsets.topic.replication.factor"]
    if not -1 <= config["offsets.commit.required.acks"] <= replicas:
        raise ConfigError(
            f"offsets.commit.required.acks must be greater or equal to -1 and less or equal to "
            f"offsets.topic.replication.factor ({replicas})"
        )
    for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        value, low, high = (config[f"group.consumer.{part}{what}"] for part in ("", "min.", "max."))
        if high < low:
            raise ConfigError(
                f"group.consumer.max.{what} must be greater than or equals to group.consumer.min.{what}"
            )
        if value < low:
            raise ConfigError(
                f"group.consumer.{what} must be greater than or equals to group.consumer.min.{what}"
            )
        if value > high:
            raise ConfigError(
                f"group.consumer.{what} must be less than or equals to group.consumer.max.{what}"
            )
