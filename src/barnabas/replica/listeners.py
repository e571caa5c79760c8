"""`Listeners`: what else on this broker depends on the roles of its partitions and on the cluster's metadata.

A coordinator lives where the partitions of its topic are led, so it hears of their elections and
resignations. The node registers each listener once, before the first request of the controller.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

from barnabas.core.ids import NO_EPOCH, TopicPartition
from barnabas.replica.partition import Partition


class LeadershipListener(Protocol):
    """Coordinates what is in the partitions of one topic (``onElection``, ``onResignation``)."""

    def elected(self, partition: int, leader_epoch: int) -> object:
        """This broker leads the partition now, and did not before."""

    def resigned(self, partition: int, leader_epoch: int | None) -> object:
        """Another broker leads the partition now, or it is deleted;
        without an epoch where that names none.
        """


class MetadataListener(Protocol):
    """Depends on which topics there are; called once all of an UpdateMetadata is applied."""

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> object:
        """These partitions were deleted (``onPartitionsDeleted``)."""

    def metadata_changed(self, topics: set[str]) -> object:
        """The controller has sent the state of these topics (``onNewMetadataImage``)."""


class Listeners:
    """All that are registered."""

    __slots__ = ("leadership", "metadata")

    def __init__(self) -> None:
        self.leadership: dict[str, LeadershipListener] = {}
        """By topic."""
        self.metadata: list[MetadataListener] = []

    def roles_changed(self, leaders: Iterable[Partition], followers: Iterable[Partition]) -> None:
        """All roles of a LeaderAndIsr are taken on (``onLeadershipChange``)."""
        for partition in leaders:
            listener = self.leadership.get(partition.tp.topic)
            if listener is not None:
                listener.elected(partition.tp.partition, partition.leader_epoch)
        for partition in followers:
            listener = self.leadership.get(partition.tp.topic)
            if listener is not None:
                listener.resigned(partition.tp.partition, partition.leader_epoch)

    def deleted(self, tp: TopicPartition, leader_epoch: int) -> None:
        """The controller had this broker delete its replica."""
        listener = self.leadership.get(tp.topic)
        if listener is not None:
            listener.resigned(tp.partition, leader_epoch if leader_epoch > NO_EPOCH else None)

    def metadata_changed(self, topics: set[str], deleted: Collection[TopicPartition]) -> None:
        """An UpdateMetadata with these topics is applied, and took these partitions away."""
        for listener in self.metadata:
            if deleted:
                listener.partitions_deleted(deleted)
            listener.metadata_changed(topics)
