"""`ControllerContext`: what the controller believes of the cluster while it is elected.

Plain state and questions about it; decisions are made by the state machines, which are the only ones to
change it. Sets keep the order of dictionaries, so that a run with the same events is the same run.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.cluster.brokers import Broker
from barnabas.cluster.controller.states import PartitionPhase, ReplicaPhase
from barnabas.cluster.leadership import NO_ASSIGNMENT, PartitionLeadership, ReplicaAssignment
from barnabas.core.ids import EPOCH_DURING_DELETE, NO_EPOCH, TopicPartition, Uuid


class Replica(NamedTuple):
    """One broker's copy of one partition (``PartitionAndReplica``)."""

    tp: TopicPartition
    broker_id: int

    @property
    def topic(self) -> str:
        return self.tp.topic

    def __str__(self) -> str:
        return f"{self.tp}@{self.broker_id}"


class ControllerContext:
    """Brokers, topics, assignments, leaders, states."""

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_version = 0
        """The version of /controller_epoch, which every write of this controller checks."""
        self.live_brokers: dict[int, Broker] = {}
        """Brokers that are registered, those that are shutting down among them."""
        self.broker_epochs: dict[int, int] = {}
        self.shutting_down: set[int] = set()
        self.topics: dict[str, None] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.topic_names: dict[Uuid, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.being_reassigned: dict[TopicPartition, None] = {}
        """``partitionsBeingReassigned``."""
        self.leadership: dict[TopicPartition, PartitionLeadership] = {}
        self.partition_phases: dict[TopicPartition, PartitionPhase] = {}
        self.replica_phases: dict[Replica, ReplicaPhase] = {}
        self.offline_log_dirs: dict[int, set[TopicPartition]] = {}
        """By broker, the partitions whose log directory failed there."""
        self.deletions: dict[str, None] = {}
        """Topics marked for deletion (``topicsToBeDeleted``)."""
        self.deletions_begun: set[str] = set()
        self.deletions_halted: set[str] = set()
        """Of those, the ones whose deletion has to wait (``topicsIneligibleForDeletion``)."""

    # -------------------------------------------------------------------------------------- brokers

    def add_broker(self, broker: Broker, epoch: int) -> None:
        """A broker registered; the epoch is the czxid of its znode."""
        self.live_brokers[broker.id] = broker
        self.broker_epochs[broker.id] = epoch

    def remove_broker(self, broker_id: int) -> None:
        self.live_brokers.pop(broker_id, None)
        self.broker_epochs.pop(broker_id, None)

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker is registered and not shutting down."""
        return broker_id in self.live_brokers and broker_id not in self.shutting_down

    def live_ids(self) -> set[int]:
        return self.live_brokers.keys() - self.shutting_down

    def cordoned_brokers(self) -> frozenset[int]:
        """The brokers that get no new replicas (KIP-1066)."""
        return frozenset(each.id for each in self.live_brokers.values() if each.cordoned)

    def is_online(self, broker_id: int, tp: TopicPartition, *, with_shutting_down: bool = False) -> bool:
        """Whether a broker could serve its replica of a partition."""
        alive = broker_id in self.live_brokers if with_shutting_down else self.is_live(broker_id)
        return alive and tp not in self.offline_log_dirs.get(broker_id, ())

    # ------------------------------------------------------------------------- topics and partitions

    def set_topics(self, topics: Iterable[str]) -> None:
        self.topics = dict.fromkeys(topics)

    def add_topic_id(self, topic: str, topic_id: Uuid) -> None:
        """A topic has this id, and no other topic has."""
        assert topic in self.topics, f"topic {topic} is given an id but does not exist"
        assert self.topic_ids.get(topic, topic_id) == topic_id, f"topic {topic} changed its id"
        assert self.topic_names.get(topic_id, topic) == topic, f"topic {topic} has another topic's id"
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def remove_topic(self, topic: str) -> None:
        self.deletions.pop(topic, None)
        self.deletions_begun.discard(topic)
        self.topics.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for partition in self.assignments.pop(topic, {}):
            self.leadership.pop(TopicPartition(topic, partition), None)
            self.being_reassigned.pop(TopicPartition(topic, partition), None)

    def assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        """The brokers of a partition; none for one that is not known."""
        return self.assignments.get(tp.topic, {}).get(tp.partition, NO_ASSIGNMENT)

    def assign(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.assignments.setdefault(tp.topic, {})[tp.partition] = assignment

    def all_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic, each in self.assignments.items() for number in each]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in self.assignments.get(topic, ())]

    def partitions_on(self, broker_id: int) -> list[TopicPartition]:
        return [tp for tp in self.all_partitions() if broker_id in self.assignment(tp).replicas]

    def partitions_in(self, *phases: PartitionPhase) -> list[TopicPartition]:
        return [tp for tp, phase in self.partition_phases.items() if phase in phases]

    @property
    def offline_partition_count(self) -> int:
        """``offlinePartitionCount``: partitions without a leader, but for topics that are being deleted."""
        return sum(
            phase is PartitionPhase.OFFLINE and tp.topic not in self.deletions
            for tp, phase in self.partition_phases.items()
        )

    # --------------------------------------------------------------------------------------- replicas

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [Replica(tp, broker) for tp in partitions for broker in self.assignment(tp).replicas]

    def replicas_on(self, brokers: Iterable[int]) -> list[Replica]:
        wanted = set(brokers)
        return [each for each in self.replicas_of(self.all_partitions()) if each.broker_id in wanted]

    def replicas_in(self, topic: str, phase: ReplicaPhase) -> list[Replica]:
        return [each for each in self._replicas_of_topic(topic) if self.replica_phases.get(each) is phase]

    def all_replicas_in(self, topic: str, phase: ReplicaPhase) -> bool:
        return all(self.replica_phases.get(each) is phase for each in self._replicas_of_topic(topic))

    def any_replica_in(self, topic: str, phase: ReplicaPhase) -> bool:
        return any(self.replica_phases.get(each) is phase for each in self._replicas_of_topic(topic))

    def _replicas_of_topic(self, topic: str) -> Iterator[Replica]:
        return iter(self.replicas_of(self.partitions_of(topic)))

    # ---------------------------------------------------------------------------------------- leaders

    def being_deleted(self, topic: str) -> bool:
        """Whether a topic is marked for deletion (``isTopicQueuedUpForDeletion``)."""
        return topic in self.deletions

    def leader_epoch(self, tp: TopicPartition) -> int:
        """The epoch that a StopReplica carries: -2 while the topic is being deleted, -1 without a leader."""
        if self.being_deleted(tp.topic):
            return EPOCH_DURING_DELETE
        known = self.leadership.get(tp)
        return known.leader_and_isr.leader_epoch if known else NO_EPOCH

    def partitions_with_leaders(self) -> list[TopicPartition]:
        """The partitions of topics that stay, whose leadership was decided at least once."""
        return [tp for tp in self.leadership if not self.being_deleted(tp.topic)]

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """Of those, the ones whose leader cannot serve."""
        return [
            tp for tp in self.partitions_with_leaders() if not self.is_online(self.leadership[tp].leader, tp)
        ]

    def partitions_led_by(self, broker_id: int) -> list[TopicPartition]:
        """The replicated partitions that a broker leads."""
        return [
            tp
            for tp in self.partitions_with_leaders()
            if self.leadership[tp].leader == broker_id and len(self.assignment(tp).replicas) > 1
        ]

    def __repr__(self) -> str:
        return (
            f"<ControllerContext epoch={self.epoch} brokers={sorted(self.live_brokers)} "
            f"topics={len(self.topics)} partitions={len(self.leadership)}>"
        )
