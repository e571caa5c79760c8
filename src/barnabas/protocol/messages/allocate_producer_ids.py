"""AllocateProducerIds (67): a broker asks the controller for a block of producer ids (KIP-730)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16, int32, int64


class AllocateProducerIdsRequest(Request, api=67, versions="0", flexible="0+"):
    """Asks for the next block."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)


class AllocateProducerIdsResponse(Response, api=67, versions="0", flexible="0+"):
    """The first id of the block, and how many it has."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    producer_id_start: int64 = field("0+")
    producer_id_len: int32 = field("0+")
