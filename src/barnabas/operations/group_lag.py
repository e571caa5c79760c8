"""The lag of groups now, as brokers say it: in records, in seconds, and until the next record is lost.

Theory of operation
-------------------
A group's position, the start and the end of the partition and the time of its newest record take one
request a broker each. The time of the record that the group reads next takes a fetch, which is the caller's
business: Spark's tasks share it, the console fetches what has changed. With it a `Standing` says the
seconds: from that record's time to that of the newest one. A group that has read all is 0 behind, however
long ago that was; and so is one before which only markers of transactions are left.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from barnabas.admin import AsyncAdmin, ConfigResource
from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from barnabas.core.errors import BarnabasError, KafkaError
from barnabas.core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Standing:
    """A group in a partition, and how far the partition's log is."""

    group: str
    tp: TopicPartition
    committed: int
    start: int | None
    """The log start offset; None for a topic that was deleted."""
    end: int | None
    newest_ms: int
    """The greatest time of a record; -1 where there is none."""
    retention_ms: int
    """-1 where time removes nothing."""

    @property
    def size(self) -> int:
        """One look-up."""
        return 1

    @property
    def next_offset(self) -> int | None:
        """Of the record that the group reads next, if there is one."""
        if self.start is None or self.end is None:
            return None
        position = max(self.committed, self.start)
        return position if position < self.end else None

    @property
    def lag(self) -> int | None:
        """Offsets up to the end; None for a topic that was deleted."""
        return None if self.end is None else max(self.end - self.committed, 0)

    @property
    def lost(self) -> int | None:
        """Offsets that retention took before the group came to them."""
        return None if self.start is None else max(self.start - self.committed, 0)

    def seconds_behind(self, next_ms: int | None) -> float | None:
        """From the time of the next record (None where it is not known) to that of the newest one."""
        if self.next_offset is None and self.lag is not None:
            return 0.0
        if next_ms is None or self.newest_ms < 0:
            return None
        return max(self.newest_ms - next_ms, 0) / 1000

    def seconds_to_data_loss(self, next_ms: int | None, now_ms: float) -> float | None:
        """Until retention may take the next record; None where it takes none, or its time is not known."""
        if next_ms is None or self.retention_ms < 0:
            return None
        return (next_ms + self.retention_ms - now_ms) / 1000


async def standings(admin: AsyncAdmin, wants: Callable[[str], bool]) -> list[Standing]:
    """Every committed position of the wanted groups. Raises KafkaError."""
    groups = sorted(one.group_id for one in await admin.groups.list() if wants(one.group_id))
    committed = await admin.groups.offsets(groups) if groups else {}
    return await standings_of(
        admin,
        {
            group: {tp: one.offset for tp, one in committed[group].items() if one is not None}
            for group in groups
        },
    )


async def standings_of(
    admin: AsyncAdmin, committed: Mapping[str, Mapping[TopicPartition, int]]
) -> list[Standing]:
    """The standings of these positions by group. Raises KafkaError."""
    partitions = {tp for positions in committed.values() for tp in positions}
    # One after the other: the admin client has one request in flight to a broker anyway.
    starts = await _listed(admin, partitions, EARLIEST_TIMESTAMP)
    ends = await _listed(admin, partitions, LATEST_TIMESTAMP)
    newest = await _listed(admin, partitions, MAX_TIMESTAMP)
    retention = await retentions(admin, {tp.topic for tp in starts})
    return [
        Standing(
            group=group,
            tp=tp,
            committed=position,
            start=starts[tp][0] if tp in starts else None,
            end=ends[tp][0] if tp in ends else None,
            newest_ms=newest[tp][1] if tp in newest else -1,
            retention_ms=retention.get(tp.topic, -1),
        )
        for group, positions in committed.items()
        for tp, position in sorted(positions.items())
    ]


async def _listed(
    admin: AsyncAdmin, partitions: Collection[TopicPartition], kind: int
) -> dict[TopicPartition, tuple[int, int]]:
    """Offset and time by partition, without those that were deleted. Raises KafkaError."""
    found = {}
    answers = await admin.offsets.try_list(dict.fromkeys(partitions, kind)) if partitions else {}
    for tp, one in answers.items():
        if not isinstance(one, BarnabasError):
            found[tp] = one.offset, one.timestamp
        elif not isinstance(one, KafkaError) or one.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise one
    return found


async def retentions(admin: AsyncAdmin, topics: Collection[str]) -> dict[str, int]:
    """``retention.ms`` of the topics that delete by time."""
    resources = [ConfigResource.topic(topic) for topic in sorted(topics)]
    found = {}
    for resource, entries in (await admin.configs.try_describe(resources) if resources else {}).items():
        if not isinstance(entries, BarnabasError) and "delete" in (entries["cleanup.policy"].value or ""):
            found[resource.name] = int(entries["retention.ms"].value or -1)
    return found
