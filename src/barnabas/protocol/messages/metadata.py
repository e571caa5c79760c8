"""Metadata (3): brokers, topics, and who leads their partitions."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32


class MetadataRequestTopic(Struct):
    """A topic that is asked for, by name or (v10+) by id."""

    topic_id: Uuid = field("10+", ignorable=True)
    name: str | None = field("0+", nullable="10+")


class MetadataRequest(Request, api=3, versions="0-13", flexible="9+"):
    """Asks for topics: all of them when `topics` is null (in v0: when it is empty)."""

    topics: list[MetadataRequestTopic] | None = field("0+", nullable="1+")
    allow_auto_topic_creation: bool = field("4+", default=True)
    include_cluster_authorized_operations: bool = field("8-10")
    include_topic_authorized_operations: bool = field("8+")


class MetadataResponseBroker(Struct):
    """A broker at its endpoint for the listener that was asked."""

    node_id: int32 = field("0+")
    host: str = field("0+")
    port: int32 = field("0+")
    rack: str | None = field("1+", default=None, nullable="1+", ignorable=True)


class MetadataResponsePartition(Struct):
    """A partition: leader, replicas, and those of them in sync."""

    error_code: int16 = field("0+")
    partition_index: int32 = field("0+")
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[int32] = field("0+")
    isr_nodes: list[int32] = field("0+")
    offline_replicas: list[int32] = field("5+", ignorable=True)
    """Replicas on dead brokers or failed log directories."""


class MetadataResponseTopic(Struct):
    """A topic, or the error that stands for it."""

    error_code: int16 = field("0+")
    name: str | None = field("0+", nullable="12+")
    topic_id: Uuid = field("10+", ignorable=True)
    is_internal: bool = field("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = field("0+")
    topic_authorized_operations: int32 = field("8+", default=-2147483648)


class MetadataResponse(Response, api=3, versions="0-13", flexible="9+"):
    """What the broker knows of the cluster."""

    throttle_time_ms: int32 = field("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = field("0+")
    cluster_id: str | None = field("2+", default=None, nullable="2+", ignorable=True)
    controller_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field("0+", takes_encoded=True)
    cluster_authorized_operations: int32 = field("8-10", default=-2147483648)
    error_code: int16 = field("13+", ignorable=True)
