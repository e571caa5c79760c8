"""The partitions of a transaction: added by the producer, asked about by their leaders (KIP-890)."""

from collections.abc import Iterable, Mapping

from barnabas.coordinator.transaction.metadata import Codes, ProducerIdAndEpoch
from barnabas.coordinator.transaction.shard import TransactionShard, append_transition
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import PartitionSet
from barnabas.core.pending import Pending


def add_partitions(
    shard: TransactionShard,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: PartitionSet,
    *,
    client_version: int,
    clock: Clock,
) -> Pending[None]:
    """``handleAddPartitionsToTransaction``: done when the transaction has begun, or has these partitions."""
    metadata = shard.named(transactional_id)
    # Another change is being written: the producer asks again. It may be the end after which the producer has
    # another id (KAFKA-18660), so nothing is said of who asks.
    if metadata.pending_state is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    shard.require_producer(metadata, producer)
    # The markers are on their way, or wait for the replicas.
    if metadata.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is TransactionState.ONGOING and metadata.has_partitions(partitions):
        return Pending.of(None)  # nothing new: nothing is written
    # The transaction begins with its first partition (the state becomes Ongoing), or grows.
    transition = metadata.prepare_add_partitions(partitions, clock.time_ms(), client_version=client_version)
    return append_transition(shard, metadata, transition)


def verify_partitions(
    shard: TransactionShard,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: Mapping[str, Iterable[int]],
) -> Codes:
    """``handleVerifyPartitionsInTransaction``: the code of each partition; changes nothing.

    A pending state is not looked at. A partition counts from the moment when the replicas have its addition,
    until its marker is written.
    """
    metadata = shard.of_producer(transactional_id, producer)
    # The end is decided: a batch that came now would stand behind the marker.
    if metadata.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    # KIP-890: a producer whose partition is missing here was fenced or timed out, and has to abort.
    nothing: dict[int, None] = {}
    codes: Codes = {}
    for topic, asked in partitions.items():
        added = metadata.partitions.get(topic, nothing)
        codes[topic] = {
            partition: ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE
            for partition in asked
        }
    return codes
