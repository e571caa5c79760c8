"""The lag of a group as a snapshot has it: partition by partition, what is not known told from zero."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from barnabas.admin import GroupDescription, OffsetAndMetadata
from barnabas.console.figure import Figure, figure, total, unknown
from barnabas.console.reading import Freshness, Observation, known
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.core.ids import TopicPartition
from barnabas.operations.group_lag import Standing


@dataclass(frozen=True, slots=True)
class LagRow:
    """A group in one partition."""

    topic: str
    partition: int
    committed: Figure
    end: Figure
    lag: Figure
    """In records: offsets up to the end, as Kafka's tools count them."""
    seconds: Figure
    """From the time of the record that is read next to that of the newest."""
    seconds_to_data_loss: float | None
    lost: int
    """Offsets that retention took before the group read them."""
    member: str | None
    client_id: str | None
    host: str | None


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group's lag as a whole: the sum of the records, the longest of the seconds."""

    lag: Figure
    seconds: Figure
    seconds_to_data_loss: float | None
    lost: int


def partition_lags(snapshot: ClusterSnapshot, group: str, now_ms: int) -> list[LagRow]:
    """Each partition that the group has a position in or a member reads, in order."""
    description = known(snapshot.groups, group)
    reading = snapshot.positions.get(group)
    owners = _owners(description)
    partitions = {*owners, *((reading.value if reading else None) or {})}
    return [_partition(snapshot, group, tp, reading, owners, now_ms) for tp in sorted(partitions)]


@lru_cache(maxsize=1)
def all_lags(snapshot: ClusterSnapshot, now_ms: int) -> dict[str, GroupLag]:
    """Of every group; kept for the checks of one verdict, which ask for it one after the other."""
    return {name: group_lag(partition_lags(snapshot, name, now_ms)) for name in snapshot.groups}


def group_lag(parts: list[LagRow]) -> GroupLag:
    """The whole of it."""
    seconds = [one.seconds for one in parts]
    worst = max(seconds, key=lambda one: one.number, default=unknown("the group has no positions"))
    if worst.state is Freshness.OK and any(one.state is not Freshness.OK for one in seconds):
        worse = next(one for one in seconds if one.state is not Freshness.OK)
        worst = Figure(worst.value, Freshness.STALE, worst.age_s, worse.why)
    losses = [one.seconds_to_data_loss for one in parts if one.seconds_to_data_loss is not None]
    lag = total(one.lag for one in parts) if parts else unknown("the group has no positions")
    return GroupLag(lag, worst, min(losses, default=None), sum(one.lost for one in parts))


def _owners(description: GroupDescription | None) -> dict[TopicPartition, tuple[str, str, str]]:
    return {
        tp: (one.member_id, one.client_id, one.host)
        for one in (description.members if description else ())
        for tp in one.assignment
    }


def _partition(
    snapshot: ClusterSnapshot,
    group: str,
    tp: TopicPartition,
    reading: Observation[Mapping[TopicPartition, OffsetAndMetadata | None]] | None,
    owners: dict[TopicPartition, tuple[str, str, str]],
    now_ms: int,
) -> LagRow:
    member, client_id, host = owners.get(tp, (None, None, None))
    end = figure(snapshot.ends.get(tp), now_ms)
    if snapshot.topics.value is not None and tp.topic not in snapshot.topics.value:
        end = unknown("the topic was deleted")
    position = ((reading.value if reading else None) or {}).get(tp)
    if reading is None or reading.state(now_ms) is Freshness.UNKNOWN:
        committed = figure(reading, now_ms)
    elif position is None:
        committed = unknown("no position was committed")
    else:
        committed = figure(reading, now_ms, position.offset)
    if committed.state is Freshness.UNKNOWN or end.state is Freshness.UNKNOWN or position is None:
        nothing = committed if committed.state is Freshness.UNKNOWN else end
        return LagRow(
            tp.topic, tp.partition, committed, end, nothing, nothing, None, 0, member, client_id, host
        )
    standing = _standing(snapshot, group, tp, position.offset)
    found = snapshot.next_records.get((tp, position.offset))
    next_ms = found.value.time_ms if found is not None and found.value is not None else None
    is_stale = Freshness.STALE in (committed.state, end.state)
    state = Freshness.STALE if is_stale else Freshness.OK
    age_s = max(committed.age_s or 0, end.age_s or 0)
    lag = Figure(standing.lag, state, age_s, committed.why or end.why)
    behind = standing.seconds_behind(next_ms)
    if behind is not None:
        seconds = Figure(behind, state, age_s, lag.why)
    elif found is not None and found.value is not None and found.value.time_ms is None:
        seconds = Figure(0.0, state, age_s, lag.why)  # markers are all that is left
    else:
        why = found.error if found is not None else None
        seconds = unknown(why or "the next record was not looked at yet")
    return LagRow(
        tp.topic,
        tp.partition,
        committed,
        end,
        lag,
        seconds,
        standing.seconds_to_data_loss(next_ms, now_ms),
        standing.lost or 0,
        member,
        client_id,
        host,
    )


def _standing(snapshot: ClusterSnapshot, group: str, tp: TopicPartition, committed: int) -> Standing:
    entries = known(snapshot.topic_configs, tp.topic) or {}
    retention = -1
    if "delete" in ((one.value or "") if (one := entries.get("cleanup.policy")) else ""):
        found = entries.get("retention.ms")
        retention = int(found.value or -1) if found else -1
    newest = known(snapshot.newest_ms, tp)
    return Standing(
        group,
        tp,
        committed,
        known(snapshot.starts, tp) or 0,
        known(snapshot.ends, tp),
        -1 if newest is None else newest,
        retention,
    )
