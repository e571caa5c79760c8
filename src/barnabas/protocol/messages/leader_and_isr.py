"""LeaderAndIsr (4): which partitions a broker leads or follows, from the controller."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.partition_states import LeaderAndIsrPartitionState
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int16, int32, int64


class LeaderAndIsrTopicState(Struct):
    """Partitions of one topic."""

    topic_name: str = field("2+")
    topic_id: Uuid = field("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = field("2+")


class LeaderAndIsrLiveLeader(Struct):
    """Where to reach a leader that the request names."""

    broker_id: int32 = field("0+")
    host_name: str = field("0+")
    port: int32 = field("0+")


class LeaderAndIsrRequest(Request, api=4, versions="0-7", flexible="4+"):
    """Makes the broker leader or follower of partitions;
    `type` 2 says that these are all it has (KIP-866).
    """

    controller_id: int32 = field("0+")
    is_kraft_controller: bool = field("7+")
    controller_epoch: int32 = field("0+")
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
    type: int8 = field("5+")
    """0 unknown, 1 incremental, 2 full."""
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field("0-1")
    topic_states: list[LeaderAndIsrTopicState] = field("2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = field("0+")


class LeaderAndIsrPartitionError(Struct):
    """What became of one partition."""

    topic_name: str = field("0-4", ignorable=True)
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class LeaderAndIsrTopicError(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = field("5+")


class LeaderAndIsrResponse(Response, api=4, versions="0-7", flexible="4+"):
    """One entry a partition: flat until v4, by topic id from v5 on."""

    error_code: int16 = field("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = field("0-4")
    topics: list[LeaderAndIsrTopicError] = field("5+")
