"""The controller's requests to brokers (``ControllerChannelManager``).

Theory of operation
-------------------
To the broker in the same process a request is handed over as an object, in a later turn of the loop, and
takes the same handler as one from the wire; to any other it goes over the network, one in flight. The
controller's requests to other brokers are repeated until they are answered, because a broker that missed one
would stay wrong (``RequestSendThread``); a broker that has failed is removed, and its queue with it. A
request that fails in this process is a bug and would fail again: it is logged, and the next one is handled.

The other direction, broker to controller, is in `to_controller` and `controlled_shutdown`; the connections of
both are made in `broker_clients`.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.broker.context import RequestContext
from barnabas.broker.dispatch import execute
from barnabas.broker.registry import Api
from barnabas.cluster.brokers import Broker
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.network.errors import DisconnectedError
from barnabas.network.node_link import Node
from barnabas.network.peer import THIS_BROKER, ListenerId, Peer
from barnabas.protocol.framing import RequestHeader
from barnabas.protocol.message import Request, Response

if TYPE_CHECKING:
    from barnabas.broker.services import BrokerServices

_log = EventLog("node.channels")

RETRY_MS: Final = 100


class LocalBroker:
    """This broker's own handlers, for requests that need no socket."""

    def __init__(self, listener: ListenerId) -> None:
        self._peer = Peer(listener, ("127.0.0.1", 0), principal=THIS_BROKER)
        self.services: BrokerServices
        """What handlers reach. Set after all else is made: it has the controller, which sends through this
        object.
        """

    def handle(self, request: Request, versions: tuple[int, int] | None = None) -> Pending[Any]:
        """The handler's answer to a request of the highest version, also the one for a failure.

        `versions` are the lowest and the highest version that can carry the request, where not all can.
        """
        assert request.api is not None
        api = self.services.api_table[request.api]
        version = api.max_version if versions is None else min(versions[1], api.max_version)
        header = RequestHeader(request.api, version, 0, str(self.services.broker_id))
        context = RequestContext(self.services, header, self._peer, 0)
        outcome = execute(api, context, request, _as_it_is)
        return outcome if isinstance(outcome, Pending) else Pending.of(outcome)


def _as_it_is(_api: Api, _context: RequestContext, response: Response | None) -> Response | None:
    """In process nothing is throttled and nothing encoded."""
    return response


class Remote(Protocol):
    """What the channels need of a `NetworkClient`."""

    def request(
        self, node: Node, request: Request, *, versions: tuple[int, int] | None = None
    ) -> Pending[Any]:
        """Sends a request; fails with DisconnectedError when no answer came."""

    def disconnect(self, node_id: int) -> None:
        """Closes the connection to a node; its requests fail."""

    async def close(self) -> None:
        """Closes all connections; requests that wait fail."""


class BrokerRequests:
    """Single requests to brokers: in process to ourselves, else over the network. The caller repeats them."""

    def __init__(
        self, broker_id: int, listener: str, metadata: MetadataCache, *, local: LocalBroker, remote: Remote
    ) -> None:
        self._broker_id = broker_id
        self._listener = listener
        self._metadata = metadata
        self._local = local
        self._remote = remote

    def node(self, broker_id: int) -> Node | None:
        """Where a broker is reached, if it lives and has the listener (``getAliveBrokerNode``)."""
        broker = self._metadata.alive_broker(broker_id)
        return None if broker is None else broker.node(self._listener)

    def request(self, broker_id: int, request: Request, versions: tuple[int, int]) -> Pending[Any]:
        """The answer; fails with DisconnectedError where none comes, or the broker is not alive."""
        if broker_id == self._broker_id:
            return self._local.handle(request, versions)
        node = self.node(broker_id)
        if node is None:
            return Pending.failed(DisconnectedError(f"broker {broker_id} is not alive"))
        return self._remote.request(node, request, versions=versions)

    async def close(self) -> None:
        """Closes the connections."""
        await self._remote.close()


class _Queue:
    """The requests that wait for one broker, in order."""

    __slots__ = ("in_flight", "node", "waiting")

    def __init__(self, node: Node | None) -> None:
        self.node = node
        """Where the broker is; None for the one in this process."""
        self.waiting: deque[tuple[Request, Callable[[Response], object]]] = deque()
        self.in_flight = False


class BrokerChannels:
    """The queues to the brokers; `control_requests` fills them."""

    def __init__(
        self, broker_id: int, listener: str, clock: Clock, *, local: LocalBroker, remote: Remote
    ) -> None:
        self._broker_id = broker_id
        self._listener = listener
        self._clock = clock
        self._local = local
        self._remote = remote
        self._queues: dict[int, _Queue] = {}

    def add_broker(self, broker: Broker) -> None:
        """Opens the queue to a broker. Raises EndPointNotFoundError."""
        if broker.id == self._broker_id:
            self._queues[broker.id] = _Queue(None)
        else:
            endpoint = broker.required_endpoint(self._listener)
            self._queues[broker.id] = _Queue(Node(broker.id, endpoint.host, endpoint.port))

    def remove_broker(self, broker_id: int) -> None:
        """Drops the queue to a broker, with what waits in it."""
        self._queues.pop(broker_id, None)
        if broker_id != self._broker_id:
            self._remote.disconnect(broker_id)

    def send(self, broker_id: int, request: Request, on_response: Callable[[Response], object]) -> None:
        """Queues a request; a broker that was not added gets nothing."""
        queue = self._queues.get(broker_id)
        if queue is None:
            _log.warning("channel.not_added", broker=broker_id, request=type(request).__name__)
            return
        queue.waiting.append((request, on_response))
        if not queue.in_flight:
            queue.in_flight = True
            self._clock.call_soon(lambda: self._deliver(broker_id, queue))

    def _deliver(self, broker_id: int, queue: _Queue) -> None:
        if self._queues.get(broker_id) is not queue:
            return  # removed meanwhile, perhaps added again
        request, on_response = queue.waiting[0]
        answer = self._request(queue.node, request)
        answer.when_done(lambda done: self._answered(broker_id, queue, on_response, done))

    def _request(self, node: Node | None, request: Request) -> Pending[Any]:
        try:
            return self._local.handle(request) if node is None else self._remote.request(node, request)
        except Exception as error:
            return Pending.failed(error)

    def _answered(
        self,
        broker_id: int,
        queue: _Queue,
        on_response: Callable[[Response], object],
        done: Pending[Any],
    ) -> None:
        if self._queues.get(broker_id) is not queue:
            return
        if done.error is not None and broker_id != self._broker_id:
            thread = f"Controller-{self._broker_id}-to-broker-{broker_id}-send-thread"
            _log.info("channel.retry", channel=thread, broker=broker_id, reason=done.error)
            self._clock.call_later(RETRY_MS, lambda: self._deliver(broker_id, queue))
            return
        request, _ = queue.waiting.popleft()
        if done.error is not None:
            # What failed in this process would fail again: the requests behind it are not to wait for it.
            _log.error("channel.local_request_failed", request=type(request).__name__, exc_info=done.error)
        else:
            self._hand_over(on_response, done.result())
        if queue.waiting:
            self._clock.call_soon(lambda: self._deliver(broker_id, queue))
        else:
            queue.in_flight = False

    def _hand_over(self, on_response: Callable[[Response], object], response: Response) -> None:
        try:
            on_response(response)
        except Exception:
            # A bug where the answer is used must not stop the queue: this broker needs the requests behind
            # it.
            _log.error("channel.answer_not_taken", answer=type(response).__name__, exc_info=True)

    def __repr__(self) -> str:
        waiting = {broker: len(queue.waiting) for broker, queue in self._queues.items()}
        return f"<BrokerChannels from broker {self._broker_id} waiting={waiting}>"
