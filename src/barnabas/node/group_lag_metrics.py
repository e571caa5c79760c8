"""The lag of the groups that a broker coordinates, in the partitions of which it has a replica.

Nothing is kept up to date: it is read from what was committed and from the logs when somebody scrapes. The
time of the record that a group reads next is that of its batch, which is looked up once for each position.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.metrics import Kind, Reading, Registry
from barnabas.log.index import IndexCorruptError
from barnabas.log.log import Log
from barnabas.replica.manager import ReplicaManager

SERIES_MAX: Final = 20_000
"""Partitions of groups that are shown; a cluster with more asks the console, or Burrow."""
_LOOKUPS_MAX: Final = 500
"""Batches that are looked up for one scrape; the seconds of the others follow with the next ones."""
_MARKERS_MAX: Final = 10
_LABELS: Final = ("group", "topic", "partition")


def add_group_lag(registry: Registry, coordinator: GroupCoordinator, replicas: ReplicaManager) -> None:
    """Adds both: in records, and in seconds."""
    times: dict[tuple[TopicPartition, int], int | None] = {}

    def positions() -> Iterator[tuple[str, TopicPartition, int, Log] | None]:
        shown = 0
        for each in coordinator.committed_offsets():
            if each is None:
                yield None
                continue
            group, tp, offset = each
            partition = replicas.partition(tp)
            if partition is not None and partition.log is not None:
                yield group, tp, offset, partition.log
                shown += 1
                if shown >= SERIES_MAX:
                    return

    def records() -> Iterable[Reading | None]:
        for each in positions():
            if each is None:
                yield None
            else:
                group, tp, offset, log = each
                yield (group, tp.topic, str(tp.partition)), max(log.high_watermark - offset, 0)

    def seconds() -> Iterable[Reading | None]:
        seen: dict[tuple[TopicPartition, int], int | None] = {}
        lookups = 0
        for each in positions():
            if each is None:
                yield None
                continue
            group, tp, offset, log = each
            labels, place = (group, tp.topic, str(tp.partition)), (tp, max(offset, log.log_start_offset))
            if place[1] >= log.last_stable_offset:
                yield labels, 0.0
                continue
            if place not in seen:
                found = times.get(place)
                if found is None:
                    if lookups >= _LOOKUPS_MAX:
                        continue
                    lookups += 1
                    found = _time_of(log, place[1])
                    yield None
                seen[place] = found
            next_ms, newest_ms = seen[place], _newest_ms(log)
            if next_ms is not None and newest_ms >= 0:
                yield labels, max(newest_ms - next_ms, 0) / 1000
        times.clear()
        times.update(seen)

    registry.add(
        "barnabas_group_lag",
        Kind.GAUGE,
        "Offsets from what a group has committed to the high watermark, of groups that this broker "
        "coordinates, in partitions of which it has a replica.",
        records,
        _LABELS,
    )
    registry.add(
        "barnabas_group_lag_seconds",
        Kind.GAUGE,
        "Seconds from the time of the batch that the group reads next to the newest time of the partition; "
        "0 where all that is committed was read.",
        seconds,
        _LABELS,
    )


def _time_of(log: Log, offset: int) -> int | None:
    """The time in ms of the first batch with records from the offset on; None where it cannot be told now."""
    try:
        for _ in range(_MARKERS_MAX):
            segment, place = log.segments.locate(offset)
            if place is None:
                return None
            header = segment.header_at(place.position)
            if not header.is_control:
                return header.base_timestamp
            offset = header.next_offset
    except (OSError, KafkaError, IndexCorruptError):
        return None  # a read by a client says what is wrong with the log
    return None


def _newest_ms(log: Log) -> int:
    """Of the last segment that has records."""
    for segment in (log.segments[-1], *([log.segments[-2]] if len(log.segments) > 1 else [])):
        if segment.max_timestamp >= 0:
            return segment.max_timestamp
    return -1
