"""StreamsGroupDescribe (89): Kafka Streams groups, their topology and their members (KIP-1071)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32, int64, uint16


class StreamsGroupDescribeRequest(Request, api=89, versions="0-1", flexible="0+"):
    """Asks for groups by id."""

    group_ids: list[str] = field("0+")
    include_authorized_operations: bool = field("0+")
    include_topology_description: bool = field("1+")


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


class Subtopology(Struct):
    """A part of the application, with the topics that its patterns and numbers of partitions came to."""

    subtopology_id: str = field("0+")
    source_topics: list[str] = field("0+")
    repartition_sink_topics: list[str] = field("0+")
    state_changelog_topics: list[TopicInfo] = field("0+")
    repartition_source_topics: list[TopicInfo] = field("0+")


class Topology(Struct):
    """The topology that the group runs."""

    epoch: int32 = field("0+")
    subtopologies: list[Subtopology] | None = field("0+", default=None, nullable="0+")
    """Null while the group is not initialised, or its source topics are not as they must be."""


class Endpoint(Struct):
    """Where the application answers interactive queries."""

    host: str = field("0+")
    port: uint16 = field("0+")


class TaskOffset(Struct):
    """How far a task's changelog has been read."""

    subtopology_id: str = field("0+")
    partition: int32 = field("0+")
    offset: int64 = field("0+")


class TaskIds(Struct):
    """Tasks of one subtopology, by the partitions that they read."""

    subtopology_id: str = field("0+")
    partitions: list[int32] = field("0+")


class Assignment(Struct):
    """The tasks of a member."""

    active_tasks: list[TaskIds] = field("0+")
    standby_tasks: list[TaskIds] = field("0+")
    warmup_tasks: list[TaskIds] = field("0+")


class Member(Struct):
    """A member: the tasks it has, and those it is to have."""

    member_id: str = field("0+")
    member_epoch: int32 = field("0+")
    instance_id: str | None = field("0+", default=None, nullable="0+")
    rack_id: str | None = field("0+", default=None, nullable="0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    topology_epoch: int32 = field("0+")
    process_id: str = field("0+")
    user_endpoint: Endpoint | None = field("0+", default=None, nullable="0+")
    client_tags: list[KeyValue] = field("0+")
    task_offsets: list[TaskOffset] = field("0+")
    task_end_offsets: list[TaskOffset] = field("0+")
    assignment: Assignment = field("0+")
    target_assignment: Assignment = field("0+")
    is_classic: bool = field("0+")
    """Has not been upgraded to the streams protocol yet."""


class TopologyDescriptionNode(Struct):
    """A source, a processor or a sink of the application."""

    name: str = field("1+")
    node_type: int8 = field("1+")
    source_topics: list[str] = field("1+")
    sink_topic: str | None = field("1+", default=None, nullable="1+")
    stores: list[str] = field("1+")
    successors: list[str] = field("1+")


class TopologyDescriptionSubtopology(Struct):
    """The nodes of a part of the application."""

    subtopology_id: str = field("1+")
    nodes: list[TopologyDescriptionNode] = field("1+")


class TopologyDescriptionGlobalStore(Struct):
    """A store that every instance has whole."""

    source: TopologyDescriptionNode = field("1+")
    processor: TopologyDescriptionNode = field("1+")


class TopologyDescription(Struct):
    """The topology as the application describes it."""

    subtopologies: list[TopologyDescriptionSubtopology] = field("1+")
    global_stores: list[TopologyDescriptionGlobalStore] = field("1+")


class DescribedGroup(Struct):
    """One group."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    group_id: str = field("0+")
    group_state: str = field("0+")
    group_epoch: int32 = field("0+")
    assignment_epoch: int32 = field("0+")
    topology: Topology | None = field("0+", default=None, nullable="0+")
    members: list[Member] = field("0+")
    authorized_operations: int32 = field("0+", default=-2147483648)
    topology_description: TopologyDescription | None = field("1+", default=None, nullable="1+")
    topology_description_status: int8 = field("1+")
    assignor_name: str | None = field("1+", default=None, nullable="1+", ignorable=True)


class StreamsGroupDescribeResponse(Response, api=89, versions="0-1", flexible="0+"):
    """One entry a group."""

    throttle_time_ms: int32 = field("0+")
    groups: list[DescribedGroup] = field("0+")
