"""`ControlRequests`: what the controller has to say to brokers as LeaderAndIsr, UpdateMetadata and
StopReplica.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from barnabas.cluster.brokers import SECURITY_PROTOCOLS, Broker
from barnabas.cluster.controller.channel_manager import LeaderAndIsrAnswer
from barnabas.cluster.leadership import ControllerEpoch
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.network.endpoints import Endpoint
from barnabas.protocol.message import Request
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from barnabas.protocol.partition_states import (
    LeaderAndIsrPartitionState,
    StopReplicaPartitionState,
    UpdateMetadataPartitionState,
)


class RequestQueues(Protocol):
    """The queues to the brokers (`node.channels.BrokerChannels`)."""

    def add_broker(self, broker: Broker) -> None:
        """Opens the queue to a broker."""

    def remove_broker(self, broker_id: int) -> None:
        """Drops the queue to a broker, with what waits in it."""

    def send(self, broker_id: int, request: Request, on_response: Callable[[Any], object]) -> None:
        """Queues a request; its answer goes to `on_response`. A broker that was not added gets nothing."""


class ControlRequests:
    """Implements `cluster.controller.channel_manager.ControllerChannelManager`."""

    def __init__(self, channels: RequestQueues) -> None:
        self._channels = channels
        self.add_broker = channels.add_broker
        self.remove_broker = channels.remove_broker

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
        """Queues a LeaderAndIsr request."""
        request = LeaderAndIsrRequest(
            controller_id=controller.controller_id,
            controller_epoch=controller.epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=topic,
                    topic_id=topic_ids.get(topic, ZERO_UUID),
                    partition_states=partitions,
                )
                for topic, partitions in states.items()
            ],
            live_leaders=[
                LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)
                for leader, endpoint in live_leaders.items()
            ],
        )

        def answered(response: LeaderAndIsrResponse) -> None:
            on_answer(LeaderAndIsrAnswer(ErrorCode.of(response.error_code), _partition_errors(response)))

        self._channels.send(broker_id, request, answered)

    def send_update_metadata(
        self,
        broker_epochs: Mapping[int, int],
        controller: ControllerEpoch,
        states: Mapping[str, list[UpdateMetadataPartitionState]],
        topic_ids: Mapping[str, Uuid],
        live_brokers: Iterable[Broker],
        on_answer: Callable[[int, ErrorCode], object],
    ) -> None:
        """Queues an UpdateMetadata request for each broker; they share what is the same in all."""
        topic_states = [
            UpdateMetadataTopicState(
                topic_name=topic, topic_id=topic_ids.get(topic, ZERO_UUID), partition_states=partitions
            )
            for topic, partitions in states.items()
        ]
        brokers = [_update_metadata_broker(each) for each in live_brokers]
        for broker_id, broker_epoch in broker_epochs.items():
            request = UpdateMetadataRequest(
                controller_id=controller.controller_id,
                controller_epoch=controller.epoch,
                broker_epoch=broker_epoch,
                topic_states=topic_states,
                live_brokers=brokers,
            )

            def answered(response: UpdateMetadataResponse, broker_id: int = broker_id) -> None:
                on_answer(broker_id, ErrorCode.of(response.error_code))

            self._channels.send(broker_id, request, answered)

    def send_stop_replica(
        self,
        broker_id: int,
        broker_epoch: int,
        controller: ControllerEpoch,
        states: Mapping[str, list[StopReplicaPartitionState]],
        on_answer: Callable[[ErrorCode, Iterable[tuple[TopicPartition, ErrorCode]]], object],
    ) -> None:
        """Queues a StopReplica request."""
        request = StopReplicaRequest(
            controller_id=controller.controller_id,
            controller_epoch=controller.epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                StopReplicaTopicState(topic_name=topic, partition_states=partitions)
                for topic, partitions in states.items()
            ],
        )

        def answered(response: StopReplicaResponse) -> None:
            on_answer(
                ErrorCode.of(response.error_code),
                (
                    (TopicPartition(each.topic_name, each.partition_index), ErrorCode.of(each.error_code))
                    for each in response.partition_errors
                ),
            )

        self._channels.send(broker_id, request, answered)

    def __repr__(self) -> str:
        return f"<ControlRequests over {self._channels!r}>"


def _partition_errors(response: LeaderAndIsrResponse) -> Iterator[tuple[str | Uuid, int, int]]:
    for error in response.partition_errors:  # before version 5
        yield error.topic_name, error.partition_index, error.error_code
    for topic in response.topics:
        topic_id = topic.topic_id
        for error in topic.partition_errors:
            yield topic_id, error.partition_index, error.error_code


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
