"""`CachedPartition`: what a fetch asks of one partition, and what was last said of it (Kafka's
``CachedPartition``).
"""

from typing import Final, TypeAlias

from barnabas.core.ids import ZERO_UUID, Uuid

PartitionKey: TypeAlias = tuple[Uuid | str | None, int]

UNKNOWN: Final = -1
"""An epoch or offset that the request does not say."""


class CachedPartition:
    """One partition of a fetch: what the client asks of it, and what the last response said."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "fetcher_log_start_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: Uuid,
        partition: int,
        fetch_offset: int = 0,
        max_bytes: int = 0,
        current_leader_epoch: int = UNKNOWN,
        last_fetched_epoch: int = UNKNOWN,
        fetcher_log_start_offset: int = UNKNOWN,
    ) -> None:
        self.topic = topic
        """None while no topic of that id is known here."""
        self.topic_id = topic_id
        self.key: PartitionKey = (topic if topic_id == ZERO_UUID else topic_id), partition
        """What names it inside a session: by topic id if there is one, else by topic name."""
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        """The epoch of a follower's last record (KIP-595)."""
        self.fetcher_log_start_offset = fetcher_log_start_offset
        """Where a follower's own log starts."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def remember(self, high_watermark: int, log_start_offset: int) -> None:
        """Notes what a response has said."""
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset

    def has_news(self, high_watermark: int, log_start_offset: int, error_code: int) -> bool:
        """``maybeUpdateResponseData``: whether the response must say this; if so it is noted. An error is
        not: the first answer without one is news.
        """
        news = False
        if self.high_watermark != high_watermark:
            news = True
            self.high_watermark = high_watermark
        if self.log_start_offset != log_start_offset:
            news = True
            self.log_start_offset = log_start_offset
        if error_code:
            self.high_watermark = -1
            return True
        return news

    def __repr__(self) -> str:
        return f"<CachedPartition {self.topic}-{self.partition} hw={self.high_watermark}>"
