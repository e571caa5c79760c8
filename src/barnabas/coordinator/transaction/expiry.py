"""What ends because its time is over: transactions that nobody ends, and ids that nobody uses."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from barnabas.coordinator.transaction.end_transaction import fence_and_abort
from barnabas.coordinator.transaction.markers import TransactionMarkerChannelManager
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.coordinator.transaction.records import tombstone
from barnabas.coordinator.transaction.shard import TransactionShard
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.replica.produce import ACKS_ALL

_events: Final = EventLog("coordinator")

_BATCH_BYTES: Final = 61
_RECORD_BYTES_MAX: Final = 32
"""A record without its key: lengths, attributes, time and offset, each as long as it can be."""
_EXPIRE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
_EXPECTED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


@steps
def abort_timed_out(
    shards: Iterable[TransactionShard],
    new_producer_id: Callable[[], Pending[int]],
    clock: Clock,
    markers: TransactionMarkerChannelManager,
) -> Steps[None]:
    """``abortTimedOutTransactions``: fences the producers of transactions that are open for too long."""
    slices = Slices(clock)
    for shard in shards:
        for metadata in shard.transactions:
            if slices.over():
                yield slices.next_turn()
            # Between two slices another broker may have become coordinator: it aborts them.
            if shard.resigned:
                break
            # KIP-98: a transaction holds the last stable offset of each of its partitions, so it must not
            # stay open.
            if _is_timed_out(metadata, clock.time_ms()):
                aborted = fence_and_abort(
                    shard, metadata, new_producer_id=new_producer_id, clock=clock, markers=markers
                )
                aborted.when_done(partial(_report, metadata))


def _is_timed_out(metadata: TransactionMetadata, now_ms: int) -> bool:
    return (
        metadata.state is TransactionState.ONGOING
        and metadata.pending_state is None
        and metadata.start_ms + metadata.timeout_ms < now_ms
    )


def _report(metadata: TransactionMetadata, aborted: Pending[None]) -> None:
    error = aborted.error
    if error is None:
        _events.info("transaction.timed_out", transaction=metadata)
    # With an expected error another request has ended the transaction, or the id has moved
    # (``onEndTransactionComplete``).
    elif not (isinstance(error, KafkaError) and error.code in _EXPECTED):
        _events.warning("transaction.not_aborted", transaction=metadata, reason=error)


@steps
def expire_ids(
    shard: TransactionShard, clock: Clock, *, expiration_ms: int, batch_bytes_max: int, timeout_ms: int
) -> Steps[None]:
    """``removeExpiredTransactionalIds``: forgets ids that nothing happened to for so long."""
    slices = Slices(clock)
    batch: list[TransactionMetadata] = []
    size = _BATCH_BYTES
    for metadata in shard.transactions:
        if slices.over():
            yield slices.next_turn()
        if shard.resigned:
            return
        # An id with an open transaction, or with markers on their way, never expires.
        if (
            metadata.pending_state is not None
            or metadata.state not in _EXPIRE
            or metadata.last_update_ms > clock.time_ms() - expiration_ms
        ):
            continue
        record_bytes = _RECORD_BYTES_MAX + len(metadata.transactional_id.encode("utf-8", "surrogatepass"))
        # As many tombstones as the topic takes in one batch (``max.message.bytes``).
        if batch and size + record_bytes > batch_bytes_max:
            _remove(shard, batch, timeout_ms)
            batch, size = [], _BATCH_BYTES
        # Pending from here on: no producer can begin while the tombstone is written.
        metadata.prepare_dead()
        batch.append(metadata)
        size += record_bytes
    if batch:
        _remove(shard, batch, timeout_ms)


@steps
def _remove(shard: TransactionShard, batch: list[TransactionMetadata], timeout_ms: int) -> Steps[None]:
    """Writes the tombstones of ids that are pending as Dead; an id is forgotten when the replicas have its
    tombstone.
    """
    try:
        records = [tombstone(metadata.transactional_id) for metadata in batch]
        yield shard.journal.append(records, acks=ACKS_ALL, timeout_ms=timeout_ms)
    except Exception as error:
        _events.warning("expiry.not_written", partition=shard.partition, ids=len(batch), reason=error)
        for metadata in batch:
            metadata.take_back()
        return
    for metadata in batch:
        # While it is pending nobody can have changed it, so it is the one that the tombstone is for.
        shard.transactions.remove(metadata.transactional_id)
    _events.info("expiry.finished", partition=shard.partition, ids=len(batch))
