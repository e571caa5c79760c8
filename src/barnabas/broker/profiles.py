"""What a broker shows its clients: the APIs, versions and features of one Kafka.

`Profile` is the one table that says so. A handler serves every version that it knows and does not ask which
profile is on; `barnabas.broker.handlers.api_table` cuts the table of handlers down to what the profile has.
`barnabas.core.api_profile` says when which profile is on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from barnabas.broker.client_metrics.otlp import is_available
from barnabas.cluster.metadata.features import GROUP_VERSION, TRANSACTION_VERSION, FeatureLevels, Range
from barnabas.core.api_profile import KAFKA_3_9, KAFKA_4_4, api_profile
from barnabas.protocol.api import ApiKey


@dataclass(frozen=True)
class Profile:
    """One Kafka as its clients see it."""

    name: str
    versions: Mapping[ApiKey, Range]
    between_brokers: frozenset[ApiKey]
    """Served, but not told to clients: what brokers and their controller say to each other."""
    features: Mapping[str, Range]
    """The features that are supported (KIP-584)."""
    keeps_features: bool = False
    """Whether their levels are in /feature, and clients may change them. Elsewhere each is at its highest."""

    def feature_levels(self) -> FeatureLevels:
        """The features of a broker that has not read /feature yet: each at its highest level."""
        highest = {name: high for name, (_, high) in self.features.items()}
        return FeatureLevels(self.features, highest, kept=self.keeps_features)


_VERSIONS_OF_3_9: Final[Mapping[ApiKey, Range]] = {
    ApiKey.PRODUCE: (0, 11),
    ApiKey.FETCH: (4, 17),
    ApiKey.LIST_OFFSETS: (1, 9),
    ApiKey.METADATA: (0, 12),
    ApiKey.LEADER_AND_ISR: (0, 7),
    ApiKey.STOP_REPLICA: (0, 4),
    ApiKey.UPDATE_METADATA: (0, 8),
    ApiKey.CONTROLLED_SHUTDOWN: (0, 3),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 4),
    ApiKey.WRITE_TXN_MARKERS: (0, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 4),
    ApiKey.DESCRIBE_ACLS: (0, 3),
    ApiKey.CREATE_ACLS: (0, 3),
    ApiKey.DELETE_ACLS: (0, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 4),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: (0, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (0, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (0, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_PARTITION: (0, 3),
    ApiKey.UPDATE_FEATURES: (0, 1),
    ApiKey.ENVELOPE: (0, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 1),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 1),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0),
}

_CHANGED_IN_4_4: Final[Mapping[ApiKey, Range]] = {
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.API_VERSIONS: (0, 5),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 6),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3),
    ApiKey.DELETE_GROUPS: (0, 3),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
}

_CLIENT_METRICS: Final[Mapping[ApiKey, Range]] = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0),
}
"""What Kafka shows where a receiver of client metrics is configured (KIP-714)."""

PROFILE_3_9: Final = Profile(KAFKA_3_9, _VERSIONS_OF_3_9, frozenset(), {})

_CONSUMER_GROUPS: Final[Mapping[ApiKey, Range]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
}
"""What no 3.9 with ZooKeeper has. A client of today finds it with nothing older than v1."""

PROFILE_4_4: Final = Profile(
    KAFKA_4_4,
    {**_VERSIONS_OF_3_9, **_CHANGED_IN_4_4, **_CONSUMER_GROUPS},
    frozenset(
        {
            ApiKey.LEADER_AND_ISR,
            ApiKey.STOP_REPLICA,
            ApiKey.UPDATE_METADATA,
            ApiKey.CONTROLLED_SHUTDOWN,
            ApiKey.ALTER_PARTITION,
            ApiKey.ENVELOPE,
            ApiKey.ALLOCATE_PRODUCER_IDS,
        }
    ),
    {GROUP_VERSION: (0, 1), TRANSACTION_VERSION: (0, 2)},
    keeps_features=True,
)

_WITHOUT_EPOCH_BUMP: Final[Mapping[ApiKey, Range]] = {
    ApiKey.END_TXN: (0, 4),
    ApiKey.WRITE_TXN_MARKERS: (1, 1),
}
"""What profile 4.4 shows where ``transaction.version`` cannot be finalized."""


def profile_of(config: Mapping[str, Any]) -> Profile:
    """The profile of a broker with this configuration; that of 3.9 has groups of the consumer protocol where
    ``group.coordinator.rebalance.protocols`` says so.
    """
    profile = PROFILE_4_4 if api_profile(config) == KAFKA_4_4 else PROFILE_3_9
    if config["zookeeper.connect"]:
        # A JVM broker asks a controller for its versions before it asks for a block of producer ids. It ends
        # where /feature has a level, and knows no marker of an end that has bumped the epoch.
        profile = replace(profile, between_brokers=frozenset())
        if profile.keeps_features:
            profile = replace(
                profile,
                versions={**profile.versions, **_WITHOUT_EPOCH_BUMP},
                features={GROUP_VERSION: profile.features[GROUP_VERSION]},
                keeps_features=False,
            )
    if takes_client_metrics(config):
        profile = replace(profile, versions={**profile.versions, **_CLIENT_METRICS})
    if "consumer" in config["group.coordinator.rebalance.protocols"]:
        return replace(profile, versions={**profile.versions, **_CONSUMER_GROUPS})
    return profile


def takes_client_metrics(config: Mapping[str, Any]) -> bool:
    """Whether clients may push their metrics to a broker with this configuration: in profile 4.4, where they
    can be shown and read.
    """
    return wants_client_metrics(config) and is_available()


def wants_client_metrics(config: Mapping[str, Any]) -> bool:
    """Whether a broker with this configuration takes them, once the library that reads them is installed."""
    return (
        config["barnabas.client.telemetry.enable"]
        and config["metrics.port"] >= 0
        and api_profile(config) == KAFKA_4_4
    )
