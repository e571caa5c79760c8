"""WriteTxnMarkers (27): the coordinator has partitions' leaders write the end of a transaction (KIP-98)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32, int64


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partition_indexes: list[int32] = field("0+")


class WritableTxnMarker(Struct):
    """The end of one transaction."""

    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    transaction_result: bool = field("0+")
    topics: list[WritableTxnMarkerTopic] = field("0+")
    coordinator_epoch: int32 = field("0+")
    transaction_version: int8 = field("2+", ignorable=True)


class WriteTxnMarkersRequest(Request, api=27, versions="0-2", flexible="1+"):
    """Has markers written."""

    markers: list[WritableTxnMarker] = field("0+")


class WritableTxnMarkerPartitionResult(Struct):
    """What became of one marker."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class WritableTxnMarkerTopicResult(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = field("0+")


class WritableTxnMarkerResult(Struct):
    """Markers of one transaction."""

    producer_id: int64 = field("0+")
    topics: list[WritableTxnMarkerTopicResult] = field("0+")


class WriteTxnMarkersResponse(Response, api=27, versions="0-2", flexible="1+"):
    """One entry a marker."""

    markers: list[WritableTxnMarkerResult] = field("0+")
