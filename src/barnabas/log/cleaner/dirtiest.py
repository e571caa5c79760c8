"""How dirty a log is, and up to where it may be cleaned (``LogCleanerManager.cleanableOffsets``)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from barnabas.core.config import LONG_MAX
from barnabas.log.log import Log
from barnabas.log.segment import LogSegment


class LogToClean(NamedTuple):
    """A log with something to clean, as it is now."""

    log: Log
    clean: Sequence[LogSegment]
    """The segments that lie wholly below the first dirty offset."""
    dirty: Sequence[LogSegment]
    """The segments after them that may be cleaned."""
    first_dirty_offset: int
    end_offset: int
    """``firstUncleanableOffset``: where the last dirty segment ends."""
    ratio: float
    """The dirty share of the bytes that a cleaning would read."""
    is_overdue: bool
    """Whether a record has waited for ``max.compaction.lag.ms``."""

    @property
    def is_due(self) -> bool:
        # KIP-354: records that waited for ``max.compaction.lag.ms`` are cleaned at any ratio.
        if self.is_overdue and any(segment.size for segment in self.dirty):
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio


def to_clean(log: Log, now_ms: int) -> LogToClean | None:
    """What a cleaning of the log would do; None when it would do nothing.
    Raises OSError or CORRUPT_MESSAGE.
    """
    first_dirty = first_dirty_offset(log)
    # ``cleanableOffsets``: nothing of an open transaction, nor of the segment that is being written.
    bound = min(log.last_stable_offset, log.active.base_offset)
    clean, dirty, end_offset = [], [], first_dirty
    newest_ms = now_ms - log.config.min_compaction_lag_ms
    for segment, following in pairwise(log.segments):
        end = following.base_offset
        if end <= first_dirty:
            clean.append(segment)
        # KIP-58: not before ``min.compaction.lag.ms``; the first segment that is too young ends the dirty
        # part.
        elif end > bound or (log.config.min_compaction_lag_ms > 0 and segment.largest_timestamp > newest_ms):
            break
        else:
            dirty.append(segment)
            end_offset = end
    dirty_bytes = sum(segment.size for segment in dirty)
    total = dirty_bytes + sum(segment.size for segment in clean)
    # Nothing that may be cleaned, or segments that were emptied before: there are no bytes to win.
    if not dirty or not total:
        return None
    overdue = _is_overdue(dirty, now_ms, log.config.max_compaction_lag_ms)
    return LogToClean(log, clean, dirty, first_dirty, end_offset, dirty_bytes / total, overdue)


def first_dirty_offset(log: Log) -> int:
    """Where the dirty part begins: as the checkpoint says, if that can be, else with the log."""
    # The log may have been truncated below the checkpoint, or its start deleted beyond it: then all of it is
    # dirty.
    offset = log.first_dirty_offset
    return offset if log.log_start_offset <= offset <= log.log_end_offset else log.log_start_offset


def _is_overdue(dirty: Sequence[LogSegment], now_ms: int, lag_ms: int) -> bool:
    """``maxCompactionDelay``: by the times of the segments' first batches."""
    if lag_ms >= LONG_MAX:
        return False
    return any(0 < segment.first_timestamp() < now_ms - lag_ms for segment in dirty)
