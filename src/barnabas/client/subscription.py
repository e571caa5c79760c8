"""`AssignedPartition`: one partition that a consumer reads, and where it stands."""

from typing import TYPE_CHECKING

from barnabas.client.types import RawFetch
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import batch_headers

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
        "pending_revocation",
        "position",
        "position_epoch",
        "reset_to",
        "retry_at",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.position: int | None = None
        self.position_epoch = -1
        """The leader epoch of the last record before the position, which is committed with it (KIP-320)."""
        self.reset_to: int | None = None
        """The special timestamp whose offset becomes the position, where `seek_to_...` asked for one."""
        self.paused = False
        self.pending_revocation = False
        """Nothing more is handed out: it is about to be taken away."""
        self.buffered: CompletedFetch | None = None
        self.in_flight = False
        self.retry_at = 0.0
        """No request before this time (seconds of the monotonic clock)."""
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    @property
    def is_held_back(self) -> bool:
        """Whether nothing of it is handed out now."""
        return self.paused or self.pending_revocation

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Continue at this offset; what was fetched ahead is dropped."""
        self.position = offset
        self.position_epoch = epoch
        self.reset_to = None
        self.buffered = None

    def reset(self, timestamp: int | None) -> None:
        """Continue where this special timestamp is (None: where ``auto.offset.reset`` says)."""
        self.position = None
        self.position_epoch = -1
        self.reset_to = timestamp
        self.buffered = None

    def move_behind(self, raw: RawFetch) -> None:
        """Continue behind the last whole batch of these."""
        for header in batch_headers(raw.records):
            self.position = max(raw.position, header.next_offset)
            self.position_epoch = header.leader_epoch

    def lag(self, isolation_level: int) -> int | None:
        """Records between the position and the end that the last fetch saw; None where one is not known."""
        end = self.last_stable_offset if isolation_level else self.high_watermark
        return max(0, end - self.position) if end >= 0 and self.position is not None else None

    def is_fetchable(self, now: float) -> bool:
        """Whether a request for it should go out."""
        return (
            self.position is not None
            and not self.is_held_back
            and not self.in_flight
            and self.buffered is None
            and now >= self.retry_at
        )

    def __repr__(self) -> str:
        state = "paused" if self.paused else "in flight" if self.in_flight else "idle"
        return f"<AssignedPartition {self.tp} at {self.position} {state}>"
