"""`ClusterMetadata`: what is known of brokers, topics and leaders; immutable, replaced as answers come.

A newer answer wins, except that a partition's leader epoch never goes back: an answer from a broker that
lags behind must not undo what is known (``org.apache.kafka.clients.Metadata.updateLatestMetadata``).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import NO_LEADER, ZERO_UUID, TopicPartition, Uuid
from barnabas.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker can be reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.node_id} rack: {self.rack or 'null'})"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Who leads and who holds a partition; leader -1 while there is none.

    The replicas that may lead although they are not in sync, and those that were such before (KIP-966), are
    None where brokers do not tell.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline_replicas: Sequence[int]
    error: ErrorCode = ErrorCode.NONE
    eligible_leader_replicas: Sequence[int] | None = None
    last_known_elr: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic with its partitions by number."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]

    @property
    def available(self) -> Sequence[int]:
        """The partitions that have a leader; a range, quick to search, when all have one."""
        led = [number for number, one in self.partitions.items() if one.leader >= 0]
        return range(len(self.partitions)) if len(led) == len(self.partitions) else sorted(led)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One consistent view."""

    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    errors: Mapping[str, ErrorCode] = field(default_factory=dict)
    """Why a topic is not among `topics`, by name."""
    cluster_id: str | None = None
    controller_id: int = -1
    names: Mapping[Uuid, str] = field(default_factory=dict)

    def leader(self, tp: TopicPartition) -> int:
        """The broker that leads the partition, -1 when none is known."""
        partition = self.partition(tp)
        return partition.leader if partition and partition.leader in self.brokers else NO_LEADER

    def partition(self, tp: TopicPartition) -> PartitionMetadata | None:
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic else None

    def topic_id(self, name: str) -> Uuid:
        """The topic's id; all zeros where it has none (before Kafka 2.8)."""
        topic = self.topics.get(name)
        return topic.topic_id if topic else ZERO_UUID

    def topic_name(self, topic_id: Uuid, name: str | None) -> str:
        """The name of a topic that an answer gives by id or by name;
        "" for a topic that was not asked about.
        """
        return name or self.names.get(topic_id, "")

    def updated(self, response: MetadataResponse, *, complete: bool) -> "ClusterMetadata":
        """This view with an answer worked in; a complete one (about all topics) replaces the topics."""
        topics = {} if complete else dict(self.topics)
        errors = {} if complete else dict(self.errors)
        names = {} if complete else dict(self.names)
        for one in response.topics or ():
            name = one.name or ""
            error = ErrorCode.of(one.error_code)
            errors.pop(name, None)
            known = self.topics.get(name)
            if known is not None:
                names.pop(known.topic_id, None)
            if error is ErrorCode.NONE or one.partitions:
                topics[name] = _topic(one, known)
                if one.topic_id != ZERO_UUID:
                    names[one.topic_id] = name
            else:
                topics.pop(name, None)
                errors[name] = error
        return replace(
            self,
            brokers={
                one.node_id: Broker(one.node_id, one.host, one.port, one.rack) for one in response.brokers
            },
            topics=topics,
            errors=errors,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            names=names,
        )

    def without(self, topics: Collection[str]) -> "ClusterMetadata":
        """This view without these topics."""
        return replace(
            self,
            topics={name: one for name, one in self.topics.items() if name not in topics},
            errors={name: one for name, one in self.errors.items() if name not in topics},
            names={topic_id: name for topic_id, name in self.names.items() if name not in topics},
        )

    def with_leaders(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], brokers: Iterable[Broker]
    ) -> "ClusterMetadata":
        """This view with leaders and their epochs as an answer to another request names them, and where they
        are (KIP-951, ``Metadata.updatePartitionLeadership``); itself where none of them is newer.
        """
        known = {**self.brokers, **{broker.node_id: broker for broker in brokers}}
        topics = dict(self.topics)
        for tp, (leader, epoch) in leaders.items():
            partition = self.partition(tp)
            if partition is None or leader not in known or epoch <= partition.leader_epoch:
                continue
            topic = topics[tp.topic]
            moved = replace(partition, leader=leader, leader_epoch=epoch)
            topics[tp.topic] = replace(topic, partitions={**topic.partitions, tp.partition: moved})
        if topics == self.topics:
            return self
        return replace(self, topics=topics, brokers=known)

    def __repr__(self) -> str:
        return f"<ClusterMetadata {len(self.brokers)} brokers, {len(self.topics)} topics>"


def _topic(response: MetadataResponseTopic, known: TopicMetadata | None) -> TopicMetadata:
    same = known is not None and known.topic_id == response.topic_id
    before = known.partitions if known and same else {}
    partitions = {
        one.partition_index: _partition(one, before.get(one.partition_index)) for one in response.partitions
    }
    return TopicMetadata(
        response.name or "", response.topic_id, response.is_internal, dict(sorted(partitions.items()))
    )


def _partition(response: MetadataResponsePartition, known: PartitionMetadata | None) -> PartitionMetadata:
    if known and NO_EPOCH < response.leader_epoch < known.leader_epoch:
        return known
    return PartitionMetadata(
        response.partition_index,
        response.leader_id,
        response.leader_epoch,
        response.replica_nodes,
        response.isr_nodes,
        response.offline_replicas,
        ErrorCode.of(response.error_code),
    )
