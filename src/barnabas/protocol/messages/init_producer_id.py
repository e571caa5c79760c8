"""InitProducerId (22): the identity under which a producer is idempotent or transactional (KIP-98,
KIP-360).
"""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16, int32, int64


class InitProducerIdRequest(Request, api=22, versions="0-6", flexible="2+"):
    """Asks for a producer id; ends what an earlier producer of the same transactional id left open."""

    transactional_id: str | None = field("0+", nullable="0+")
    transaction_timeout_ms: int32 = field("0+")
    producer_id: int64 = field("3+", default=-1)
    producer_epoch: int16 = field("3+", default=-1)
    enable_2pc: bool = field("6+")
    keep_prepared_txn: bool = field("6+")


class InitProducerIdResponse(Response, api=22, versions="0-6", flexible="2+"):
    """The producer's id and epoch."""

    throttle_time_ms: int32 = field("0+", ignorable=True)
    error_code: int16 = field("0+")
    producer_id: int64 = field("0+", default=-1)
    producer_epoch: int16 = field("0+")
    ongoing_txn_producer_id: int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field("6+", default=-1)
