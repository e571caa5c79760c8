"""How a transaction ends: the producer commits or aborts it, or is fenced (``endTransaction``).

In transaction version 2 (KIP-890) each end bumps the epoch. So the epoch of a request says which transaction
it means: the current one ends it, and the one before asks again for an end that was decided. Before that
version both have the same epoch, and the state alone decides.
"""

from collections.abc import Callable
from typing import Final

from barnabas.coordinator.transaction.markers import TransactionMarkerChannelManager
from barnabas.coordinator.transaction.metadata import (
    EPOCH_MAX,
    ProducerIdAndEpoch,
    TransactionMetadata,
    Transition,
)
from barnabas.coordinator.transaction.shard import TransactionShard, append_transition
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.coordinator.transaction.transaction_version import supports_epoch_bump
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending, Steps, steps
from barnabas.records.batch import NO_PRODUCER_ID

_S: Final = TransactionState


@steps
def end_transaction(
    shard: TransactionShard,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    *,
    committed: bool,
    client_version: int,
    new_producer_id: Callable[[], Pending[int]],
    clock: Clock,
    markers: TransactionMarkerChannelManager,
) -> Steps[ProducerIdAndEpoch]:
    """The producer's own request: done when the decision is replicated, before any marker is sent.

    The producer of the next transaction. Raises KafkaError, and then nothing has changed.
    """
    metadata = shard.named(transactional_id)
    judge = _is_open_2 if supports_epoch_bump(client_version) else _is_open_1
    is_open = judge(shard, metadata, producer, committed=committed)
    next_producer_id = NO_PRODUCER_ID
    if is_open and supports_epoch_bump(client_version) and metadata.bump_needs_new_producer_id:
        next_producer_id = yield new_producer_id()
        # Until the id was here another request may have ended it, or another broker have become coordinator.
        shard.require_led()
        is_open = judge(shard, metadata, producer, committed=committed)
    if not is_open:
        return metadata.producer  # asked again: the producer has not had the first answer
    decision = metadata.prepare_end(
        clock.time_ms(),
        committed=committed,
        client_version=client_version,
        next_producer_id=next_producer_id,
    )
    following: ProducerIdAndEpoch = yield _decide(shard, metadata, decision, clock=clock, markers=markers)
    return following


def _is_open_1(
    shard: TransactionShard,
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    *,
    committed: bool,
) -> bool:
    """True where a transaction is open; False where it has ended already, in the way that is asked for. All
    else raises KafkaError. These are the rules before transaction version 2 (``endTransactionWithTV1``).
    """
    shard.require_producer(metadata, producer)
    # Another change is being written; while markers are on their way, that is the Complete state.
    if metadata.pending_state is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    state = metadata.state
    if state is (_S.COMPLETE_COMMIT if committed else _S.COMPLETE_ABORT):
        return False
    if state is (_S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT):
        # Asked again, while the markers are on their way.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    # Nothing is open, or the other end is decided: the producer has lost count.
    if state is not _S.ONGOING:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return True


def _is_open_2(
    _shard: TransactionShard,
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    *,
    committed: bool,
) -> bool:
    """As `_is_open_1`, in transaction version 2."""
    state = metadata.state
    # The markers of the last transaction are on their way, and its producer, which was told its next epoch,
    # ends one that it has just begun. Kafka 4.4 fences it: a busy broker would do so to all that abort.
    if (
        state.is_prepared
        and supports_epoch_bump(metadata.client_version)
        and producer == _following(metadata)
    ):
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    # The end that this epoch asks for was decided: the id has the next epoch since, or the next producer id.
    is_overflow = (
        metadata.previous_producer_id == producer.producer_id
        and producer.epoch == EPOCH_MAX - 1
        and metadata.producer_epoch == 0
    )
    is_retry = is_overflow or metadata.producer_epoch == producer.epoch + 1
    is_current = metadata.producer_epoch == producer.epoch
    if metadata.producer_id != producer.producer_id and not is_overflow:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    # An end is asked for again only behind a decision that bumped the epoch. Everything else is late, or
    # another producer's: one of before version 2 may have this epoch by InitProducerId, and have ended since.
    may_be_retry = state not in (_S.ONGOING, _S.EMPTY) and supports_epoch_bump(metadata.client_version)
    may_be_current = not state.is_prepared
    if not ((is_retry and may_be_retry) or (is_current and may_be_current)):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if metadata.pending_state is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if state is _S.ONGOING:
        return True
    if is_retry:
        if state is (_S.COMPLETE_COMMIT if committed else _S.COMPLETE_ABORT):
            return False
        if state is (_S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    # A transaction of which no partition has come here may be aborted: the bump fences what is still under
    # way. It cannot be committed: the producer believes in records that are not there.
    elif not committed:
        return True
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def _following(metadata: TransactionMetadata) -> ProducerIdAndEpoch:
    """Who has the next transaction, once the end of this one is decided."""
    if metadata.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(metadata.next_producer_id, 0)
    return metadata.producer


@steps
def fence_and_abort(
    shard: TransactionShard,
    metadata: TransactionMetadata,
    *,
    new_producer_id: Callable[[], Pending[int]],
    clock: Clock,
    markers: TransactionMarkerChannelManager,
) -> Steps[None]:
    """The coordinator itself ends an open transaction: a new producer has come, or the time is over.

    The epoch is higher from now on, so that the producer that had it can neither commit nor write.
    """
    server_version = shard.server_version()
    next_producer_id = NO_PRODUCER_ID
    if supports_epoch_bump(server_version) and metadata.bump_needs_new_producer_id:
        next_producer_id = yield new_producer_id()
        shard.require_led()
        # Meanwhile it was ended.
        if metadata.pending_state is not None or metadata.state is not _S.ONGOING:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    decision = metadata.prepare_epoch_fence_and_abort(
        clock.time_ms(), server_version=server_version, next_producer_id=next_producer_id
    )
    try:
        yield _decide(shard, metadata, decision, clock=clock, markers=markers)
    except Exception:
        # Before version 2 the epoch is higher, in memory alone. No producer has it: the next fence uses it.
        # In version 2 nothing has changed, and the next fence has to raise it, of whatever version it is.
        metadata.has_failed_epoch_fence |= not supports_epoch_bump(server_version)
        raise


@steps
def _decide(
    shard: TransactionShard,
    metadata: TransactionMetadata,
    decision: Transition,
    *,
    clock: Clock,
    markers: TransactionMarkerChannelManager,
) -> Steps[ProducerIdAndEpoch]:
    # No marker before the decision is replicated: a marker stays, also when the decision is lost with this
    # broker.
    yield append_transition(shard, metadata, decision)
    # This runs in the moment in which the decision counts: nobody can have come in between.
    completion = metadata.prepare_complete(clock.time_ms())
    markers.add_markers_to_send(shard, metadata, completion)
    return completion.producer
