"""The port to what writes topics to the metadata store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.core.config import Config
from barnabas.core.ids import Uuid
from barnabas.core.pending import Pending


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. Either counts or assignments; -1 takes the broker's default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or could be."""

    topic_id: Uuid
    num_partitions: int
    replication_factor: int
    config: Config


class Topics(Protocol):
    """Writes topics to the metadata store (``ZkAdminManager``)."""

    def create(self, topic: NewTopic, *, validate_only: bool = False) -> Pending[CreatedTopic]:
        """Done when the store has it; fails with KafkaError and Kafka's words."""

    def delete(self, topic: str) -> Pending[None]:
        """Done when the deletion is asked for; also where it had been. Fails with KafkaError."""
