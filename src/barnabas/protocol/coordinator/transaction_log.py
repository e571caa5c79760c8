"""TransactionLog (type 0 in `__transaction_state`): a transactional id and its transaction."""

from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32, int64


class TransactionLogKey(CoordinatorKey, record_type=0):
    """The transactional id."""

    transactional_id: str = field("0")


class PartitionsSchema(Struct):
    """Partitions of one topic that the transaction wrote to."""

    topic: str = field("0+")
    partition_ids: list[int32] = field("0+")


class TransactionLogValue(CoordinatorValue, versions="0-1", flexible="1+"):
    """The producer behind the id, and the state of its transaction."""

    producer_id: int64 = field("0+")
    previous_producer_id: int64 = field("1+", default=-1, tag=0)
    """Of the last completed transaction (KIP-890, Kafka 4.0 and later, like the other tagged fields)."""
    next_producer_id: int64 = field("1+", default=-1, tag=1)
    """Already handed out, in use once the transaction is completed."""
    producer_epoch: int16 = field("0+")
    next_producer_epoch: int16 = field("1+", default=-1, tag=3)
    transaction_timeout_ms: int32 = field("0+")
    transaction_status: int8 = field("0+")
    """0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit, 5 complete abort, 6 dead,
    7 prepare epoch fence."""
    transaction_partitions: list[PartitionsSchema] | None = field("0+", nullable="0+")
    """Null in a transaction without partitions."""
    transaction_last_update_timestamp_ms: int64 = field("0+")
    transaction_start_timestamp_ms: int64 = field("0+")
    client_transaction_version: int16 = field("1+", tag=2)
