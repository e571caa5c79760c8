"""How a partition stands, counted as ``kafka-topics.sh --describe`` counts it (``TopicCommand``): the command
line, the console and the status say the same of it.
"""

from collections.abc import Collection, Mapping, Sequence

from barnabas.admin import AsyncAdmin, PartitionReassignment
from barnabas.client.metadata import PartitionMetadata
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.network.errors import UnsupportedVersionError

COLLISION = (
    "Due to limitations in metric names, topics with a period ('.') or underscore ('_') could"
    " collide. To avoid issues it is best to use either, but not both."
)


def may_collide(topic: str) -> bool:
    """Whether a topic's name may be another one's in the names of metrics (``Topic.hasCollisionChars``)."""
    return "." in topic or "_" in topic


def replication_factor(one: PartitionMetadata, moving: PartitionReassignment | None) -> int:
    """How many replicas the partition is to have: those that only come or go do not count
    (``getReplicationFactor``).
    """
    if moving is not None and not {*moving.adding, *moving.removing}.isdisjoint(one.replicas):
        return len(moving.replicas) - len(moving.adding)
    return len(one.replicas)


def is_under_replicated(one: PartitionMetadata, moving: PartitionReassignment | None) -> bool:
    """Whether it has fewer replicas in sync than it is to have; one that is just copied is none of these."""
    return len(one.isr) < replication_factor(one, moving)


def is_unavailable(one: PartitionMetadata, alive: Collection[int]) -> bool:
    """Whether it has no leader, or one that is not in the cluster."""
    return one.leader not in alive


def is_under_min_isr(one: PartitionMetadata, minimum: int) -> bool:
    """Whether it takes no records with acks=all."""
    return one.leader < 0 or len(one.isr) < minimum


def is_at_min_isr(one: PartitionMetadata, minimum: int) -> bool:
    """Whether it takes none once it loses one more replica."""
    return len(one.isr) == minimum


async def reassignments(
    admin: AsyncAdmin, partitions: Sequence[TopicPartition] | None = None, timeout_ms: float | None = None
) -> Mapping[TopicPartition, PartitionReassignment]:
    """The partitions on the move, of all or of these; none where the cluster is too old to say, or may not
    (``listAllReassignments``). Raises KafkaError.
    """
    try:
        return await admin.partitions.reassignments(partitions, timeout_ms=timeout_ms)
    except UnsupportedVersionError:
        return {}
    except KafkaError as error:
        if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return {}
