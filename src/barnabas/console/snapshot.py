"""`ClusterSnapshot`: all that the console knows of one cluster; immutable, replaced piece by piece by the
collector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.admin import (
    ClusterDescription,
    ConfigEntry,
    GroupDescription,
    GroupListing,
    LogDirDescription,
    PartitionReassignment,
    TopicDescription,
    TransactionListing,
)
from barnabas.client.metadata import PartitionMetadata
from barnabas.client.types import OffsetAndMetadata
from barnabas.console.disk_room import LogDirectory, Room
from barnabas.console.held_offsets import HeldOffset
from barnabas.console.reading import Observation
from barnabas.core.ids import TopicPartition
from barnabas.operations.client_pushes import ClientPushes
from barnabas.operations.partition_states import replication_factor

NOT_READ: Final[Observation[Any]] = Observation()

Entries = Mapping[str, ConfigEntry]
Scrape = Mapping[str, float]
"""The figures that the checks need of a broker's or a ZooKeeper server's own metrics, by their names here."""


@dataclass(frozen=True, slots=True)
class NextRecord:
    """The record that a group reads next: what was asked about, and its time."""

    start: int
    end: int
    time_ms: int | None
    """None where nothing is left to read up to the end."""


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """Something that is not as it was at the look before."""

    at_ms: int
    what: str
    """What kind: controller, broker, topic, leader, isr, config, group."""
    subject: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSnapshot:
    """Readings by what they are about."""

    cluster: Observation[ClusterDescription] = NOT_READ
    topics: Observation[Mapping[str, TopicDescription]] = NOT_READ
    reassignments: Observation[Mapping[TopicPartition, PartitionReassignment]] = NOT_READ
    starts: Mapping[TopicPartition, Observation[int]] = field(default_factory=dict)
    ends: Mapping[TopicPartition, Observation[int]] = field(default_factory=dict)
    """The high watermark of each partition."""
    log_dirs: Mapping[int, Observation[Mapping[str, LogDirDescription]]] = field(default_factory=dict)
    topic_sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of all replicas of a topic, as far as log directories are known."""
    broker_configs: Mapping[int, Observation[Entries]] = field(default_factory=dict)
    topic_configs: Mapping[str, Observation[Entries]] = field(default_factory=dict)
    """Only the keys of `collector.TOPIC_KEYS`."""
    group_listings: Mapping[int, Observation[Sequence[GroupListing]]] = field(default_factory=dict)
    """By the broker that coordinates them."""
    groups: Mapping[str, Observation[GroupDescription]] = field(default_factory=dict)
    positions: Mapping[str, Observation[Mapping[TopicPartition, OffsetAndMetadata | None]]] = field(
        default_factory=dict
    )
    newest_ms: Mapping[TopicPartition, Observation[int]] = field(default_factory=dict)
    """The greatest time of a record, of partitions in which a group is behind."""
    next_records: Mapping[tuple[TopicPartition, int], Observation[NextRecord]] = field(default_factory=dict)
    """By partition and committed offset."""
    transactions: Observation[Sequence[TransactionListing]] = NOT_READ
    scrapes: Mapping[int, Observation[Scrape]] = field(default_factory=dict)
    client_pushes: Mapping[int, Observation[ClientPushes]] = field(default_factory=dict)
    """What clients have pushed, by the broker whose metrics say so."""
    zookeeper: Mapping[str, Observation[Scrape]] = field(default_factory=dict)
    """What each ZooKeeper server says of itself, by its address."""
    rooms: Mapping[LogDirectory, Sequence[Room]] = field(default_factory=dict)
    """What was left on each disk at the last looks, the newest last."""
    held_offsets: Observation[Mapping[TopicPartition, HeldOffset]] = NOT_READ
    """Last stable offsets that are below the end, and since when each is where it is."""
    certificates: Mapping[int, Observation[int]] = field(default_factory=dict)
    """When each broker's certificate ends, in ms since 1970; none where brokers are reached without TLS."""
    under_replicated_since_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    rebalancing_since_ms: Mapping[str, int] = field(default_factory=dict)
    changes: Sequence[ClusterChange] = ()
    """The newest last, at most `changes.KEPT`."""
    refreshed_ms: int = 0
    """The end of the last round of the collector; 0 before the first."""
    round_ms: int = 0
    """How long it took."""
    requests: int = 0
    """Calls to the cluster since the start."""

    def is_under_replicated(self, topic: str, one: PartitionMetadata) -> bool:
        """Whether a partition has fewer replicas in sync than it is to have."""
        return len(one.isr) < len(one.replicas) and len(one.isr) < self.replication_factor(topic, one)

    def replication_factor(self, topic: str, one: PartitionMetadata) -> int:
        """How many replicas a partition is to have, also while it moves."""
        moves = self.reassignments.value
        return replication_factor(one, moves.get(TopicPartition(topic, one.partition)) if moves else None)

    def __repr__(self) -> str:
        topics = len(self.topics.value or ())
        return f"<ClusterSnapshot topics={topics} groups={len(self.groups)} refreshed_ms={self.refreshed_ms}>"
