"""StreamsGroupHeartbeat (88): a member of a Kafka Streams group reports, and gets its tasks (KIP-1071)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32, int64, uint16


class KeyValue(Struct):
    """One entry of a map."""

    key: str = field("0+")
    value: str = field("0+")


class TopicInfo(Struct):
    """An internal topic that the application needs."""

    name: str = field("0+")
    partitions: int32 = field("0+")
    """0 leaves the number open; always 0 for a changelog."""
    replication_factor: int16 = field("0+")
    """0 leaves it to the broker's default."""
    topic_configs: list[KeyValue] = field("0+")


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


class StreamsGroupHeartbeatRequestTopology(Struct):
    """What the application reads and writes; members of an older epoch get no tasks of a newer one."""

    epoch: int32 = field("0+")
    subtopologies: list[Subtopology] = field("0+")


class TaskIds(Struct):
    """Tasks of one subtopology, by the partitions that they read."""

    subtopology_id: str = field("0+")
    partitions: list[int32] = field("0+")


class Endpoint(Struct):
    """Where the application answers interactive queries."""

    host: str = field("0+")
    port: uint16 = field("0+")


class TaskOffset(Struct):
    """How far a task's changelog has been read."""

    subtopology_id: str = field("0+")
    partition: int32 = field("0+")
    offset: int64 = field("0+")


class StreamsGroupHeartbeatRequest(Request, api=88, versions="0-1", flexible="0+"):
    """What changed on the member's side; null and -1 say that nothing did. Epoch 0 joins, -1 leaves,
    -2 says that a static member will be back.
    """

    group_id: str = field("0+")
    member_id: str = field("0+")
    member_epoch: int32 = field("0+")
    endpoint_information_epoch: int32 = field("0+")
    instance_id: str | None = field("0+", default=None, nullable="0+")
    rack_id: str | None = field("0+", default=None, nullable="0+")
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    topology: StreamsGroupHeartbeatRequestTopology | None = field("0+", default=None, nullable="0+")
    """Only when the member joins."""
    active_tasks: list[TaskIds] | None = field("0+", default=None, nullable="0+")
    standby_tasks: list[TaskIds] | None = field("0+", default=None, nullable="0+")
    warmup_tasks: list[TaskIds] | None = field("0+", default=None, nullable="0+")
    process_id: str | None = field("0+", default=None, nullable="0+")
    user_endpoint: Endpoint | None = field("0+", default=None, nullable="0+")
    client_tags: list[KeyValue] | None = field("0+", default=None, nullable="0+")
    task_offsets: list[TaskOffset] | None = field("0+", default=None, nullable="0+")
    task_end_offsets: list[TaskOffset] | None = field("0+", default=None, nullable="0+")
    shutdown_application: bool = field("0+")


class Status(Struct):
    """Something that keeps the group, or this member, from running as it should."""

    status_code: int8 = field("0+")
    status_detail: str = field("0+")


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[int32] = field("0+")


class EndpointToPartitions(Struct):
    """Which partitions an instance can answer interactive queries about."""

    user_endpoint: Endpoint = field("0+")
    active_partitions: list[TopicPartition] = field("0+")
    standby_partitions: list[TopicPartition] = field("0+")


class StreamsGroupHeartbeatResponse(Response, api=88, versions="0-1", flexible="0+"):
    """The member's epoch, and its tasks when those changed."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    member_id: str = field("0+")
    member_epoch: int32 = field("0+")
    heartbeat_interval_ms: int32 = field("0+")
    acceptable_recovery_lag_legacy: int32 = field("0")
    task_offset_interval_ms: int32 = field("0+")
    acceptable_recovery_lag: int64 = field("1+", default=-1, ignorable=True)
    """How far behind a warm-up task may be and count as caught up."""
    status: list[Status] | None = field("0+", nullable="0+")
    active_tasks: list[TaskIds] | None = field("0+", default=None, nullable="0+")
    standby_tasks: list[TaskIds] | None = field("0+", default=None, nullable="0+")
    warmup_tasks: list[TaskIds] | None = field("0+", default=None, nullable="0+")
    topology_description_required: bool = field("1+")
    """Whether the member is to send StreamsGroupTopologyDescriptionUpdate."""
    endpoint_information_epoch: int32 = field("0+")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field("0+", default=None, nullable="0+")
