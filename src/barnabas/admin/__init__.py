"""The admin client of a Kafka cluster, any vendor's: topics, partitions, offsets, configurations, groups, the cluster."""

from barnabas.admin.admin import Admin, BlockingAdmin
from barnabas.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    NotAConsumerGroupError,
)
from barnabas.admin.types import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    ElectionType,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    ResourceType,
    TopicDescription,
    TopicListing,
)
from barnabas.client.coordinators import CoordinatorAnswer, CoordinatorType
from barnabas.client.types import OffsetAndMetadata

__all__ = [
    "Admin",
    "BlockingAdmin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "CoordinatorAnswer",
    "CoordinatorType",
    "CreatedTopic",
    "ElectionType",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "GroupType",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "NotAConsumerGroupError",
    "OffsetAndMetadata",
    "PartitionReassignment",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
]
