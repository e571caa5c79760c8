"""JoinGroup (11), v0-9.

Behaviour: a member enters the next generation of its group; answered once the whole group has joined.
Versions:  v1 rebalance time-out, which v0 takes from the session's · v4 MEMBER_ID_REQUIRED (KIP-394) ·
           v5 static members (KIP-345) · v6 flexible · v7 protocol type, and null for no protocol ·
           v8 reasons (KIP-800) · v9 a static leader that comes back keeps the assignment (KIP-814).
Not implemented: nothing. More than a thousand protocols are refused, which Kafka allows.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import client_of, require_group
from barnabas.broker.registry import handles
from barnabas.coordinator.classic.members import JoinRequest, JoinResult
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced, in_slices
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

REBALANCE_TIMEOUT_SINCE: Final = 1
MEMBER_ID_REQUIRED_SINCE: Final = 4
NULL_PROTOCOL_SINCE: Final = 7
SKIP_ASSIGNMENT_SINCE: Final = 9

PROTOCOLS_MAX: Final = 1000
"""Clients send one for each of their assignors: one to five.
All are compared each time that a member joins.
"""

NAMELESS: Final = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED})
"""Errors whose answer does not repeat the member's id."""


def _failed(request: JoinGroupRequest, error: KafkaError, version: int) -> JoinGroupResponse:
    member_id = "" if error.code in NAMELESS else request.member_id
    return _response(JoinResult(error.code, member_id), [], version)


def _answered(answer: JoinResult | Pending[JoinResult], version: int) -> Sliced[JoinGroupResponse]:
    """The response; the leader's names all members, of which there may be very many."""
    result = (yield answer) if isinstance(answer, Pending) else answer
    members: list[JoinGroupResponseMember] = []
    for member_id, instance_id, metadata in result.members:
        members.append(
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
        )
        yield
    return _response(result, members, version)


def _response(result: JoinResult, members: list[JoinGroupResponseMember], version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        # A response without a protocol name says null since v7, an empty string before.
        protocol_name=result.protocol_name or (None if version >= NULL_PROTOCOL_SINCE else ""),
        leader=result.leader_id,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=members,
    )


@handles(ApiKey.JOIN_GROUP, versions=(0, 9), failed=_failed)
def join_group(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Pending[JoinGroupResponse]:
    require_group(context, Operation.READ, request.group_id)
    if len(request.protocols) > PROTOCOLS_MAX:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    version = context.version
    # Before v1 there is one time-out for the session and the rebalance.
    two_timeouts = version >= REBALANCE_TIMEOUT_SINCE
    answer = context.broker.group_coordinator.join_group(
        JoinRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            client=client_of(context),
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            rebalance_timeout_ms=request.rebalance_timeout_ms if two_timeouts else request.session_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            reason=request.reason,
            requires_known_member_id=version >= MEMBER_ID_REQUIRED_SINCE,
            supports_skipping_assignment=version >= SKIP_ASSIGNMENT_SINCE,
        )
    )
    return in_slices(_answered(answer, version), context.broker.clock)
