"""The port through which the controller speaks to brokers (``ControllerChannelManager``)."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from barnabas.cluster.brokers import Broker
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

ControlRequest: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse: TypeAlias = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


class BrokerChannel(Protocol):
    """Delivers requests to brokers, the own one among them.

    To each broker requests go one at a time and in order, at their highest version; one that fails on the
    way is sent again until the broker is removed. An answer may come in any later turn of the loop.
    """

    def add_broker(self, broker: Broker) -> None:
        """Opens the queue to a broker."""

    def remove_broker(self, broker_id: int) -> None:
        """Drops the queue to a broker, with what waits in it."""

    def send(
        self, broker_id: int, request: ControlRequest, on_response: Callable[[ControlResponse], object]
    ) -> None:
        """Queues a request; its answer goes to `on_response`. A broker that was not added gets nothing."""
