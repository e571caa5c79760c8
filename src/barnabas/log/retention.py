"""Which segments have outlived their topic's retention (``UnifiedLog.deleteOldSegments``).

Segments go from the oldest on, each only when everything in it is below the high watermark: those that the
log's start has passed, then those beyond ``retention.bytes``, then those older than ``retention.ms``. When
even the active segment has outlived it, the log rolls, so that an idle topic becomes empty.
"""

from collections.abc import Callable
from typing import TypeAlias

from barnabas.log.damage import rebuild_index
from barnabas.log.index import IndexCorruptError
from barnabas.log.log import Log
from barnabas.log.segment import LogSegment

Outlived: TypeAlias = Callable[[LogSegment, LogSegment | None], bool]
"""Asked about a segment and the one after it."""


def delete_old_segments(log: Log, now_ms: int) -> tuple[int, list[str]]:
    """Deletes what may go; returns how many segments, and the renamed files that are left to remove.

    Raises KafkaError when the disk fails.
    """
    reasons = [_passed, _too_much, _too_old] if log.config.deletes else [_passed]
    count = 0
    files: list[str] = []
    for reason in reasons:
        try:
            deletable = _deletable(log, reason(log, now_ms))
            if deletable:
                files += log.drop_first_segments(deletable, now_ms)
                count += deletable
        except IndexCorruptError as error:
            rebuild_index(log, error)  # the next clean-up finds it whole
        except OSError as error:
            raise log.refused(error) from error
    return count, files


def _passed(log: Log, _now_ms: int) -> Outlived:
    return lambda _, following: following is not None and following.base_offset <= log.log_start_offset


def _too_much(log: Log, _now_ms: int) -> Outlived:
    excess = log.size - log.config.retention_bytes

    def outlived(segment: LogSegment, _: LogSegment | None) -> bool:
        nonlocal excess
        if log.config.retention_bytes < 0 or excess < segment.size:
            return False
        excess -= segment.size
        return True

    return outlived


def _too_old(log: Log, now_ms: int) -> Outlived:
    limit = log.config.retention_ms
    return lambda segment, _: 0 <= limit < now_ms - segment.largest_timestamp


def _deletable(log: Log, outlived: Outlived) -> int:
    segments = list(log.segments)
    for place, segment in enumerate(segments):
        following = segments[place + 1] if place + 1 < len(segments) else None
        end_offset = following.base_offset if following else log.log_end_offset
        is_empty_last = following is None and segment.size == 0
        if is_empty_last or log.high_watermark < end_offset or not outlived(segment, following):
            return place
    return len(segments)
