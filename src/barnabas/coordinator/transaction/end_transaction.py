"""How a transaction ends: the producer commits or aborts it, or is fenced (``endTransaction``)."""

from barnabas.coordinator.transaction.markers import TransactionMarkerChannelManager
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch, TransactionMetadata, Transition
from barnabas.coordinator.transaction.shard import TransactionShard, append_transition
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending, Steps, steps

_S = TransactionState


def end_transaction(
    shard: TransactionShard,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    *,
    committed: bool,
    clock: Clock,
    markers: TransactionMarkerChannelManager,
) -> Pending[None]:
    """The producer's own request: done when the decision is replicated, before any marker is sent.

    Raises KafkaError, and then nothing has changed.
    """
    metadata = shard.of_producer(transactional_id, producer)
    # Another change is being written; while markers are on their way, that is the Complete state.
    if metadata.pending_state is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    state = metadata.state
    if state is (_S.COMPLETE_COMMIT if committed else _S.COMPLETE_ABORT):
        return Pending.of(None)  # asked again: the producer has not had the first answer
    if state is (_S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT):
        # Asked again, while the markers are on their way.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    # Nothing is open, or the other end is decided: the producer has lost count.
    if state is not _S.ONGOING:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    decision = metadata.prepare_end(clock.time_ms(), committed=committed)
    return _decide(shard, metadata, decision, clock=clock, markers=markers)


@steps
def fence_and_abort(
    shard: TransactionShard,
    metadata: TransactionMetadata,
    *,
    clock: Clock,
    markers: TransactionMarkerChannelManager,
) -> Steps[None]:
    """The coordinator itself ends an open transaction: a new producer has come, or the time is over.

    The epoch is higher from now on, so that the producer that had it can neither commit nor write.
    """
    decision = metadata.prepare_epoch_fence_and_abort(clock.time_ms())
    try:
        yield _decide(shard, metadata, decision, clock=clock, markers=markers)
    except Exception:
        # The epoch is higher in memory alone, and no producer has it: the next fence uses it.
        metadata.has_failed_epoch_fence = True
        raise


@steps
def _decide(
    shard: TransactionShard,
    metadata: TransactionMetadata,
    decision: Transition,
    *,
    clock: Clock,
    markers: TransactionMarkerChannelManager,
) -> Steps[None]:
    # No marker before the decision is replicated: a marker stays, also when the decision is lost with this
    # broker.
    yield append_transition(shard, metadata, decision)
    # This runs in the moment in which the decision counts: nobody can have come in between.
    markers.add_markers_to_send(shard, metadata, metadata.prepare_complete(clock.time_ms()))
