"""`CachedPartition`: what a fetch asks of one partition, and what was last said of it (Kafka's
``CachedPartition``).
"""

from typing import TypeAlias

from barnabas.core.ids import ZERO_UUID, Uuid
from barnabas.protocol.messages.fetch import FetchPartition, PartitionData

PartitionKey: TypeAlias = tuple[Uuid | str | None, int]


class CachedPartition:
    """One partition of a fetch: what the client asks of it, and what the last response said."""

    __slots__ = ("high_watermark", "log_start_offset", "request", "topic", "topic_id")

    def __init__(self, topic: str | None, topic_id: Uuid, request: FetchPartition) -> None:
        self.topic = topic
        """None while no topic of that id is known here."""
        self.topic_id = topic_id
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1

    @property
    def key(self) -> PartitionKey:
        """What names it inside a session: by topic id if there is one, else by topic name."""
        return (self.topic if self.topic_id == ZERO_UUID else self.topic_id), self.request.partition

    def remember(self, response: PartitionData) -> None:
        """Notes what a full response says (``updateResponseData``)."""
        self.high_watermark = response.high_watermark
        self.log_start_offset = response.log_start_offset

    def has_news(self, response: PartitionData) -> bool:
        """``maybeUpdateResponseData``: whether the response must say this; if so it is noted. An error is
        not: the first answer without one is news.
        """
        news = bool(response.records)
        if self.high_watermark != response.high_watermark:
            news = True
            self.high_watermark = response.high_watermark
        if self.log_start_offset != response.log_start_offset:
            news = True
            self.log_start_offset = response.log_start_offset
        if response.error_code:
            self.high_watermark = -1
            return True
        return news or response.preferred_read_replica >= 0 or response.diverging_epoch is not None

    def __repr__(self) -> str:
        return f"<CachedPartition {self.topic}-{self.request.partition} hw={self.high_watermark}>"
