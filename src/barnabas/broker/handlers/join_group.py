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
from barnabas.broker.group_requests import afterwards, client_of, require_group
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

REBALANCE_TIMEOUT_SINCE: Final = 1
NULL_PROTOCOL_SINCE: Final = 7

PROTOCOLS_MAX: Final = 1000
"""Clients bring as many as they have assignors: one to five. They are looked through each time that one joins."""

NAMELESS: Final = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED})
"""Errors whose answer does not repeat the member's id."""


def _failed(request: JoinGroupRequest, error: KafkaError, version: int) -> JoinGroupResponse:
    member_id = "" if error.code in NAMELESS else request.member_id
    return _shaped(JoinGroupResponse(error_code=error.code, member_id=member_id), version)


def _shaped(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    # One that has no protocol says so with null, or before v7 with an empty name.
    response.protocol_name = response.protocol_name or (None if version >= NULL_PROTOCOL_SINCE else "")
    return response


@handles(ApiKey.JOIN_GROUP, versions=(0, 9), failed=_failed)
def join_group(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Pending[JoinGroupResponse]:
    """Makes the client a member, or takes it along into the next generation."""
    require_group(context, Operation.READ, request.group_id)
    if len(request.protocols) > PROTOCOLS_MAX:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    version = context.version
    if version < REBALANCE_TIMEOUT_SINCE:
        request.rebalance_timeout_ms = request.session_timeout_ms
    answer = context.broker.group_coordinator.join_group(client_of(context), request, version)
    return afterwards(answer, lambda response: _shaped(response, version))
