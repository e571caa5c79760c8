"""The port to what writes topics to the metadata store."""

from typing import Protocol

from barnabas.cluster.metadata.topics import CreatedTopic, NewTopic
from barnabas.core.pending import Pending


class Topics(Protocol):
    """Writes topics to the metadata store (``ZkAdminManager``); `cluster.metadata.topics.TopicAdmin` is one."""

    def create(self, topic: NewTopic, *, validate_only: bool = False) -> Pending[CreatedTopic]:
        """Done when the store has it; fails with KafkaError and Kafka's words."""

    def delete(self, name: str) -> Pending[None]:
        """Done when the deletion is asked for; also where it had been. Fails with KafkaError."""
