"""The port through which a client reaches brokers, and its real implementation on `NetworkClient`."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from barnabas.client.config import Address
from barnabas.core.config import Config
from barnabas.network.api_versions import NodeApiVersions
from barnabas.network.client import NetworkClient
from barnabas.network.errors import DisconnectedError
from barnabas.network.node_link import SOFTWARE_NAME, ClientSettings, Node
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
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
        self._client = NetworkClient(addresses, settings=settings)
        self._aside = NetworkClient(settings=settings)

    def _client_of(self, node_id: int) -> NetworkClient:
        return self._aside if node_id in self._aside.core.links else self._client

    async def send(
        self,
        node_id: int,
        request: Request,
        *,
        versions: Versions | None = None,
        timeout_ms: float | None = None,
    ) -> Response:
        """See `Transport.send`."""
        version = None
        if versions is not None:
            known = await self._versions_of(node_id)
            version = known.latest_usable(type(request), *versions)
        silent = isinstance(request, ProduceRequest) and request.acks == 0
        try:
            future = self._client_of(node_id).send(
                node_id, request, version=version, timeout_ms=timeout_ms, expects_response=not silent
            )
        except KeyError:
            raise DisconnectedError(f"broker {node_id} is not known any more") from None
        response = await future
        if silent:
            return ProduceResponse()
        assert isinstance(response, Response)
        return response

    async def _versions_of(self, node_id: int) -> NodeApiVersions:
        link = self._client_of(node_id).core.links.get(node_id)
        if link is not None and link.versions is None:
            # Any request makes the connection, and with it the versions.
            await self.send(
                node_id, ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="0")
            )
        if link is None or link.versions is None:
            raise DisconnectedError(f"broker {node_id} is not connected")
        return link.versions

    def least_loaded_node(self) -> int | None:
        """See `Transport.least_loaded_node`."""
        node = self._client.least_loaded_node()
        return None if node is None else node.id

    def set_brokers(self, brokers: Mapping[int, Address]) -> None:
        """See `Transport.set_brokers`."""
        self._client.set_nodes(Node(node_id, *address) for node_id, address in brokers.items())

    def connect_aside(self, node_id: int, address: Address) -> None:
        """See `Transport.connect_aside`."""
        self._aside.add_node(Node(node_id, *address))

    def disconnect_aside(self, node_id: int) -> None:
        """See `Transport.disconnect_aside`."""
        self._aside.remove_node(node_id)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._aside.close()
        await self._client.close()
