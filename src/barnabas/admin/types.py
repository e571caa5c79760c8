"""What the admin client takes and gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self, TypeAlias

from barnabas.client.metadata import Broker, PartitionMetadata
from barnabas.core.config import ConfigType, Source
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition, Uuid

_NEW_TOPIC_HABITS: Final = {
    "topic": "name",
    "num_partitions": "partitions",
    "replica_assignment": "assignment",
    "replica_assignments": "assignment",
    "config": "configs",
    "topic_configs": "configs",
}
"""What kafka-python and confluent-kafka call the arguments of a new topic."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Counts of -1 take the broker's defaults;
    an assignment lists replicas by partition. Raises TypeError for an argument of another kind.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | float | bool | None] = field(default_factory=dict)
    """Values as texts, numbers or truths."""

    def __new__(cls, *_: object, **named: object) -> Self:
        """Answers the names of other clients with what to write, where `__init__` says unexpected."""
        for name in _NEW_TOPIC_HABITS.keys() & named.keys():
            raise TypeError(f"NewTopic has no {name}: write {_NEW_TOPIC_HABITS[name]}=...")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"a topic's name is a str, not {self.name!r:.80}")
        _check_number("partitions", self.partitions)
        _check_number("replication_factor", self.replication_factor)
        if not isinstance(self.configs, Mapping):
            raise TypeError(f"configs are a dict of values by key, not {self.configs!r:.80}")
        if not _is_assignment(self.assignment):
            # Settings come in its place where kafka-python's habit is to give them by position.
            by_key = isinstance(self.assignment, Mapping) and all(
                isinstance(key, str) for key in self.assignment
            )
            instead = f": write configs={self.assignment!r:.80}" if by_key else ""
            raise TypeError(
                f"an assignment is a dict of broker ids by partition, not {self.assignment!r:.80}{instead}"
            )


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic is to have;
    the replicas of each new one where the broker is not to place them.
    """

    count: int
    assignments: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        # confluent-kafka's NewPartitions has the topic first.
        _check_number("the count of partitions", self.count)
        given = self.assignments
        if given is not None and not (isinstance(given, Sequence) and all(map(_are_brokers, given))):
            raise TypeError(f"assignments are a list of broker ids for each new partition, not {given!r:.80}")


def _check_number(what: str, given: Any) -> None:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{what} must be an int, not {given!r:.80}")


def _is_assignment(given: Any) -> bool:
    return isinstance(given, Mapping) and all(
        isinstance(partition, int) and _are_brokers(brokers) for partition, brokers in given.items()
    )


def _are_brokers(given: Any) -> bool:
    return isinstance(given, Sequence) and all(isinstance(broker, int) for broker in given)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that exists now (or could, when it was only validated); -1 where an old broker does not say."""

    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic's name and id."""

    name: str
    topic_id: Uuid
    is_internal: bool


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions in order."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: Sequence[PartitionMetadata]


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition on the move: all its replicas, those that come and those that go."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a log remembers of one producer (KIP-664); -1 and None where there is nothing to say."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int | None


class ResourceType(IntEnum):
    """What a configuration belongs to, numbered as on the wire (``ConfigResource.Type``)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic, a broker (name: its id), a broker's loggers, a subscription of client metrics, or a group."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        """The configuration of a topic."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int) -> "ConfigResource":
        """The configuration of a broker."""
        return cls(ResourceType.BROKER, str(broker_id))

    @classmethod
    def all_brokers(cls) -> "ConfigResource":
        """What is set for all brokers while they run."""
        return cls(ResourceType.BROKER, "")


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place the value could have come from."""

    name: str
    value: str | None
    source: Source | None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key of a resource; the value of a sensitive one is None."""

    name: str
    value: str | None
    source: Source | None
    """None for a place that this client does not know."""
    is_read_only: bool
    is_sensitive: bool
    synonyms: Sequence[ConfigSynonym]
    type: ConfigType | None
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Whether it was not set anywhere."""
        return self.source is Source.DEFAULT


class AlterOp(IntEnum):
    """What becomes of a key, numbered as on the wire (``AlterConfigOp.OpType``, KIP-339)."""

    SET = 0
    DELETE = 1
    """Back to the default; the value is not looked at."""
    APPEND = 2
    """Adds elements, separated by commas, to a key that is a list."""
    SUBTRACT = 3
    """Takes elements from a key that is a list."""


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """One change of one key."""

    name: str
    value: str | None
    op: AlterOp = AlterOp.SET


ApiVersions: TypeAlias = Mapping[int, tuple[int, int]]
"""The lowest and the highest version of each API, by its key."""


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """One replica in a log directory:
    bytes, and how many offsets it lags (-1 where the broker cannot say).
    """

    size: int
    offset_lag: int
    is_future: bool
    """Whether it is being copied here, to take the place of one in another directory of the broker."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker; sizes in bytes, -1 where an older broker does not say them."""

    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool = False
    """Whether it gets no new replicas (KIP-1066)."""


class TopicPartitionReplica(NamedTuple):
    """One replica of one partition; they sort as Kafka's tools list them."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


@dataclass(frozen=True, slots=True)
class ReplicaLogDirInfo:
    """Where a replica is and where it moves to;
    None for a directory, and -1 for its lag in offsets, where there is none.
    """

    current_log_dir: str | None = None
    current_offset_lag: int = -1
    future_log_dir: str | None = None
    future_offset_lag: int = -1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a node is reached, and whether the controller keeps it from serving (KIP-1073)."""

    node: Broker
    is_fenced: bool
    is_controller: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as one broker knows it; controller None while there is none."""

    cluster_id: str
    controller: Broker | None
    brokers: Sequence[Broker]
