"""What consumer groups need of topics: the port `TopicsImage`, and the metadata cache behind it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.ids import ZERO_UUID, Uuid


class TopicDescription(NamedTuple):
    """A topic as an assignment sees it (``TopicMetadata``)."""

    id: Uuid
    name: str
    partition_count: int
    racks: Mapping[int, frozenset[str]]
    """Of the replicas, by partition; a partition without known racks has no entry."""


class TopicsImage(Protocol):
    """The topics of the cluster, as they are now."""

    def describe(self, name: str) -> TopicDescription | None:
        """None for a topic that does not exist or has no id yet."""

    def name_of(self, topic_id: Uuid) -> str | None:
        """The topic that has an id."""

    def names(self) -> Iterable[str]:
        """Of all topics."""


class CachedTopics:
    """The topics in the metadata cache of this broker."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def describe(self, name: str) -> TopicDescription | None:
        topic_id, partitions = self._cache.topic_id(name), self._cache.partitions(name)
        if topic_id == ZERO_UUID or not partitions:
            return None
        racks = {partition: self._racks(state.replicas) for partition, state in partitions.items()}
        return TopicDescription(
            topic_id, name, len(partitions), {partition: known for partition, known in racks.items() if known}
        )

    def name_of(self, topic_id: Uuid) -> str | None:
        return self._cache.topic_name(topic_id)

    def names(self) -> Iterable[str]:
        return self._cache.topics()

    def _racks(self, replicas: Iterable[int]) -> frozenset[str]:
        brokers = (self._cache.alive_broker(replica) for replica in replicas)
        return frozenset(broker.rack for broker in brokers if broker is not None and broker.rack is not None)

    def __repr__(self) -> str:
        return f"<CachedTopics of {self._cache!r}>"
