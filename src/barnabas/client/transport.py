"""The port through which a client reaches brokers, and its real implementation on `NetworkClient`."""

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from barnabas.client.config import Address
from barnabas.core.config import Config
from barnabas.network.client import NetworkClient
from barnabas.network.errors import DisconnectedError
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.node_link import ClientSettings, Node
from barnabas.network.selector import Selector, completed
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse

Versions = tuple[int, int]


class Transport(Protocol):
    """Connections to brokers by node id; bootstrap servers have ids below 0."""

    async def send(
        self,
        node_id: int,
        request: Request,
        *,
        versions: Versions | None = None,
        timeout_ms: float | None = None,
    ) -> Response:
        """The answer, in the highest version that both sides know, within `versions` where given.

        It may take ``request.timeout.ms`` unless `timeout_ms` says otherwise. Raises DisconnectedError (the connection is lost, or cannot be made), UnsupportedVersionError.
        """

    def least_loaded_node(self) -> int | None:
        """A broker to ask what any broker can answer; None while none can be reached."""

    def set_brokers(self, brokers: Mapping[int, Address]) -> None:
        """Where brokers are from now on."""

    def connect_aside(self, node_id: int, address: Address) -> None:
        """Makes a node known beside the brokers; it is only asked what is sent to it by name."""

    def disconnect_aside(self, node_id: int) -> None:
        """Forgets such a node; what waits for it fails with DisconnectedError."""

    async def close(self) -> None:
        """Closes all connections."""


class NetworkTransport:
    """`Transport` on sockets."""

    def __init__(self, addresses: Sequence[Address], config: Config, in_flight_max: int) -> None:
        settings = ClientSettings(
            client_id=config["client.id"],
            max_in_flight=in_flight_max,
            request_timeout_ms=config["request.timeout.ms"],
        )
        self._nodes = {-1 - index: Node(-1 - index, *address) for index, address in enumerate(addresses)}
        self._aside: dict[int, Node] = {}
        self._updater = ManualMetadataUpdater(self._nodes.values())
        # Seeded by the process's own generator, so that a simulation decides.
        rng = random.Random(random.getrandbits(64))
        self._client = NetworkClient(Selector(), self._updater, settings, rng)

    async def send(
        self,
        node_id: int,
        request: Request,
        *,
        versions: Versions | None = None,
        timeout_ms: float | None = None,
    ) -> Response:
        """See `Transport.send`."""
        node = self._nodes.get(node_id) or self._aside.get(node_id)
        if node is None:
            raise DisconnectedError(f"broker {node_id} is not known any more")
        silent = isinstance(request, ProduceRequest) and request.acks == 0
        call = self._client.request(
            node, request, versions=versions, timeout_ms=timeout_ms, expects_response=not silent
        )
        response = await completed(call)
        if silent:
            return ProduceResponse()
        assert isinstance(response, Response)
        return response

    def least_loaded_node(self) -> int | None:
        """See `Transport.least_loaded_node`."""
        node = self._client.least_loaded_node()
        return None if node is None else node.id

    def set_brokers(self, brokers: Mapping[int, Address]) -> None:
        """See `Transport.set_brokers`."""
        previous, self._nodes = self._nodes, {id_: Node(id_, *address) for id_, address in brokers.items()}
        self._updater.set_nodes(self._nodes.values())
        for node_id, node in previous.items():
            if self._nodes.get(node_id) != node:
                self._client.retire(node_id)

    def connect_aside(self, node_id: int, address: Address) -> None:
        """See `Transport.connect_aside`."""
        self._aside[node_id] = Node(node_id, *address)

    def disconnect_aside(self, node_id: int) -> None:
        """See `Transport.disconnect_aside`."""
        self._aside.pop(node_id, None)
        self._client.disconnect(node_id)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._client.close()
