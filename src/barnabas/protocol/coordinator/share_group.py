"""Share groups (types 9-15 in `__consumer_offsets`; KIP-932)."""

from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int32, int64


class ShareGroupPartitionMetadataKey(CoordinatorKey, record_type=9):
    """The group."""

    group_id: str = field("0")


class TopicPartitionsInfo(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    topic_name: str = field("0+")
    partitions: list[int32] = field("0+")


class TopicInfo(Struct):
    """One topic."""

    topic_id: Uuid = field("0+")
    topic_name: str = field("0+")


class ShareGroupPartitionMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """Which topics have a share state: early access in Kafka 3.9 only; type 15 took its place."""

    initialized_topics: list[TopicPartitionsInfo] = field("0+")
    deleting_topics: list[TopicInfo] = field("0+")


class ShareGroupMemberMetadataKey(CoordinatorKey, record_type=10):
    """A member."""

    group_id: str = field("0")
    member_id: str = field("0")


class ShareGroupMemberMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """What a member subscribes to, and who it is."""

    rack_id: str | None = field("0+", nullable="0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    subscribed_topic_names: list[str] = field("0+")


class ShareGroupMetadataKey(CoordinatorKey, record_type=11):
    """The group."""

    group_id: str = field("0")


class ShareGroupMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """The group's epoch: rises with every change of members, subscriptions or topics."""

    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+")
    """Of all topics that the group reads; Kafka 3.9's early access lacks it in the same version 0."""


class ShareGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=12):
    """The group."""

    group_id: str = field("0")


class ShareGroupTargetAssignmentMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """The group's epoch for which the target assignment was computed."""

    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", tag=0, ignorable=True)
    """When it was computed; of Kafka 4.3 (KIP-1263)."""


class ShareGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=13):
    """A member."""

    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[int32] = field("0+")


class ShareGroupTargetAssignmentMemberValue(CoordinatorValue, versions="0", flexible="0+"):
    """What the member is to have."""

    topic_partitions: list[TopicPartition] = field("0+")


class ShareGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=14):
    """A member."""

    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[int32] = field("0+")


class ShareGroupCurrentMemberAssignmentValue(CoordinatorValue, versions="0", flexible="0+"):
    """What the member has."""

    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    state: int8 = field("0+")
    assigned_partitions: list[TopicPartitions] = field("0+")


class ShareGroupStatePartitionMetadataKey(CoordinatorKey, record_type=15):
    """The group."""

    group_id: str = field("0")


class ShareGroupStatePartitionMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """Which of the group's partitions have a share state, are to have one, or are to lose it."""

    initializing_topics: list[TopicPartitionsInfo] = field("0+")
    initialized_topics: list[TopicPartitionsInfo] = field("0+")
    deleting_topics: list[TopicInfo] = field("0+")
