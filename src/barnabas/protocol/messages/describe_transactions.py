"""DescribeTransactions (65): the state of transactions (KIP-664)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class DescribeTransactionsRequest(Request, api=65, versions="0", flexible="0+"):
    """Asks for transactional ids."""

    transactional_ids: list[str] = field("0+")


class TopicData(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[int32] = field("0+")


class TransactionState(Struct):
    """One transaction."""

    error_code: int16 = field("0+")
    transactional_id: str = field("0+")
    transaction_state: str = field("0+")
    transaction_timeout_ms: int32 = field("0+")
    transaction_start_time_ms: int64 = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    topics: list[TopicData] = field("0+")


class DescribeTransactionsResponse(Response, api=65, versions="0", flexible="0+"):
    """One entry a transactional id."""

    throttle_time_ms: int32 = field("0+")
    transaction_states: list[TransactionState] = field("0+")
