"""Finds the member that a request speaks of, and makes the group and the member that it brings about."""

from dataclasses import replace

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.conversion import may_upgrade, retire, upgrade_records, upgraded
from barnabas.coordinator.consumer.departures import Departures
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import JOIN_EPOCH, ConsumerMember
from barnabas.coordinator.consumer.plan import Plan
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.consumer.validation import check_released
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey


class Membership:
    """Groups and members that come to be; a plan holds what has not happened yet."""

    def __init__(self, settings: GroupSettings, topics: TopicsImage, departures: Departures) -> None:
        self._settings = settings
        self._topics = topics
        self._departures = departures

    def consumer_group(self, shard: Shard, group_id: str) -> ConsumerGroup:
        """A group that exists. Raises GROUP_ID_NOT_FOUND."""
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        what = f"Group {group_id} not found." if group is None else _other_kind(group_id)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, what)

    def plan_for(self, shard: Shard, group_id: str, *, joining: bool) -> Plan:
        """A plan for a group, which for whoever joins is made, or made of a classic one, if need be.

        Raises GROUP_ID_NOT_FOUND.
        """
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return Plan(group)
        if not joining:
            what = f"Consumer group {group_id} not found." if group is None else _other_kind(group_id)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, what)
        if group is None:
            return Plan(ConsumerGroup(group_id))
        if isinstance(group, ClassicGroup) and group.is_empty:
            plan = Plan(ConsumerGroup(group_id))
            plan.records += group.tombstones()
            plan.afterwards.append(lambda: retire(group))
            return plan
        if isinstance(group, ClassicGroup) and may_upgrade(group, self._settings):
            return self._plan_upgrade(shard, group)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, _other_kind(group_id))

    def _plan_upgrade(self, shard: Shard, old: ClassicGroup) -> Plan:
        new = upgraded(old, self._topics)
        plan = Plan(new)
        # Also where nothing was written of the classic group yet: its members are to learn from `retire`, and not
        # from a group that is closed under them, that they have to join again.
        plan.records += [CoordinatorRecord(GroupMetadataKey(group=old.group_id)), *upgrade_records(new)]
        plan.effects.append(lambda group: self._begin_sessions(shard, group))
        plan.afterwards.append(lambda: retire(old))
        return plan

    def _begin_sessions(self, shard: Shard, group: ConsumerGroup) -> None:
        for member in group.members.values():
            if member.classic is not None:
                session = self._departures.timers(shard, group, member.member_id).session
                session.extend(member.classic.session_timeout_ms)

    def plan_static(self, plan: Plan, member_id: str, instance_id: str, *, consumer: bool) -> ConsumerMember:
        """The member that joins under an instance id; it takes over what the one before it had.

        Raises UNRELEASED_INSTANCE_ID when both speak the consumer protocol and the other has not left.
        """
        group = plan.group
        old = group.static_member(instance_id)
        if old is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if consumer and old.classic is None:
            check_released(old, member_id, instance_id)
        new = replace(old, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)
        plan.records += records.replacement(group.group_id, old, new, group.target.of(old.member_id))
        return new


def _other_kind(group_id: str) -> str:
    return f"Group {group_id} is not a consumer group."
