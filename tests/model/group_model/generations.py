"""`Generations`: what the coordinator promises to members of classic groups, compared with their answers.

============  =============================================================================================
two owners    two members were given the same partition in one generation. A static member that took the place
              of another under the same instance id is the same owner
backwards     a group's generation fell: below the last one that a member was let into by the same leader, or
              below one whose assignment was handed out by anybody
old member    a commit, heartbeat or sync succeeded in a generation that was over when the request arrived
ghost         a request of a member succeeded that had left before, under the same leader
fenced        a request succeeded under a member id whose instance id belonged to another by then: under the
              same leader from the moment in which the other was let in; under any from its first assignment
              on, because that is written down
not written   an assignment was handed out that is not in the journal
============  =============================================================================================

A leader that has been deposed and does not know it is believed nothing and blamed for nothing, but for
writes: those it cannot make.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.protocol.coordinator.group_metadata import GroupMetadataValue
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from group_model.assigning import read_assignment
from group_model.wire import Call

if TYPE_CHECKING:
    from barnabas.core.ids import TopicPartition

Complain = Callable[[str, str], object]


@dataclass(slots=True)
class Reign:
    """What one leader has answered the members of one group."""

    generation: int = -1
    """The newest that it let a member into."""
    gone: set[str] = field(default_factory=set)
    """Members that left."""
    instances: dict[str, str] = field(default_factory=dict)
    """The member id that it let in last for each instance id."""
    fenced: set[str] = field(default_factory=set)


class GroupHistory:
    """The answers about one group."""

    def __init__(self, group_id: str, complain: Complain) -> None:
        self.group_id = group_id
        self.handed_out = 0
        """The newest generation whose assignment a member got."""
        self._complain = complain
        self._reigns: dict[tuple[int, int], Reign] = {}
        self._owners: dict[int, dict[TopicPartition, str]] = {}
        self._places: dict[str, int] = {}
        """Of each static member id: its place in the order of those that were let in for its instance id."""
        self._fenced_below: dict[str, int] = {}

    def deleted(self) -> None:
        """An admin deleted the group: its generations begin again."""
        self.handed_out = 0
        self._reigns.clear()
        self._owners.clear()

    def floor(self, call: Call) -> int:
        """The generation that every older one is over for, as of now."""
        reign = self._reigns.get(call.leadership)
        return max(self.handed_out, -1 if reign is None else reign.generation)

    def joined(self, call: Call, request: JoinGroupRequest, response: JoinGroupResponse) -> None:
        """A member was let into a generation."""
        reign = self._reigns.setdefault(call.leadership, Reign())
        generation, member_id = response.generation_id, response.member_id
        if generation < max(reign.generation, call.floor):
            self._complain("backwards", f"{call} was let into {generation} after {self.floor(call)}")
        reign.generation = max(reign.generation, generation)
        reign.gone.discard(member_id)
        instance_id = request.group_instance_id
        if instance_id is None:
            return
        if self.bar(call, member_id, instance_id) is not None:
            self._complain("fenced", f"{call} was let in as {member_id} after it had been fenced")
        self._places.setdefault(member_id, len(self._places))
        before = reign.instances.get(instance_id)
        if before not in (None, member_id):
            reign.fenced.add(before)
        reign.instances[instance_id] = member_id

    def synced(
        self,
        call: Call,
        request: SyncGroupRequest,
        response: SyncGroupResponse,
        written: GroupMetadataValue | None,
    ) -> None:
        """A member was given its assignment."""
        generation, member_id = request.generation_id, request.member_id
        self.succeeded(call, generation)
        self._check_written(call, request, response, written)
        self.handed_out = max(self.handed_out, generation)
        if request.group_instance_id is not None:
            self._fenced_below[request.group_instance_id] = max(
                self._fenced_below.get(request.group_instance_id, 0), self._places.get(member_id, 0)
            )
        owners = self._owners.setdefault(generation, {})
        for tp in read_assignment(response.assignment):
            owner = owners.setdefault(tp, request.group_instance_id or member_id)
            if owner != (request.group_instance_id or member_id):
                self._complain(
                    "two owners", f"{tp} is {owner}'s and {member_id}'s in generation {generation}"
                )

    def _check_written(
        self,
        call: Call,
        request: SyncGroupRequest,
        response: SyncGroupResponse,
        written: GroupMetadataValue | None,
    ) -> None:
        if written is not None and written.generation > request.generation_id:
            return  # the next one was written while this answer waited for its replicas
        found = {(member.member_id, member.assignment) for member in (written.members if written else ())}
        if written is None or (request.member_id, response.assignment) not in found:
            self._complain("not written", f"the journal does not have the assignment of {call}")
        elif written.generation != request.generation_id:
            self._complain("not written", f"the journal has generation {written.generation} after {call}")

    def bar(self, call: Call, member_id: str, instance_id: str | None) -> tuple[str, str] | None:
        """Why no request of this member may succeed from now on, if so."""
        reign = self._reigns.get(call.leadership)
        if reign is not None and member_id in reign.gone:
            return "ghost", f"{member_id} had left"
        if instance_id is None:
            return None
        place = self._places.get(member_id)
        if (reign is not None and member_id in reign.fenced) or (
            place is not None and place < self._fenced_below.get(instance_id, 0)
        ):
            return "fenced", f"{instance_id} is not {member_id} any more"
        return None

    def succeeded(self, call: Call, generation: int) -> None:
        """A request of a member of a generation was carried out."""
        if 0 <= generation < call.floor:
            self._complain("old member", f"{call} of generation {generation} succeeded in {call.floor}")
        if call.barred is not None:
            kind, why = call.barred
            self._complain(kind, f"{call} succeeded although {why}")

    def left(self, call: Call, member_id: str) -> None:
        """A member left."""
        self._reigns.setdefault(call.leadership, Reign()).gone.add(member_id)


class Generations:
    """All classic groups of a history."""

    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self._groups: dict[str, GroupHistory] = {}

    def of(self, group_id: str) -> GroupHistory:
        """One group's."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = GroupHistory(group_id, self._complain)
        return group

    def invoked(self, call: Call) -> None:
        """A request has reached its broker: what must not be is known now."""
        group, request = self.of(call.group_id), call.request
        call.floor = group.floor(call)
        if (
            isinstance(request, (HeartbeatRequest, OffsetCommitRequest, SyncGroupRequest))
            and request.member_id
        ):
            call.barred = group.bar(call, request.member_id, request.group_instance_id)

    def answered(self, call: Call, body: object, written: GroupMetadataValue | None) -> None:
        """A leader that is one answered a request with success."""
        group, request = self.of(call.group_id), call.request
        match request, body:
            case HeartbeatRequest(), _:
                group.succeeded(call, request.generation_id)
            case OffsetCommitRequest(), _:
                if request.member_id:
                    group.succeeded(call, request.generation_id_or_member_epoch)
            case JoinGroupRequest(), JoinGroupResponse():
                group.joined(call, request, body)
            case SyncGroupRequest(), SyncGroupResponse():
                group.synced(call, request, body, written)
            case LeaveGroupRequest(), _:
                for member_id in _leavers(request, call.version):
                    group.left(call, member_id)


def _leavers(request: LeaveGroupRequest, version: int) -> list[str]:
    if version < 3:
        return [request.member_id]
    return [member.member_id for member in request.members if member.member_id]
