"""How the controller speaks to brokers: the port, and `RequestBatch`, what one event has to say to them.

Theory of operation
-------------------
State machines add what each broker has to learn; `send` turns it into at most one LeaderAndIsr, one
UpdateMetadata and one StopReplica request a broker, in that order, because a broker that becomes a follower
must already know its leader's address when later requests build on it. Each partition state in a LeaderAndIsr
is sent to every broker in an UpdateMetadata as well. A batch that was not sent must be cleared before the
next begins: what is in it would otherwise be lost without a trace.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from barnabas.cluster.brokers import Broker
from barnabas.cluster.controller.context import ControllerContext
from barnabas.cluster.leadership import ControllerEpoch, PartitionLeadership, ReplicaAssignment
from barnabas.core.clock import Clock
from barnabas.core.errors import BarnabasError, ErrorCode
from barnabas.core.eventlog import STATE_CHANGES, EventLog
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices
from barnabas.network.endpoints import Endpoint
from barnabas.protocol.partition_states import (
    LeaderAndIsrPartitionState,
    StopReplicaPartitionState,
    UpdateMetadataPartitionState,
)

_events: Final = EventLog("cluster.controller")
_state_changes: Final = EventLog(STATE_CHANGES)

State = TypeVar("State")


class BatchNotSentError(BarnabasError):
    """Brokers did not get what the znodes say already:
    the controller must resign (``handleIllegalState``).
    """


class LeaderAndIsrAnswer(NamedTuple):
    """What a broker answers to LeaderAndIsr."""

    error: ErrorCode
    """Of the whole."""
    partitions: Iterable[tuple[str | Uuid, int, int]]
    """Topic, partition and error code.
    The topic is its id, but its name where the broker is too old for ids.
    """


class ControllerChannelManager(Protocol):
    """Delivers requests to brokers, the own one among them (``ControllerChannelManager``).

    To each broker requests go one at a time and in order, at their highest version; one that fails on the
    way is sent again until the broker is removed. An answer may come in any later turn of the loop.
    """

    def add_broker(self, broker: Broker) -> None:
        """Opens the queue to a broker."""

    def remove_broker(self, broker_id: int) -> None:
        """Drops the queue to a broker, with what waits in it."""

    def send_leader_and_isr(
        self,
        broker_id: int,
        broker_epoch: int,
        controller: ControllerEpoch,
        states: Mapping[str, list[LeaderAndIsrPartitionState]],
        topic_ids: Mapping[str, Uuid],
        live_leaders: Mapping[int, Endpoint],
        on_answer: Callable[[LeaderAndIsrAnswer], object],
    ) -> None:
        """Queues a LeaderAndIsr with states by topic. A broker that was not added gets nothing."""

    def send_update_metadata(
        self,
        broker_epochs: Mapping[int, int],
        controller: ControllerEpoch,
        states: Mapping[str, list[UpdateMetadataPartitionState]],
        topic_ids: Mapping[str, Uuid],
        live_brokers: Iterable[Broker],
        on_answer: Callable[[int, ErrorCode], object],
    ) -> None:
        """Queues the same UpdateMetadata for each of these brokers."""

    def send_stop_replica(
        self,
        broker_id: int,
        broker_epoch: int,
        controller: ControllerEpoch,
        states: Mapping[str, list[StopReplicaPartitionState]],
        on_answer: Callable[[ErrorCode, Iterable[tuple[TopicPartition, ErrorCode]]], object],
    ) -> None:
        """Queues a StopReplica; the answer has the error of the whole and one for each partition."""


@dataclass(frozen=True, slots=True)
class ResponseHandlers:
    """Where the brokers' answers go; each is called in a later turn."""

    leader_and_isr: Callable[[int, LeaderAndIsrAnswer], object]
    """The answer to a LeaderAndIsr, and the broker that gave it."""
    replicas_deleted: Callable[[int, ErrorCode, dict[TopicPartition, ErrorCode]], object]
    """The answer to a StopReplica that deletes: the broker, the error of the whole, one a partition."""


class RequestBatch:
    """The requests of the event that is being processed (``ControllerBrokerRequestBatch``)."""

    def __init__(
        self,
        controller_id: int,
        context: ControllerContext,
        channel: ControllerChannelManager,
        inter_broker_listener: str,
        handlers: ResponseHandlers,
        clock: Clock,
    ) -> None:
        self._controller_id = controller_id
        self._context = context
        self._channel = channel
        self._inter_broker_listener = inter_broker_listener
        self._handlers = handlers
        self._clock = clock
        self._over = False
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._update_brokers: dict[int, None] = {}
        self._update_partitions: dict[TopicPartition, UpdateMetadataPartitionState] = {}

    def begin(self) -> None:
        """``newBatch``. Raises BatchNotSentError where something of an earlier batch is left."""
        left = [self._leader_and_isr, self._stop_replica, self._update_brokers]
        if any(left):
            raise BatchNotSentError(f"a batch of requests to brokers was neither sent nor cleared: {left}")

    def clear(self) -> None:
        self._leader_and_isr.clear()
        self._stop_replica.clear()
        self._update_brokers.clear()
        self._update_partitions.clear()

    # ----------------------------------------------------------------------------------------- gather

    def add_leader_and_isr(
        self,
        brokers: Iterable[int],
        tp: TopicPartition,
        leadership: PartitionLeadership,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        """``addLeaderAndIsrRequestForBrokers``: these lead or follow as `leadership` says;
        all brokers learn of it.
        """
        for broker in brokers:
            if broker < 0:
                continue
            states = self._leader_and_isr.setdefault(broker, {})
            # Two moves of one event: the replica is new to its broker if either of them says so.
            already_new = tp in states and states[tp].is_new
            states[tp] = _leader_and_isr_state(tp, leadership, assignment, is_new or already_new)
        self.add_update_metadata(self._context.live_brokers, [tp])

    def add_stop_replica(self, brokers: Iterable[int], tp: TopicPartition, *, delete: bool) -> None:
        """``addStopReplicaRequestForBrokers``:
        these stop their replica, and delete it if any call says so.
        """
        # -2 during a deletion: the broker obeys it in any epoch (KIP-570).
        epoch = self._context.leader_epoch(tp)
        for broker in brokers:
            if broker < 0:
                continue
            states = self._stop_replica.setdefault(broker, {})
            already = tp in states and states[tp].delete_partition
            states[tp] = StopReplicaPartitionState(
                partition_index=tp.partition, leader_epoch=epoch, delete_partition=delete or already
            )

    def add_update_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """``addUpdateMetadataRequestForBrokers``:
        these learn the live brokers and the states of these partitions.
        """
        self._update_brokers |= dict.fromkeys(broker for broker in brokers if broker >= 0)
        for tp in partitions:
            leadership = self._context.leadership.get(tp)
            # A partition that never had a leader: brokers do not hear of it.
            if leadership is not None:
                self._update_partitions[tp] = self._update_metadata_state(tp, leadership)

    def _update_metadata_state(
        self, tp: TopicPartition, leadership: PartitionLeadership
    ) -> UpdateMetadataPartitionState:
        context = self._context
        state = leadership.leader_and_isr
        # Leader -2 (``LeaderDuringDelete``): brokers forget the partition, and clients get
        # UNKNOWN_TOPIC_OR_PARTITION.
        if context.being_deleted(tp.topic):
            state = state.during_delete()
        replicas = context.assignment(tp).replicas
        return UpdateMetadataPartitionState(
            topic_name=tp.topic,
            partition_index=tp.partition,
            controller_epoch=leadership.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            zk_version=state.partition_epoch,
            replicas=list(replicas),
            offline_replicas=[each for each in replicas if not context.is_online(each, tp)],
        )

    # ------------------------------------------------------------------------------------------- send

    @steps
    def send_update_metadata(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[int] | None = None
    ) -> Steps[None]:
        """``sendUpdateMetadataRequest``: a batch of its own, for all brokers or for these."""
        self.begin()
        self.add_update_metadata(self._context.live_brokers if brokers is None else brokers, ())
        # A new broker hears of every partition, which may be hundreds of thousands.
        slices = Slices(self._clock)
        for tp in partitions:
            if slices.over():
                yield slices.next_turn()
            self.add_update_metadata((), [tp])
        self.send()

    def send(self) -> None:
        """``sendRequestsToBrokers``: sends what was gathered to the brokers that are registered.

        Raises BatchNotSentError: some brokers may have got their requests, others not.
        """
        try:
            if not self._over:
                # Kafka's order: roles, then metadata for all, then what is to be stopped.
                self._send_leader_and_isr()
                self._send_update_metadata()
                self._send_stop_replica()
        except Exception as error:
            raise BatchNotSentError(f"requests to brokers cannot be sent: {error}") from error
        finally:
            self.clear()

    def end(self) -> None:
        """The term is over: `send` sends nothing from now on."""
        self._over = True
        self.clear()

    def _send_leader_and_isr(self) -> None:
        # A broker that failed during this event gets nothing: at its next start it gets all of its
        # partitions.
        for broker, states in self._leader_and_isr.items():
            if broker not in self._context.live_brokers:
                continue
            # Followers must find their leaders before the next UpdateMetadata tells them all addresses.
            leaders = {state.leader for state in states.values()}
            # Where followers fetch from: also with a listener of the controller's own it is the brokers' one.
            live_leaders = {
                each.id: each.required_endpoint(self._inter_broker_listener)
                for each in self._context.live_brokers.values()
                if each.id in leaders
            }
            if _state_changes.has_info:
                leading = sum(state.leader == broker for state in states.values())
                self._sending(
                    "leader_and_isr.sent", broker, states, leaders=leading, followers=len(states) - leading
                )
            self._channel.send_leader_and_isr(
                broker,
                self._context.broker_epochs[broker],
                self._controller,
                _by_topic(states),
                self._context.topic_ids,
                live_leaders,
                partial(self._handlers.leader_and_isr, broker),
            )

    @property
    def _controller(self) -> ControllerEpoch:
        return ControllerEpoch(self._controller_id, self._context.epoch)

    def _send_update_metadata(self) -> None:
        if self._update_brokers:
            # All get the same: its partitions are named once.
            self._sending(
                "update_metadata.sent",
                list(self._update_brokers),
                self._update_partitions,
                live_brokers=list(self._context.live_brokers),
            )
        epochs = self._context.broker_epochs
        self._channel.send_update_metadata(
            {
                broker: epochs[broker]
                for broker in self._update_brokers
                if broker in self._context.live_brokers
            },
            self._controller,
            _by_topic(self._update_partitions),
            self._context.topic_ids,
            self._context.live_brokers.values(),
            _update_metadata_answered,
        )

    def _send_stop_replica(self) -> None:
        for broker, states in self._stop_replica.items():
            if broker not in self._context.live_brokers:
                continue
            deleting = {tp for tp, state in states.items() if state.delete_partition}
            self._sending("stop_replica.sent", broker, states, deleting=len(deleting))
            self._channel.send_stop_replica(
                broker,
                self._context.broker_epochs[broker],
                self._controller,
                _by_topic(states),
                partial(self._replicas_stopped, broker, deleting),
            )

    def _sending(
        self, event: str, to: int | list[int], states: Mapping[TopicPartition, object], **fields: object
    ) -> None:
        """Lines of the state-change log (``sendLeaderAndIsrRequest`` and its neighbours)."""
        office = {"controller": self._controller_id, "controller_epoch": self._context.epoch, "to": to}
        _state_changes.info(event, **office, partitions=len(states), **fields)
        # A line for each partition only where it is asked for: one broker may have a hundred thousand.
        if _state_changes.has_debug:
            for tp, state in states.items():
                _state_changes.debug(f"{event}.partition", **office, partition=tp, state=state)

    def _replicas_stopped(
        self,
        broker: int,
        deleting: set[TopicPartition],
        error: ErrorCode,
        partitions: Iterable[tuple[TopicPartition, ErrorCode]],
    ) -> None:
        # Replicas that were only stopped: nothing waits for that.
        errors = {tp: code for tp, code in partitions if tp in deleting}
        if errors:
            self._handlers.replicas_deleted(broker, error, errors)

    def __repr__(self) -> str:
        return (
            f"<RequestBatch leader_and_isr={sorted(self._leader_and_isr)} "
            f"update_metadata={sorted(self._update_brokers)} stop_replica={sorted(self._stop_replica)}>"
        )


def _update_metadata_answered(broker: int, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        _events.error("update_metadata_refused", broker=broker, error=error.name)


def _by_topic(states: dict[TopicPartition, State]) -> dict[str, list[State]]:
    grouped: dict[str, list[State]] = {}
    for tp, state in states.items():
        grouped.setdefault(tp.topic, []).append(state)
    return grouped


def _leader_and_isr_state(
    tp: TopicPartition, leadership: PartitionLeadership, assignment: ReplicaAssignment, is_new: bool
) -> LeaderAndIsrPartitionState:
    state = leadership.leader_and_isr
    return LeaderAndIsrPartitionState(
        topic_name=tp.topic,
        partition_index=tp.partition,
        controller_epoch=leadership.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        is_new=is_new,
        leader_recovery_state=int(state.recovery_state),
    )
