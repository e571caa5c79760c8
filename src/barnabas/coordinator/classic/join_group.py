"""JoinGroup: a member comes, comes back, or says something new about itself (``classicGroupJoin``)."""

from typing import TYPE_CHECKING, TypeAlias

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.members import (
    NO_MEMBER,
    ClassicMember,
    JoinRequest,
    JoinResult,
    MemberTerms,
    send,
)
from barnabas.coordinator.classic.rebalance import (
    add_member,
    add_pending_member,
    maybe_prepare_rebalance,
    prepare_rebalance,
    refuse_member,
    try_complete_join,
)
from barnabas.coordinator.classic.records import store
from barnabas.coordinator.classic.states import ClassicGroupState
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.protocol.wire import STRING_LENGTH_MAX

if TYPE_CHECKING:
    from barnabas.coordinator.classic.groups import ClassicGroups

JoinAnswer: TypeAlias = JoinResult | Pending[JoinResult]

_log = EventLog("coordinator.classic")


def classic_group_join(groups: "ClassicGroups", shard: Shard, request: JoinRequest) -> JoinAnswer:
    """``classicGroupJoin`` (``handleJoinGroup``, ``doJoinGroup``): answered when the next generation has its
    members.

    Raises KafkaError for a refusal.
    """
    settings = groups.settings
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    group = shard.groups.get(request.group_id)
    if group is None:
        # A client that has an id was a member of a group that was deleted or never written: it has to begin
        # again without an id.
        if request.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        group = groups.create_simple(shard, request.group_id)
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not _accept_joining_member(group, request.member_id):
        # A member of a group that became too large loses its place here, or the others would wait for it.
        refuse_member(group, request.member_id)
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    group.check_alive()
    # The leader assigns for all members in one protocol, so all must have one in common.
    if not group.supports(request.protocol_type, {name for name, _ in request.protocols}):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.member_id:
        answer = _join_existing_member(group, request)
    else:
        answer = _join_new_member(group, request, groups.new_uuid())
    # The rebalance may have waited for this member alone.
    try_complete_join(group)
    return answer


def _accept_joining_member(group: ClassicGroup, member_id: str) -> bool:
    """``acceptJoiningMember``: whether ``group.max.size`` leaves room.

    While members join again, those that have joined count, not those that are known: so a group that is
    larger than a smaller limit now allows loses the members that come last.
    """
    size_max = group.settings.max_size
    member = group.members.get(member_id)
    # Empty: these are the first members. Dead: `check_alive` refuses the request with its own code.
    if group.is_empty or group.state is ClassicGroupState.DEAD:
        return True
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        # A member that has joined this round keeps its place; the next one is counted against those that have
        # joined.
        waits = member is not None and member.parked_join is not None
        return waits or group.members.joined < size_max
    # Between rebalances every known member counts, and only new ones are refused.
    return member is not None or len(group.members) < size_max


def _join_new_member(group: ClassicGroup, request: JoinRequest, uuid: str) -> JoinAnswer:
    """``classicGroupJoinNewMember`` (``doNewMemberJoinGroup``): the client has no member id yet."""
    instance_id = request.group_instance_id
    member_id = f"{request.client.id if instance_id is None else instance_id}-{uuid}"
    if len(member_id.encode()) > STRING_LENGTH_MAX:
        # No version could carry it, neither to the leader nor into the journal, and the others would get
        # no answer either (Kafka runs into exactly that).
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if instance_id is None and request.requires_known_member_id:
        # KIP-394: the client gets its id first and joins with it. A client that fails in between and tries
        # again would otherwise leave a member behind each time.
        add_pending_member(group, member_id, request.session_timeout_ms)
        return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    if instance_id is not None and instance_id in group.members.static:
        return _replace_static_member(group, instance_id, member_id, request)
    return _add_member(group, member_id, request)


def _join_existing_member(group: ClassicGroup, request: JoinRequest) -> JoinAnswer:
    """``classicGroupJoinExistingMember`` (``doCurrentMemberJoinGroup``)."""
    member_id = request.member_id
    if member_id in group.members.pending:
        if request.group_instance_id is not None:
            # Static members are never asked to come back; Kafka runs into an IllegalStateException.
            return JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, NO_MEMBER)
        return _add_member(group, member_id, request)
    # Neither pending nor new: the id must be a member's (and, if it is static, the current one of its
    # instance).
    member = group.check_member(member_id, request.group_instance_id)
    # A member that says nothing new may only have missed the answer to its last JoinGroup: it gets the
    # generation again. But the leader of a stable group has a reason to join again that its metadata does not
    # show (topics have changed, say), so it gets a rebalance.
    same = member.terms.protocols == request.protocols
    leads = member_id == group.members.leader_id
    if same and (
        group.state is ClassicGroupState.COMPLETING_REBALANCE
        or (group.state is ClassicGroupState.STABLE and not leads)
    ):
        return group.join_result(member)
    # Here the member is in PreparingRebalance, brings other metadata, or leads a stable group: it waits for
    # the next generation.
    group.members.update(member, _terms(request))
    parked: Pending[JoinResult] = Pending()
    replaced = group.members.park_join(member, parked)
    maybe_prepare_rebalance(
        group, f"member {member_id} joins again in {group.state.value}; {_reason(request)}"
    )
    if replaced is not None:
        # Sent again, most likely over a new connection: nothing reads the answer to the first one.
        send([(replaced, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member_id))])
    return parked


def _add_member(group: ClassicGroup, member_id: str, request: JoinRequest) -> JoinAnswer:
    member = ClassicMember(
        member_id, request.group_instance_id, request.client, request.protocol_type, _terms(request)
    )
    parked: Pending[JoinResult] = Pending()
    member.parked_join = parked
    add_member(group, member, f"adding new member {member_id}; {_reason(request)}")
    return parked


# A static member comes back under a new member id and takes its old place (KIP-345, KIP-814)


def _replace_static_member(
    group: ClassicGroup, instance_id: str, member_id: str, request: JoinRequest
) -> JoinAnswer:
    """``updateStaticMemberThenRebalanceOrCompleteJoin`` (``updateStaticMemberAndRebalance``): the process
    that used the old id is fenced.
    """
    # The old terms and the old leader are kept until the new id is written: an append that fails restores
    # them.
    member = group.members[group.members.static[instance_id]]
    _log.info("classic.static_member_returns", group=group.group_id, instance=instance_id, now=member_id)
    old_member_id, old_terms, old_leader_id = member.member_id, member.terms, group.members.leader_id
    fenced = group.refuse_parked(member, ErrorCode.FENCED_INSTANCE_ID, member_id=old_member_id)
    _rename(group, member, member_id)
    group.members.update(member, _terms(request))
    parked: Pending[JoinResult] = Pending()
    group.members.park_join(member, parked)
    member.alive()
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        # The leader may assign to the old id already, and the new one would get nothing.
        prepare_rebalance(group, f"static member {member_id} returns; {_reason(request)}")
    elif group.state is ClassicGroupState.STABLE and group.members.select_protocol() != group.protocol_name:
        prepare_rebalance(group, f"static member {member_id} changes the protocol; {_reason(request)}")
    elif group.state is ClassicGroupState.STABLE:
        # Nothing changes for the others: no rebalance. The new id is written, and the member keeps the
        # assignment that it had. Its JoinGroup is parked meanwhile: if a rebalance begins, the member has
        # joined it already.
        generation_id = group.generation_id

        def stored(done: Pending[ErrorCode]) -> None:
            same_generation = group.state is ClassicGroupState.STABLE and group.generation_id == generation_id
            if member.parked_join is not parked or not same_generation:
                return  # answered with an error meanwhile, or part of a rebalance
            group.members.unpark_join(member)
            code = done.result()
            # The next coordinator would not know the new id: the old one is valid again.
            if code is not ErrorCode.NONE:
                group.members.update(member, old_terms)
                _rename(group, member, old_member_id)
            member.alive()
            send([(parked, _returned(group, member, request, old_leader_id or "", code))])

        store(group, {each.member_id: each.assignment for each in group.members}).when_done(stored)
    send(fenced)
    return parked


def _returned(
    group: ClassicGroup, member: ClassicMember, request: JoinRequest, old_leader_id: str, code: ErrorCode
) -> JoinResult:
    """What a static member that changed nothing is answered."""
    result = group.join_result(member)
    if code is not ErrorCode.NONE:
        return result._replace(error=code, member_id=NO_MEMBER, leader_id=old_leader_id, members=())
    if not request.supports_skipping_assignment:
        # Given the leader's old id, a returning leader does not know that it leads, and assigns nothing:
        # the group is stable and would not listen.
        return result._replace(leader_id=old_leader_id, members=())
    return result._replace(skip_assignment=member.member_id == group.members.leader_id)


def _rename(group: ClassicGroup, member: ClassicMember, new_member_id: str) -> None:
    # The wait for SyncGroups waits for the instance under its new id.
    if member.member_id in group.unsynced:
        group.unsynced.remove(member.member_id)
        group.unsynced.add(new_member_id)
    group.members.replace_static(member, new_member_id)


def _terms(request: JoinRequest) -> MemberTerms:
    return MemberTerms(request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)


def _reason(request: JoinRequest) -> str:
    return f"client reason: {request.reason or 'not provided'}"
