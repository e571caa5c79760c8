"""Where a group's positions may be put: one function for each specification, which changes nothing.

A plan is what is committed afterwards, position for position (`barnabas groups --reset-offsets`, the
console). It says beside each position what was not taken as it was asked for: an offset outside the log was
moved to its nearest end, and a time after the last record fell back to the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.admin import AsyncAdmin, GroupState, OffsetAndMetadata
from barnabas.client.types import EARLIEST_TIMESTAMP
from barnabas.core.ids import TopicPartition
from barnabas.operations.errors import OperationError
from barnabas.operations.log_ends import end_offsets, log_offsets

Positions = Mapping[TopicPartition, int]

RESETTABLE = frozenset({GroupState.EMPTY, GroupState.DEAD})
"""The states of a group in which no member would be surprised, and a commit is taken."""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """New positions."""

    positions: dict[TopicPartition, int]
    moved: dict[TopicPartition, int] = field(default_factory=dict)
    """What was asked for where the position is another, as the log does not reach so far."""
    at_end: Sequence[TopicPartition] = ()
    """Partitions without a record of the time that was asked for, or later: they are put to the end."""
    uncommitted: Sequence[TopicPartition] = ()
    """Partitions without a position, for which the current one was asked: they are put to the end."""


class ResetPlanner:
    """Plans new positions; changes nothing. All raise KafkaError."""

    def __init__(self, admin: AsyncAdmin, timeout_ms: float | None = None) -> None:
        self._admin = admin
        self._timeout_ms = timeout_ms

    async def committed(self, group: str) -> dict[TopicPartition, int | None]:
        """The group's positions now; None where one is below zero, and so none to commit."""
        found = (await self._admin.groups.offsets([group], timeout_ms=self._timeout_ms))[group]
        return {tp: None if one is None else one.offset for tp, one in found.items()}

    async def to_earliest(self, partitions: Iterable[TopicPartition]) -> ResetPlan:
        """The start of each log."""
        return ResetPlan(await log_offsets(self._admin, partitions, EARLIEST_TIMESTAMP, self._timeout_ms))

    async def to_latest(self, partitions: Iterable[TopicPartition]) -> ResetPlan:
        """The end of each log."""
        return ResetPlan(await end_offsets(self._admin, partitions, self._timeout_ms))

    async def to_positions(self, wanted: Positions) -> ResetPlan:
        """These positions, each moved to the start or the end of its log where it is outside."""
        starts = await log_offsets(self._admin, wanted, EARLIEST_TIMESTAMP, self._timeout_ms)
        ends = await end_offsets(self._admin, wanted, self._timeout_ms)
        found = {tp: min(max(offset, starts[tp]), ends[tp]) for tp, offset in wanted.items()}
        return ResetPlan(found, {tp: offset for tp, offset in wanted.items() if found[tp] != offset})

    async def shift_by(self, group: str, partitions: Sequence[TopicPartition], shift: int) -> ResetPlan:
        """The positions now and so many offsets further. Raises OperationError where there is none."""
        committed = await self.committed(group)
        wanted = {}
        for tp in partitions:
            now = committed.get(tp)
            if now is None:
                raise OperationError(
                    f"Cannot shift offset for partition {tp} since there is no current committed offset"
                )
            wanted[tp] = now + shift
        return await self.to_positions(wanted)

    async def to_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> ResetPlan:
        """The first record of this time or a later one; the end where there is none."""
        found = await log_offsets(self._admin, partitions, timestamp_ms, self._timeout_ms)
        late = [tp for tp, offset in found.items() if offset < 0]
        found.update(await end_offsets(self._admin, late, self._timeout_ms))
        return ResetPlan(found, at_end=late)

    async def to_current(self, group: str, partitions: Sequence[TopicPartition]) -> ResetPlan:
        """The positions as they are; the end of the log where there is none."""
        committed = await self.committed(group)
        current = {tp: now for tp in partitions if (now := committed.get(tp)) is not None}
        missing = [tp for tp in partitions if tp not in current]
        ends = await end_offsets(self._admin, missing, self._timeout_ms)
        return ResetPlan(current | ends, uncommitted=missing)


async def commit(
    admin: AsyncAdmin, group: str, positions: Positions, timeout_ms: float | None = None
) -> None:
    """Commits the positions of a plan. Raises KafkaError: UNKNOWN_MEMBER_ID where the group has members."""
    wanted = {tp: OffsetAndMetadata(offset) for tp, offset in positions.items()}
    await admin.groups.alter_offsets(group, wanted, timeout_ms=timeout_ms)
