"""How members leave: on their own, at the end of a deadline, or for a while (static members).

Whoever speaks for too long not, or does not do in time what it was told, is fenced: removed, and the group's
epoch rises so that the others share what it had. If only members of the classic protocol are left, the group
may go back to that protocol.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, TypeVar

from barnabas.coordinator.classic.groups import ClassicGroups
from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.advancing import Advancement
from barnabas.coordinator.consumer.assignment import NOTHING
from barnabas.coordinator.consumer.conversion import begin_downgraded, downgrade_records, may_downgrade
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from barnabas.coordinator.consumer.plan import Plan, Writer
from barnabas.coordinator.consumer.timers import MemberTimers
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending

T = TypeVar("T")

RETRY_MS: Final = 500
"""After the log refused to write down that a member is gone."""

_events: Final = EventLog("coordinator.consumer")


class Departures:
    """Removes members, and sets the deadlines that do."""

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        topics: TopicsImage,
        *,
        advancement: Advancement,
        writer: Writer,
        classic: ClassicGroups,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._topics = topics
        self._advancement = advancement
        self._writer = writer
        self._classic = classic

    def leave(
        self, shard: Shard, group: ConsumerGroup, members: Collection[ConsumerMember], answer: T
    ) -> T | Pending[T]:
        """Removes members for good. Raises KafkaError when that cannot be written."""
        if not members:
            return answer
        plan = Plan(group)
        if may_downgrade(group, members, self._settings):
            self._plan_downgrade(shard, plan, members)
        else:
            self._plan_removal(plan, members)
        return self._writer.write(shard, plan, answer)

    def leave_for_a_while(
        self, shard: Shard, group: ConsumerGroup, member: ConsumerMember, answer: T
    ) -> T | Pending[T]:
        """A static member goes and keeps what it has; its session runs on (``-2``)."""
        plan = Plan(group)
        away = replace(member, member_epoch=STATIC_LEAVE_EPOCH, pending_revocation=NOTHING)
        plan.records.append(records.current_assignment(group.group_id, away))
        return self._writer.write(shard, plan, answer)

    def downgrade(self, shard: Shard, group_id: str) -> None:
        """A classic member has taken the place of a static member that spoke the consumer protocol; if that
        was the last one, the group goes back to the classic protocol.
        """
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and may_downgrade(group, (), self._settings):
            plan = Plan(group)
            self._plan_downgrade(shard, plan, ())
            try:
                self._writer.write(shard, plan, None)
            except KafkaError as error:
                # It stays what it is, which serves its members as well.
                _events.warning("group.not_downgraded", group=group_id, error=error)

    def _plan_removal(self, plan: Plan, members: Collection[ConsumerMember]) -> None:
        group = plan.group
        for member in members:
            plan.records += records.member_tombstones(group.group_id, member.member_id)
        plan.subscriptions = group.subscriptions.after([(member, None) for member in members])
        plan.records += [
            records.regular_expression_tombstone(group.group_id, expression)
            for expression in group.subscriptions.resolved
            if expression not in plan.subscriptions.expressions
        ]
        plan.topics = self._advancement.describe(plan)
        if plan.topics != group.subscription_metadata:
            plan.records.append(records.subscription_metadata(group.group_id, plan.topics))
        plan.records.append(records.group_epoch(group.group_id, group.epoch + 1))

    def _plan_downgrade(self, shard: Shard, plan: Plan, members: Collection[ConsumerMember]) -> None:
        group_id = plan.group.group_id
        plan.records += downgrade_records(plan.group, members, self._topics, self._clock.time_ms())
        plan.afterwards.append(lambda: begin_downgraded(self._classic, shard, group_id))
        _events.info("group.downgraded", group=group_id, members=len(plan.group.members) - len(members))

    # Deadlines

    def timers(self, shard: Shard, group: ConsumerGroup, member_id: str) -> MemberTimers:
        """The deadlines of a member."""
        known = group.timers.get(member_id)
        return self._new_timers(shard, group, member_id) if known is None else known

    def _new_timers(self, shard: Shard, group: ConsumerGroup, member_id: str) -> MemberTimers:
        timers = group.timers[member_id] = MemberTimers(
            self._clock,
            lambda: self._fence(shard, group, member_id, "its session ended", timers.session.extend),
            group.due,
        )
        return timers

    def expect_revocation(self, shard: Shard, group: ConsumerGroup, member: ConsumerMember) -> None:
        """The member must have given up what it was told to before its rebalance time-out is over."""
        alarm = self.timers(shard, group, member.member_id).rebalance

        def late() -> None:
            known = group.members.get(member.member_id)
            if known is not None and known.member_epoch == member.member_epoch:
                self._fence(
                    shard, group, member.member_id, "it did not give up its partitions in time", expect_in
                )

        def expect_in(delay_ms: float) -> None:
            alarm.set(self._clock, delay_ms, late)

        expect_in(member.rebalance_timeout_ms)

    def expect_join(self, shard: Shard, group: ConsumerGroup, member: ConsumerMember) -> None:
        """A classic member was told to join again; a deadline that runs already stays."""
        alarm = self.timers(shard, group, member.member_id).join

        def late() -> None:
            self._fence(shard, group, member.member_id, "it did not join again in time", expect_in)

        def expect_in(delay_ms: float) -> None:
            alarm.set_unless_running(self._clock, delay_ms, late)

        expect_in(member.rebalance_timeout_ms)

    def expect_sync(self, shard: Shard, group: ConsumerGroup, member_id: str, timeout_ms: int) -> None:
        """A classic member has joined and must fetch its assignment."""
        alarm = self.timers(shard, group, member_id).sync

        def late() -> None:
            self._fence(shard, group, member_id, "it did not fetch its assignment in time", expect_in)

        def expect_in(delay_ms: float) -> None:
            alarm.set(self._clock, delay_ms, late)

        expect_in(timeout_ms)

    def _fence(
        self,
        shard: Shard,
        group: ConsumerGroup,
        member_id: str,
        reason: str,
        expect_in: Callable[[float], object],
    ) -> None:
        """Removes a member. Where the log refuses that, its deadline is set once more: a sign of life may still
        put it off, and the end of the group ends it (``CoordinatorTimer``).
        """
        member = group.members.get(member_id)
        if member is None or shard.groups.get(group.group_id) is not group:
            return
        _events.info("member.fenced", group=group.group_id, member=member_id, reason=reason)
        try:
            self.leave(shard, group, (member,), None)
        except KafkaError as error:
            _events.warning("member.not_removed", group=group.group_id, member=member_id, error=error)
            expect_in(RETRY_MS)
