"""When a log begins a new segment (``LogSegment.shouldRoll``)."""

from barnabas.core.ids import TopicPartition, java_abs, java_hash
from barnabas.log.config import LogConfig
from barnabas.log.scan import RELATIVE_OFFSET_MAX
from barnabas.log.segment import LogSegment


def must_roll(
    tp: TopicPartition,
    config: LogConfig,
    segment: LogSegment,
    size: int,
    last_offset: int,
    max_timestamp: int,
    now_ms: int,
    *,
    index_entries: int = 0,
) -> bool:
    """Whether the active segment cannot or should not take this append.

    `index_entries` are those that appends before this one have still to make.
    """
    return (
        # ``segment.bytes``: the segment may not grow beyond it, not even by the one batch.
        segment.size > config.segment_bytes - size
        # ``segment.ms``: an empty segment has no age.
        or (
            segment.size > 0
            and _waited_ms(segment, max_timestamp, now_ms)
            > (_roll_after_ms(tp, config, segment) if config.segment_jitter_ms else config.roll_ms)
        )
        # ``segment.index.bytes``: an index has its full size from the start, and never grows.
        or segment.index.room <= index_entries
        or segment.time_index.room <= index_entries
        # ``canConvertToRelativeOffset``: an entry of the index has four bytes for the offset.
        or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
    )


def _waited_ms(segment: LogSegment, max_timestamp: int, now_ms: int) -> int:
    """``timeWaitedForRoll``: how long the segment is open, by the records' own time where they have one."""
    first = segment.first_timestamp()
    if first >= 0 and max_timestamp >= 0:
        return max_timestamp - first
    return now_ms - segment.created_ms


def _roll_after_ms(tp: TopicPartition, config: LogConfig, segment: LogSegment) -> int:
    # Kafka draws the jitter at random; a hash spreads as well and can be replayed.
    spread = java_abs(java_hash(f"{tp}@{segment.base_offset}"))
    return config.roll_ms - spread % min(config.segment_jitter_ms, config.roll_ms)
