"""`ConsumerGroup`: the members of a group, its epochs, and who holds which partition (``ConsumerGroup``).

Theory of operation
-------------------
Three epochs drive a group forward. The *group epoch* rises when members, subscriptions or topics change. The
*assignment epoch* follows when an assignor has made a target assignment for it. Each *member epoch* follows
when that member has given up what the target takes from it.

A partition belongs to the one member that has it assigned or is asked to revoke it, whose epoch is in
`partition_epoch`. No other member gets the partition before it is released. Only records change a group:
`records` makes them, `replay` applies them.
"""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Final

from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.assignment import Assignment, pairs
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.subscriptions import Counts, Subscriptions
from barnabas.coordinator.group import GroupType, OffsetExpiry
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.runtime.session import Due
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, Uuid

if TYPE_CHECKING:
    from barnabas.coordinator.consumer.timers import MemberTimers
    from barnabas.coordinator.consumer.topics import TopicDescription
    from barnabas.core.pending import Pending

PROTOCOL_TYPE: Final = "consumer"
FREE: Final = -1
"""The epoch of a partition that no member holds."""
OFFSET_COMMIT_VERSION_MIN: Final = 9


class ConsumerGroupState(Enum):
    """The state of a group as tools print it (``ConsumerGroup.ConsumerGroupState``)."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """One group of the consumer protocol; some of its members may speak the classic one."""

    __slots__ = (
        "_assignors",
        "_partition_epochs",
        "_refresh",
        "assigned_at_ms",
        "assignment_epoch",
        "assignor_running",
        "classic_member_count",
        "classic_protocols",
        "due",
        "epoch",
        "group_id",
        "last_write",
        "lookup_running",
        "members",
        "next_target_ms",
        "static_members",
        "subscription_metadata",
        "subscriptions",
        "targets",
        "targets_failed",
        "timers",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """The member that has each instance id."""
        self.subscriptions = Subscriptions()
        self.subscription_metadata: dict[str, TopicDescription] = {}
        """The topics as the last assignment saw them."""
        self.assignment_epoch = 0
        """The group epoch that the targets were made for."""
        self.assigned_at_ms = 0
        """When they were made, by the wall clock; 0 where the next one may come at once."""
        self.targets: dict[str, Assignment] = {}
        """What each member is to have, as the assignor last made it."""
        self.classic_member_count = 0
        self.classic_protocols = Counts()
        """How many classic members support each protocol."""
        self.timers: dict[str, MemberTimers] = {}
        self.due = Due()
        self.last_write: Pending[int] | None = None
        """Of the group's records; None once it is known that the replicas have all of them."""
        self.assignor_running = False
        """Whether a target is being made, in slices."""
        self.targets_failed = 0
        """How many targets that were made in slices could not be written since the last that could."""
        self.next_target_ms = 0.0
        """When the next one is made after that, by the monotonic clock."""
        self.lookup_running = False
        """Whether regular expressions are being looked up."""
        self._assignors = Counts()
        self._partition_epochs: dict[Uuid, dict[int, int]] = {}
        self._refresh = (0.0, 0)

    # What offsets and listings ask: `coordinator.group.Group`

    @property
    def type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        """Computed when asked: members change far more often."""
        # Kafka keeps the state in a field and computes it after each change (``maybeUpdateGroupState``).
        if not self.members:
            return ConsumerGroupState.EMPTY
        # Members, subscriptions or topics have changed since the target was made.
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    def end_overdue_sessions(self, now_ms: float) -> None:
        if now_ms >= self.due.at_ms:
            self.due.end_overdue([timers.session for timers in self.timers.values()], now_ms)

    def validate_offset_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,  # noqa: ARG002 - the other kind of group looks at it
        generation: int,
        transactional: bool,
        version: int,
        partitions: Iterable[TopicPartition],
    ) -> None:
        """Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for classic members."""
        # An administrator, or a consumer that assigns itself: no member could be disturbed.
        if generation < 0 and self.is_empty:
            return
        member = self.member(member_id)
        # Before version 9 the field is a generation, and the client cannot read STALE_MEMBER_EPOCH.
        # TxnOffsetCommit was not changed for this protocol.
        if not transactional and member.classic is None and version < OFFSET_COMMIT_VERSION_MIN:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the modern group protocol",
            )
        if generation < member.member_epoch and member.classic is None:
            self._check_held_since(member, generation, partitions)
        else:
            _check_epoch(member, generation)

    def _check_held_since(
        self, member: ConsumerMember, epoch: int, partitions: Iterable[TopicPartition]
    ) -> None:
        """KIP-1251: what a member read in an earlier epoch it may commit where it has had the partition ever
        since: nobody else can have read it. Raises STALE_MEMBER_EPOCH for the whole commit.
        """
        for tp in partitions:
            topic = self.subscription_metadata.get(tp.topic)
            since = None if topic is None else member.has_since(topic.id, tp.partition)
            if since is None or epoch < since:
                _check_epoch(member, epoch)

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """Raises like a commit; a request that names no member may read."""
        # An administrator, or a client without a group membership.
        if member_id is None and member_epoch < 0:
            return
        _check_epoch(self.member(member_id or ""), member_epoch)

    def validate_offset_delete(self) -> None:
        """Offsets of topics that no member reads may always be deleted."""

    def validate_delete(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def offset_expiry(self) -> OffsetExpiry:
        """Each offset counts from its own commit; those of topics that are read stay."""
        return OffsetExpiry(None, frozenset(self.subscriptions.topics()))

    def tombstones(self) -> list[CoordinatorRecord]:
        return records.group_tombstones(self.group_id, self.members, self.subscriptions.resolved)

    def close(self) -> None:
        """Stops all timers; requests are never parked in a consumer group."""
        for timers in self.timers.values():
            timers.close()
        self.timers.clear()

    # Members

    def member(self, member_id: str) -> ConsumerMember:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def find_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """The member that a request names. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another
        member has taken its instance id.
        """
        if instance_id is None:
            return self.member(member_id)
        member = self.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        # KIP-345: the newer process has the instance id; the older one has to end.
        if member.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{member.member_id}.",
            )
        return member

    def check_size(self, member_id: str, size_max: int) -> None:
        """``throwIfConsumerGroupIsFull``: raises GROUP_MAX_SIZE_REACHED for a new member of a full group."""
        if len(self.members) >= size_max and member_id not in self.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {size_max} members.",
            )

    def update_member(self, new: ConsumerMember) -> None:
        self._replace(self.members.get(new.member_id), new)
        self.members[new.member_id] = new
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id

    def remove_member(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._replace(old, None)
        # Another member may have taken the instance id over: its entry stays.
        if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
            del self.static_members[old.instance_id]
        timers = self.timers.pop(member_id, None)
        if timers is not None:
            timers.close()

    def _replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        if old is not None:
            self.classic_member_count -= old.classic is not None
            self._assignors.take(_assignors(old))
            self.classic_protocols.take(_protocols(old))
            # What is pending revocation is still held: nobody else may get it before the member has
            # confirmed.
            self._release(old.assigned, old.member_epoch)
            self._release(old.pending_revocation, old.member_epoch)
        if new is not None:
            self.classic_member_count += new.classic is not None
            self._assignors.add(_assignors(new))
            self.classic_protocols.add(_protocols(new))
            self._hold(new.assigned, new.member_epoch)
            self._hold(new.pending_revocation, new.member_epoch)
        self.subscriptions.replace(old, new)

    # Which member holds what

    def partition_epoch(self, topic_id: Uuid, partition: int) -> int:
        """The epoch of the member that holds a partition; FREE if none does."""
        return self._partition_epochs.get(topic_id, {}).get(partition, FREE)

    def _hold(self, assignment: Assignment, epoch: int) -> None:
        for topic_id, partition in pairs(assignment):
            self._partition_epochs.setdefault(topic_id, {})[partition] = epoch

    def _release(self, assignment: Assignment, epoch: int) -> None:
        # While a partition of __consumer_offsets is loaded, compaction may have removed the record by which
        # the old owner let go. Then the epoch here is the new owner's, and must stay.
        for topic_id, partition in pairs(assignment):
            epochs = self._partition_epochs.get(topic_id)
            if epochs is not None and epochs.get(partition) == epoch:
                del epochs[partition]
                if not epochs:
                    del self._partition_epochs[topic_id]

    # What an assignment is made from

    def preferred_assignor(self, old: ConsumerMember | None, new: ConsumerMember | None) -> str | None:
        """The assignor that most members ask for after a change; None if none does."""
        counts = self._assignors.copy()
        # Counted as if the change had been made: the plan is not applied yet.
        if old is not None:
            counts.take(_assignors(old))
        if new is not None:
            counts.add(_assignors(new))
        return max(counts, key=lambda name: counts[name], default=None)

    def supports_protocols(self, protocol_type: str, names: frozenset[str]) -> bool:
        """``supportsClassicProtocols``: whether all classic members would have one of these in common."""
        # A member of Connect, for instance, cannot be a member of a group of consumers.
        if protocol_type != PROTOCOL_TYPE:
            return False
        return any(self.classic_protocols.get(name, 0) == self.classic_member_count for name in names)

    def common_protocols(self) -> set[str]:
        """The protocols that all classic members support."""
        return {name for name, count in self.classic_protocols.items() if count == self.classic_member_count}

    # When to look at the topics again

    def refresh_metadata_at(self, deadline_ms: float, epoch: int) -> None:
        """The topics need not be looked at before this time, unless the group falls behind this epoch."""
        self._refresh = (deadline_ms, epoch)

    def request_metadata_refresh(self) -> None:
        """The topics have changed: the next heartbeat looks at them."""
        self._refresh = (0.0, 0)

    def metadata_has_expired(self, now_ms: float) -> bool:
        deadline_ms, epoch = self._refresh
        return now_ms >= deadline_ms or self.epoch < epoch

    def __repr__(self) -> str:
        return (
            f"<ConsumerGroup {self.group_id} {self.state_name} epoch={self.epoch} "
            f"assignment={self.assignment_epoch} members={len(self.members)}>"
        )


def _assignors(member: ConsumerMember) -> tuple[str, ...]:
    return () if member.server_assignor is None else (member.server_assignor,)


def _protocols(member: ConsumerMember) -> Collection[str]:
    # A name given twice counts once: a count equals the number of members only if all support the protocol.
    return () if member.classic is None else dict(member.classic.protocols).keys()


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch == member.member_epoch:
        return
    # Classic consumers know generations: this code makes them join again.
    if member.classic is not None:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The received generation id {epoch} does not match the expected member epoch "
            f"{member.member_epoch}.",
        )
    raise KafkaError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}.",
    )


def consumer_group(shard: Shard, group_id: str) -> ConsumerGroup:
    """A group that exists. Raises GROUP_ID_NOT_FOUND."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    raise KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group.",
    )
