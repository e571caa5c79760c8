"""Kafka Streams groups (types 17 and 19-23 in `__consumer_offsets`; KIP-1071)."""

from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32, int64, uint16


class StreamsGroupMetadataKey(CoordinatorKey, record_type=17):
    """The group."""

    group_id: str = field("0")


class LastAssignmentConfig(Struct):
    """A setting, as the last assignment used it."""

    key: str = field("0+")
    value: str = field("0+")


class StreamsGroupMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """The group's epoch: rises with every change of members, topology or topics."""

    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+")
    """Of all topics that the group reads."""
    validated_topology_epoch: int32 = field("0+", default=-1, tag=0)
    """The topology whose topics were last found to be as they must be."""
    last_assignment_configs: list[LastAssignmentConfig] | None = field("0+", nullable="0+", tag=1)
    stored_description_topology_epoch: int32 = field("0+", default=-1, tag=2)
    """The topology whose description is kept elsewhere; of Kafka 4.4, as the next one."""
    failed_description_topology_epoch: int32 = field("0+", default=-1, tag=3)


class StreamsGroupMemberMetadataKey(CoordinatorKey, record_type=19):
    """A member."""

    group_id: str = field("0")
    member_id: str = field("0")


class Endpoint(Struct):
    """Where the application answers interactive queries."""

    host: str = field("0+")
    port: uint16 = field("0+")


class KeyValue(Struct):
    """One entry of a map."""

    key: str = field("0+")
    value: str = field("0+")


class StreamsGroupMemberMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """Who a member is."""

    instance_id: str | None = field("0+", nullable="0+")
    rack_id: str | None = field("0+", nullable="0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    topology_epoch: int32 = field("0+")
    process_id: str = field("0+")
    """The instance of the application; it may have several members."""
    user_endpoint: Endpoint | None = field("0+", default=None, nullable="0+")
    client_tags: list[KeyValue] = field("0+")


class StreamsGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=20):
    """The group."""

    group_id: str = field("0")


class StreamsGroupTargetAssignmentMetadataValue(CoordinatorValue, versions="0", flexible="0+"):
    """The group's epoch for which the target assignment was computed."""

    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", tag=0, ignorable=True)
    """When it was computed; of Kafka 4.3 (KIP-1263)."""


class StreamsGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=21):
    """A member."""

    group_id: str = field("0")
    member_id: str = field("0")


class TaskIds(Struct):
    """Tasks of one subtopology, by the partitions that they read."""

    subtopology_id: str = field("0+")
    partitions: list[int32] = field("0+")


class StreamsGroupTargetAssignmentMemberValue(CoordinatorValue, versions="0", flexible="0+"):
    """The tasks that the member is to have."""

    active_tasks: list[TaskIds] = field("0+")
    standby_tasks: list[TaskIds] = field("0+")
    warmup_tasks: list[TaskIds] = field("0+")


class StreamsGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=22):
    """A member."""

    group_id: str = field("0")
    member_id: str = field("0")


class CurrentTaskIds(Struct):
    """Tasks of one subtopology, by the partitions that they read."""

    subtopology_id: str = field("0+")
    partitions: list[int32] = field("0+")
    assignment_epochs: list[int32] | None = field("0+", nullable="0+", tag=0)
    """Since which epoch the member has each of the partitions, null for tasks that are not active. Fences
    late commits."""


class StreamsGroupCurrentMemberAssignmentValue(CoordinatorValue, versions="0", flexible="0+"):
    """The tasks that the member has, and those that it must give up."""

    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    """Taken from a member that never heard of its last epoch."""
    state: int8 = field("0+")
    active_tasks: list[CurrentTaskIds] = field("0+")
    standby_tasks: list[CurrentTaskIds] = field("0+")
    warmup_tasks: list[CurrentTaskIds] = field("0+")
    active_tasks_pending_revocation: list[CurrentTaskIds] = field("0+")
    standby_tasks_pending_revocation: list[CurrentTaskIds] = field("0+")
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = field("0+")


class StreamsGroupTopologyKey(CoordinatorKey, record_type=23):
    """The group."""

    group_id: str = field("0")


class TopicConfig(Struct):
    """A setting of a topic."""

    key: str = field("0+")
    value: str = field("0+")


class TopicInfo(Struct):
    """An internal topic that the application needs."""

    name: str = field("0+")
    partitions: int32 = field("0+")
    """0 leaves the number open; always 0 for a changelog."""
    replication_factor: int16 = field("0+")
    """0 leaves it to the broker's default."""
    topic_configs: list[TopicConfig] = field("0+")


class CopartitionGroup(Struct):
    """Topics whose partitions go together, by their places in the lists of the subtopology."""

    source_topics: list[int16] = field("0+")
    source_topic_regex: list[int16] = field("0+")
    repartition_source_topics: list[int16] = field("0+")


class Subtopology(Struct):
    """A part of the application whose tasks share no topic with those of another part."""

    subtopology_id: str = field("0+")
    source_topics: list[str] = field("0+")
    source_topic_regex: list[str] = field("0+")
    state_changelog_topics: list[TopicInfo] = field("0+")
    repartition_sink_topics: list[str] = field("0+")
    repartition_source_topics: list[TopicInfo] = field("0+")
    copartition_groups: list[CopartitionGroup] = field("0+")


class StreamsGroupTopologyValue(CoordinatorValue, versions="0", flexible="0+"):
    """What the application reads and writes."""

    epoch: int32 = field("0+")
    subtopologies: list[Subtopology] = field("0+")
