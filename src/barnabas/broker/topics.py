"""The port to what writes topics to the metadata store."""

from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.cluster.metadata.topics import CreatedTopic, NewTopic, not_counted
from barnabas.core.pending import Pending


class Topics(Protocol):
    """Writes topics to the metadata store (``ZkAdminManager``);
    `cluster.metadata.topics.TopicAdmin` is one.

    `count` is called with the partitions that are about to be made or removed, and may refuse them with a
    KafkaError.
    """

    def create(
        self, topic: NewTopic, *, validate_only: bool = False, count: Callable[[int], None] = not_counted
    ) -> Pending[CreatedTopic]:
        """Done when the store has it; fails with KafkaError and Kafka's words."""

    def create_partitions(
        self,
        topic: str,
        total: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool,
        count: Callable[[int], None] = not_counted,
    ) -> Pending[int]:
        """How many partitions the topic has, when the store has the new ones;
        fails with KafkaError and Kafka's words.
        """

    def delete(self, name: str, *, count: Callable[[int], None] = not_counted) -> Pending[None]:
        """Done when the deletion is asked for; also where it had been. Fails with KafkaError."""
