"""AlterPartition (56): a leader asks the controller to change a partition's ISR (KIP-497, KIP-704,
KIP-903).
"""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int16, int32, int64


class BrokerState(Struct):
    """A replica and the epoch it registered under."""

    broker_id: int32 = field("3+")
    broker_epoch: int64 = field("3+", default=-1)


class AlterPartitionRequestPartitionData(Struct):
    """The ISR that the leader proposes."""

    partition_index: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    new_isr: list[int32] = field("0-2")
    new_isr_with_epochs: list[BrokerState] = field("3+")
    leader_recovery_state: int8 = field("1+")
    partition_epoch: int32 = field("0+")


class AlterPartitionRequestTopicData(Struct):
    """Partitions of one topic; named by id from v2 on."""

    topic_name: str = field("0-1", ignorable=True)
    topic_id: Uuid = field("2+", ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = field("0+")


class AlterPartitionRequest(Request, api=56, versions="0-3", flexible="0+"):
    """Proposes ISRs of partitions that the broker leads."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    topics: list[AlterPartitionRequestTopicData] = field("0+")


class AlterPartitionResponsePartitionData(Struct):
    """The state that the controller has committed."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    isr: list[int32] = field("0+")
    leader_recovery_state: int8 = field("1+", ignorable=True)
    partition_epoch: int32 = field("0+")


class AlterPartitionResponseTopicData(Struct):
    """Partitions of one topic."""

    topic_name: str = field("0-1", ignorable=True)
    topic_id: Uuid = field("2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = field("0+")


class AlterPartitionResponse(Response, api=56, versions="0-3", flexible="0+"):
    """One entry a partition, or one error for all."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    topics: list[AlterPartitionResponseTopicData] = field("0+")
