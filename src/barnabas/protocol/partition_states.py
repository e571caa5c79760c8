"""The states of one partition that a controller sends: values that controller and brokers keep and compare.

They belong to LeaderAndIsr, UpdateMetadata and StopReplica, whose codecs write and read them. A cluster of
200,000 partitions has 200,000 of each in one request; so the codec makes the value itself, and nobody makes
another one of it (docs/decisions/0030-the-edge.md).
"""

from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int32


class LeaderAndIsrPartitionState(Struct):
    """The state of one partition as the controller has decided it."""

    topic_name: str = field("0-1", ignorable=True)
    partition_index: int32 = field("0+")
    controller_epoch: int32 = field("0+")
    leader: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    isr: list[int32] = field("0+")
    partition_epoch: int32 = field("0+")
    """The version of the partition's znode."""
    replicas: list[int32] = field("0+")
    adding_replicas: list[int32] = field("3+", ignorable=True)
    removing_replicas: list[int32] = field("3+", ignorable=True)
    is_new: bool = field("1+", ignorable=True)
    leader_recovery_state: int8 = field("6+")
    """0 recovered, 1 recovering from an unclean election (KIP-704)."""


class UpdateMetadataPartitionState(Struct):
    """A partition; leader -2 means that it is being deleted."""

    topic_name: str = field("0-4", ignorable=True)
    partition_index: int32 = field("0+")
    controller_epoch: int32 = field("0+")
    leader: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    isr: list[int32] = field("0+")
    zk_version: int32 = field("0+")
    replicas: list[int32] = field("0+")
    offline_replicas: list[int32] = field("4+", ignorable=True)


class StopReplicaPartitionState(Struct):
    """A replica to stop, and whether its log goes too."""

    partition_index: int32 = field("3+")
    leader_epoch: int32 = field("3+", default=-1)
    delete_partition: bool = field("3+")
