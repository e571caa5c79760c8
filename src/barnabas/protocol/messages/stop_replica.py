"""StopReplica (5): the controller has a broker stop replicas, or delete them."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.partition_states import StopReplicaPartitionState
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class StopReplicaPartitionV0(Struct):
    """A replica to stop."""

    topic_name: str = field("0")
    partition_index: int32 = field("0")


class StopReplicaTopicV1(Struct):
    """Replicas of one topic to stop."""

    name: str = field("1-2")
    partition_indexes: list[int32] = field("1-2")


class StopReplicaTopicState(Struct):
    """Replicas of one topic to stop."""

    topic_name: str = field("3+")
    partition_states: list[StopReplicaPartitionState] = field("3+")


class StopReplicaRequest(Request, api=5, versions="0-4", flexible="2+"):
    """Stops replicas; until v2 all of one request are deleted, or none."""

    controller_id: int32 = field("0+")
    is_kraft_controller: bool = field("4+")
    controller_epoch: int32 = field("0+")
    broker_epoch: int64 = field("1+", default=-1, ignorable=True)
    delete_partitions: bool = field("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = field("0")
    topics: list[StopReplicaTopicV1] = field("1-2")
    topic_states: list[StopReplicaTopicState] = field("3+")


class StopReplicaPartitionError(Struct):
    """What became of one replica."""

    topic_name: str = field("0+")
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class StopReplicaResponse(Response, api=5, versions="0-4", flexible="2+"):
    """One entry a replica."""

    error_code: int16 = field("0+")
    partition_errors: list[StopReplicaPartitionError] = field("0+")
