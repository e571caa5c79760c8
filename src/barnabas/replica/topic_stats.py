"""How many records and bytes come and go, by topic (``BrokerTopicStats``)."""

from collections.abc import Iterable


class TopicStats:
    """One topic; each append and each read adds to it."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "messages_in",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        """Records that producers have appended."""
        self.bytes_in = 0
        """Bytes of their batches."""
        self.bytes_out = 0
        """Bytes of batches that consumers were sent."""
        self.bytes_rejected = 0
        """Bytes of batches that were larger than max.message.bytes."""
        self.failed_produces = 0
        """Appends that were refused for what is in them or in the log, or failed (``processFailedRecord``).
        """
        self.failed_fetches = 0
        """Reads that failed in a way that no error code is for."""

    def __repr__(self) -> str:
        return (
            f"<TopicStats messages_in={self.messages_in} bytes_in={self.bytes_in} bytes_out={self.bytes_out}>"
        )


class BrokerTopicStats:
    """All topics that had any traffic here."""

    __slots__ = ("_deleted", "replication_bytes_out", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, TopicStats] = {}
        self._deleted = TopicStats()
        self.replication_bytes_out = 0
        """Bytes of batches that followers were sent."""

    def of(self, topic: str) -> TopicStats:
        """The figures of a topic; they begin at 0."""
        stats = self.topics.get(topic)
        if stats is None:
            stats = self.topics[topic] = TopicStats()
        return stats

    def deleted(self, topics: Iterable[str]) -> None:
        """Topics were deleted: they have no figures of their own from now on; what they brought stays in
        `total`.
        """
        for topic in topics:
            stats = self.topics.pop(topic, None)
            if stats is not None:
                self._add(self._deleted, stats)

    def total(self) -> TopicStats:
        """The sum of all topics, also those that are deleted (``allTopicsStats``)."""
        total = TopicStats()
        for stats in (self._deleted, *self.topics.values()):
            self._add(total, stats)
        return total

    @staticmethod
    def _add(to: TopicStats, stats: TopicStats) -> None:
        for name in TopicStats.__slots__:
            setattr(to, name, getattr(to, name) + getattr(stats, name))

    def __repr__(self) -> str:
        return f"<BrokerTopicStats {len(self.topics)} topics {self.total()}>"
