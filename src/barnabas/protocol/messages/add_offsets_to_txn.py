"""AddOffsetsToTxn (25): a group's offsets join a transaction (KIP-98)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16, int32, int64


class AddOffsetsToTxnRequest(Request, api=25, versions="0-4", flexible="3+"):
    """Announces that the transaction is going to commit the group's positions."""

    transactional_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    group_id: str = field("0+")


class AddOffsetsToTxnResponse(Response, api=25, versions="0-4", flexible="3+"):
    """Whether the transaction took it."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
