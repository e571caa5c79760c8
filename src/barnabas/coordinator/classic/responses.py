"""The answers to JoinGroup and SyncGroup, with what their versions may leave null (``JoinGroupResult``)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending
from barnabas.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.coordinator.classic.group import ClassicGroup
    from barnabas.coordinator.classic.member import ClassicMember

NO_GENERATION: Final = -1
NULLABLE_PROTOCOL_NAME: Final = 7
"""Before this version a JoinGroupResponse says "" where there is no protocol."""


Answers: TypeAlias = list[tuple[Pending[Any], JoinGroupResponse | SyncGroupResponse]]
"""Parked requests with what they are to be told."""


def send(answers: Answers) -> None:
    """Answers the requests. Only ever done when the group is at rest: whoever gets an answer may have his
    next request waiting, which is then handled before this returns.
    """
    for parked, response in answers:
        parked.complete(response)


def failed_join(member_id: str, code: ErrorCode, version: int) -> JoinGroupResponse:
    """A refusal, with the member id that the client shall go on with."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=NO_GENERATION,
        protocol_name=None if version >= NULLABLE_PROTOCOL_NAME else "",
        member_id=member_id,
    )


def joined(
    group: "ClassicGroup",
    member_id: str,
    version: int,
    *,
    leader: str | None = None,
    members: Iterable[JoinGroupResponseMember] = (),
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The current generation; its leader unless another is to be named."""
    name = group.protocol_name
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=name if name or version >= NULLABLE_PROTOCOL_NAME else "",
        leader=leader if leader is not None else group.members.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=list(members),
    )


def generation_for(group: "ClassicGroup", member: "ClassicMember", version: int) -> JoinGroupResponse:
    """The current generation, as a member that takes part in it learns of it: the leader sees everybody."""
    leads = group.members.leader_id == member.member_id
    everybody = [each.as_joined(group.protocol_name) for each in group.members] if leads else ()
    return joined(group, member.member_id, version, members=everybody)


def failed_sync(code: ErrorCode) -> SyncGroupResponse:
    """A refusal of a SyncGroup that was parked."""
    return SyncGroupResponse(error_code=code)


def synced(group: "ClassicGroup", assignment: bytes) -> SyncGroupResponse:
    """A member's part of the assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )
