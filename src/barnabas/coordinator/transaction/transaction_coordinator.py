"""`TransactionCoordinator`: the face of transactional ids to request handlers (``TransactionCoordinator``).

A request names an id. The hash of the name is a partition of ``__transaction_state``, which this broker
leads, is loading, or does not lead; the code for the client is in `_shard`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from barnabas.coordinator.runtime.journal import Journal
from barnabas.coordinator.runtime.keys import NO_PARTITION, partition_of
from barnabas.coordinator.runtime.loading import Loader
from barnabas.coordinator.runtime.runtime import CoordinatorRuntime
from barnabas.coordinator.transaction.add_partitions import add_partitions, verify_partitions
from barnabas.coordinator.transaction.end_transaction import end_transaction
from barnabas.coordinator.transaction.expiry import abort_timed_out, expire_ids
from barnabas.coordinator.transaction.init_producer_id import init_producer_id
from barnabas.coordinator.transaction.markers import MarkerChannel, TransactionMarkerChannelManager
from barnabas.coordinator.transaction.metadata import Codes, ProducerIdAndEpoch, TransactionMetadata
from barnabas.coordinator.transaction.settings import TransactionSettings
from barnabas.coordinator.transaction.shard import TransactionShard
from barnabas.coordinator.transaction.state_machine import TransactionStateMachine
from barnabas.coordinator.transaction.states import BY_LABEL, TransactionState
from barnabas.coordinator.transaction.transaction_version import TV_0
from barnabas.core.clock import Clock, Timer, every
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import PartitionSet, TopicPartition
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Sliced
from barnabas.log.log import Log

_events: Final = EventLog("coordinator")

ABORT_TASK: Final = "transaction-abort"
EXPIRY_TASK: Final = "transactionalId-expiration"
NO_DURATION: Final = -1


class TransactionCoordinator:
    """All transactional ids of this broker. Calls raise KafkaError, at once or through their Pending."""

    def __init__(
        self,
        settings: TransactionSettings,
        clock: Clock,
        *,
        channel: MarkerChannel,
        new_producer_id: Callable[[], Pending[int]],
        loader: Loader,
        journal: Callable[[int], Journal],
        log: Callable[[int], Log | None],
        server_version: Callable[[], int] = lambda: TV_0,
    ) -> None:
        """`journal` and `log` find what belongs to a partition of ``__transaction_state``; `server_version`
        is the finalized level of ``transaction.version``.
        """
        self.settings = settings
        self.partition_count = settings.state_topic_partitions
        self.markers = TransactionMarkerChannelManager(clock, channel)
        self._clock = clock
        self._new_producer_id = new_producer_id
        self._log = log
        self._active = False
        machine = TransactionStateMachine(clock, self.markers, server_version)
        self._runtime = CoordinatorRuntime(machine, loader, journal=journal, log=log)
        self._timers: list[Timer] = []
        self._aborting: Pending[None] = Pending.of(None)
        self._expiring: Pending[None] = Pending.of(None)

    # --- life -----------------------------------------------------------------------------------------------

    def startup(self, partition_count: int) -> None:
        """Begins to serve; the topic has, or will have, `partition_count` partitions."""
        self.partition_count = partition_count
        self._active = True
        settings = self.settings
        self._timers = [
            every(self._clock, ABORT_TASK, settings.abort_timed_out_interval_ms, self._abort_timed_out),
            every(self._clock, EXPIRY_TASK, settings.remove_expired_interval_ms, self._expire_ids),
        ]
        _events.info("transactions.startup.complete", partitions=partition_count)

    def shutdown(self) -> None:
        """Stops the timers and the markers; the next coordinator of each partition continues with its ids."""
        self._active = False
        for timer in self._timers:
            timer.cancel()
        self._runtime.close()
        self.markers.close()
        _events.info("transactions.shutdown.complete")

    def elected(self, partition: int, leader_epoch: int) -> None:
        """``onElection``: this broker leads the partition now, and loads it."""
        self._runtime.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """``onResignation``: this broker no longer leads the partition, and forgets its ids."""
        self._runtime.resigned(partition, leader_epoch)

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """A transaction may have written to them: `metadata_changed` sees that they need no marker."""

    def metadata_changed(self, topics: set[str]) -> None:
        """Markers may go where there was no leader before."""
        del topics
        self.markers.metadata_changed()

    def _abort_timed_out(self) -> None:
        # The walk before may not be at its end: it waits for slices, and for other coordinators.
        if self._aborting.done:
            self._aborting = abort_timed_out(
                self._runtime.shards(), self._new_producer_id, self._clock, self.markers
            )

    def _expire_ids(self) -> None:
        if self._expiring.done:
            self._expiring = self._expire_each()

    @steps
    def _expire_each(self) -> Steps[None]:
        for shard in self._runtime.shards():
            log = self._log(shard.partition)
            if log is not None:
                yield expire_ids(
                    shard,
                    self._clock,
                    expiration_ms=self.settings.id_expiration_ms,
                    batch_bytes_max=log.config.max_message_bytes,
                    timeout_ms=self.settings.request_timeout_ms,
                )

    # --- whose id -------------------------------------------------------------------------------------------

    def partition_for(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` that an id belongs to."""
        return partition_of(transactional_id, self.partition_count)

    def _shard(self, transactional_id: str) -> TransactionShard:
        partition = self.partition_for(transactional_id)
        shard = self._runtime.led.get(partition)
        if partition == NO_PARTITION:
            # Kafka's answer too, where its record of the id cannot be written.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The transactional id is too long to be stored.")
        if shard is None:
            # In the first case the client waits and asks here again, in the second it looks for its
            # coordinator.
            loading = partition in self._runtime.loading
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NOT_COORDINATOR)
        # As if the load had failed, for this id alone.
        if transactional_id in shard.unreadable:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard

    def _shard_of_named(self, transactional_id: str) -> TransactionShard:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return self._shard(transactional_id)

    # --- producers ------------------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> Pending[ProducerIdAndEpoch]:
        """A producer begins (``handleInitProducerId``)."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        # KIP-98: ``transaction.max.timeout.ms`` bounds how long a producer may hold readers up.
        if not 0 < timeout_ms <= self.settings.max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return init_producer_id(
            transactional_id,
            timeout_ms,
            expected,
            find_shard=lambda: self._shard(transactional_id),
            new_producer_id=self._new_producer_id,
            clock=self._clock,
            markers=self.markers,
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: PartitionSet,
        *,
        client_version: int = TV_0,
    ) -> Pending[None]:
        """The producer is going to write to partitions (``handleAddPartitionsToTransaction``). In
        `client_version` 2 their leader says so when its first batch has come.
        """
        shard = self._shard_of_named(transactional_id)
        return add_partitions(
            shard,
            transactional_id,
            producer,
            partitions,
            client_version=client_version,
            clock=self._clock,
        )

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Mapping[str, Iterable[int]]
    ) -> Codes:
        """Whether partitions belong to the open transaction (``handleVerifyPartitionsInTransaction``)."""
        shard = self._shard_of_named(transactional_id)
        return verify_partitions(shard, transactional_id, producer, partitions)

    def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        committed: bool,
        client_version: int = TV_0,
    ) -> Pending[ProducerIdAndEpoch]:
        """The producer commits or aborts (``handleEndTransaction``); the producer of its next transaction."""
        shard = self._shard_of_named(transactional_id)
        return end_transaction(
            shard,
            transactional_id,
            producer,
            committed=committed,
            client_version=client_version,
            new_producer_id=self._new_producer_id,
            clock=self._clock,
            markers=self.markers,
        )

    # --- administration -------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """An id as it is (``handleDescribeTransactions``)."""
        self._require_active()
        metadata = self._shard_of_named(transactional_id).transactions.get(transactional_id)
        if metadata is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return metadata

    def transactions(
        self, producer_ids: Collection[int], state_names: Collection[str], duration_ms: int = NO_DURATION
    ) -> Sliced[list[TransactionMetadata]]:
        """The ids that all filters match (``listTransactionStates``); an empty filter matches all.

        A state that there is not matches none. A duration counts from the start of an id's last transaction.
        """
        self._require_active()
        # A list that lacks the ids of a partition would look complete (``listTransactionStates``).
        if self._runtime.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        states = {BY_LABEL.get(name) for name in state_names}
        found = []
        for shard in self._runtime.shards():
            for metadata in shard.transactions:
                if (
                    (not producer_ids or metadata.producer_id in producer_ids)
                    and (not states or metadata.state in states)
                    and (duration_ms < 0 or self._clock.time_ms() - metadata.start_ms > duration_ms)
                    and metadata.state is not TransactionState.DEAD
                ):
                    found.append(metadata)
                yield
        return found

    def open_since_ms(self) -> Iterator[int | None]:
        """When each open transaction of this broker began; None for an id without one. For metrics."""
        for shard in self._runtime.shards():
            for metadata in shard.transactions:
                is_open = metadata.state is TransactionState.ONGOING or metadata.state.is_prepared
                yield metadata.start_ms if is_open else None

    def _require_active(self) -> None:
        if not self._active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def __repr__(self) -> str:
        return f"<TransactionCoordinator{'' if self._active else ' inactive'} {self._runtime}>"
