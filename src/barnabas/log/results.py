"""What a log answers: to an append, a read, a look-up by time."""

from typing import NamedTuple

from barnabas.core.chunks import FileSlice
from barnabas.core.errors import ErrorCode, KafkaError


class AppendInfo(NamedTuple):
    """Where an append went (``LogAppendInfo``)."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    """Milliseconds since 1970 where the topic uses LogAppendTime, else -1."""
    log_start_offset: int
    duplicate: bool
    """True when nothing was written because the batch is there already; the offsets are the old ones."""
    size: int
    """Bytes that were written."""


class ReadResult(NamedTuple):
    """A range of a segment's file (``FetchDataInfo``)."""

    records: FileSlice | bytes
    """Empty bytes when there is nothing to read."""
    first_offset: int
    """Base offset of the first batch; it may lie below the offset asked for. The latter when empty."""
    segment_base_offset: int
    position: int
    first_entry_incomplete: bool = False
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
