"""`SimulatedTopics`: the topics of a history as consumer groups see them (`TopicsImage`)."""

from collections.abc import Iterable

from barnabas.coordinator.consumer.topics import TopicDescription
from barnabas.core.ids import Uuid
from group_model.topics import Topics


class SimulatedTopics:
    """All topics, without racks."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def describe(self, name: str) -> TopicDescription | None:
        """A topic; None for one that does not exist."""
        topic = self._topics.by_name.get(name)
        return None if topic is None else TopicDescription(topic.id, name, topic.partitions, {})

    def name_of(self, topic_id: Uuid) -> str | None:
        """The topic that has an id."""
        topic = self._topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def names(self) -> Iterable[str]:
        """All topics."""
        return self._topics.by_name

    def __repr__(self) -> str:
        return f"<SimulatedTopics {sorted(self._topics.by_name)}>"
