"""The admin client of a Kafka cluster, any vendor's:
topics, partitions, offsets, configurations, groups, transactions, the cluster.
"""

from barnabas.admin.admin import Admin, AsyncAdmin, BlockingAdmin
from barnabas.admin.features import FeatureMetadata, FeatureUpdate
from barnabas.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    NotAConsumerGroupError,
)
from barnabas.admin.quorum_types import QuorumInfo, QuorumReplica
from barnabas.admin.transaction_types import (
    AbortTransactionSpec,
    FencedProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from barnabas.admin.types import (
    AlterConfigOp,
    AlterOp,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    LogDirDescription,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    ProducerState,
    ReplicaInfo,
    ReplicaLogDirInfo,
    ResourceType,
    TopicDescription,
    TopicListing,
    TopicPartitionReplica,
)
from barnabas.client.coordinators import CoordinatorAnswer
from barnabas.client.habits import OF_ADMIN_MODULE
from barnabas.client.types import OffsetAndMetadata
from barnabas.protocol.coordinator_type import CoordinatorType
from barnabas.protocol.election_type import ElectionType
from barnabas.protocol.upgrade_type import UpgradeType

__all__ = [
    "AbortTransactionSpec",
    "Admin",
    "AlterConfigOp",
    "AlterOp",
    "AsyncAdmin",
    "BlockingAdmin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "CoordinatorAnswer",
    "CoordinatorType",
    "CreatedTopic",
    "ElectionType",
    "FeatureMetadata",
    "FeatureUpdate",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "GroupType",
    "LogDirDescription",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "NotAConsumerGroupError",
    "OffsetAndMetadata",
    "PartitionReassignment",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplica",
    "ReplicaInfo",
    "ReplicaLogDirInfo",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
    "TopicPartitionReplica",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpgradeType",
]


def __getattr__(name: str) -> object:
    if name in OF_ADMIN_MODULE:
        # Of an AttributeError `from barnabas.admin import X` would only say "cannot import name".
        raise ImportError(f"there is no {name} in {__name__}: {OF_ADMIN_MODULE[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
