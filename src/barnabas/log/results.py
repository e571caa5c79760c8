"""What a log answers: to an append, a read, a look-up by time."""

from typing import NamedTuple

from barnabas.core.chunks import FileSlice
from barnabas.core.errors import ErrorCode, KafkaError


class AppendInfo:
    """Where an append went (``LogAppendInfo``)."""

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
        "size",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        log_append_time: int,
        log_start_offset: int,
        duplicate: bool,
        size: int,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.log_append_time = log_append_time
        """Milliseconds since 1970 where the topic uses LogAppendTime, else -1."""
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        """True when nothing was written because the batch is there already; the offsets are the old ones."""
        self.size = size
        """Bytes that were written."""

    def __repr__(self) -> str:
        kind = "duplicate " if self.duplicate else ""
        return f"<AppendInfo {kind}{self.first_offset}..{self.last_offset} of {self.size} bytes>"


class ReadResult:
    """A range of a segment's file (``FetchDataInfo``)."""

    __slots__ = ("first_entry_incomplete", "first_offset", "position", "records", "segment_base_offset")

    def __init__(
        self,
        records: FileSlice | bytes,
        first_offset: int,
        segment_base_offset: int,
        position: int,
        first_entry_incomplete: bool = False,
    ) -> None:
        self.records = records
        """Empty bytes when there is nothing to read."""
        self.first_offset = first_offset
        """Base offset of the first batch; it may lie below the offset asked for. The latter when empty."""
        self.segment_base_offset = segment_base_offset
        self.position = position
        self.first_entry_incomplete = first_entry_incomplete
        """Whether even the first batch is cut by the byte limit."""

    def __len__(self) -> int:
        return len(self.records)


class TimestampAndOffset(NamedTuple):
    """A place in a log that a time names; -1 where there is none."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1
    """The epoch of the record's batch; -1 when unknown."""


class UnexpectedAppendOffsetError(KafkaError):
    """A follower's batch that begins before the end of its log (``UnexpectedAppendOffsetException``)."""

    def __init__(self, message: str, *, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset
