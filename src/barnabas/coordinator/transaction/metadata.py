"""`TransactionMetadata`: one transactional id, its producer and its transaction (``TransactionMetadata``).

Theory of operation
-------------------
A change takes two calls. `prepare_...` makes the `Transition` that is to be written, and marks it as pending;
nothing else changes. When the replicas have the record, `complete` applies it; when it could not be written,
`take_back` drops the mark. At most one transition is pending, so two requests of one id cannot change it at
the same time.

The markers are between two transitions: after PrepareCommit is complete, CompleteCommit is pending at once,
and stays so until the last marker is written.

In transaction version 2 the decision has the producer's next epoch (KIP-890): markers carry it, the answer to
EndTxn tells it, and what comes with the epoch before is late. The highest epoch belongs to a decision alone:
the producer that used up the epochs before it goes on under `next_producer_id`, with epoch 0.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.coordinator.transaction.states import TRANSITIONS, TransactionState
from barnabas.coordinator.transaction.transaction_version import TV_0, supports_epoch_bump
from barnabas.core.errors import ErrorCode, IllegalTransitionError, KafkaError
from barnabas.core.ids import PartitionSet
from barnabas.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

EPOCH_MAX: Final = (1 << 15) - 1
NO_START_MS: Final = -1

_S = TransactionState


def is_epoch_exhausted(epoch: int) -> bool:
    """Whether no producer may have a higher epoch of this producer id.

    The highest epoch there is belongs to no client: the coordinator must always be able to fence the last
    producer.
    """
    return epoch >= EPOCH_MAX - 1


Codes: TypeAlias = dict[str, dict[int, ErrorCode]]
"""What was said of partitions, under their topics."""


class ProducerIdAndEpoch(NamedTuple):
    """Who a producer is: what its batches carry."""

    producer_id: int
    epoch: int


class Transition(NamedTuple):
    """What is written, and applied once the replicas have it (``TxnTransitMetadata``)."""

    state: TransactionState
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    partitions: PartitionSet
    start_ms: int
    last_update_ms: int
    client_version: int

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)


class TransactionMetadata:
    """A transactional id."""

    __slots__ = (
        "client_version",
        "has_failed_epoch_fence",
        "last_producer_epoch",
        "last_update_ms",
        "next_producer_id",
        "partitions",
        "pending_state",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        timeout_ms: int,
        last_update_ms: int,
        state: TransactionState = _S.EMPTY,
        partitions: PartitionSet | None = None,
        start_ms: int = NO_START_MS,
        previous_producer_id: int = NO_PRODUCER_ID,
        next_producer_id: int = NO_PRODUCER_ID,
        client_version: int = TV_0,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.previous_producer_id = previous_producer_id
        """The id before the last transition: a producer may still come with it, if it changed (KIP-360)."""
        self.next_producer_id = next_producer_id
        """What the id becomes with the end that is decided, because its epochs are used up (KIP-890)."""
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        """The epoch before the last one that the producer itself was given (KIP-360). Not written."""
        self.client_version = client_version
        """The transaction version of the client that added partitions or ended the transaction last."""
        self.timeout_ms = timeout_ms
        self.state = state
        self.partitions = partitions or {}
        """In the order in which they were added; while the end is prepared, those without a marker."""
        self.start_ms = start_ms
        self.last_update_ms = last_update_ms
        self.pending_state: TransactionState | None = None
        self.has_failed_epoch_fence = False
        """The record of a fence before transaction version 2 could not be written: the epoch in memory is
        higher since then, and the next fence does not raise it again.
        """

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    # --- transitions ----------------------------------------------------------------------------------------

    def prepare_producer(
        self, expected: ProducerIdAndEpoch | None, *, new_producer_id: int, timeout_ms: int, now_ms: int
    ) -> Transition:
        """A producer begins: the next epoch, or a new producer id where there is none (``InitProducerId``).

        Raises PRODUCER_FENCED where the producer expects an epoch that another one has had since (KIP-360).
        """
        epoch, last_epoch = self.producer_epoch, NO_PRODUCER_EPOCH
        producer_id = self.producer_id
        # KIP-360: the epochs are used up. The last epoch is kept, so that the producer may ask once more for
        # the answer.
        if self.needs_new_producer_id(expected):
            producer_id, last_epoch = new_producer_id, epoch if expected is not None else NO_PRODUCER_EPOCH
            epoch = 0
        elif is_epoch_exhausted(epoch):
            # A producer whose epoch is not the current one, where there is no next epoch. Kafka 3.9 answers
            # UNKNOWN_SERVER_ERROR, and so does this.
            raise IllegalTransitionError(f"{self!r} has no epochs left for {expected}")
        # A start of the producer (no epoch is named): the last epoch is unknown, so nobody may repeat this
        # request.
        elif expected is None:
            epoch += 1
        elif epoch in (NO_PRODUCER_EPOCH, expected.epoch):
            # The producer knows the newest epoch, or the coordinator has forgotten (its id had expired).
            epoch, last_epoch = epoch + 1, epoch
        elif expected.epoch == self.last_producer_epoch:
            # The producer asks again: it has not had the answer to its first request.
            last_epoch = self.last_producer_epoch
        else:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return self._prepare(
            _S.EMPTY,
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions={},
            start_ms=NO_START_MS,
        )

    def needs_new_producer_id(self, expected: ProducerIdAndEpoch | None) -> bool:
        """Whether the epochs of the producer id are used up, for a producer that knows the newest one."""
        return is_epoch_exhausted(self.producer_epoch) and (
            expected is None or expected.epoch == self.producer_epoch
        )

    def has_partitions(self, partitions: PartitionSet) -> bool:
        """Whether all of them are part of the transaction."""
        nothing: dict[int, None] = {}
        return all(
            added.keys() <= self.partitions.get(topic, nothing).keys() for topic, added in partitions.items()
        )

    def prepare_add_partitions(
        self, partitions: PartitionSet, now_ms: int, *, client_version: int
    ) -> Transition:
        """The transaction begins or grows."""
        # The time-out counts from the first partition, not from each.
        start_ms = self.start_ms if self.state is _S.ONGOING else now_ms
        # A new set: this transaction keeps its own until the record is written, or for good if it is not.
        everything = dict(self.partitions)
        for topic, added in partitions.items():
            everything[topic] = {**everything.get(topic, {}), **added}
        return self._prepare(
            _S.ONGOING, now_ms, partitions=everything, start_ms=start_ms, client_version=client_version
        )

    def prepare_end(
        self,
        now_ms: int,
        *,
        committed: bool,
        client_version: int,
        next_producer_id: int = NO_PRODUCER_ID,
    ) -> Transition:
        """It is decided how the transaction ends (``prepareAbortOrCommit``).

        `next_producer_id` is given where `bump_needs_new_producer_id` says so.
        """
        state = _S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT
        if not supports_epoch_bump(client_version):
            return self._prepare(state, now_ms, client_version=client_version)
        # KIP-890: the markers of this end, and all that comes later, have the next epoch.
        return self._prepare(
            state,
            now_ms,
            producer_epoch=self._bumped_epoch,
            last_producer_epoch=self.producer_epoch,
            next_producer_id=next_producer_id,
            # A transaction without partitions has not begun: its end stands for its start.
            start_ms=self.start_ms if self.state is _S.ONGOING else now_ms,
            client_version=client_version,
        )

    @property
    def _bumped_epoch(self) -> int:
        """The epoch of an end in transaction version 2."""
        # A fence before that version may have used up the highest one, and failed: no producer has it.
        return min(self.producer_epoch + 1, EPOCH_MAX)

    @property
    def bump_needs_new_producer_id(self) -> bool:
        """Whether an end that bumps the epoch uses up the last one (``isProducerEpochExhausted``)."""
        return is_epoch_exhausted(self.producer_epoch)

    def prepare_epoch_fence_and_abort(
        self, now_ms: int, *, server_version: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> Transition:
        """The producer is fenced by a higher epoch, and its transaction aborted.

        In transaction version 2 the abort itself bumps the epoch. Before it the epoch is bumped in memory at
        once: a producer with the old one is refused from now on, also if the record cannot be written.
        """
        # `is_epoch_exhausted` keeps the highest epoch for this fence; with it used up there is none left. It
        # may be this fence that has used it up, if its record could not be written: Kafka 3.9 refuses then
        # too, and the transaction stays open until another broker coordinates the id.
        if self.producer_epoch == EPOCH_MAX and not self.has_failed_epoch_fence:
            raise IllegalTransitionError(f"{self!r} cannot be fenced: there is no higher epoch")
        self._require(_S.PREPARE_EPOCH_FENCE, self.state)
        self._require(_S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE)
        if supports_epoch_bump(server_version):
            # KAFKA-19367: bumped once, by the abort. KAFKA-20090: also from the last epoch on.
            return self.prepare_end(
                now_ms, committed=False, client_version=server_version, next_producer_id=next_producer_id
            )
        # A fence that could not be written has bumped it already.
        if not self.has_failed_epoch_fence:
            self.producer_epoch += 1
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        return self.prepare_end(now_ms, committed=False, client_version=server_version)

    def prepare_complete(self, now_ms: int) -> Transition:
        """The markers are about to be sent; pending until all of them are written."""
        self.has_failed_epoch_fence = False
        complete = _S.COMPLETE_COMMIT if self.state is _S.PREPARE_COMMIT else _S.COMPLETE_ABORT
        if self.next_producer_id == NO_PRODUCER_ID:
            return self._prepare(complete, now_ms, partitions={})
        # The epochs are used up: the producer goes on as another one. The last epoch stays the last that it
        # knows of, which is not the highest: that one was the decision's.
        return self._prepare(
            complete,
            now_ms,
            partitions={},
            producer_id=self.next_producer_id,
            producer_epoch=0,
            next_producer_id=NO_PRODUCER_ID,
        )

    def prepare_dead(self) -> None:
        """The id's tombstone is about to be written."""
        self._require(_S.DEAD, self.state)
        self.pending_state = _S.DEAD

    def _prepare(self, state: TransactionState, now_ms: int, **changed: Any) -> Transition:
        """The transition to a state, with what does not stay as it is."""
        self._require(state, self.state)
        # What a transition does not name stays.
        as_it_is = Transition(
            state,
            producer_id=self.producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            last_producer_epoch=self.last_producer_epoch,
            timeout_ms=self.timeout_ms,
            partitions=self.partitions,
            start_ms=self.start_ms,
            last_update_ms=now_ms,
            client_version=self.client_version,
        )
        self.pending_state = state
        return as_it_is._replace(**changed) if changed else as_it_is

    def _require(self, state: TransactionState, before: TransactionState) -> None:
        # A caller that did not look for a pending state would overwrite the transition of another request.
        if self.pending_state is not None or before not in TRANSITIONS[state]:
            raise IllegalTransitionError(f"{self!r} cannot become {state.label}")

    def complete(self, transition: Transition) -> None:
        """The replicas have the record: it counts (``completeTransitionTo``)."""
        # The caller completes a transition that was never prepared, or was taken back.
        if transition.state is not self.pending_state:
            raise IllegalTransitionError(f"{self!r} is not about to become {transition.state.label}")
        if not self._may_become(transition):
            raise IllegalTransitionError(f"{self!r} has another producer than {transition}")
        self.previous_producer_id = transition.previous_producer_id
        self.next_producer_id = transition.next_producer_id
        self.producer_id = transition.producer_id
        self.producer_epoch = transition.producer_epoch
        self.last_producer_epoch = transition.last_producer_epoch
        self.timeout_ms = transition.timeout_ms
        self.start_ms = transition.start_ms
        self.client_version = transition.client_version
        # What was added is part of the transaction from now on, and gets a marker at its end.
        if transition.state is _S.ONGOING:
            self.partitions = transition.partitions
        # While the end is prepared, the partitions are those that have no marker yet.
        elif not transition.state.is_prepared:
            self.partitions = {}
        self.last_update_ms = transition.last_update_ms
        self.pending_state = None
        self.state = transition.state

    def _may_become(self, transition: Transition) -> bool:
        """Whether the transition's producer follows from this one (``validProducerEpoch``)."""
        # A producer begins: with the next epoch, or under a new id.
        if transition.state is _S.EMPTY:
            return True
        # The epoch of a fence before transaction version 2 is in memory before its record is written.
        expected = self.producer
        if supports_epoch_bump(transition.client_version) and transition.state.is_prepared:
            expected = ProducerIdAndEpoch(self.producer_id, self._bumped_epoch)
        elif self.next_producer_id != transition.next_producer_id:
            expected = ProducerIdAndEpoch(self.next_producer_id, 0)
        return transition.producer == expected

    def take_back(self) -> None:
        """The record could not be written: the state stays as it was before `prepare_...`."""
        self.pending_state = None

    # --- markers --------------------------------------------------------------------------------------------

    def marker_written(self, topic: str, partitions: Iterable[int]) -> None:
        """These partitions have their marker, or were deleted."""
        if not self.state.is_prepared:
            raise IllegalTransitionError(f"{self!r} has no markers on their way")
        waiting = self.partitions.get(topic, {})
        for partition in partitions:
            waiting.pop(partition, None)
        if not waiting:
            self.partitions.pop(topic, None)

    def __repr__(self) -> str:
        pending = "" if self.pending_state is None else f" -> {self.pending_state.label}"
        count = sum(map(len, self.partitions.values()))
        return (
            f"<TransactionMetadata {self.transactional_id} {self.state.label}{pending} "
            f"producer={self.producer_id} epoch={self.producer_epoch} partitions={count}>"
        )
