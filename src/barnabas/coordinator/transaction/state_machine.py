"""`TransactionStateMachine`: what the records of ``__transaction_state`` mean."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from barnabas.coordinator.runtime.journal import Journal
from barnabas.coordinator.transaction.bulk import decode_ids
from barnabas.coordinator.transaction.markers import RETRY_MS, TransactionMarkerChannelManager
from barnabas.coordinator.transaction.metadata import TransactionMetadata, Transition
from barnabas.coordinator.transaction.records import metadata_of
from barnabas.coordinator.transaction.shard import TransactionShard
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TRANSACTION_STATE_TOPIC
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.coordinator.topics import TRANSACTION_STATE
from barnabas.protocol.coordinator.transaction_log import TransactionLogKey
from barnabas.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from barnabas.protocol.coordinator.transaction_log import TransactionLogValue

_events: Final = EventLog("coordinator")

REPLICATED_TIMEOUT_MS: Final = 30_000
"""How long the replicas may take before it is looked at again."""

_STATES: Final = tuple(TransactionState)
"""By their numbers: a look-up, where a call of the class would take a microsecond of each id."""

Prepared: TypeAlias = tuple[TransactionMetadata, Transition]


class TransactionStateMachine:
    """Transactional ids; implements `runtime.state_machine.StateMachine`."""

    topic = TRANSACTION_STATE_TOPIC
    load_task = "transaction-log-manager-0"
    bulk = staticmethod(decode_ids)

    def __init__(
        self, clock: Clock, markers: TransactionMarkerChannelManager, server_version: Callable[[], int]
    ) -> None:
        self._clock = clock
        self._markers = markers
        self._server_version = server_version

    def new_shard(self, partition: int, leader_epoch: int, journal: Journal) -> TransactionShard:
        return TransactionShard(partition, leader_epoch, journal, self._server_version)

    def decode(self, key: bytes, value: bytes | None) -> tuple[CoordinatorKey, CoordinatorValue | None]:
        return TRANSACTION_STATE.decode(key, value)

    def replay(
        self,
        shard: TransactionShard,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        *,
        producer_id: int,
        journal_offset: int,
    ) -> None:
        del producer_id, journal_offset  # the last record of an id counts
        transactional_id = cast("TransactionLogKey", key).transactional_id
        if value is None:
            shard.transactions.remove(transactional_id)
        else:
            # Each record says all about its id, so it replaces the earlier one, also one that could not be
            # read.
            metadata = metadata_of(transactional_id, cast("TransactionLogValue", value))
            shard.transactions.add(metadata)
        # It says all of the id: what could not be read before it no longer counts.
        shard.unreadable.discard(transactional_id)

    def replay_bulk(
        self, shard: TransactionShard, piece: Any, *, producer_id: int, memo: dict[Any, Any]
    ) -> int:
        """Applies what `bulk.decode_ids` made of one record."""
        del producer_id, memo
        (
            transactional_id,
            its_producer_id,
            epoch,
            timeout_ms,
            state,
            last_update_ms,
            start_ms,
            client_version,
            previous_producer_id,
        ) = piece
        metadata = TransactionMetadata(
            transactional_id,
            producer_id=its_producer_id,
            producer_epoch=epoch,
            timeout_ms=timeout_ms,
            last_update_ms=last_update_ms,
            state=_STATES[state],
            start_ms=start_ms,
            client_version=client_version,
            previous_producer_id=previous_producer_id,
        )
        shard.transactions.add(metadata)
        shard.unreadable.discard(transactional_id)
        return 1

    def replay_end_transaction_marker(
        self, shard: TransactionShard, producer_id: int, *, committed: bool
    ) -> None:
        """No transaction has records here."""

    def replay_unreadable(self, shard: TransactionShard, key: bytes | None) -> None:
        """Takes the id out of service, until a later record of it is read.

        The record before it must not count in its place: a transaction that is committed already would be
        aborted, or a producer that is fenced let in again. Without an id, any id may be meant. Kafka ends
        the load here, and serves the ids as they were then.
        """
        if key is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch of unknown transactional ids")
        try:
            transactional_id = TransactionLogKey.from_bytes(key).transactional_id
        except ProtocolError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record of an unknown id: {error}") from error
        shard.transactions.remove(transactional_id)
        shard.unreadable.add(transactional_id)

    @steps
    def loaded(self, shard: TransactionShard) -> Steps[None]:
        """Has the markers sent of transactions whose end the former coordinator had decided."""
        for transactional_id in shard.unreadable:
            _events.error(
                "load.transactional_id_unreadable",
                transactional_id=transactional_id,
                partition=shard.partition,
                mend="nobody coordinates the id until its partition is led by a broker that can read it",
            )
        slices = Slices(self._clock)
        prepared: list[Prepared] = []
        for metadata in shard.transactions:
            # The former coordinator wrote the decision, but not that all markers are there. Some may be.
            if metadata.state.is_prepared:
                prepared.append((metadata, metadata.prepare_complete(self._clock.time_ms())))
            if slices.over():
                yield slices.next_turn()
        # The load does not wait for this: other ids are served while the markers are on their way.
        if prepared:
            self._send_markers(shard, prepared)

    @steps
    def _send_markers(self, shard: TransactionShard, prepared: list[Prepared]) -> Steps[None]:
        """Sends the markers as soon as the replicas have all that was loaded.

        A decision at the end of the log may be on this broker alone. Kafka sends its markers at once; if this
        broker is lost before the others have the record, the next coordinator finds the transaction open, and
        may abort it when some partitions have been told that it is committed.
        """
        replicated = False
        while not (replicated or shard.resigned):
            try:
                yield shard.journal.replicated(REPLICATED_TIMEOUT_MS)
                replicated = True
            except KafkaError as error:
                _events.info("markers.load_not_replicated", partition=shard.partition, reason=error)
                yield later(self._clock, RETRY_MS)
        slices = Slices(self._clock)
        for metadata, transition in prepared:
            # Between two slices: the next coordinator sends the others.
            if shard.resigned:
                return
            self._markers.add_markers_to_send(shard, metadata, transition)
            if slices.over():
                yield slices.next_turn()

    def unloaded(self, shard: TransactionShard) -> None:
        """The new coordinator sends the markers; what still comes back for this shard changes nothing."""
        shard.resigned = True
        self._markers.remove_markers_of(shard)
        _events.info("transactions.unload.finished", partition=shard.partition, ids=len(shard.transactions))
        shard.transactions.clear()

    def __repr__(self) -> str:
        return f"<TransactionStateMachine {self._markers}>"


def later(clock: Clock, delay_ms: float) -> Pending[None]:
    """Done after the delay."""
    over: Pending[None] = Pending()
    clock.call_later(delay_ms, lambda: over.complete(None))
    return over
