"""The records of ``__transaction_state`` (``TransactionLog``)."""

from collections.abc import Iterable

from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.transaction.metadata import TransactionMetadata, Transition
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.coordinator.transaction.transaction_version import log_value_version
from barnabas.core.ids import PartitionSet
from barnabas.protocol.coordinator.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)


def transaction_record(
    transactional_id: str, transition: Transition, server_version: int
) -> CoordinatorRecord:
    """`server_version` is the finalized level of ``transaction.version``.

    A value of version 0 has no room for the next producer id. An end of version 2 is written in version 1 all
    the same: the level may have been lowered before it.
    """
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
    is_end = transition.state not in (TransactionState.EMPTY, TransactionState.ONGOING)
    version = log_value_version(transition.client_version if is_end else server_version)
    version = max(version, log_value_version(server_version))
    if version:
        value.previous_producer_id = transition.previous_producer_id
        value.next_producer_id = transition.next_producer_id
        value.client_transaction_version = transition.client_version
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), value, version)


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
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def _partitions(topics: Iterable[PartitionsSchema] | None) -> PartitionSet:
    partitions: PartitionSet = {}
    for topic in topics or ():
        if topic.partition_ids:
            partitions.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partition_ids))
    return partitions
