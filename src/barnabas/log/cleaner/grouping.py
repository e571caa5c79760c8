"""Which segments become one (``Cleaner.groupSegmentsBySize``)."""

from collections.abc import Sequence

from barnabas.log.scan import RELATIVE_OFFSET_MAX
from barnabas.log.segment import LogSegment


def group_segments(
    segments: Sequence[LogSegment], *, size_max: int, index_bytes_max: int, end_offset: int
) -> list[list[LogSegment]]:
    """Neighbours whose bytes, indexes and offsets fit into one segment together; `end_offset` is where the
    last one ends.

    What is written is never more than what is read, so that each group fits into one segment for certain.
    """
    groups: list[list[LogSegment]] = []
    size = index_bytes = time_index_bytes = 0
    for place, segment in enumerate(segments):
        following = segments[place + 1].base_offset if place + 1 < len(segments) else end_offset
        own_index_bytes = segment.index.entries * segment.index.ENTRY.size
        own_time_index_bytes = segment.time_index.entries * segment.time_index.ENTRY.size
        if (
            groups
            and size + segment.size <= size_max
            and index_bytes + own_index_bytes <= index_bytes_max
            and time_index_bytes + own_time_index_bytes <= index_bytes_max
            # An empty segment adds no offsets.
            and (segment.size == 0 or following - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(segment)
            size += segment.size
            index_bytes += own_index_bytes
            time_index_bytes += own_time_index_bytes
        else:
            groups.append([segment])
            size, index_bytes, time_index_bytes = segment.size, own_index_bytes, own_time_index_bytes
    return groups
