"""The ways between a controller and brokers, over the wire of the model: one request after the other."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from barnabas.broker.handlers.alter_partition import proposals_of, response_of
from barnabas.cluster.brokers import Broker as BrokerIdentity
from barnabas.cluster.controller.controller import KafkaController
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.pending import Pending
from barnabas.core.slices import in_one_piece
from barnabas.protocol.message import Response
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.testing.clock import ProcessClock
from barnabas.testing.replication.wire import LostCallError, Party, PartyNetwork, on_the_wire

RETRY_MS: Final = 100.0


class ControlledBroker(Party, Protocol):
    """What a way needs of the brokers at its two ends; each may be the controller."""

    wire: PartyNetwork
    clock: ProcessClock
    metadata: MetadataCache
    controller: KafkaController

    @property
    def brokers(self) -> Mapping[int, "ControlledBroker"]: ...

    def obey(self, request: Any) -> Pending[Any]:
        """Works off a request of the controller."""


class Channels:
    """A controller's requests to the brokers:
    for each in order, and again until the broker answers or is removed.
    """

    def __init__(self, owner: ControlledBroker) -> None:
        self._owner = owner
        self._queues: dict[int, deque[tuple[Any, Callable[[Response], object]]]] = {}

    def add_broker(self, broker: BrokerIdentity) -> None:
        """Opens the way to a broker."""
        self._queues[broker.id] = deque()

    def remove_broker(self, broker_id: int) -> None:
        """The broker was removed; what was to be sent is forgotten."""
        self._queues.pop(broker_id, None)

    def send(self, broker_id: int, request: Any, on_response: Callable[[Response], object]) -> None:
        """Sends a request when those before it are answered."""
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.append((request, on_response))
            if len(queue) == 1:
                self._send_first(broker_id, queue)

    def _send_first(self, broker_id: int, queue: deque[tuple[Any, Callable[[Response], object]]]) -> None:
        if self._queues.get(broker_id) is not queue:
            return
        request, on_response = queue[0]

        def answered(answer: Pending[Response]) -> None:
            if self._queues.get(broker_id) is not queue:
                return
            if isinstance(answer.error, LostCallError):
                self._owner.clock.call_later(RETRY_MS, lambda: self._send_first(broker_id, queue))
                return
            queue.popleft()
            on_response(answer.result())
            if queue:
                self._send_first(broker_id, queue)

        target = self._owner.brokers[broker_id]
        self._owner.wire.call(self._owner, target, lambda: target.obey(request), answered)

    def waits_for_roles(self, broker_id: int) -> bool:
        """Whether a LeaderAndIsr for this broker has no answer yet."""
        return any(isinstance(request, LeaderAndIsrRequest) for request, _ in self._queues.get(broker_id, ()))

    def __repr__(self) -> str:
        return f"<Channels { ({broker: len(queue) for broker, queue in self._queues.items()}) }>"


class ToController:
    """A leader's way to the controller that it knows of."""

    def __init__(self, owner: ControlledBroker) -> None:
        self._owner = owner

    def send(
        self, request: AlterPartitionRequest, *, versions: tuple[int, int]
    ) -> Pending[AlterPartitionResponse]:
        """The controller's answer; fails when it could not be had."""
        answer: Pending[AlterPartitionResponse] = Pending()
        controller = self._owner.brokers.get(self._owner.metadata.controller_id)
        if controller is None:
            return Pending.failed(LostCallError())
        _, version = versions
        sent = on_the_wire(request, version)

        def decide() -> Pending[AlterPartitionResponse]:
            proposals = in_one_piece(proposals_of(sent, version))
            verdicts = controller.controller.alter_partition(sent.broker_id, sent.broker_epoch, proposals)
            return verdicts.then(lambda verdicts: in_one_piece(response_of(proposals, verdicts, version)))

        self._owner.wire.call(self._owner, controller, decide, answer.end_as)
        return answer

    def __repr__(self) -> str:
        return f"<ToController of {self._owner.name}>"
