"""The port through which a `NetworkClient` learns which nodes there are (Kafka's ``MetadataUpdater``).

Two implementations: `ManualMetadataUpdater` holds what it is given (between brokers, whose nodes are named by
the controller or by UpdateMetadata); the client's own asks the cluster with Metadata requests.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from barnabas.network.node_link import Node


class MetadataUpdater(Protocol):
    """Knows the nodes of one cluster."""

    def fetch_nodes(self) -> Sequence[Node]:
        """The nodes that can answer any request:
        the bootstrap servers (negative ids) until metadata has come.
        """

    def handle_server_disconnect(self, node: Node, error: Exception) -> None:
        """The connection to a node was lost, or could not be made; the calls on it fail after this."""


class ManualMetadataUpdater:
    """Nodes given by hand; nothing is asked and nothing follows from a lost connection."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes = list(nodes)

    def fetch_nodes(self) -> Sequence[Node]:
        return self._nodes

    def handle_server_disconnect(self, node: Node, error: Exception) -> None:
        pass

    def __repr__(self) -> str:
        return f"<ManualMetadataUpdater {self._nodes}>"
