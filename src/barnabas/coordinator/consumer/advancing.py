"""Plans how a member's request moves its group: metadata, epoch, target, the member itself.

The order of the records is Kafka's: the member, the topics, the group's epoch, the target assignment with its
epoch, where the member stands (``GroupMetadataManager.consumerGroupHeartbeat``).
"""

from collections.abc import Mapping
from typing import Final

from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.assignment import Assignment
from barnabas.coordinator.consumer.assignors import ASSIGNORS, assignor_name
from barnabas.coordinator.consumer.expressions import ExpressionChange, plan_change
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.plan import Plan
from barnabas.coordinator.consumer.reconciliation import Reconciliation
from barnabas.coordinator.consumer.target_assignment import new_target
from barnabas.coordinator.consumer.topics import TopicDescription, TopicsImage
from barnabas.coordinator.settings import GroupSettings
from barnabas.core.clock import Clock

METADATA_REFRESH_INTERVAL_MS: Final = (1 << 31) - 1
"""Topics are looked at when they change; besides that, practically never."""


class Advancement:
    """Moves members on; holds no state of groups."""

    def __init__(self, settings: GroupSettings, clock: Clock, topics: TopicsImage) -> None:
        self._clock = clock
        self._topics = topics
        names = [assignor_name(configured) for configured in settings.consumer_assignors]
        self.assignors = {name: ASSIGNORS[name] for name in names}
        self.default_assignor = names[0]

    def plan(
        self, plan: Plan, old: ConsumerMember, new: ConsumerMember, owned: Assignment | None
    ) -> ConsumerMember:
        """Plans all that follows from a request that makes `new` of `old`; the member as it will be.

        Raises INVALID_REGULAR_EXPRESSION and FENCED_MEMBER_EPOCH.
        """
        group = plan.group
        if new is not old:
            plan.records.append(records.member_subscription(group.group_id, new))
        names_changed = new.subscribed_topic_names != old.subscribed_topic_names
        expression = plan_change(plan, old, new)
        # An expression that is still to be looked up raises the epoch when it has been, once.
        bump = group.epoch == 0 or names_changed or expression is ExpressionChange.RESOLVED
        subscription_changed = names_changed or expression is not ExpressionChange.NONE
        if subscription_changed:
            plan.subscriptions = group.subscriptions.after([(old, new)])
        if bump or group.metadata_has_expired(self._clock.monotonic_ms()):
            self.plan_metadata(plan, bump=bump)
        target_epoch, target = self._target(plan, old, new)
        return self._reconciled(
            plan,
            new,
            target_epoch=target_epoch,
            target=target,
            owned=owned,
            subscription_changed=subscription_changed,
        )

    def plan_metadata(self, plan: Plan, *, bump: bool) -> None:
        """Looks at the topics that the group reads; plans a new epoch if it must be or they have changed."""
        group = plan.group
        plan.topics = self.describe(plan)
        if plan.topics != group.subscription_metadata:
            plan.records.append(records.subscription_metadata(group.group_id, plan.topics))
            bump = True
        if bump:
            plan.epoch += 1
            plan.records.append(records.group_epoch(group.group_id, plan.epoch))
        deadline_ms = self._clock.monotonic_ms() + METADATA_REFRESH_INTERVAL_MS
        epoch = plan.epoch
        plan.effects.append(lambda group: group.refresh_metadata_at(deadline_ms, epoch))

    def describe(self, plan: Plan) -> Mapping[str, TopicDescription]:
        """Those topics that the group reads which exist."""
        described = ((name, self._topics.describe(name)) for name in plan.subscriptions.topics())
        return {name: topic for name, topic in described if topic is not None}

    def _target(self, plan: Plan, old: ConsumerMember, new: ConsumerMember) -> tuple[int, Assignment]:
        group = plan.group
        if plan.epoch <= group.target.epoch:
            holder = new.member_id
            if new.instance_id is not None:
                holder = group.static_members.get(new.instance_id, new.member_id)
            return group.target.epoch, group.target.of(holder)
        preferred = group.preferred_assignor(old, new)
        assignor = self.assignors.get(preferred or "", self.assignors[self.default_assignor])
        changed, target = new_target(
            group,
            plan.epoch,
            assignor,
            updated=new,
            subscriptions=plan.subscriptions,
            topics=plan.topics,
        )
        plan.records += changed
        return plan.epoch, target

    def _reconciled(
        self,
        plan: Plan,
        member: ConsumerMember,
        *,
        target_epoch: int,
        target: Assignment,
        owned: Assignment | None,
        subscription_changed: bool,
    ) -> ConsumerMember:
        if member.is_reconciled_to(target_epoch) and not subscription_changed:
            return member
        names = plan.subscriptions.topics_of(member)
        reconciled = Reconciliation(
            plan.group,
            member,
            target_epoch=target_epoch,
            target=target,
            owned=owned,
            subscribed=frozenset(topic.id for name, topic in plan.topics.items() if name in names),
        ).next(subscription_changed=subscription_changed)
        if reconciled != member:
            plan.records.append(records.current_assignment(plan.group.group_id, reconciled))
        return reconciled
