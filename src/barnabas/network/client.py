"""`NetworkClient`: requests to the nodes of a cluster, many in flight, without a socket (Kafka's
``NetworkClient``).

Theory of operation
-------------------
`request` names a node and gives a `Pending` of the response. The first request to a node makes its
`NodeLink`, which has all that belongs to one node: connection state and backoff, requests that wait and
requests in flight, correlation ids, time-outs. Links ask the `Selector` for channels; sockets, timers and
name resolution are its business, so a test or a simulation passes another one.

Which nodes can be asked anything is known to a `MetadataUpdater`. `least_loaded_node` chooses among them, and
the updater hears of each lost connection. A node beside them (the coordinator of a group has a connection of
its own, with an id of its own) is simply named in a request; it is never the least loaded one.

    updater = ManualMetadataUpdater([Node(-1, "localhost", 9092)])
    client = NetworkClient(Selector(), updater, ClientSettings(client_id="me"))
    node = client.least_loaded_node()
    response = await completed(client.request(node, MetadataRequest()))     # selector.completed
    client.retire(-1)                       # its connection ends when its last call is answered
    await client.close()
"""

from random import Random
from typing import Final, Protocol

from barnabas.core.clock import Clock
from barnabas.network.backoff import ExponentialBackoff
from barnabas.network.connection_states import ConnectionState, ConnectionTimings
from barnabas.network.errors import DisconnectedError
from barnabas.network.in_flight import ClientRequest
from barnabas.network.metadata_updater import MetadataUpdater
from barnabas.network.node_link import Channel, ClientSettings, Node, NodeLink
from barnabas.protocol.message import Request

_BEGINNING: Final = frozenset({ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS})
_CONNECTING_MS: Final = 1_000.0
"""How long a connection may take before another node is tried."""


class ChannelSource(Protocol):
    """What the client needs of a `Selector`."""

    clock: Clock

    def channel(self, link: NodeLink, response_bytes_max: int) -> Channel:
        """A channel that calls back into the link."""

    async def close(self) -> None:
        """The client has closed its channels."""


class NetworkClient:
    """Talks to the brokers of one cluster; close it when done."""

    def __init__(
        self,
        selector: ChannelSource,
        updater: MetadataUpdater,
        settings: ClientSettings,
        rng: Random,
    ) -> None:
        self.settings = settings
        self._selector = selector
        self._updater = updater
        self._clock = selector.clock
        self._rng = rng
        self._links: dict[int, NodeLink] = {}
        # Retired ones that have still calls to be answered.
        self._retiring: set[NodeLink] = set()
        self._closed = False
        self._timings = ConnectionTimings(
            reconnect=ExponentialBackoff(
                initial_ms=settings.reconnect_backoff_ms,
                max_ms=settings.reconnect_backoff_max_ms,
                uniform=rng.uniform,
            ),
            setup=ExponentialBackoff(
                initial_ms=settings.setup_timeout_ms,
                max_ms=settings.setup_timeout_max_ms,
                uniform=rng.uniform,
            ),
        )

    def request(
        self,
        node: Node,
        request: Request,
        *,
        versions: tuple[int, int] | None = None,
        timeout_ms: float | None = None,
        expects_response: bool = True,
    ) -> ClientRequest:
        """Sends a request, connecting first where needed; a Pending of its response.

        It goes out in the highest version that both sides know, within `versions` where given. The Pending
        fails with DisconnectedError when the connection is lost or cannot be made (RequestTimedOutError and
        ConnectionSetupTimedOutError are kinds of it), UnsupportedVersionError, or ProtocolError. Raises
        DisconnectedError once the client is closed.
        """
        if self._closed:
            raise DisconnectedError("the client is closed")
        now_ms = self._clock.monotonic_ms()
        timeout_ms = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        call = ClientRequest(
            request,
            timeout_ms=timeout_ms,
            deadline_ms=now_ms + timeout_ms,
            versions=versions,
            expects_response=expects_response,
        )
        self.link(node).submit(call, now_ms)
        return call

    def link(self, node: Node) -> NodeLink:
        """The link of a node. Calls to its previous address fail."""
        link = self._links.get(node.id)
        if link is not None and (link.node.host, link.node.port) == (node.host, node.port):
            link.node = node
            return link
        moved = link
        link = NodeLink(node, self.settings, self._timings, self._selector.channel, self._lost)
        # Before the calls fail: a listener may submit its next call at once, and a node has one link.
        self._links[node.id] = link
        if moved is not None:
            moved.close(DisconnectedError(f"node {moved.node} has moved"), self._clock.monotonic_ms())
        return link

    def _lost(self, link: NodeLink, error: Exception) -> None:
        self._retiring.discard(link)
        # A link that the client ended itself is no longer in its table.
        if self._links.get(link.node.id) is link:
            self._updater.handle_server_disconnect(link.node, error)

    def is_ready(self, node_id: int) -> bool:
        """Whether the node is connected and does not throttle:
        a request waits for nothing but earlier ones then.
        """
        link = self._links.get(node_id)
        return link is not None and link.state.is_ready(self._clock.monotonic_ms())

    def in_flight_request_count(self, node_id: int) -> int:
        """Calls that the node has not answered yet, sent or not (``inFlightRequestCount``)."""
        link = self._links.get(node_id)
        return 0 if link is None else link.load

    def silent_nodes(self, longer_than_ms: float) -> list[Node]:
        """Nodes with a call that waits for longer than this, those that are no longer part of the cluster
        included: whom an answer that does not come is waiting for.
        """
        long_ago = self._clock.monotonic_ms() - longer_than_ms
        return [
            link.node
            for link in [*self._links.values(), *self._retiring]
            if (since := link.waits_since_ms()) is not None and since < long_ago
        ]

    def finalized_level(self, feature: str) -> int | None:
        """The level of a feature, as the node with the newest knowledge of all that are connected tells it; 0
        where it is off or not there, None while no node is connected.
        """
        told = [link.versions for link in self._links.values() if link.versions is not None]
        newest = max(told, key=lambda each: each.finalized_epoch, default=None)
        return None if newest is None else newest.finalized.get(feature, 0)

    def least_loaded_node(self) -> Node | None:
        """The node to ask when any will do; None when no connection can even be begun now.

        A ready node without a call at once; else the ready one with the fewest; else one that is being
        connected; else of those that may be connected the one tried longest ago. One whose connection does
        not come about for a second is taken last: a broker that is frozen is connected to, and never says
        which versions it has. (Kafka's client waits for it as long as a request may take.)
        """
        links = [self.link(node) for node in self._updater.fetch_nodes()]
        if not links:
            return None
        now_ms = self._clock.monotonic_ms()
        # A random start spreads the clients of a cluster, and the requests of one client, over equal nodes.
        offset = self._rng.randrange(len(links))
        candidates = links[offset:] + links[:offset]
        ready = [link for link in candidates if link.can_send(now_ms)]
        if ready:
            return min(ready, key=lambda link: link.load).node
        beginning = [link for link in candidates if link.state.state in _BEGINNING]
        for link in beginning:
            if now_ms - (link.state.last_attempt_ms or 0.0) < _CONNECTING_MS:
                return link.node
        idle = [link for link in candidates if link.state.can_connect(now_ms)]
        if idle:
            return min(idle, key=lambda link: link.state.last_attempt_ms or 0.0).node
        # Rather none than this one, where another is only busy.
        is_other_there = any(link.state.is_ready(now_ms) for link in links)
        return beginning[0].node if beginning and not is_other_there else None

    def retire(self, node_id: int) -> None:
        """The node is no longer part of the cluster: its connection ends when its last call is answered."""
        link = self._links.pop(node_id, None)
        if link is not None:
            if link.load:
                self._retiring.add(link)
            link.retire(self._clock.monotonic_ms())

    def disconnect(self, node_id: int) -> None:
        """Closes the connection to a node now; its calls fail with DisconnectedError (``disconnect``)."""
        link = self._links.pop(node_id, None)
        if link is not None:
            link.close(DisconnectedError(f"node {link.node} was removed"), self._clock.monotonic_ms())

    async def close(self) -> None:
        """Closes all connections; calls that wait fail with DisconnectedError."""
        self._closed = True
        links, self._links = [*self._links.values(), *self._retiring], {}
        for link in links:
            link.close(DisconnectedError("the client is closed"), self._clock.monotonic_ms())
        await self._selector.close()

    def __repr__(self) -> str:
        return f"<NetworkClient {self.settings.client_id} {list(self._links.values())}>"
