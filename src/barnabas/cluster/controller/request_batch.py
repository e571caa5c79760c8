"""`RequestBatch`: what the controller tells brokers, gathered for one event (``ControllerBrokerRequestBatch``).

Theory of operation
-------------------
State machines add what each broker has to learn; `send` turns it into at most one LeaderAndIsr, one
UpdateMetadata and one StopReplica request a broker, in that order, because a broker that becomes a follower
must already know its leader's address when later requests build on it. Whatever goes into a LeaderAndIsr
goes into an UpdateMetadata for every broker as well. A batch that was not sent must be cleared before the
next begins: what is in it would otherwise be lost without a trace.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar, cast

from barnabas.cluster.brokers import SECURITY_PROTOCOLS, Broker
from barnabas.cluster.controller.channel import BrokerChannel, ControlResponse
from barnabas.cluster.controller.context import ControllerContext
from barnabas.cluster.leadership import PartitionLeadership, ReplicaAssignment
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID, TopicPartition
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

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class ResponseHandlers:
    """What is told of the brokers' answers; each is called in a later turn, with the broker's id."""

    leader_and_isr: Callable[[LeaderAndIsrResponse, int], object]
    update_metadata: Callable[[UpdateMetadataResponse, int], object]
    replicas_deleted: Callable[[int, ErrorCode, dict[TopicPartition, ErrorCode]], object]
    """The answer to a StopReplica that deletes: the broker, the error of the whole, one a partition."""


class RequestBatch:
    """The requests of the event that is being processed."""

    def __init__(
        self,
        controller_id: int,
        context: ControllerContext,
        channel: BrokerChannel,
        listener: str,
        handlers: ResponseHandlers,
    ) -> None:
        self._controller_id = controller_id
        self._context = context
        self._channel = channel
        self._listener = listener
        self._handlers = handlers
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._update_brokers: dict[int, None] = {}
        self._update_partitions: dict[TopicPartition, UpdateMetadataPartitionState] = {}

    def begin(self) -> None:
        """Asserts that nothing of an earlier batch is left."""
        left = [self._leader_and_isr, self._stop_replica, self._update_brokers]
        assert not any(left), f"a batch of requests to brokers was neither sent nor cleared: {left}"

    def clear(self) -> None:
        """Forgets what was gathered."""
        for gathered in (
            self._leader_and_isr,
            self._stop_replica,
            self._update_brokers,
            self._update_partitions,
        ):
            gathered.clear()

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
        """These brokers shall lead or follow as `leadership` says; all brokers shall hear of it."""
        for broker in brokers:
            if broker < 0:
                continue
            states = self._leader_and_isr.setdefault(broker, {})
            already_new = tp in states and states[tp].is_new
            states[tp] = _leader_and_isr_state(tp, leadership, assignment, is_new or already_new)
        self.add_update_metadata(self._context.live_brokers, [tp])

    def add_stop_replica(self, brokers: Iterable[int], tp: TopicPartition, *, delete: bool) -> None:
        """These brokers shall stop their replica, and delete it if so said once."""
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
        """These brokers shall learn the live brokers and these partitions' states."""
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

    def send(self) -> None:
        """Sends what was gathered to the brokers that are registered."""
        self._send_leader_and_isr()
        self._send_update_metadata()
        self._send_stop_replica()
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
            self._channel.send(broker, request, self._on_leader_and_isr(broker))

    def _on_leader_and_isr(self, broker: int) -> Callable[[ControlResponse], object]:
        return lambda response: self._handlers.leader_and_isr(cast("LeaderAndIsrResponse", response), broker)

    def _live_leader(self, broker: Broker) -> LeaderAndIsrLiveLeader:
        endpoint = broker.endpoint(self._listener)
        assert endpoint is not None, (
            f"broker {broker.id} registered without the inter-broker listener {self._listener}"
        )
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
            self._channel.send(broker, request, self._on_update_metadata(broker))

    def _on_update_metadata(self, broker: int) -> Callable[[ControlResponse], object]:
        return lambda response: self._handlers.update_metadata(
            cast("UpdateMetadataResponse", response), broker
        )

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
            self._channel.send(broker, request, self._on_stop_replica(broker, deleting))

    def _on_stop_replica(
        self, broker: int, deleting: set[TopicPartition]
    ) -> Callable[[ControlResponse], object]:
        def on_response(response: ControlResponse) -> None:
            stopped = cast("StopReplicaResponse", response)
            errors = {
                TopicPartition(each.topic_name, each.partition_index): ErrorCode.of(each.error_code)
                for each in stopped.partition_errors
                if each.topic_name in self._context.deletions_begun
            }
            errors = {tp: code for tp, code in errors.items() if tp in deleting}
            if errors:
                self._handlers.replicas_deleted(broker, ErrorCode.of(stopped.error_code), errors)

        return on_response

    def __repr__(self) -> str:
        return (
            f"<RequestBatch leader_and_isr={sorted(self._leader_and_isr)} "
            f"update_metadata={sorted(self._update_brokers)} stop_replica={sorted(self._stop_replica)}>"
        )


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
