"""`AssignedPartition`: one partition that a consumer reads, and where it stands."""

from typing import TYPE_CHECKING

from barnabas.core.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.completed_fetch import CompletedFetch


class AssignedPartition:
    """State of one assigned partition. Its position is the offset of the next record to hand out."""

    __slots__ = (
        "buffered",
        "high_watermark",
        "in_flight",
        "last_stable_offset",
        "log_start_offset",
        "paused",
        "position",
        "reset_to",
        "retry_at",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.position: int | None = None
        self.reset_to: int | None = None
        """The special timestamp whose offset becomes the position, where `seek_to_...` asked for one."""
        self.paused = False
        self.buffered: CompletedFetch | None = None
        self.in_flight = False
        self.retry_at = 0.0
        """No request before this time (seconds of the monotonic clock)."""
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    def seek(self, offset: int) -> None:
        """Continue at this offset; what was fetched ahead is dropped."""
        self.position = offset
        self.reset_to = None
        self.buffered = None

    def reset(self, timestamp: int | None) -> None:
        """Continue where this special timestamp is (None: where ``auto.offset.reset`` says)."""
        self.position = None
        self.reset_to = timestamp
        self.buffered = None

    def is_fetchable(self, now: float) -> bool:
        """Whether a request for it should go out."""
        return (
            self.position is not None
            and not self.paused
            and not self.in_flight
            and self.buffered is None
            and now >= self.retry_at
        )

    def __repr__(self) -> str:
        state = "paused" if self.paused else "in flight" if self.in_flight else "idle"
        return f"<AssignedPartition {self.tp} at {self.position} {state}>"
