"""`NodeToControllerChannelManager`: the requests of a broker to the active controller.

Theory of operation
-------------------
A channel has one queue and one request in flight, so the controller answers in order. The controller is the
one that sent the last UpdateMetadata. It is looked up once, and again when it is lost: when the connection
ends, when an answer does not come in time, or when an answer says NOT_CONTROLLER, be it for one partition
only. The request then goes to the front of the queue and is sent to the next controller. While none is known,
requests wait. So a sender gets an answer of a controller or, where the channel has a time limit,
RequestTimedOutError; it repeats nothing itself.

A broker has two channels, as in Kafka: ``alter-partition`` without a time limit, because a partition stays
locked until its proposal is decided, and ``forwarding`` with ``request.timeout.ms``. In this mode the second
one carries only AllocateProducerIds; clients' requests are not forwarded.
"""

import math
from collections import deque
from typing import Any, Final

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.network.errors import DisconnectedError, RequestTimedOutError
from barnabas.network.node_link import Node
from barnabas.node.channels import LocalBroker, Remote
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.alter_partition import AlterPartitionResponse

_log = EventLog("node.to_controller")

UNKNOWN_CONTROLLER_BACKOFF_MS: Final = 100
"""How often the metadata are looked at while they name no controller."""
LOST_CONTROLLER_BACKOFF_MS: Final = 50
"""The pause before a request goes out again: the reconnect backoff of Kafka's channel."""


class _QueueItem:
    """A request and its answer (``NodeToControllerQueueItem``)."""

    __slots__ = ("answer", "created_ms", "request", "versions")

    def __init__(self, request: Request, versions: tuple[int, int] | None, created_ms: float) -> None:
        self.request = request
        self.versions = versions
        self.created_ms = created_ms
        self.answer: Pending[Any] = Pending()


class NodeToControllerChannelManager:
    """One channel from this broker to the controller, which may be this broker too."""

    def __init__(
        self,
        channel_name: str,
        broker_id: int,
        listener: str,
        metadata: MetadataCache,
        clock: Clock,
        *,
        local: LocalBroker,
        remote: Remote,
        retry_timeout_ms: float = math.inf,
    ) -> None:
        self.name = f"zk-broker-{broker_id}-to-controller-{channel_name}-channel-manager"
        self._broker_id = broker_id
        self._listener = listener
        self._metadata = metadata
        self._clock = clock
        self._local = local
        self._remote = remote
        self._retry_timeout_ms = retry_timeout_ms
        self._queue: deque[_QueueItem] = deque()
        self._active_controller: Node | None = None
        self._in_flight = False
        self._waits = False
        self._closed = False

    def send(self, request: Request, *, versions: tuple[int, int] | None = None) -> Pending[Any]:
        """``sendRequest``: the controller's answer; `versions` are the lowest and the highest that may be
        used.

        Fails with RequestTimedOutError, or with UnsupportedVersionError or ProtocolError where sending again
        is no help. Without an end once the channel is closed.
        """
        item = _QueueItem(request, versions, self._clock.monotonic_ms())
        self._queue.append(item)
        self._send_next()
        return item.answer

    async def close(self) -> None:
        """``shutdown``: what waits is dropped, as the broker stops."""
        self._closed = True
        self._queue.clear()
        await self._remote.close()

    def _send_next(self) -> None:
        if self._in_flight or self._waits or self._closed:
            return
        self._fail_overdue()
        if not self._queue:
            return
        if self._active_controller is None:
            self._active_controller = self._find_controller()
        controller = self._active_controller
        if controller is None:
            self._wait(UNKNOWN_CONTROLLER_BACKOFF_MS)
            return
        item = self._queue.popleft()
        self._in_flight = True
        self._deliver(controller, item).when_done(lambda done: self._answered(item, done))

    def _fail_overdue(self) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._queue and now_ms - self._queue[0].created_ms >= self._retry_timeout_ms:
            item = self._queue.popleft()
            api = type(item.request).__name__
            item.answer.fail(RequestTimedOutError(f"{api} got no answer of a controller in time"))

    def _find_controller(self) -> Node | None:
        broker = self._metadata.alive_broker(self._metadata.controller_id)
        node = None if broker is None else broker.node(self._listener)
        if node is not None:
            _log.info("controller.found", channel=self.name, controller=node)
        return node

    def _deliver(self, controller: Node, item: _QueueItem) -> Pending[Any]:
        try:
            if controller.id == self._broker_id:
                return self._local.handle(item.request, item.versions)
            return self._remote.request(controller, item.request, versions=item.versions)
        except Exception as error:
            return Pending.failed(error)

    def _answered(self, item: _QueueItem, done: Pending[Any]) -> None:
        self._in_flight = False
        if self._closed:
            return
        if isinstance(done.error, DisconnectedError):
            self._lose_controller(item, done.error)
        elif done.error is None and _is_not_controller(done.result()):
            self._lose_controller(item, ErrorCode.NOT_CONTROLLER.name)
        else:
            item.answer.end_as(done)
            self._send_next()

    def _lose_controller(self, item: _QueueItem, reason: object) -> None:
        """The request is the first again, for the controller that the metadata name by then."""
        controller, self._active_controller = self._active_controller, None
        _log.info("controller.lost", channel=self.name, controller=controller, reason=reason)
        if controller is not None and controller.id != self._broker_id:
            self._remote.disconnect(controller.id)
        self._queue.appendleft(item)
        self._wait(LOST_CONTROLLER_BACKOFF_MS)

    def _wait(self, delay_ms: float) -> None:
        self._waits = True
        self._clock.call_later(delay_ms, self._waited)

    def _waited(self) -> None:
        self._waits = False
        self._send_next()

    def __repr__(self) -> str:
        return (
            f"<NodeToControllerChannelManager {self.name} to {self._active_controller} "
            f"waiting={len(self._queue)} in_flight={self._in_flight}>"
        )


def _is_not_controller(response: Response) -> bool:
    """Whether NOT_CONTROLLER is anywhere in an answer (``errorCounts``)."""
    if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
        return True
    return isinstance(response, AlterPartitionResponse) and any(
        partition.error_code == ErrorCode.NOT_CONTROLLER
        for topic in response.topics
        for partition in topic.partitions
    )
