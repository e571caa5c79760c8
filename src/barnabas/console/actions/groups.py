"""Plans about groups and their positions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from barnabas.admin import AsyncAdmin
from barnabas.console.actions.plans import Effect, Planned, Undo
from barnabas.console.actions.topics import INT64_MAX, TIMEOUT_MS, Number, Offset
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations.errors import OperationError
from barnabas.operations.log_ends import resolve_topics
from barnabas.operations.offset_reset import RESETTABLE, ResetPlan, ResetPlanner, commit

GroupName = Annotated[str, Field(min_length=1, max_length=32_000)]
TopicOrAll = Annotated[str, Field(max_length=249)]


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Positions of a group in a topic, or in all where it has some; partitions with commas, all when
    empty.
    """

    group: GroupName
    topic: Annotated[TopicOrAll, Field(description="empty: all in which the group has a position")] = ""
    partitions: Annotated[str, Field(max_length=10_000, description="numbers with commas; empty: all")] = ""
    to: Literal["earliest", "latest", "offset", "time", "shift", "current"] = "earliest"
    value: Annotated[
        int,
        Field(
            ge=-INT64_MAX,
            le=INT64_MAX,
            description="for offset: which; for time: in ms since 1970; for shift: by how many offsets",
        ),
    ] = 0


@dataclass(frozen=True, slots=True)
class SetOffset:
    """A group's position in one partition; a group that is not there is made, empty."""

    group: GroupName
    topic: Annotated[str, Field(min_length=1, max_length=249)]
    partition: Number
    offset: Offset


@dataclass(frozen=True, slots=True)
class CopyOffsets:
    """All positions of another group; a group that is not there is made, empty."""

    source: Annotated[GroupName, Field(description="the group whose positions are copied")]
    group: Annotated[GroupName, Field(description="the group that gets them")]


@dataclass(frozen=True, slots=True)
class RestoreOffsets:
    """Positions as they were, TOPIC:PARTITION:OFFSET or TOPIC:PARTITION:none, one a line."""

    group: GroupName
    positions: Annotated[
        str, Field(min_length=1, max_length=500_000, description="TOPIC:PARTITION:OFFSET, one a line")
    ]


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """A group's positions in a topic that no member reads."""

    group: GroupName
    topic: Annotated[str, Field(min_length=1, max_length=249)]


@dataclass(frozen=True, slots=True)
class OfGroup:
    """A group."""

    group: GroupName


async def reset_offsets(admin: AsyncAdmin, wanted: ResetOffsets) -> Planned:
    """The positions of the preview are those that are committed. Raises OperationError, KafkaError."""
    await _check_empty(admin, wanted.group)
    planner = ResetPlanner(admin, TIMEOUT_MS)
    committed = await planner.committed(wanted.group)
    partitions = await _scope(admin, wanted, committed)
    plan = await _plan(planner, wanted, partitions)
    return await _placed(admin, wanted.group, plan)


async def set_offset(admin: AsyncAdmin, wanted: SetOffset) -> Planned:
    """One position, moved to the nearest end of the log where it is outside."""
    tp = TopicPartition(wanted.topic, wanted.partition)
    partitions, missing = await resolve_topics(admin, [wanted.topic], TIMEOUT_MS)
    for error in missing.values():
        raise error
    if tp not in partitions:
        raise OperationError(f"topic {wanted.topic} has no partition {wanted.partition}")
    plan = await ResetPlanner(admin, TIMEOUT_MS).to_positions({tp: wanted.offset})
    return await _placed(admin, wanted.group, plan)


async def copy_offsets(admin: AsyncAdmin, wanted: CopyOffsets) -> Planned:
    """The positions as the other group has them now; those that it has alone are left."""
    if wanted.source == wanted.group:
        raise OperationError("a group is not copied onto itself")
    planner = ResetPlanner(admin, TIMEOUT_MS)
    source = await planner.committed(wanted.source)
    positions = {tp: offset for tp, offset in source.items() if offset is not None}
    if not positions:
        raise OperationError(f"group {wanted.source} has no positions")
    return await _placed(admin, wanted.group, await planner.to_positions(positions))


async def _placed(admin: AsyncAdmin, group: str, plan: ResetPlan) -> Planned:
    """The plan that commits these positions, unless the group has others by then."""
    await _check_empty(admin, group, may_be_new=True)
    committed = await ResetPlanner(admin, TIMEOUT_MS).committed(group)
    effects = [
        Effect(str(tp), str(before) if (before := committed.get(tp)) is not None else "none", str(offset))
        for tp, offset in sorted(plan.positions.items())
        if committed.get(tp) != offset
    ]
    warnings = [
        f"{tp}: {asked} is outside the log, it becomes {plan.positions[tp]}"
        for tp, asked in sorted(plan.moved.items())
    ]
    warnings += [f"{tp} has no record that late: it is put to the end" for tp in sorted(plan.at_end)]

    async def carry_out(later: AsyncAdmin) -> None:
        await _check_empty(later, group, may_be_new=True)
        now = await ResetPlanner(later, TIMEOUT_MS).committed(group)
        if any(now.get(tp) != committed.get(tp) for tp in plan.positions):
            raise OperationError(f"group {group} is not as it was in the preview: nothing was done")
        await commit(later, group, plan.positions, TIMEOUT_MS)

    undo = _restoring(group, {tp: committed.get(tp) for tp in plan.positions})
    return Planned(group, effects, carry_out, warnings, undo=undo)


def _restoring(group: str, positions: Mapping[TopicPartition, int | None]) -> Undo:
    lines = [
        f"{tp.topic}:{tp.partition}:{'none' if offset is None else offset}"
        for tp, offset in sorted(positions.items())
    ]
    return Undo("restore-offsets", {"group": group, "positions": "\n".join(lines)})


async def restore_offsets(admin: AsyncAdmin, wanted: RestoreOffsets) -> Planned:
    """Positions that were written down; where there was none, the one that is there is deleted."""
    positions, gone = {}, []
    for line in wanted.positions.split():
        topic, _, rest = line.partition(":")
        partition, _, offset = rest.partition(":")
        if not topic or not re.fullmatch(r"[0-9]{1,9}:(none|[0-9]{1,18})", rest):
            raise OperationError(f"{line!r} is no TOPIC:PARTITION:OFFSET")
        tp = TopicPartition(topic, int(partition))
        if offset == "none":
            gone.append(tp)
        else:
            positions[tp] = int(offset)
    planner = ResetPlanner(admin, TIMEOUT_MS)
    planned = await _placed(admin, wanted.group, await planner.to_positions(positions))
    now = await planner.committed(wanted.group)
    gone = [tp for tp in gone if tp in now]

    async def carry_out(later: AsyncAdmin) -> None:
        again = await ResetPlanner(later, TIMEOUT_MS).committed(wanted.group)
        if any(again.get(tp) != now[tp] for tp in gone):
            raise OperationError(f"group {wanted.group} is not as it was in the preview: nothing was done")
        if positions:
            await planned.carry_out(later)
        if gone:
            await later.groups.delete_offsets(wanted.group, gone, timeout_ms=TIMEOUT_MS)

    effects = [*planned.effects, *(Effect(str(tp), str(now[tp]), "none") for tp in gone)]
    undo = _restoring(wanted.group, {tp: now.get(tp) for tp in (*positions, *gone)})
    return Planned(wanted.group, effects, carry_out, planned.warnings, undo=undo)


def _check_same(
    group: str, before: Mapping[TopicPartition, int | None], now: Mapping[TopicPartition, int | None]
) -> None:
    """Raises OperationError where positions are not those of the preview: these are what undo puts back."""
    if now != before:
        raise OperationError(f"group {group} is not as it was in the preview: nothing was done")


async def _check_empty(admin: AsyncAdmin, group: str, *, may_be_new: bool = False) -> None:
    found = (await admin.groups.try_describe([group], timeout_ms=TIMEOUT_MS))[group]
    if isinstance(found, BarnabasError):
        # Since DescribeGroups v6 a group that is not there is an error, before it was a dead one.
        if may_be_new and isinstance(found, KafkaError) and found.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise found
    if found.state not in RESETTABLE:
        raise OperationError(
            f"group {group} is {found.state} with {len(found.members)} members: stop them first"
        )


async def _scope(
    admin: AsyncAdmin, wanted: ResetOffsets, committed: dict[TopicPartition, int | None]
) -> list[TopicPartition]:
    if not wanted.topic:
        return sorted(committed)
    partitions, missing = await resolve_topics(admin, [wanted.topic], TIMEOUT_MS)
    for error in missing.values():
        raise error
    if not wanted.partitions:
        return partitions
    numbers = {one.strip() for one in wanted.partitions.split(",")}
    unknown = numbers - {str(tp.partition) for tp in partitions}
    if unknown:
        raise OperationError(f"topic {wanted.topic} has no partition {', '.join(sorted(unknown))}")
    return [tp for tp in partitions if str(tp.partition) in numbers]


async def _plan(planner: ResetPlanner, wanted: ResetOffsets, partitions: list[TopicPartition]) -> ResetPlan:
    if wanted.to == "earliest":
        return await planner.to_earliest(partitions)
    if wanted.to == "latest":
        return await planner.to_latest(partitions)
    if wanted.to == "offset":
        return await planner.to_positions(dict.fromkeys(partitions, wanted.value))
    if wanted.to == "time":
        return await planner.to_time(partitions, wanted.value)
    if wanted.to == "shift":
        return await planner.shift_by(wanted.group, partitions, wanted.value)
    return await planner.to_current(wanted.group, partitions)


async def delete_offsets(admin: AsyncAdmin, wanted: DeleteOffsets) -> Planned:
    """Positions of a topic that no member reads."""
    committed = await ResetPlanner(admin, TIMEOUT_MS).committed(wanted.group)
    gone = [tp for tp in sorted(committed) if tp.topic == wanted.topic]

    async def carry_out(later: AsyncAdmin) -> None:
        now = await ResetPlanner(later, TIMEOUT_MS).committed(wanted.group)
        of_topic = {tp: offset for tp, offset in now.items() if tp.topic == wanted.topic}
        _check_same(wanted.group, {tp: committed[tp] for tp in gone}, of_topic)
        await later.groups.delete_offsets(wanted.group, gone, timeout_ms=TIMEOUT_MS)

    effects = [Effect(str(tp), str(committed[tp]), "none") for tp in gone]
    undo = _restoring(wanted.group, {tp: committed[tp] for tp in gone})
    return Planned(wanted.group, effects, carry_out, undo=undo)


async def delete_group(admin: AsyncAdmin, wanted: OfGroup) -> Planned:
    """A group without members, with its positions."""
    await _check_empty(admin, wanted.group)
    committed = await ResetPlanner(admin, TIMEOUT_MS).committed(wanted.group)

    async def carry_out(later: AsyncAdmin) -> None:
        now = await ResetPlanner(later, TIMEOUT_MS).committed(wanted.group)
        _check_same(wanted.group, committed, now)
        await later.groups.delete([wanted.group], timeout_ms=TIMEOUT_MS)

    effects = [Effect(f"group {wanted.group}", f"{len(committed)} positions", "not there")]
    effects += [Effect(str(tp), str(offset), "none") for tp, offset in sorted(committed.items())]
    undo = _restoring(wanted.group, committed) if committed else None
    return Planned(wanted.group, effects, carry_out, undo=undo)
