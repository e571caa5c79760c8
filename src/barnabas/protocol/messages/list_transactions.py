"""ListTransactions (66): the transactions that a broker coordinates (KIP-664, KIP-994)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class ListTransactionsRequest(Request, api=66, versions="0-2", flexible="0+"):
    """Asks for transactions that all of the filters match."""

    state_filters: list[str] = field("0+")
    producer_id_filters: list[int64] = field("0+")
    duration_filter: int64 = field("1+", default=-1)
    transactional_id_pattern: str | None = field("2+", default=None, nullable="2+")


class TransactionState(Struct):
    """One transaction."""

    transactional_id: str = field("0+")
    producer_id: int64 = field("0+")
    transaction_state: str = field("0+")


class ListTransactionsResponse(Response, api=66, versions="0-2", flexible="0+"):
    """The transactions that this broker coordinates."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    unknown_state_filters: list[str] = field("0+")
    transaction_states: list[TransactionState] = field("0+")
