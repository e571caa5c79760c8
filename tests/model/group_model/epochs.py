"""`Epochs`: what the coordinator promises to members of consumer groups (KIP-848), compared with their
answers.

============  =============================================================================================
two owners    a member was given a partition that another one held, and the other's next heartbeat succeeded
              although it still held it. A member holds what it was given until it has said that it owns it
              no more, left, or was fenced
backwards     a member's epoch fell although it did not join again
not written   a member was answered with an epoch that is not in the journal, or was written by the leader
              itself and is not with the replicas yet. What a leader found in its log it believes, as Kafka's
              does
old member    a commit succeeded in an epoch before the one in the member's answers, of a partition that the
              member was given later than that, or that another one was given since (KIP-1251)
============  =============================================================================================
"""

from collections.abc import Callable, Iterable
from typing import Final

from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.core.ids import Uuid
from barnabas.protocol.coordinator.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from group_model.topics import Topic
from group_model.wire import Call

Complain = Callable[[str, str], object]
Held = set[tuple[Uuid, int]]

LEAVE_EPOCHS: Final = frozenset({-1, -2})
_GONE: Final = -1


class _Group:
    """Who holds what, as far as the coordinator has said it."""

    def __init__(self) -> None:
        self.holders: dict[tuple[Uuid, int], str] = {}
        self.epochs: dict[str, int] = {}
        self.robbed: dict[str, Held] = {}
        """What was given to others while a member held it."""

    def forget(self, member_id: str) -> None:
        """The member holds nothing."""
        self.release(member_id, [tp for tp, holder in self.holders.items() if holder == member_id])
        self.epochs.pop(member_id, None)
        self.robbed.pop(member_id, None)

    def release(self, member_id: str, partitions: Iterable[tuple[Uuid, int]]) -> None:
        """The member does not hold these."""
        for tp in partitions:
            if self.holders.get(tp) == member_id:
                del self.holders[tp]
            self.robbed.get(member_id, set()).discard(tp)


class Epochs:
    """All consumer groups of a history."""

    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self._groups: dict[str, _Group] = {}
        self._since: dict[tuple[str, Uuid, int], tuple[str, int]] = {}
        """Of each partition of a group: the last member that the journal gives it to, and the epoch of the
        first record that did.
        """
        self._once_believed: dict[tuple[int, str, str], set[int]] = {}
        """The epochs of assignments that a leader had found in its log, and a later one did not have."""
        self._written: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
        """Of each member, by partition of the journal: the offsets and the epochs of its assignments."""

    # --- the journal --------------------------------------------------------------------------------------

    def appended(self, partition: int, record: CoordinatorRecord, offset: int) -> None:
        """A record is in the log."""
        key, value = record.key, record.value
        if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            epoch = _GONE
            if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
                epoch = value.member_epoch
                for topic in (*value.assigned_partitions, *value.partitions_pending_revocation):
                    for number in topic.partitions:
                        tp = key.group_id, topic.topic_id, number
                        if self._since.get(tp, ("", 0))[0] != key.member_id:
                            self._since[tp] = key.member_id, epoch
            place = partition, key.group_id, key.member_id
            self._written.setdefault(place, []).append((offset, epoch))

    def truncated(self, partition: int, offset: int, believed: int) -> None:
        """Records at and behind this offset are gone. Those below `believed` a leader had found in its log:
        deposed and not knowing it, it goes on telling of them.
        """
        for place, written in self._written.items():
            if place[0] == partition:
                while written and written[-1][0] >= offset:
                    gone, epoch = written.pop()
                    if gone < believed:
                        self._once_believed.setdefault(place, set()).add(epoch)

    def any_answered(self, call: Call, response: ConsumerGroupHeartbeatResponse, believed: int) -> None:
        """A leader, past or present, answered a member with its epoch."""
        member_id = response.member_id or ""
        place = call.leadership[0], call.group_id, member_id
        written = self._written.get(place, ())
        epoch = response.member_epoch
        if epoch in self._once_believed.get(place, ()):
            return
        if epoch > 0 and not any(each == epoch and offset < believed for offset, each in written):
            self._complain(
                "not written", f"{call} was answered with epoch {epoch}; the journal has {written[-3:]}"
            )

    # --- answers ------------------------------------------------------------------------------------------

    def deleted(self, group_id: str) -> None:
        """An admin deleted the group."""
        self._groups.pop(group_id, None)

    def invoked(self, call: Call) -> None:
        """A request has reached its broker: what must not be is known now."""
        request = call.request
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self._reported(call, request)
        elif isinstance(request, OffsetCommitRequest) and call.group_id in self._groups:
            epoch = self._groups[call.group_id].epochs.get(request.member_id, -1)
            wanted = request.generation_id_or_member_epoch
            if wanted < epoch and not self._has_had_all(call.group_id, request):
                call.barred = "old member", f"{request.member_id} was answered with epoch {epoch}"

    def _has_had_all(self, group_id: str, request: OffsetCommitRequest) -> bool:
        """Whether the member has had all that it commits since the epoch that it names."""
        named = [
            self._since.get((group_id, Topic(topic.name, 0, 0).id, each.partition_index))
            for topic in request.topics
            for each in topic.partitions
        ]
        epoch = request.generation_id_or_member_epoch
        return epoch > 0 and all(
            each is not None and each[0] == request.member_id and each[1] <= epoch for each in named
        )

    def _reported(self, call: Call, request: ConsumerGroupHeartbeatRequest) -> None:
        """A member says what it owns: the rest it has given up."""
        group = self._groups.setdefault(call.group_id, _Group())
        if request.member_epoch <= 0:
            group.forget(request.member_id)
        elif request.topic_partitions is not None:
            owned = flat(request.topic_partitions)
            held = {tp for tp, holder in group.holders.items() if holder == request.member_id}
            held |= group.robbed.get(request.member_id, set())
            group.release(request.member_id, held - owned)

    def answered(
        self, call: Call, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        """A heartbeat succeeded."""
        if request.member_epoch in LEAVE_EPOCHS:
            return
        group = self._groups.setdefault(call.group_id, _Group())
        member_id = response.member_id or request.member_id
        epoch = response.member_epoch
        if request.member_epoch > 0 and epoch < group.epochs.get(member_id, 0):
            self._complain("backwards", f"{call} got epoch {epoch} after {group.epochs[member_id]}")
        group.epochs[member_id] = epoch
        if group.robbed.get(member_id):
            self._complain("two owners", f"{call} succeeded, others have {sorted(group.robbed[member_id])}")
        if response.assignment is not None:
            for tp in flat(response.assignment.topic_partitions):
                self._give(group, member_id, tp)

    def _give(self, group: _Group, member_id: str, tp: tuple[Uuid, int]) -> None:
        holder = group.holders.get(tp)
        if holder not in (None, member_id):
            group.robbed.setdefault(holder, set()).add(tp)
        group.holders[tp] = member_id


def flat(topics: Iterable[TopicPartitions]) -> Held:
    """As pairs of topic id and number."""
    return {(topic.topic_id, number) for topic in topics for number in topic.partitions}
