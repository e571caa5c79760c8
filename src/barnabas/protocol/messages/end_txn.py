"""EndTxn (26): a transaction is committed or aborted (KIP-98, KIP-890)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16, int32, int64


class EndTxnRequest(Request, api=26, versions="0-5", flexible="3+"):
    """Ends the producer's open transaction."""

    transactional_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    committed: bool = field("0+")


class EndTxnResponse(Response, api=26, versions="0-5", flexible="3+"):
    """Whether it ends; v5+ brings the producer's next epoch."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    producer_id: int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: int16 = field("5+", default=-1, ignorable=True)
