"""JoinGroup: a member comes, comes back, or says something new about itself (``handleJoinGroup``)."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.member import NO_MEMBER, ClassicMember, MemberTerms, ParkedJoin
from barnabas.coordinator.classic.rebalancing import Rebalances
from barnabas.coordinator.classic.responses import failed_join, generation_for, send
from barnabas.coordinator.classic.states import GroupState
from barnabas.coordinator.classic.static_members import replace_static_member
from barnabas.coordinator.group import Client
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.wire import STRING_LENGTH_MAX

JoinAnswer: TypeAlias = JoinGroupResponse | Pending[JoinGroupResponse]

MEMBER_ID_REQUIRED_SINCE: Final = 4

_log = EventLog("coordinator.classic")


class _Join(NamedTuple):
    """One request with where it came from."""

    client: Client
    request: JoinGroupRequest
    version: int
    terms: MemberTerms

    @property
    def reason(self) -> str:
        """Why the client says that it joins (KIP-800)."""
        return f"client reason: {self.request.reason or 'not provided'}"


class JoinRequests:
    """Handles JoinGroup; what it changes is the group's."""

    __slots__ = ("_group_size_max", "_new_uuid", "_rebalances")

    def __init__(self, rebalances: Rebalances, new_uuid: Callable[[], str], group_size_max: int) -> None:
        self._rebalances = rebalances
        self._new_uuid = new_uuid
        self._group_size_max = group_size_max

    def join(
        self, group: ClassicGroup, client: Client, request: JoinGroupRequest, version: int
    ) -> JoinAnswer:
        """The generation that the member takes part in, as soon as it is there; never raises."""
        if not self._accepts(group, request.member_id):
            self._rebalances.refuse_member(group, request.member_id)
            return failed_join(NO_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED, version)
        join = _Join(client, request, version, MemberTerms.of(request, version))
        try:
            answer = self._known_member(group, join) if request.member_id else self._new_member(group, join)
        except KafkaError as refused:
            return failed_join(request.member_id, refused.code, version)
        self._rebalances.try_complete_join(group)
        return answer

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether ``group.max.size`` leaves room (``acceptJoiningMember``).

        While members join again, those who have count, not those who are known: so a group that is larger than
        a smaller limit now allows loses those who come last.
        """
        member = group.members.get(member_id)
        if group.is_empty or group.state is GroupState.DEAD:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            waits = member is not None and member.parked_join is not None
            return waits or group.members.joined < self._group_size_max
        return member is not None or len(group.members) < self._group_size_max

    # Whoever has no member id yet

    def _new_member(self, group: ClassicGroup, join: _Join) -> JoinAnswer:
        _check_protocols(group, join)
        instance_id = join.request.group_instance_id
        member_id = f"{join.client.id if instance_id is None else instance_id}-{self._new_uuid()}"
        if len(member_id.encode()) > STRING_LENGTH_MAX:
            # No version could carry it, neither to the leader nor into the journal, and the others would get
            # no answer either (Kafka runs into exactly that).
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if instance_id is None and join.version >= MEMBER_ID_REQUIRED_SINCE:
            self._rebalances.await_return(group, member_id, join.request.session_timeout_ms)
            return failed_join(member_id, ErrorCode.MEMBER_ID_REQUIRED, join.version)
        if instance_id is not None and instance_id in group.members.static:
            return self._replace(group, instance_id, member_id, join)
        return self._add(group, member_id, join)

    def _add(self, group: ClassicGroup, member_id: str, join: _Join) -> JoinAnswer:
        request = join.request
        member = ClassicMember(
            member_id, request.group_instance_id, join.client, request.protocol_type, join.terms
        )
        member.parked_join = parked = ParkedJoin(Pending(), join.version)
        self._rebalances.add_member(group, member, f"adding new member {member_id}; {join.reason}")
        return parked.answer

    def _replace(self, group: ClassicGroup, instance_id: str, member_id: str, join: _Join) -> JoinAnswer:
        member = group.members[group.members.static[instance_id]]
        _log.info("classic.static_member_returns", group=group.group_id, instance=instance_id, now=member_id)
        parked = ParkedJoin(Pending(), join.version)
        replace_static_member(self._rebalances, group, member, member_id, join.terms, parked, join.reason)
        return parked.answer

    # Whoever comes back

    def _known_member(self, group: ClassicGroup, join: _Join) -> JoinAnswer:
        _check_protocols(group, join)
        member_id = join.request.member_id
        if member_id in group.members.pending:
            if join.request.group_instance_id is not None:
                # Static members are never asked to come back; Kafka runs into an IllegalStateException.
                return failed_join(NO_MEMBER, ErrorCode.UNKNOWN_SERVER_ERROR, join.version)
            return self._add(group, member_id, join)
        member = group.check_member(member_id, join.request.group_instance_id)
        if _may_keep_generation(group, member, join.terms):
            return generation_for(group, member, join.version)
        return self._rejoin(group, member, join)

    def _rejoin(self, group: ClassicGroup, member: ClassicMember, join: _Join) -> JoinAnswer:
        parked = ParkedJoin(Pending(), join.version)
        group.members.update(member, join.terms)
        replaced = group.members.park_join(member, parked)
        self._rebalances.maybe_prepare(
            group, f"member {member.member_id} joins again in {group.state.value}; {join.reason}"
        )
        if replaced is not None:
            # Sent again, over a new connection most likely: the first one's answer has nobody to read it.
            code = ErrorCode.REBALANCE_IN_PROGRESS
            send([(replaced.answer, failed_join(member.member_id, code, replaced.version))])
        return parked.answer


def _check_protocols(group: ClassicGroup, join: _Join) -> None:
    group.check_alive()
    if not group.supports(join.request.protocol_type, {name for name, _ in join.terms.protocols}):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _may_keep_generation(group: ClassicGroup, member: ClassicMember, terms: MemberTerms) -> bool:
    """Whether the member only missed the answer to its last JoinGroup, and nobody needs to join again.

    Once the group is stable, the leader has a reason to join again that its metadata does not show: topics
    have changed, say. So it always gets its rebalance.
    """
    if member.terms.protocols != terms.protocols:
        return False
    leads = member.member_id == group.members.leader_id
    return group.state is GroupState.COMPLETING_REBALANCE or (group.state is GroupState.STABLE and not leads)
