"""Which segments retention drops next, and when (``UnifiedLog.deleteOldSegments``).

Segments go from the oldest on. First those beyond ``retention.bytes``, which go at the broker's next look,
then each when its newest record is older than ``retention.ms``. One that must stay holds back those behind
it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.core.ids import INTERNAL_TOPICS

if TYPE_CHECKING:
    from barnabas.client.config import Given

_WEEK_MS: Final = 7 * 24 * 3600 * 1000


class Retention(NamedTuple):
    """What a topic's configuration says; the defaults are Kafka's."""

    ms: int = _WEEK_MS
    """``retention.ms``; -1 for no limit."""
    bytes: int = -1
    """``retention.bytes``, of one partition; -1 for no limit."""
    deletes: bool = True
    """Whether ``cleanup.policy`` has delete in it."""


BY_DEFAULT: Final = Retention()
COMPACTED: Final = Retention(deletes=False)


def retention_of(brokers: "Given", topics: Iterable[str]) -> dict[str, Retention]:
    """The retention of topics, as their brokers have it; topics that they do not know are left out.

    `brokers` are servers, or options of the admin client. Raises BarnabasError where they cannot be asked.
    """
    from barnabas.admin import Admin, ConfigResource
    from barnabas.core.errors import ErrorCode, KafkaError

    with Admin(brokers) as admin:
        answers = admin.configs.try_describe([ConfigResource.topic(name) for name in topics])
    found = {}
    for resource, entries in answers.items():
        if isinstance(entries, KafkaError) and entries.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if isinstance(entries, Exception):
            raise entries
        values = {name: entry.value or "" for name, entry in entries.items()}
        found[resource.name] = Retention(
            int(values["retention.ms"]), int(values["retention.bytes"]), "delete" in values["cleanup.policy"]
        )
    return found


def next_drops(
    segments: Sequence[Mapping[str, Any]],
    retention: Mapping[str, Retention],
    default: Retention,
    now: datetime,
) -> list[dict[str, Any]]:
    """The segments (rows of their view) with `dropsAt` and the `reason`, the next one first.

    `dropsAt` is the earliest time, `now` where it has come already and None for a segment that stays.
    """
    ordered = sorted(segments, key=_place)
    rows: list[dict[str, Any]] = []
    for (_, topic, _), of_partition in groupby(ordered, key=lambda one: _place(one)[:3]):
        own = COMPACTED if topic in INTERNAL_TOPICS else default
        rows += _of_partition(list(of_partition), retention.get(topic, own), now)
    never = datetime.max.replace(tzinfo=UTC)
    return sorted(rows, key=lambda row: (row["dropsAt"] or never, _place(row)))


def _place(segment: Mapping[str, Any]) -> tuple[str, str, int, int]:
    # Two directories may each have a replica of one partition.
    directory = str(Path(segment["file"]).parent)
    return directory, segment["topic"], segment["partition"], segment["baseOffset"]


def _of_partition(
    segments: Sequence[Mapping[str, Any]], retention: Retention, now: datetime
) -> Iterator[dict[str, Any]]:
    excess = sum(one["sizeInBytes"] for one in segments) - retention.bytes if retention.bytes >= 0 else 0
    earliest = now
    for one in segments:
        at: datetime | None = None
        reason = "stays"
        if not retention.deletes:
            reason = "compaction"
        elif one["sizeInBytes"] and 0 < one["sizeInBytes"] <= excess:
            excess -= one["sizeInBytes"]
            at, reason = now, "retention.bytes"
        else:
            excess = 0  # those behind it wait for this one
            if retention.ms >= 0 and one["sizeInBytes"]:
                at = _later(earliest, one["maxTimestamp"] or one["lastModified"], retention.ms)
                earliest, reason = at or earliest, "retention.ms"
        yield {
            "topic": one["topic"], "partition": one["partition"], "baseOffset": one["baseOffset"],
            "sizeInBytes": one["sizeInBytes"], "records": one["records"], "dropsAt": at, "reason": reason,
            "file": one["file"],
        }  # fmt: skip


def _later(earliest: datetime, newest: datetime, milliseconds: int) -> datetime | None:
    try:
        return max(earliest, newest + timedelta(milliseconds=milliseconds))
    except OverflowError:  # Long.MAX_VALUE is another way to say never
        return None
