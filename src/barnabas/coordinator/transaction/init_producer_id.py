"""A producer begins, and every earlier one of the same transactional id is fenced (KIP-98, KIP-360)."""

from collections.abc import Callable
from typing import Final

from barnabas.coordinator.transaction.end_transaction import fence_and_abort
from barnabas.coordinator.transaction.markers import TransactionMarkerChannelManager
from barnabas.coordinator.transaction.metadata import (
    ProducerIdAndEpoch,
    TransactionMetadata,
    is_epoch_exhausted,
)
from barnabas.coordinator.transaction.shard import TransactionShard, append_transition
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending, Steps, steps
from barnabas.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_S: Final = TransactionState


@steps
def init_producer_id(
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    *,
    find_shard: Callable[[], TransactionShard],
    new_producer_id: Callable[[], Pending[int]],
    clock: Clock,
    markers: TransactionMarkerChannelManager,
) -> Steps[ProducerIdAndEpoch]:
    """``handleInitProducerId``: the producer's id and epoch, when the replicas have them.

    `expected` is the producer's last id and epoch, if it had an error and begins again. `find_shard` raises
    KafkaError where the id is not coordinated here.
    """
    # A new id is fetched at most once: it is kept when the loop looks again at what has changed since.
    fresh_id = NO_PRODUCER_ID
    while True:
        shard = find_shard()
        metadata = shard.transactions.get(transactional_id)
        # A known id: a transition that is under way, or a producer that was fenced, ends the request here.
        if metadata is not None:
            _require_startable(metadata, expected)
            # The open transaction is aborted first.
            if metadata.state is _S.ONGOING:
                break
        # The first producer of the id, or one whose epochs are used up.
        needs_id = metadata is None or metadata.needs_new_producer_id(expected)
        if not needs_id or fresh_id != NO_PRODUCER_ID:
            break
        # The controller gives out ids. Until one is here the shard may have moved: look at all again.
        fresh_id = yield new_producer_id()

    # The id is new: only in memory. An epoch of -1 says that no producer has begun yet.
    if metadata is None:
        metadata = TransactionMetadata(
            transactional_id,
            producer_id=fresh_id,
            producer_epoch=NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            last_update_ms=clock.time_ms(),
        )
        shard.transactions.add(metadata)
    if metadata.state is _S.ONGOING:
        # The earlier producer may still be writing: it is fenced, and its transaction aborted. The new one
        # asks again until that is done, and gets the epoch after the one that fenced.
        yield fence_and_abort(shard, metadata, new_producer_id=new_producer_id, clock=clock, markers=markers)
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    # Epoch + 1, or epoch 0 under a new producer id: every earlier producer of the id is fenced by this.
    transition = metadata.prepare_producer(
        expected, new_producer_id=fresh_id, timeout_ms=timeout_ms, now_ms=clock.time_ms()
    )
    yield append_transition(shard, metadata, transition)
    return transition.producer


def _require_startable(metadata: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> None:
    """Raises what a producer is answered that may not begin now."""
    if metadata.pending_state is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    # KIP-360: a producer that names its id and epoch, after another one has begun.
    if expected is not None and not _may_have_been(metadata, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    # The markers are on their way: the next transaction must not begin before the last one has ended.
    if metadata.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


def _may_have_been(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether the producer can be the last one of the id (``isValidProducerId``)."""
    return (
        # The coordinator has no epoch: the id had expired, or was just made and could not be written.
        metadata.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == metadata.producer_id
        # It has used up the epochs of the former producer id, and has not had the answer with the new one.
        or (expected.producer_id == metadata.previous_producer_id and is_epoch_exhausted(expected.epoch))
    )
