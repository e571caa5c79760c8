"""The partitions that this broker holds, and why it may not serve one (``HostedPartition``)."""

from collections.abc import Iterator

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.replica.partition import Partition


class HostedPartitions:
    """Partitions by name; one whose log directory failed is offline until the broker starts again."""

    __slots__ = ("_metadata", "_offline", "online")

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.online: dict[TopicPartition, Partition] = {}
        self._offline: set[TopicPartition] = set()

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self.online.values()))

    def __len__(self) -> int:
        return len(self.online)

    @property
    def offline_count(self) -> int:
        return len(self._offline)

    def is_offline(self, tp: TopicPartition) -> bool:
        return tp in self._offline

    def take_offline(self, tp: TopicPartition) -> None:
        """Its log directory failed: the partition is no longer served."""
        partition = self.online.pop(tp, None)
        if partition is not None:
            partition.close()
        self._offline.add(tp)

    def serve(self, tp: TopicPartition) -> Partition:
        """The partition; raises the code that a client gets for one that is not served here."""
        partition = self.online.get(tp)
        if partition is None:
            raise self._not_here(tp)
        return partition

    def _not_here(self, tp: TopicPartition) -> KafkaError:
        if tp in self._offline:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {tp} is in an offline log directory")
        # The cluster has the partition, so the client's metadata is stale: this code makes it look for the
        # leader.
        known = self._metadata.partition(tp) is not None
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return KafkaError(code, f"Error while fetching partition state for {tp}")

    def __repr__(self) -> str:
        return f"<HostedPartitions online={len(self.online)} offline={len(self._offline)}>"
