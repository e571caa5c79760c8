"""ConsumerGroupHeartbeat (68):
a member of a consumer group of the new protocol reports, and gets its partitions (KIP-848).
"""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32


class TopicPartitions(Struct):
    """Partitions of one topic, by its id."""

    topic_id: Uuid = field("0+")
    partitions: list[int32] = field("0+")


class ConsumerGroupHeartbeatRequest(Request, api=68, versions="0-1", flexible="0+"):
    """What changed on the member's side; null and -1 say that nothing did. Epoch 0 joins, -1 leaves."""

    group_id: str = field("0+")
    member_id: str = field("0+")
    member_epoch: int32 = field("0+")
    instance_id: str | None = field("0+", default=None, nullable="0+")
    rack_id: str | None = field("0+", default=None, nullable="0+")
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    subscribed_topic_names: list[str] | None = field("0+", default=None, nullable="0+")
    subscribed_topic_regex: str | None = field("1+", default=None, nullable="1+")
    server_assignor: str | None = field("0+", default=None, nullable="0+")
    topic_partitions: list[TopicPartitions] | None = field("0+", default=None, nullable="0+")


class Assignment(Struct):
    """What the member is to own."""

    topic_partitions: list[TopicPartitions] = field("0+")


class ConsumerGroupHeartbeatResponse(Response, api=68, versions="0-1", flexible="0+"):
    """The member's epoch, and its assignment when that changed."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    member_id: str | None = field("0+", default=None, nullable="0+")
    member_epoch: int32 = field("0+")
    heartbeat_interval_ms: int32 = field("0+")
    assignment: Assignment | None = field("0+", default=None, nullable="0+")
