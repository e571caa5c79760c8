"""Consumer groups of the new protocol (types 3-8 and 16 in `__consumer_offsets`; KIP-848)."""

from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int32, int64


class ConsumerGroupMetadataKey(CoordinatorKey, record_type=3):
    """The group."""

    group_id: str = field("0")


class ConsumerGroupMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """The group's epoch: rises with every change of members, subscriptions or topics."""

    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+", tag=0)
    """Of all topics that the group reads (KIP-1101, Kafka 4.1 and later)."""


class ConsumerGroupPartitionMetadataKey(CoordinatorKey, record_type=4):
    """The group."""

    group_id: str = field("0")


class PartitionMetadata(Struct):
    """A partition and the racks of its replicas."""

    partition: int32 = field("0+")
    racks: list[str] = field("0+")


class TopicMetadata(Struct):
    """A topic as the last assignment saw it."""

    topic_id: Uuid = field("0+")
    topic_name: str = field("0+")
    num_partitions: int32 = field("0+")
    partition_metadata: list[PartitionMetadata] = field("0+")
    """Empty when no rack is known; not used after Kafka 4.0."""


class ConsumerGroupPartitionMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """The topics that the group reads; a hash took its place in Kafka 4.1."""

    topics: list[TopicMetadata] = field("0+")


class ConsumerGroupMemberMetadataKey(CoordinatorKey, record_type=5):
    """A member."""

    group_id: str = field("0")
    member_id: str = field("0")


class ClassicProtocol(Struct):
    """A protocol that a classic member supports."""

    name: str = field("0+")
    metadata: bytes = field("0+")


class ClassicMemberMetadata(Struct):
    """What a member says that speaks the classic protocol."""

    session_timeout_ms: int32 = field("0+")
    supported_protocols: list[ClassicProtocol] = field("0+")


class ConsumerGroupMemberMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """What a member subscribes to, and who it is."""

    instance_id: str | None = field("0+", nullable="0+")
    rack_id: str | None = field("0+", nullable="0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    subscribed_topic_names: list[str] = field("0+")
    subscribed_topic_regex: str | None = field("0+", nullable="0+")
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    server_assignor: str | None = field("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field("0+", nullable="0+", tag=0)
    """Null, and written as null, for a member that speaks the new protocol."""


class ConsumerGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=6):
    """The group."""

    group_id: str = field("0")


class ConsumerGroupTargetAssignmentMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """The group's epoch for which the target assignment was computed."""

    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", tag=0, ignorable=True)
    """When it was computed; of Kafka 4.3 (KIP-1263), whose earlier brokers pass over it."""


class ConsumerGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=7):
    """A member."""

    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[int32] = field("0+")


class ConsumerGroupTargetAssignmentMemberValue(CoordinatorValue, versions="0", flexible="0+"):
    """What the member is to have."""

    topic_partitions: list[TopicPartition] = field("0+")


class ConsumerGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=8):
    """A member."""

    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[int32] = field("0+")
    assignment_epochs: list[int32] | None = field("0+", nullable="0+", tag=0)
    """The epoch since which the member has each partition; of Kafka 4.4, null where it is not kept."""


class ConsumerGroupCurrentMemberAssignmentValue(CoordinatorValue, versions="0", flexible="0+"):
    """What the member has, and where it stands on the way to its target."""

    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    """Taken from a member that never heard of its last epoch."""
    state: int8 = field("0+")
    """0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown."""
    assigned_partitions: list[TopicPartitions] = field("0+")
    partitions_pending_revocation: list[TopicPartitions] = field("0+")


class ConsumerGroupRegularExpressionKey(CoordinatorKey, record_type=16):
    """A regular expression of the group's members."""

    group_id: str = field("0")
    regular_expression: str = field("0")


class ConsumerGroupRegularExpressionValue(CoordinatorValue, versions="0", flexible="0+"):
    """The topics that it stood for."""

    topics: list[str] = field("0+")
    version: int64 = field("0+")
    """Of the metadata in which they were looked up."""
    timestamp: int64 = field("0+")
