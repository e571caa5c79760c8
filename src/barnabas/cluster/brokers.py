"""A broker as the cluster knows it: its id, its endpoints by listener, its rack."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.network.endpoints import Endpoint
from barnabas.network.node_link import Node

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""The numbers by which UpdateMetadata names security protocols."""
SECURITY_PROTOCOL_NAMES: Final = {number: name for name, number in SECURITY_PROTOCOLS.items()}


class EndPointNotFoundError(BarnabasError):
    """A broker lacks the listener on which it is to be reached (``BrokerEndPointNotAvailableException``)."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, Any] = field(default_factory=dict, hash=False)
    cordoned: bool = False
    """Whether all its log directories are: it gets no new replicas (KIP-1066)."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Its endpoint on a listener, if it has that listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)

    def required_endpoint(self, listener: str) -> Endpoint:
        """Its endpoint on a listener that each broker needs. Raises EndPointNotFoundError."""
        endpoint = self.endpoint(listener)
        if endpoint is None:
            raise EndPointNotFoundError(
                f"End point with listener name {listener} not found for broker {self.id}"
            )
        return endpoint

    def node(self, listener: str) -> Node | None:
        """``Broker.getNode``: where a client of this listener connects to, if the broker has that
        listener.
        """
        endpoint = self.endpoint(listener)
        return None if endpoint is None else Node(self.id, endpoint.host, endpoint.port, self.rack)
