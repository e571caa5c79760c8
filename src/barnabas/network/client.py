"""`NetworkClient`: connections to many brokers, many requests in flight, on asyncio without a task a request.

`request` gives a `Pending` for code that has no loop (the controller's channels, replica fetchers); `send`
gives a Future to await. Decisions are those of `client_core` and `node_link`; this module owns the sockets,
the timers and name resolution.

Theory of operation
-------------------
Requests of one turn of the loop go out with one system call: a wire collects what it is given, and
`NetworkClient` flushes all such wires in the next turn. One timer a link looks at deadlines; it is armed for
the earliest and looks again when it fires, so that sending a request does not touch timers.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from barnabas.core.clock import Clock
from barnabas.core.pending import Pending
from barnabas.network.client_core import ClientCore
from barnabas.network.clock import LoopClock
from barnabas.network.errors import DisconnectedError
from barnabas.network.frames import FrameReader, ReceiveMemory
from barnabas.network.node_link import ClientSettings, Node, NodeLink
from barnabas.network.socket_wire import SocketWire
from barnabas.protocol.message import Request
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


def parse_bootstrap(servers: str | Iterable[str | tuple[str, int]]) -> list[Node]:
    """Nodes -1, -2, ... of ``host:port`` texts (one string with commas, or several). Raises ValueError."""
    entries = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = [_parse_address(entry) if isinstance(entry, str) else entry for entry in entries]
    if not addresses:
        raise ValueError("No resolvable bootstrap urls given in bootstrap.servers")
    return [Node(-1 - index, host, port) for index, (host, port) in enumerate(addresses)]


def _parse_address(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"Invalid url in bootstrap.servers: {text}")
    return host.strip("[]"), int(port)


class NetworkClient:
    """Talks to the brokers of one cluster. Belongs to the running event loop; close it when done."""

    def __init__(
        self,
        bootstrap: str | Iterable[str | tuple[str, int]] = (),
        *,
        client_id: str | None = None,
        settings: ClientSettings | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """`bootstrap` may be empty where nodes are told by `set_nodes` or `add_node` (between brokers)."""
        self.loop = asyncio.get_running_loop()
        self.clock = clock or LoopClock(self.loop)
        settings = settings or ClientSettings()
        if client_id is not None:
            settings = replace(settings, client_id=client_id)
        self.settings = settings
        # Seeded by the process's own generator, so that a simulation decides.
        chance = chance or random.Random(random.getrandbits(64))
        self.core = ClientCore(settings, self._make_wire, chance)
        self._memory = ReceiveMemory()
        self._threads: ThreadPoolExecutor | None = None
        self._scheduled: list[Callable[[], None]] = []
        self._closed = False
        if bootstrap:
            self.set_nodes(parse_bootstrap(bootstrap))

    @property
    def nodes(self) -> list[Node]:
        """The nodes that are known: the bootstrap servers (negative ids) until metadata has come."""
        return self.core.nodes

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Replaces the nodes; connections to those that stay where they were go on."""
        self.core.set_nodes(nodes, self.clock.monotonic_ms())

    def add_node(self, node: Node) -> None:
        """Makes a node known, or moves it to another address."""
        now = self.clock.monotonic_ms()
        previous = self.core.links.get(node.id)
        if self.core.add_node(node) is not previous and previous is not None:
            previous.close(DisconnectedError(f"node {previous.node} has moved"), now)

    def remove_node(self, node_id: int) -> None:
        """Forgets a node; its calls fail with DisconnectedError."""
        link = self.core.links.pop(node_id, None)
        if link is not None:
            link.close(DisconnectedError(f"node {link.node} was removed"), self.clock.monotonic_ms())

    def least_loaded_node(self) -> Node | None:
        """The node to ask when any will do; None when every one waits for its reconnect backoff."""
        return self.core.least_loaded_node(self.clock.monotonic_ms())

    def is_ready(self, node_id: int) -> bool:
        """Whether a request to the node would be sent at once."""
        link = self.core.links.get(node_id)
        return link is not None and link.can_send(self.clock.monotonic_ms())

    def request(
        self,
        node_id: int,
        request: Request,
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
        expects_response: bool = True,
    ) -> Pending[Any]:
        """Sends a request to a node, connecting first where needed; a Pending of its response.

        It fails with DisconnectedError when the connection is lost or cannot be made (RequestTimedOutError
        and ConnectionSetupTimedOutError are kinds of it), UnsupportedVersionError, or ProtocolError.
        Raises KeyError for a node that is not known, DisconnectedError once the client is closed.
        """
        if self._closed:
            raise DisconnectedError("the client is closed")
        return self.core.call(
            node_id,
            request,
            self.clock.monotonic_ms(),
            version=version,
            timeout_ms=timeout_ms,
            expects_response=expects_response,
        )

    def send(
        self,
        node_id: int,
        request: Request,
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
        expects_response: bool = True,
    ) -> "asyncio.Future[Any]":
        """The same as `request`, to be awaited: ``response = await client.send(node_id, request)``."""
        future: asyncio.Future[Any] = self.loop.create_future()
        call = self.request(
            node_id, request, version=version, timeout_ms=timeout_ms, expects_response=expects_response
        )
        call.when_done(lambda done: _resolve(future, done))
        return future

    async def send_to_any(self, request: Request, *, timeout_ms: float | None = None) -> Any:
        """Sends to the least loaded node, and to others when it cannot be reached, until the time is over.

        Raises DisconnectedError when no node answered in time.
        """
        limit = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.clock.monotonic_ms() + limit
        problem: Exception = DisconnectedError("there is no node to ask")
        while (left := deadline - self.clock.monotonic_ms()) > 0:
            node = self.least_loaded_node()
            if node is None:
                await asyncio.sleep(min(left, self.settings.reconnect_backoff_ms) / 1000)
                continue
            try:
                return await self.send(node.id, request, timeout_ms=left)
            except DisconnectedError as error:
                problem = error
        raise DisconnectedError(f"no node answered {request.api!r} within {limit} ms: {problem}") from problem

    async def metadata_update(
        self,
        topics: Sequence[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        timeout_ms: float | None = None,
    ) -> MetadataResponse:
        """Asks any node for topics (all of them for None) and takes over the brokers of the answer."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=allow_auto_topic_creation)
        response: MetadataResponse = await self.send_to_any(request, timeout_ms=timeout_ms)
        # A broker that has just started may know of none yet; then what was known is better.
        if response.brokers:
            self.set_nodes(Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers)
        return response

    async def close(self) -> None:
        """Closes all connections; calls that wait fail with DisconnectedError."""
        self._closed = True
        self.core.close(DisconnectedError("the client is closed"), self.clock.monotonic_ms())
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        # Lets futures that have just failed reach those who await them.
        await asyncio.sleep(0)

    # What wires share (`socket_wire.ClientHub`).

    @property
    def threads(self) -> Executor:
        """Threads for what blocks; started when the first name has to be resolved."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="network-client")
        return self._threads

    def new_reader(self) -> FrameReader:
        """A frame reader over the client's one receive memory."""
        return FrameReader(self._memory, self.settings.response_bytes_max)

    def schedule(self, flush: Callable[[], None]) -> None:
        """Flushes a wire in the next turn of the loop, together with all others of this one."""
        if not self._scheduled:
            self.loop.call_soon(self._flush_scheduled)
        self._scheduled.append(flush)

    def _flush_scheduled(self) -> None:
        scheduled, self._scheduled = self._scheduled, []
        for flush in scheduled:
            flush()

    def _make_wire(self, link: NodeLink) -> SocketWire:
        return SocketWire(self, link)

    def __repr__(self) -> str:
        return f"<NetworkClient {self.settings.client_id} {list(self.core.links.values())}>"


def _resolve(future: "asyncio.Future[Any]", done: Pending[Any]) -> None:
    if future.done():
        # Whoever awaited it was cancelled.
        return
    if done.error is not None:
        future.set_exception(done.error)
    else:
        future.set_result(done.result())
