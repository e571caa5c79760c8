"""DescribeQuorum (55): voters and observers of KRaft's metadata log (KIP-595, KIP-836, KIP-853)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32, int64, uint16


class DescribeQuorumRequestPartitionData(Struct):
    """One partition."""

    partition_index: int32 = field("0+")


class DescribeQuorumRequestTopicData(Struct):
    """Partitions of one topic; there is only `__cluster_metadata` to ask for."""

    topic_name: str = field("0+")
    partitions: list[DescribeQuorumRequestPartitionData] = field("0+")


class DescribeQuorumRequest(Request, api=55, versions="0-2", flexible="0+"):
    """Asks for quorums."""

    topics: list[DescribeQuorumRequestTopicData] = field("0+")


class ReplicaState(Struct):
    """How far one replica has come."""

    replica_id: int32 = field("0+")
    replica_directory_id: Uuid = field("2+")
    log_end_offset: int64 = field("0+")
    """-1 when unknown."""
    last_fetch_timestamp: int64 = field("1+", default=-1, ignorable=True)
    """By the leader's clock; -1 for the leader itself, and when unknown."""
    last_caught_up_timestamp: int64 = field("1+", default=-1, ignorable=True)
    """When the leader's log ended where this replica's last fetch began."""


class DescribeQuorumResponsePartitionData(Struct):
    """The quorum of one partition: who leads, who votes, who only follows."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("2+", nullable="2+", ignorable=True)
    leader_id: int32 = field("0+")
    """-1 when unknown."""
    leader_epoch: int32 = field("0+")
    high_watermark: int64 = field("0+")
    current_voters: list[ReplicaState] = field("0+")
    observers: list[ReplicaState] = field("0+")


class DescribeQuorumResponseTopicData(Struct):
    """Partitions of one topic."""

    topic_name: str = field("0+")
    partitions: list[DescribeQuorumResponsePartitionData] = field("0+")


class Listener(Struct):
    """One endpoint of a node."""

    name: str = field("2+")
    host: str = field("2+")
    port: uint16 = field("2+")


class Node(Struct):
    """A node that is a replica above, with its endpoints."""

    node_id: int32 = field("2+")
    listeners: list[Listener] = field("2+")


class DescribeQuorumResponse(Response, api=55, versions="0-2", flexible="0+"):
    """The quorums, and where their members are reached."""

    error_code: int16 = field("0+")
    error_message: str | None = field("2+", nullable="2+", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = field("0+")
    nodes: list[Node] = field("2+")
