"""ShareGroupDescribe (77): share groups and their members (KIP-932)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32


class ShareGroupDescribeRequest(Request, api=77, versions="0-1", flexible="0+"):
    """Asks for groups by id."""

    group_ids: list[str] = field("0+")
    include_authorized_operations: bool = field("0+")


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    topic_name: str = field("0+")
    partitions: list[int32] = field("0+")


class Assignment(Struct):
    """The partitions that a member fetches from."""

    topic_partitions: list[TopicPartitions] = field("0+")


class Member(Struct):
    """A member and what it has."""

    member_id: str = field("0+")
    rack_id: str | None = field("0+", default=None, nullable="0+")
    member_epoch: int32 = field("0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    subscribed_topic_names: list[str] = field("0+")
    assignment: Assignment = field("0+")


class DescribedGroup(Struct):
    """One group."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    group_id: str = field("0+")
    group_state: str = field("0+")
    group_epoch: int32 = field("0+")
    assignment_epoch: int32 = field("0+")
    assignor_name: str = field("0+")
    members: list[Member] = field("0+")
    authorized_operations: int32 = field("0+", default=-2147483648)


class ShareGroupDescribeResponse(Response, api=77, versions="0-1", flexible="0+"):
    """One entry a group."""

    throttle_time_ms: int32 = field("0+")
    groups: list[DescribedGroup] = field("0+")
