"""The records of ``__transaction_state`` (``TransactionLog``)."""

from collections.abc import Iterable

from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.transaction.metadata import TransactionMetadata, Transition
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.ids import PartitionSet
from barnabas.protocol.coordinator.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)


def transaction_record(transactional_id: str, transition: Transition) -> CoordinatorRecord:
    """The value is of version 0: version 1 is for clusters that have finalized ``transaction.version``."""
    partitions = None
    if transition.state is not TransactionState.EMPTY:
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=list(of_topic))
            for topic, of_topic in transition.partitions.items()
        ]
    value = TransactionLogValue(
        producer_id=transition.producer_id,
        producer_epoch=transition.producer_epoch,
        transaction_timeout_ms=transition.timeout_ms,
        transaction_status=transition.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transition.last_update_ms,
        transaction_start_timestamp_ms=transition.start_ms,
    )
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), value)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id))


def metadata_of(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """What a record says. Raises ValueError for a state that there is not."""
    state = TransactionState(value.transaction_status)
    return TransactionMetadata(
        transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=None if state is TransactionState.EMPTY else _partitions(value.transaction_partitions),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
    )


def _partitions(topics: Iterable[PartitionsSchema] | None) -> PartitionSet:
    partitions: PartitionSet = {}
    for topic in topics or ():
        if topic.partition_ids:
            partitions.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partition_ids))
    return partitions
