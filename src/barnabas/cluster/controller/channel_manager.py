"""How the controller speaks to brokers: the port, and `RequestBatch`, what one event has to say to them.

Theory of operation
-------------------
State machines add what each broker has to learn; `send` turns it into at most one LeaderAndIsr, one
UpdateMetadata and one StopReplica request a broker, in that order, because a broker that becomes a follower
must already know its leader's address when later requests build on it. Whatever goes into a LeaderAndIsr
goes into an UpdateMetadata for every broker as well. A batch that was not sent must be cleared before the
next begins: what is in it would otherwise be lost without a trace.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from barnabas.cluster.brokers import SECURITY_PROTOCOLS, Broker
from barnabas.cluster.controller.context import ControllerContext
from barnabas.cluster.leadership import PartitionLeadership, ReplicaAssignment
from barnabas.core.clock import Clock
from barnabas.core.errors import BarnabasError, ErrorCode
from barnabas.core.eventlog import STATE_CHANGES, EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)

_events: Final = EventLog("cluster.controller")
_state_changes: Final = EventLog(STATE_CHANGES)

ControlRequest: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse: TypeAlias = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse

State = TypeVar("State")


class BatchNotSentError(BarnabasError):
    """Brokers did not get what the znodes say already: the controller must resign (``handleIllegalState``)."""


class ControllerChannelManager(Protocol):
    """Delivers requests to brokers, the own one among them (``ControllerChannelManager``).

    To each broker requests go one at a time and in order, at their highest version; one that fails on the
    way is sent again until the broker is removed. An answer may come in any later turn of the loop.
    """

    def add_broker(self, broker: Broker) -> None:
        """Opens the queue to a broker."""

    def remove_broker(self, broker_id: int) -> None:
        """Drops the queue to a broker, with what waits in it."""

    def send(self, broker_id: int, request: ControlRequest, on_response: Callable[[Any], object]) -> None:
        """Queues a request; its answer goes to `on_response`. A broker that was not added gets nothing."""


@dataclass(frozen=True, slots=True)
class ResponseHandlers:
    """Where the brokers' answers go; each is called in a later turn."""

    leader_and_isr: Callable[[int, LeaderAndIsrResponse], object]
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
        """``addLeaderAndIsrRequestForBrokers``: these lead or follow as `leadership` says; all brokers learn of it."""
        for broker in brokers:
            if broker < 0:
                continue
            states = self._leader_and_isr.setdefault(broker, {})
            already_new = tp in states and states[tp].is_new
            states[tp] = _leader_and_isr_state(tp, leadership, assignment, is_new or already_new)
        self.add_update_metadata(self._context.live_brokers, [tp])

    def add_stop_replica(self, brokers: Iterable[int], tp: TopicPartition, *, delete: bool) -> None:
        """``addStopReplicaRequestForBrokers``: these stop their replica, and delete it if any call says so."""
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
        """``addUpdateMetadataRequestForBrokers``: these learn the live brokers and the states of these partitions."""
        self._update_brokers |= dict.fromkeys(broker for broker in brokers if broker >= 0)
        for tp in partitions:
            leadership = self._context.leadership.get(tp)
            if leadership is not None:
                self._update_partitions[tp] = self._update_metadata_state(tp, leadership)

    def _update_metadata_state(
        self, tp: TopicPartition, leadership: PartitionLeadership
    ) -> UpdateMetadataPartitionState:
        context = self._context
        state = leadership.leader_and_isr
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
                self._send_leader_and_isr()
                self._send_update_metadata()
                self._send_stop_replica()
        except Exception as error:
            raise BatchNotSentError(f"requests to brokers cannot be sent: {error}") from error
        finally:
            self.clear()

    def end(self) -> None:
        """The term is over: nothing is sent any more."""
        self._over = True
        self.clear()

    def _send_leader_and_isr(self) -> None:
        for broker, states in self._leader_and_isr.items():
            if broker not in self._context.live_brokers:
                continue
            leaders = {state.leader for state in states.values()}
            request = LeaderAndIsrRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.broker_epochs[broker],
                topic_states=[
                    LeaderAndIsrTopicState(
                        topic_name=topic,
                        topic_id=self._context.topic_ids.get(topic, ZERO_UUID),
                        partition_states=partitions,
                    )
                    for topic, partitions in _by_topic(states).items()
                ],
                live_leaders=[
                    self._live_leader(each)
                    for each in self._context.live_brokers.values()
                    if each.id in leaders
                ],
            )
            if _state_changes.has_info:
                leading = sum(state.leader == broker for state in states.values())
                self._sending(
                    "leader_and_isr.sent", broker, states, leaders=leading, followers=len(states) - leading
                )
            self._channel.send(broker, request, partial(self._handlers.leader_and_isr, broker))

    def _live_leader(self, broker: Broker) -> LeaderAndIsrLiveLeader:
        """Where followers fetch from: also with a listener of the controller's own it is the brokers' one."""
        endpoint = broker.required_endpoint(self._inter_broker_listener)
        return LeaderAndIsrLiveLeader(broker_id=broker.id, host_name=endpoint.host, port=endpoint.port)

    def _send_update_metadata(self) -> None:
        topic_states = [
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=self._context.topic_ids.get(topic, ZERO_UUID),
                partition_states=partitions,
            )
            for topic, partitions in _by_topic(self._update_partitions).items()
        ]
        live_brokers = [_update_metadata_broker(each) for each in self._context.live_brokers.values()]
        if self._update_brokers:
            # All get the same: its partitions are named once.
            self._sending(
                "update_metadata.sent",
                list(self._update_brokers),
                self._update_partitions,
                live_brokers=list(self._context.live_brokers),
            )
        for broker in self._update_brokers:
            if broker not in self._context.live_brokers:
                continue
            request = UpdateMetadataRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.broker_epochs[broker],
                topic_states=topic_states,
                live_brokers=live_brokers,
            )
            self._channel.send(broker, request, partial(_update_metadata_answered, broker))

    def _send_stop_replica(self) -> None:
        for broker, states in self._stop_replica.items():
            if broker not in self._context.live_brokers:
                continue
            request = StopReplicaRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.broker_epochs[broker],
                topic_states=[
                    StopReplicaTopicState(topic_name=topic, partition_states=partitions)
                    for topic, partitions in _by_topic(states).items()
                ],
            )
            deleting = {tp for tp, state in states.items() if state.delete_partition}
            self._sending("stop_replica.sent", broker, states, deleting=len(deleting))
            self._channel.send(broker, request, partial(self._replicas_stopped, broker, deleting))

    def _sending(
        self, event: str, to: int | list[int], states: Mapping[TopicPartition, object], **fields: object
    ) -> None:
        """Lines of the state-change log (``sendLeaderAndIsrRequest`` and its neighbours)."""
        office = {"controller": self._controller_id, "controller_epoch": self._context.epoch, "to": to}
        _state_changes.info(event, **office, partitions=len(states), **fields)
        if _state_changes.has_debug:
            for tp, state in states.items():
                _state_changes.debug(f"{event}.partition", **office, partition=tp, state=state)

    def _replicas_stopped(
        self, broker: int, deleting: set[TopicPartition], response: StopReplicaResponse
    ) -> None:
        errors = {}
        for each in response.partition_errors:
            tp = TopicPartition(each.topic_name, each.partition_index)
            if tp in deleting:
                errors[tp] = ErrorCode.of(each.error_code)
        if errors:
            self._handlers.replicas_deleted(broker, ErrorCode.of(response.error_code), errors)

    def __repr__(self) -> str:
        return (
            f"<RequestBatch leader_and_isr={sorted(self._leader_and_isr)} "
            f"update_metadata={sorted(self._update_brokers)} stop_replica={sorted(self._stop_replica)}>"
        )


def _update_metadata_answered(broker: int, response: UpdateMetadataResponse) -> None:
    if response.error_code != ErrorCode.NONE:
        code = ErrorCode.of(response.error_code)
        _events.error("update_metadata_refused", broker=broker, error=code.name)


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


def _update_metadata_broker(broker: Broker) -> UpdateMetadataBroker:
    endpoints = [
        UpdateMetadataEndpoint(
            port=endpoint.port,
            host=endpoint.host,
            listener=endpoint.name,
            security_protocol=SECURITY_PROTOCOLS[endpoint.security_protocol],
        )
        for endpoint in broker.endpoints
    ]
    return UpdateMetadataBroker(id=broker.id, endpoints=endpoints, rack=broker.rack)
