"""`KafkaController`: elects one broker to lead the cluster, and runs what is asked of the elected one.

Theory of operation
-------------------
Every broker has a controller; one of them is *active*: the one that created the ephemeral znode /controller
and raised /controller_epoch in the same transaction. It gets a `Term`. From then on each write checks that
/controller_epoch is still at the version of that transaction, so a controller that was replaced while it
slept cannot change anything.

Everything happens as an event, one at a time: a watch that fired, an answer of a broker, a request. An event
may take several steps through the store; the next one waits. When the session ends, the events that wait are
thrown away, the term ends, and only then may the broker register again. `events` says how an event is added.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from barnabas.cluster.brokers import EndPointNotFoundError
from barnabas.cluster.controller import office
from barnabas.cluster.controller.broker_events import controlled_shutdown, process_leader_and_isr_response
from barnabas.cluster.controller.channel_manager import (
    BatchNotSentError,
    ControllerChannelManager,
    LeaderAndIsrAnswer,
    ResponseHandlers,
)
from barnabas.cluster.controller.context import ControllerContext
from barnabas.cluster.controller.election_events import (
    ElectionResult,
    process_replica_leader_election,
    process_zk_preferred_replica_election,
    rebalance_leaders,
)
from barnabas.cluster.controller.event_manager import ControllerEventManager, Event
from barnabas.cluster.controller.events import ZNODE_EVENTS
from barnabas.cluster.controller.feature_updates import FeatureUpdateItem, process_update_features
from barnabas.cluster.controller.fenced_store import ControllerMovedError
from barnabas.cluster.controller.isr_events import alter_partitions
from barnabas.cluster.controller.producer_ids import ProducerIdBlock, process_allocate_producer_ids
from barnabas.cluster.controller.reassignment import (
    Target,
    initialize_partition_reassignments,
    list_partition_reassignments,
    maybe_complete_reassignments,
    process_api_partition_reassignment,
)
from barnabas.cluster.controller.term import ControllerConfig, Term
from barnabas.cluster.controller.topic_events import process_stop_replica_response
from barnabas.cluster.controller.znode_watches import ZnodeWatches
from barnabas.cluster.leadership import IsrProposal, IsrVerdict, ReplicaAssignment
from barnabas.cluster.metadata.registration import BrokerRegistration
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import (
    Change,
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    Stat,
    StoreError,
    StoreUnavailableError,
    WatchEvent,
)
from barnabas.core.clock import Clock, Timer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_BROKER, TopicPartition, Uuid
from barnabas.core.pending import Pending, Steps, steps
from barnabas.protocol.election_type import ElectionType

_events: Final = EventLog("cluster.controller")

T = TypeVar("T")

FIRST_REBALANCE_DELAY_MS: Final = 5_000
ELECTION_RETRY_MS: Final = 1_000
"""How long to wait before another try when the store failed in the middle of an election or a registration.
"""
ELECTION_RETRY_MS_MAX: Final = 60_000
"""Each election that fails doubles the time until the next one, up to this."""


class KafkaController:
    """One broker's controller; active while it has a term."""

    def __init__(
        self,
        config: ControllerConfig,
        store: MetadataStore,
        channel: ControllerChannelManager,
        registration: BrokerRegistration,
        clock: Clock,
        new_uuid: Callable[[], Uuid],
    ) -> None:
        self._config = config
        self._store = store
        self._channel = channel
        self._registration = registration
        self._clock = clock
        self._new_uuid = new_uuid
        self._queue = ControllerEventManager(self._event_failed)
        self._term: Term | None = None
        self._rebalance_timer: Timer | None = None
        self._election_retry_ms = ELECTION_RETRY_MS
        self._election_failure = ""
        """Why the last election failed, as the log says already."""
        self._stands_later = False
        """Its last election failed; until the timer ends it does not stand for another one."""
        self._closed = False
        self.active_controller_id = NO_BROKER
        """The broker that is elected, as far as this one knows."""
        self._handlers = ResponseHandlers(self._leader_and_isr_answered, self._replicas_deleted)
        store.listen(self)

    # ---------------------------------------------------------------------------------- what others ask

    @property
    def cordoned_brokers(self) -> frozenset[int] | None:
        """The brokers that get no new replicas (KIP-1066); None while another broker is the controller."""
        return self._term.context.cordoned_brokers() if self._term else None

    @property
    def is_active(self) -> bool:
        return self._term is not None

    @property
    def context(self) -> ControllerContext | None:
        """What the controller believes of the cluster; None while this broker is not elected."""
        return self._term.context if self._term else None

    @property
    def epoch(self) -> int:
        """The epoch of the term, 0 without one."""
        return self._term.context.epoch if self._term else 0

    def startup(self) -> Pending[None]:
        """Stands for election; done when the election is. The broker must be registered."""
        done: Pending[None] = Pending()
        self._queue.put(Event("Startup", lambda: _forward(self._process_startup(), done)))
        return done

    def shutdown(self) -> Pending[None]:
        """Resigns, without removing /controller: the end of the session does that."""
        self._closed = True
        # Requests that wait get their refusal at once, and no event is taken from here on.
        self._queue.close()
        self._resign()
        return Pending.of(None)

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of a topic as the elected controller knows it."""
        return self._term.context.topic_names.get(topic_id) if self._term else None

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        """Whether the elected controller has yet to delete a topic (``isTopicQueuedForDeletion``)."""
        return self._term is not None and self._term.context.being_deleted(topic)

    def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> Pending[list[TopicPartition]]:
        """Moves leadership away from a broker; what it still leads. Fails with KafkaError."""
        remaining = self._ask(
            "ControlledShutdown",
            lambda term: controlled_shutdown(term, broker_id, broker_epoch),
            ErrorCode.STALE_CONTROLLER_EPOCH,  # Kafka's ControllerMovedException, and not NOT_CONTROLLER
        )
        return _with_a_code(remaining)

    def alter_partition(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> Pending[list[IsrVerdict]]:
        """Answers a leader that changes its ISRs: a verdict for each proposal.
        Fails with KafkaError as a whole.
        """
        verdicts = self._ask(
            "AlterPartitionReceived",
            lambda term: self._process_alter_partition(term, broker_id, broker_epoch, proposals),
        )
        return _with_a_code(verdicts)

    @steps
    def _process_alter_partition(
        self, term: Term, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> Steps[list[IsrVerdict]]:
        verdicts: list[IsrVerdict]
        verdicts, changed = yield alter_partitions(term, broker_id, broker_epoch, proposals)
        moving = [tp for tp in changed if tp in term.context.being_reassigned]
        if moving:
            # An event of its own: the leader has its answer before it hears of the end of a reassignment.
            self._put("PartitionReassignmentIsrChange", lambda now: maybe_complete_reassignments(now, moving))
        return verdicts

    def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Target], *, allow_replication_factor_change: bool = True
    ) -> Pending[dict[TopicPartition, KafkaError | None]]:
        """Begins and ends reassignments; the error of each partition. NOT_CONTROLLER fails the whole."""
        return self._ask(
            "ApiPartitionReassignment",
            lambda term: process_api_partition_reassignment(
                term, reassignments, allow_replication_factor_change=allow_replication_factor_change
            ),
        )

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Pending[dict[TopicPartition, ReplicaAssignment]]:
        """Of these partitions or of all, the ones on the move. NOT_CONTROLLER fails the whole."""
        return self._ask(
            "ListPartitionReassignments",
            lambda term: Pending.of(list_partition_reassignments(term, partitions)),
        )

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Pending[ProducerIdBlock]:
        """A block of producer ids for a broker. Fails with KafkaError."""
        block = self._ask(
            "AllocateProducerIds",
            lambda term: process_allocate_producer_ids(term, broker_id, broker_epoch),
        )
        return _with_a_code(block)

    def update_features(self, updates: Sequence[FeatureUpdateItem], *, validate_only: bool) -> Pending[int]:
        """Sets the levels of features, or only checks whether they could be; their epoch. Fails with
        KafkaError.
        """
        return _with_a_code(
            self._ask(
                "UpdateFeatures",
                lambda term: process_update_features(term, updates, validate_only=validate_only),
            )
        )

    def elect_leaders(
        self, partitions: Iterable[TopicPartition], kind: ElectionType
    ) -> Pending[dict[TopicPartition, ElectionResult]]:
        """Elects leaders for partitions; what became of each. NOT_CONTROLLER fails the whole."""
        return self._ask(
            "ReplicaLeaderElection", lambda term: process_replica_leader_election(term, partitions, kind)
        )

    def default_unclean_election_changed(self, enabled: bool) -> None:
        """Whether topics without a setting of their own may have unclean leaders from now on."""
        # ``UncleanLeaderElectionEnable``: only a change from false to true can give a partition a leader.
        before = self._config.unclean_leader_election_enable
        self._config = replace(self._config, unclean_leader_election_enable=enabled)
        if self._term is not None:
            self._term.partitions.unclean_election_default = enabled
        if enabled and not before:
            self.unclean_election_enabled()

    def unclean_election_enabled(self, topic: str | None = None) -> None:
        """The configuration allows unclean leaders now, of one topic or of all: tries offline partitions."""
        self._put("UncleanLeaderElectionEnable", lambda term: term.partitions.trigger_online(topic))

    # -------------------------------------------------------------------------------------- sessions

    def session_expired(self) -> Pending[None]:
        """The session has ended: resigns after the event that is running, before a new session begins."""
        done: Pending[None] = Pending()
        self._queue.clear_and_put(Event("Expire", lambda: _forward(self._process_expire(), done)))
        return done

    def session_renewed(self) -> None:
        """Registers the broker again and stands for election."""
        if not self._closed:
            self._queue.clear_and_put(Event("RegisterBrokerAndReelect", self._process_register_and_reelect))

    def _process_expire(self) -> Pending[None]:
        self.active_controller_id = NO_BROKER
        self._resign()
        return Pending.of(None)

    @steps
    def _process_register_and_reelect(self) -> Steps[None]:
        try:
            yield self._registration.register()
        except SessionExpiredError:
            raise  # the next session registers
        except StoreError as error:
            # A full disk, a lost connection: the broker lives, and only it can register itself.
            _events.error("register_failed", error=error, again_in_ms=ELECTION_RETRY_MS)
            self._clock.call_later(ELECTION_RETRY_MS, self.session_renewed)
            return
        yield self._process_reelect()

    # -------------------------------------------------------------------------------------- election

    @steps
    def _process_startup(self) -> Steps[None]:
        yield self._watch_controller()
        yield self._elect()

    @steps
    def _process_reelect(self) -> Steps[None]:
        yield self._maybe_resign()
        yield self._elect()

    def _watch_controller(self) -> Pending[Stat | None]:
        return self._store.exists(znodes.CONTROLLER, self._controller_changed)

    def _controller_changed(self, event: WatchEvent) -> None:
        # The holder resigned, or its session ended: every broker stands for election.
        if event.change is Change.DELETED:
            self._queue.put(Event("Reelect", self._process_reelect))
        else:
            self._queue.put(Event("ControllerChange", self._maybe_resign))

    @steps
    def _maybe_resign(self) -> Steps[None]:
        yield self._watch_controller()
        self.active_controller_id = yield office.holder(self._store, self._config.broker_id)
        # Another broker holds /controller: what this one knows of the cluster may be out of date.
        if self.active_controller_id != self._config.broker_id:
            self._resign()

    @steps
    def _elect(self) -> Steps[None]:
        self.active_controller_id = yield office.holder(self._store, self._config.broker_id)
        # Another one was faster, or this broker is elected already: /controller is watched in both cases.
        if self.active_controller_id != NO_BROKER:
            _events.debug("controller_is_elected", controller=self.active_controller_id)
            return
        # The last election failed after it was won: until the timer ends, only other brokers stand.
        if self._stands_later:
            return
        try:
            # One transaction creates /controller and raises the epoch, so no two brokers can have both.
            epoch, version = yield office.claim(self._store, self._config.broker_id, self._clock.time_ms())
            self.active_controller_id = self._config.broker_id
            _events.info("elected", broker=self._config.broker_id, epoch=epoch)
            yield self._begin_term(epoch, version)
            self._election_retry_ms, self._election_failure = ELECTION_RETRY_MS, ""
        # ``elect``: another broker was faster, or took over while the term began.
        except ControllerMovedError:
            yield self._maybe_resign()
        except SessionExpiredError:
            raise  # /controller went with the session; the next session stands for election
        except Exception as error:
            self._election_failed(error)
            yield self._give_up_office()

    def _election_failed(self, error: Exception) -> None:
        """Says so once, and stands for election again after a while; longer each time."""
        retry_ms, failure = self._election_retry_ms, f"{type(error).__name__}: {error}"
        self._election_retry_ms = min(2 * retry_ms, ELECTION_RETRY_MS_MAX)
        if failure == self._election_failure:
            _events.debug("election_failed_again", error=error, again_in_ms=retry_ms)
        else:
            # A store that does not answer is no mistake of this program.
            exc_info = not isinstance(error, StoreError)
            _events.error("election_failed", error=error, again_in_ms=retry_ms, exc_info=exc_info)
        self._election_failure = failure
        # /controller goes now, which calls for an election at once: this broker lets the others go first.
        self._stands_later = True
        self._clock.call_later(retry_ms, self._elect_later)

    def _elect_later(self) -> None:
        self._stands_later = False
        if not self._closed:
            self._queue.put(Event("Reelect", self._process_reelect))

    @steps
    def _begin_term(self, epoch: int, version: int) -> Steps[None]:
        # A context of its own: nothing of an earlier term is believed.
        term = self._term = Term(
            self._config,
            self._store,
            self._channel,
            self._handlers,
            ZnodeWatches(self._store, ZNODE_EVENTS, self._put),
            self._clock,
            self._new_uuid,
            epoch=epoch,
            epoch_version=version,
        )
        yield term.begin()
        # What the former controller left unfinished: reassignments, deletions, and a tool's request for
        # elections.
        yield initialize_partition_reassignments(term)
        yield term.deletion.resume()
        yield process_zk_preferred_replica_election(term)
        # The first check comes after five seconds, the others at ``leader.imbalance.check.interval.seconds``.
        if self._config.auto_leader_rebalance_enable:
            self._schedule_rebalance(FIRST_REBALANCE_DELAY_MS)

    def _resign(self) -> None:
        if self._rebalance_timer is not None:
            self._rebalance_timer.cancel()
            self._rebalance_timer = None
        if self._term is not None:
            _events.info("resigned", broker=self._config.broker_id, epoch=self.epoch)
            self._term.end()
            self._term = None

    @steps
    def _give_up_office(self) -> Steps[None]:
        """Resigns and removes /controller, if it is still ours, so that another may be elected."""
        if self._term is None:
            return
        context = self._term.context
        self._resign()
        self.active_controller_id = NO_BROKER
        try:
            yield office.give_up(self._store, context.epoch, context.epoch_version)
        except (ControllerMovedError, NoNodeError):
            _events.info("controller_moved_already")

    # ---------------------------------------------------------------------------------------- events

    def _put(self, name: str, process: Callable[[Term], Pending[Any]]) -> None:
        """Queues an event that means something only to the elected controller."""

        def run() -> Pending[Any]:
            return process(self._term) if self._term is not None else Pending.of(None)

        self._queue.put(Event(name, run))

    def _ask(
        self,
        name: str,
        process: Callable[[Term], Pending[T]],
        refusal: ErrorCode = ErrorCode.NOT_CONTROLLER,
    ) -> Pending[T]:
        """Queues a request; fails with the refusal if its turn comes when this broker is not elected."""
        answer: Pending[T] = Pending()

        def refuse() -> None:
            answer.fail(KafkaError(refusal))

        def run() -> Pending[Any]:
            if self._term is None:
                refuse()
                return Pending.of(None)
            return _forward(process(self._term), answer)

        self._queue.put(Event(name, run, refuse))
        return answer

    def _event_failed(self, event: Event, error: BaseException) -> Pending[None]:
        # A fenced write failed: another controller was elected while this one did not notice.
        if isinstance(error, ControllerMovedError):
            _events.info("controller_moved", event_name=event.name)
            return _swallow(self._maybe_resign())
        if isinstance(error, BatchNotSentError):
            # Brokers do not know what the znodes say. The next controller sends it all again
            # (``handleIllegalState``).
            foreseen = isinstance(error.__cause__, EndPointNotFoundError)
            _events.error(
                "forced_to_resign",
                event_name=event.name,
                error=error,
                exc_info=None if foreseen else error,
            )
            return _swallow(self._give_up_office())
        # The write had no effect, and no later one of this event is tried; the event that ends the session
        # comes next.
        if isinstance(error, SessionExpiredError):
            _events.info("event_lost_with_its_session", event_name=event.name)
        elif not isinstance(error, KafkaError):
            # A store that refuses a call is no mistake of this program.
            exc_info = None if isinstance(error, StoreUnavailableError) else error
            _events.error("event_failed", event_name=event.name, error=error, exc_info=exc_info)
        return Pending.of(None)

    def _leader_and_isr_answered(self, broker_id: int, answer: LeaderAndIsrAnswer) -> None:
        self._put(
            "LeaderAndIsrResponseReceived",
            lambda term: process_leader_and_isr_response(term, answer, broker_id),
        )

    def _replicas_deleted(
        self, broker_id: int, error: ErrorCode, errors: dict[TopicPartition, ErrorCode]
    ) -> None:
        self._put(
            "TopicDeletionStopReplicaResponseReceived",
            lambda term: process_stop_replica_response(term, broker_id, error, errors),
        )

    def _schedule_rebalance(self, delay_ms: float) -> None:
        self._rebalance_timer = self._clock.call_later(
            delay_ms, lambda: self._put("AutoPreferredReplicaLeaderElection", self._process_rebalance)
        )

    @steps
    def _process_rebalance(self, term: Term) -> Steps[None]:
        try:
            yield rebalance_leaders(term)
        finally:
            self._schedule_rebalance(self._config.leader_imbalance_check_interval_seconds * 1000)

    def __repr__(self) -> str:
        role = f"ACTIVE epoch={self.epoch}" if self.is_active else f"standby of {self.active_controller_id}"
        return f"<KafkaController {self._config.broker_id} {role} {self._queue!r}>"


def _forward(source: Pending[T], target: Pending[T]) -> Pending[T]:
    """Hands the outcome over to the caller as well, and then to the queue."""
    source.when_done(target.end_as)
    return source


def _with_a_code(source: Pending[T]) -> Pending[T]:
    """The same outcome, where a failure is a KafkaError: a broker gets a code and nothing else."""
    outcome: Pending[T] = Pending()

    def ended(done: Pending[T]) -> None:
        error = done.error
        if error is None:
            outcome.complete(done.result())
        else:
            outcome.fail(_told(error))

    source.when_done(ended)
    return outcome


def _swallow(source: Pending[None]) -> Pending[None]:
    """Done when the source is, also if that failed."""
    done: Pending[None] = Pending()
    source.when_done(lambda _: done.complete(None))
    return done


def _told(error: BaseException) -> KafkaError:
    if isinstance(error, ControllerMovedError):
        return KafkaError(ErrorCode.NOT_CONTROLLER)  # sends the broker to the new one
    return error if isinstance(error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
