"""UpdateMetadata (6): what a broker answers to Metadata requests, from the controller."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.partition_states import UpdateMetadataPartitionState
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int16, int32, int64


class UpdateMetadataTopicState(Struct):
    """Partitions of one topic."""

    topic_name: str = field("5+")
    topic_id: Uuid = field("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = field("5+")


class UpdateMetadataEndpoint(Struct):
    """One listener of a broker."""

    port: int32 = field("1+")
    host: str = field("1+")
    listener: str = field("3+", ignorable=True)
    security_protocol: int16 = field("1+")


class UpdateMetadataBroker(Struct):
    """A live broker with all its listeners."""

    id: int32 = field("0+")
    v0_host: str = field("0", ignorable=True)
    """The only endpoint in version 0."""
    v0_port: int32 = field("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = field("1+", ignorable=True)
    rack: str | None = field("2+", nullable="2+", ignorable=True)


class UpdateMetadataRequest(Request, api=6, versions="0-8", flexible="6+"):
    """Changes partitions in the broker's cache, and replaces its list of live brokers."""

    controller_id: int32 = field("0+")
    is_kraft_controller: bool = field("8+")
    type: int8 = field("8+", tag=0)
    """0 unknown, 1 incremental, 2 full."""
    controller_epoch: int32 = field("0+")
    broker_epoch: int64 = field("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field("0-4")
    topic_states: list[UpdateMetadataTopicState] = field("5+")
    live_brokers: list[UpdateMetadataBroker] = field("0+")


class UpdateMetadataResponse(Response, api=6, versions="0-8", flexible="6+"):
    """Whether the broker took it."""

    error_code: int16 = field("0+")
