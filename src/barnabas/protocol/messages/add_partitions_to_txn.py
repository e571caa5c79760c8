"""AddPartitionsToTxn (24): partitions join a transaction (KIP-98; batches of transactions: KIP-890)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[int32] = field("0+")


class AddPartitionsToTxnTransaction(Struct):
    """One transaction with the partitions that it adds, or verifies."""

    transactional_id: str = field("4+")
    producer_id: int64 = field("4+")
    producer_epoch: int16 = field("4+")
    verify_only: bool = field("4+")
    topics: list[AddPartitionsToTxnTopic] = field("4+")


class AddPartitionsToTxnRequest(Request, api=24, versions="0-5", flexible="3+"):
    """Adds partitions: of one transaction until v3, of several from v4 on."""

    transactions: list[AddPartitionsToTxnTransaction] = field("4+")
    v3_and_below_transactional_id: str = field("0-3")
    v3_and_below_producer_id: int64 = field("0-3")
    v3_and_below_producer_epoch: int16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    """What became of one partition."""

    partition_index: int32 = field("0+")
    partition_error_code: int16 = field("0+")


class AddPartitionsToTxnTopicResult(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field("0+")


class AddPartitionsToTxnResult(Struct):
    """Topics of one transaction."""

    transactional_id: str = field("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field("4+")


class AddPartitionsToTxnResponse(Response, api=24, versions="0-5", flexible="3+"):
    """One entry a partition."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3")
