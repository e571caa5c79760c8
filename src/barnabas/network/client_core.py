"""All links of one client, and the choice of a node when any will do (``NetworkClient``)."""

from collections.abc import Iterable
from random import Random

from barnabas.network.backoff import ExponentialBackoff
from barnabas.network.connection_states import ConnectionState, ConnectionTimings
from barnabas.network.in_flight import Call
from barnabas.network.node_link import ClientSettings, Node, NodeLink, WireFactory
from barnabas.protocol.message import Request


class ClientCore:
    """Sans-IO: times are arguments, sockets are what `make_wire` makes, chance is `random`."""

    def __init__(self, settings: ClientSettings, make_wire: WireFactory, random: Random) -> None:
        self.settings = settings
        self.links: dict[int, NodeLink] = {}
        self._make_wire = make_wire
        self._random = random
        self._timings = ConnectionTimings(
            reconnect=ExponentialBackoff(
                initial_ms=settings.reconnect_backoff_ms,
                max_ms=settings.reconnect_backoff_max_ms,
                uniform=random.uniform,
            ),
            setup=ExponentialBackoff(
                initial_ms=settings.setup_timeout_ms,
                max_ms=settings.setup_timeout_max_ms,
                uniform=random.uniform,
            ),
        )

    @property
    def nodes(self) -> list[Node]:
        """The nodes that are known, in the order they were told."""
        return [link.node for link in self.links.values()]

    def set_nodes(self, nodes: Iterable[Node], now_ms: float) -> None:
        """Replaces the nodes. Links to nodes that stay where they were go on.

        The others end when their last call is answered.
        """
        previous, self.links = self.links, {}
        for node in nodes:
            self.add_node(node, previous)
        for node_id, link in previous.items():
            if self.links.get(node_id) is not link:
                link.retire(now_ms)

    def add_node(self, node: Node, known: dict[int, NodeLink] | None = None) -> NodeLink:
        """The link of a node, a new one unless it is known at this address."""
        link = (self.links if known is None else known).get(node.id)
        if link is None or (link.node.host, link.node.port) != (node.host, node.port):
            link = NodeLink(node, self.settings, self._timings, self._make_wire)
        link.node = node
        self.links[node.id] = link
        return link

    def close(self, error: Exception, now_ms: float) -> None:
        """Closes every link; the calls on them fail with the error."""
        links, self.links = self.links, {}
        for link in links.values():
            link.close(error, now_ms)

    def call(
        self,
        node_id: int,
        request: Request,
        now_ms: float,
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
        expects_response: bool = True,
    ) -> Call:
        """Sends a request; the call completes with the response. Raises KeyError for an unknown node."""
        timeout = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        call = Call(
            request,
            timeout_ms=timeout,
            deadline_ms=now_ms + timeout,
            version=version,
            expects_response=expects_response,
        )
        self.links[node_id].submit(call, now_ms)
        return call

    def least_loaded_node(self, now_ms: float) -> Node | None:
        """The node to ask when any will do; None when no connection can even be begun now.

        A ready node without a call at once; else the ready one with the fewest; else one that is being
        connected; else of those that may be connected the one tried longest ago.
        """
        links = list(self.links.values())
        offset = self._random.randrange(len(links)) if links else 0
        candidates = links[offset:] + links[:offset]
        ready = [link for link in candidates if link.can_send(now_ms)]
        if ready:
            return min(ready, key=lambda link: link.load).node
        for link in candidates:
            if link.state.state in {ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS}:
                return link.node
        idle = [link for link in candidates if link.state.can_connect(now_ms)]
        if idle:
            return min(idle, key=lambda link: link.state.last_attempt_ms or 0.0).node
        return None

    def __repr__(self) -> str:
        return f"<ClientCore {list(self.links.values())}>"
