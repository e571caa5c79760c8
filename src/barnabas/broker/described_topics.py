"""Topics as Metadata answers name them, kept in bytes from one answer to the next.

Theory of operation
-------------------
A topic's part of an answer depends on what the controller said of the topic, on the live brokers with their
listeners, on the listener that the request came in on, and on the version. The first two are parts of an
immutable `Snapshot` and are compared by identity: a topic that changed is described again, and all are when a
broker came or went. So Metadata of all topics costs what it takes to put their bytes together, and not to
describe each partition for each client that asks.

What a client may see is decided by the handler before it looks here: nothing in here depends on who asks.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.cluster.metadata.cache import PartitionState, Snapshot
from barnabas.core.ids import ZERO_UUID, Uuid
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

BYTES_MAX: Final = 16 << 20
"""Of all together; a cluster with more is described again and again, as without this."""


class _Described(NamedTuple):
    states: Mapping[int, PartitionState]
    topic_id: Uuid
    data: bytes


class DescribedTopics:
    """The topics' bytes by listener, version and name."""

    __slots__ = ("_endpoints", "_size", "_topics")

    def __init__(self) -> None:
        self._endpoints: object = None
        self._topics: dict[tuple[str, int, str], _Described] = {}
        self._size = 0

    def find(self, snapshot: Snapshot, listener: str, version: int, name: str) -> bytes | None:
        """The topic as it is in this snapshot, if it was described in it or is still the same."""
        if snapshot.endpoints is not self._endpoints:
            return None
        found = self._topics.get((listener, version, name))
        if found is None:
            return None
        is_same = found.states is snapshot.partitions[name]
        return found.data if is_same and found.topic_id == snapshot.topic_ids.get(name, ZERO_UUID) else None

    def keep(
        self, snapshot: Snapshot, listener: str, version: int, name: str, topic: MetadataResponseTopic
    ) -> MetadataResponseTopic | bytes:
        """What may stand for the topic in the answer: its bytes, unless it has very many partitions."""
        data = MetadataResponse.encode_element("topics", topic, version)
        if data is None:
            return topic
        if snapshot.endpoints is not self._endpoints or self._size + len(data) > BYTES_MAX:
            # Topics that were deleted go with the others: they count until then.
            self._topics.clear()
            self._size = 0
            self._endpoints = snapshot.endpoints
        place = (listener, version, name)
        if (replaced := self._topics.get(place)) is not None:
            self._size -= len(replaced.data)
        self._size += len(data)
        topic_id = snapshot.topic_ids.get(name, ZERO_UUID)
        self._topics[place] = _Described(snapshot.partitions[name], topic_id, data)
        return data

    def __repr__(self) -> str:
        return f"<DescribedTopics {len(self._topics)}, {self._size} bytes>"
