"""`SubscribedTopics`: follows the metadata of the topics that a member subscribes to."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from barnabas.client.cluster import Cluster
from barnabas.client.group.settings import MemberSettings
from barnabas.client.subscription_state import SubscriptionState, SubscriptionType
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog

if TYPE_CHECKING:
    from barnabas.client.metadata import ClusterMetadata

_REFUSED: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})

_log = EventLog("client.group")


class SubscribedTopics:
    """One member's."""

    def __init__(self, settings: MemberSettings, cluster: Cluster, subscriptions: SubscriptionState) -> None:
        self._settings = settings
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._seen: ClusterMetadata | None = None
        self._missing: set[str] = set()
        """Topics that are subscribed to and did not exist at the last look."""

    def changed(self) -> None:
        """There are other topics to follow."""
        self._subscriptions.apply_pattern(self._cluster.metadata)
        self._seen = None

    def follow(self) -> bool:
        """Notices new topics and partitions; whether there is metadata that was not looked at yet
        (``maybeUpdateSubscriptionMetadata``). Raises KafkaError for a topic that may not be read.
        """
        metadata = self._cluster.metadata
        topics = self._subscriptions.topics
        news = metadata is not self._seen
        if news:
            self._seen = metadata
            self._subscriptions.apply_pattern(metadata)
            for topic in topics:
                code = metadata.errors.get(topic, ErrorCode.NONE)
                if code in _REFUSED:
                    raise KafkaError(code, f"{code.message} (topic {topic})")
            self._warn_of_missing(metadata, topics)
        if self._is_lacking(topics) and self._cluster.age_ms > self._settings.retry_backoff_max_ms:
            self._cluster.refresh_soon()
        return news

    def _warn_of_missing(self, metadata: "ClusterMetadata", topics: Collection[str]) -> None:
        """Names each topic once that is subscribed to and does not exist: nothing else would say why no
        record comes. Java's consumer does so with each answer.
        """
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing = {topic for topic in topics if metadata.errors.get(topic) is unknown}
        for topic in sorted(missing - self._missing):
            _log.warning(
                "topic.missing",
                topic=topic,
                group=self._settings.group_id,
                advice="it is read once it exists; is the name right?",
            )
        self._missing = missing

    def _is_lacking(self, topics: Collection[str]) -> bool:
        if self._subscriptions.kind is SubscriptionType.PATTERN:
            return not self._cluster.is_complete
        return any(topic not in self._cluster.metadata.topics for topic in topics)

    def __repr__(self) -> str:
        return f"<SubscribedTopics {len(self._subscriptions.topics)}, {len(self._missing)} missing>"
