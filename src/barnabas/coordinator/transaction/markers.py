"""`TransactionMarkerChannelManager`: has the leaders of partitions write how a transaction ended.

Theory of operation
-------------------
::

    add_markers_to_send -> the queue of each leader -> a request, one in flight a broker
                                ^                                  | the answer, partition by partition
                                |                                  v
                                +--- leader moved, broker gone ----+---- all done ---> the last record
                                                                         (CompleteCommit, CompleteAbort)

The markers that wait for one broker go in one request, also those of different transactions. A partition
whose leader is not alive waits for the next look at the metadata (``markersQueueForUnknownBroker``); one that
the metadata does not have is deleted and needs no marker, if the metadata is as new as our own election. A
transaction has one `_Completion`; an entry in a queue whose completion is no longer the id's current one is
dropped when its turn comes. So nothing has to be searched when a broker resigns from a partition of
``__transaction_state``, or when a partition says that the transaction is over.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from barnabas.coordinator.transaction.metadata import (
    Codes,
    ProducerIdAndEpoch,
    TransactionMetadata,
    Transition,
)
from barnabas.coordinator.transaction.shard import TransactionShard, append_transition
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.clock import Clock, Timer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_BROKER, partitions_in
from barnabas.core.pending import Pending

_events: Final = EventLog("coordinator.markers")

RETRY_MS: Final = 50
"""How long what could not be sent, written or appended waits (Kafka's back-off between two connections)."""

REQUEST_PARTITIONS_MAX: Final = 5_000
"""About how many partitions one request names: its answer is worked off in one piece."""

_WRITTEN: Final = frozenset(
    # A partition of an old message format has no transactions, so it needs no marker.
    {ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION}
)
_TO_NEW_LEADER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_OVER: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""A later producer or coordinator has been there: this coordinator must not end the transaction."""


class TxnMarker(NamedTuple):
    """The end of one transaction, for some partitions of one leader (``TxnMarkerEntry``)."""

    producer: ProducerIdAndEpoch
    coordinator_epoch: int
    committed: bool
    partitions: dict[str, list[int]]
    transaction_version: int
    """In version 2 the epoch is above that of the transaction's records, and leaders look for that."""


MarkerCodes: TypeAlias = Mapping[int, Codes]
"""What became of markers, by producer id."""


class MarkerChannel(Protocol):
    """The way to the leaders of partitions; one request a broker at a time."""

    def leaders_of(self, topic: str, partitions: Iterable[int]) -> dict[int | None, list[int]]:
        """The partitions of a topic by the broker that leads them (``getPartitionLeaderEndpoint``).

        NO_BROKER while it cannot be reached, None where the metadata has no such partition.
        """

    def is_as_new_as(self, state_partition: int, leader_epoch: int) -> bool:
        """Whether the metadata says who leads this partition of ``__transaction_state`` in this epoch, or a
        later one.
        """

    def write_markers(self, broker_id: int, markers: Sequence[TxnMarker]) -> Pending[MarkerCodes]:
        """The broker's answer; fails where none comes."""


class _Completion(NamedTuple):
    """What is written when all markers are (``PendingCompleteTxn``)."""

    shard: TransactionShard
    metadata: TransactionMetadata
    transition: Transition
    producer: ProducerIdAndEpoch
    """Of the decision. The transition may have the next producer id."""


class _Markers(NamedTuple):
    """A part of a transaction's markers."""

    completion: _Completion
    partitions: dict[str, list[int]]

    @property
    def size(self) -> int:
        return sum(map(len, self.partitions.values()))

    def in_pieces(self) -> "Iterator[_Markers]":
        """The same in parts of at most `REQUEST_PARTITIONS_MAX` partitions: itself, nearly always."""
        if self.size <= REQUEST_PARTITIONS_MAX:
            yield self
            return
        piece, size = _Markers(self.completion, {}), 0
        for topic, partitions in self.partitions.items():
            for start in range(0, len(partitions), REQUEST_PARTITIONS_MAX):
                part = partitions[start : start + REQUEST_PARTITIONS_MAX]
                if size + len(part) > REQUEST_PARTITIONS_MAX:
                    yield piece
                    piece, size = _Markers(self.completion, {}), 0
                piece.partitions[topic] = part
                size += len(part)
        yield piece

    @property
    def marker(self) -> TxnMarker:
        shard, _, transition, producer = self.completion
        committed = transition.state is TransactionState.COMPLETE_COMMIT
        return TxnMarker(producer, shard.leader_epoch, committed, self.partitions, transition.client_version)


class _BrokerQueue:
    """What waits for one broker."""

    __slots__ = ("entries", "in_flight")

    def __init__(self) -> None:
        self.entries: deque[_Markers] = deque()
        self.in_flight = False


class TransactionMarkerChannelManager:
    """All markers of this coordinator that are on their way."""

    def __init__(self, clock: Clock, channel: MarkerChannel) -> None:
        self._clock = clock
        self._channel = channel
        self._completions: dict[str, _Completion] = {}
        """By transactional id (``transactionsWithPendingMarkers``)."""
        self._queues: dict[int, _BrokerQueue] = {}
        self._unknown_destination: list[_Markers] = []
        self._to_repeat: list[_Markers] = []
        self._appends_to_repeat: list[_Completion] = []
        self._retry_timer: Timer | None = None
        self._closed = False

    @property
    def unknown_destination_queue_size(self) -> int:
        """Markers whose partition has no leader that is alive."""
        return len(self._unknown_destination)

    @property
    def log_append_retry_queue_size(self) -> int:
        """Transactions whose markers are all written, and whose last record could not be."""
        return len(self._appends_to_repeat)

    def waiting_for(self, transactional_id: str) -> bool:
        """Whether markers of the id are on their way."""
        return transactional_id in self._completions

    def close(self) -> None:
        """No marker is sent from now on. Shards are given up before: what is in flight changes nothing."""
        self._closed = True
        if self._retry_timer is not None:
            self._retry_timer.cancel()

    # --- what is to be sent -----------------------------------------------------------------------------

    def add_markers_to_send(
        self, shard: TransactionShard, metadata: TransactionMetadata, transition: Transition
    ) -> None:
        """The decision is replicated; `transition` is written after the last marker."""
        # A later completion of the id replaces this one, so that entries of this one are dropped where they
        # wait.
        completion = _Completion(shard, metadata, transition, metadata.producer)
        self._completions[metadata.transactional_id] = completion
        self._enqueue(
            _Markers(completion, {topic: list(each) for topic, each in metadata.partitions.items()})
        )

    def remove_markers_of(self, shard: TransactionShard) -> None:
        """``removeMarkersForTxnTopicPartition``: the partition's new leader sends the markers."""
        for metadata in shard.transactions:
            transactional_id = metadata.transactional_id
            completion = self._completions.get(transactional_id)
            # An id can be here under a later shard already: the broker resigned and was elected again.
            if completion is not None and completion.shard is shard:
                del self._completions[transactional_id]

    def metadata_changed(self) -> None:
        """There may be leaders where there were none."""
        if self._unknown_destination:
            # Taken out first: `_enqueue` puts back what still has no leader.
            unknown, self._unknown_destination = self._unknown_destination, []
            for entry in unknown:
                self._enqueue(entry)

    def _is_current(self, completion: _Completion) -> bool:
        return self._completions.get(completion.metadata.transactional_id) is completion

    def _enqueue(self, entry: _Markers) -> None:
        """Puts partitions into the queues of those who lead them now (``addTxnMarkersToBrokerQueue``)."""
        completion = entry.completion
        if not self._is_current(completion):
            return
        # A controller that begins names the brokers first, then has us lead (and load), and then names the
        # partitions. What the metadata does not have by then is not deleted: Kafka takes it for that, and
        # completes the transaction without its markers.
        shard = completion.shard
        missing = None if self._channel.is_as_new_as(shard.partition, shard.leader_epoch) else NO_BROKER
        by_leader: dict[int | None, dict[str, list[int]]] = {}
        for topic, of_topic in entry.partitions.items():
            for leader, led in self._channel.leaders_of(topic, of_topic).items():
                to = by_leader.setdefault(missing if leader is None else leader, {})
                to.setdefault(topic, []).extend(led)
        for leader, partitions in by_leader.items():
            # Deleted: there is no log that a marker could be missing in.
            if leader is None:
                _events.info(
                    "markers.partitions_gone",
                    transactional_id=completion.metadata.transactional_id,
                    partitions=sum(map(len, partitions.values())),
                    first=next(partitions_in(partitions)),
                )
                for topic, deleted in partitions.items():
                    completion.metadata.marker_written(topic, deleted)
            # No leader that is alive: `metadata_changed` puts it into the queue of the next one.
            elif leader == NO_BROKER:
                self._unknown_destination.append(_Markers(completion, partitions))
                self._retry_later()
            else:
                queue = self._queues.get(leader)
                if queue is None:
                    queue = self._queues[leader] = _BrokerQueue()
                queue.entries += _Markers(completion, partitions).in_pieces()
                if not queue.in_flight:
                    # In a later turn, with what else comes in this one.
                    queue.in_flight = True
                    self._clock.call_soon(partial(self._send, leader, queue))
        self._complete_when_written(completion)

    # --- one broker -------------------------------------------------------------------------------------

    def _send(self, broker_id: int, queue: _BrokerQueue) -> None:
        entries: list[_Markers] = []
        count = 0
        # The rest goes with the next request.
        while queue.entries and count < REQUEST_PARTITIONS_MAX:
            entry = queue.entries.popleft()
            # Transactions that another coordinator took over, or that were given up, are left out here.
            if self._is_current(entry.completion):
                entries.append(entry)
                count += entry.size
        if not entries or self._closed:
            queue.in_flight = False
            return
        markers = [entry.marker for entry in entries]
        # One request a broker at a time, as Kafka's ``InterBrokerSendThread`` does.
        answer = self._channel.write_markers(broker_id, markers)
        answer.when_done(partial(self._answered, broker_id, queue, entries))

    def _answered(
        self, broker_id: int, queue: _BrokerQueue, entries: list[_Markers], answer: Pending[MarkerCodes]
    ) -> None:
        # No connection, or a lost one: some markers may be written. They are sent again; a second marker does
        # no harm.
        if answer.error is not None:
            _events.info("markers.no_answer", broker=broker_id, markers=len(entries), reason=answer.error)
            self._repeat(entries)
        else:
            codes = answer.result()
            for entry in entries:
                # Markers are told apart by producer id: one transaction of an id is open at a time.
                self._settle(entry, codes.get(entry.completion.producer.producer_id, {}))
        # What was added while the request was in flight; the queue stays marked as in flight.
        if queue.entries:
            self._clock.call_soon(partial(self._send, broker_id, queue))
        else:
            queue.in_flight = False

    def _settle(self, entry: _Markers, codes: Codes) -> None:
        """``TransactionMarkerRequestCompletionHandler``: what a leader said of a transaction's partitions."""
        completion, partitions = entry
        if not self._is_current(completion):
            return
        metadata = completion.metadata
        again: dict[str, list[int]] = {}
        for topic, partition in partitions_in(partitions):
            # A partition that the answer leaves out may have its marker: a second one does no harm.
            code = codes.get(topic, {}).get(partition, ErrorCode.REQUEST_TIMED_OUT)
            if code in _WRITTEN:
                metadata.marker_written(topic, (partition,))
            # The leader has moved, or cannot write at the moment: the next try goes to the leader of then.
            elif code in _TO_NEW_LEADER:
                again.setdefault(topic, []).append(partition)
            else:
                # Of `_OVER`, Kafka says that the transaction can be ignored now. All other codes are bugs,
                # here or there, and would come again: the id stays as it is until its coordinator changes.
                report = _events.info if code in _OVER else _events.error
                report(
                    "markers.given_up",
                    transaction=metadata,
                    partition=f"{topic}-{partition}",
                    error=code.name,
                )
                del self._completions[metadata.transactional_id]
                return
        if again:
            # The others have their marker: only these partitions are sent again.
            self._repeat([_Markers(completion, again)])
        else:
            self._complete_when_written(completion)

    # --- later ------------------------------------------------------------------------------------------

    def _repeat(self, entries: Iterable[_Markers]) -> None:
        """To the brokers that lead the partitions when the back-off is over."""
        self._to_repeat += entries
        self._retry_later()

    def _retry_later(self) -> None:
        if self._retry_timer is None and not self._closed:
            self._retry_timer = self._clock.call_later(RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        # First what only lacks its last record.
        appends, self._appends_to_repeat = self._appends_to_repeat, []
        for completion in appends:
            self._append(completion)
        entries, self._to_repeat = self._to_repeat, []
        for entry in entries:
            self._enqueue(entry)
        self.metadata_changed()

    # --- the end ----------------------------------------------------------------------------------------

    def _complete_when_written(self, completion: _Completion) -> None:
        """``maybeWriteTxnCompletion``: writes the last record when all partitions are done."""
        if not completion.metadata.partitions and self._is_current(completion):
            # No marker is on its way from here on; only the last record is.
            del self._completions[completion.metadata.transactional_id]
            self._append(completion)

    def _append(self, completion: _Completion) -> None:
        shard, metadata, transition, _ = completion
        # After a resignation the next coordinator finds PrepareCommit or PrepareAbort, and sends all markers
        # itself.
        if not shard.resigned and not self._closed:
            appended = append_transition(shard, metadata, transition, may_be_repeated=True)
            appended.when_done(partial(self._appended, completion))

    def _appended(self, completion: _Completion, done: Pending[None]) -> None:
        error = done.error
        if error is None:
            return
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        # Too few replicas at the moment: all markers are written, so the record has to follow.
        if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self._appends_to_repeat.append(completion)
            self._retry_later()
        # With NOT_COORDINATOR the next coordinator writes it.
        elif code is not ErrorCode.NOT_COORDINATOR:
            _events.error("markers.not_completed", transaction=completion.metadata, exc_info=error)

    def __repr__(self) -> str:
        waiting = {broker: len(queue.entries) for broker, queue in self._queues.items()}
        return f"<TransactionMarkerChannelManager transactions={len(self._completions)} waiting={waiting}>"
