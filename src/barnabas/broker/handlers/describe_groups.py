"""DescribeGroups (15), v0-6.

Behaviour: state and members of classic groups. An unknown group is Dead.
Versions:  v3 authorized operations (KIP-430) · v4 static members (KIP-345) · v5 flexible ·
           v6 a group that is unknown, or no classic one, is an error that says so (KIP-1043).
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import describe_each
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.states import ClassicGroupState
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

OPERATIONS_SINCE: Final = 3
UNKNOWN_IS_AN_ERROR_SINCE: Final = 6


def _failed(
    request: DescribeGroupsRequest, error: KafkaError, _version: int
) -> Sliced[DescribeGroupsResponse]:
    response = DescribeGroupsResponse()
    for group_id in request.groups:
        response.groups.append(_refused(group_id, error.code))
        yield
    return response


def _refused(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=code)


@handles(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), failed=_failed)
@sliced
def describe_groups(
    context: RequestContext, request: DescribeGroupsRequest
) -> Sliced[DescribeGroupsResponse]:
    coordinator = context.broker.group_coordinator

    def describe(group_id: str) -> Sliced[DescribedGroup]:
        try:
            return (yield from _described(group_id, coordinator.classic_group(group_id)))
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return _unknown(group_id, error, context.version)

    operations = request.include_authorized_operations and context.version >= OPERATIONS_SINCE
    groups = yield from describe_each(context, request.groups, describe, _refused, operations=operations)
    return DescribeGroupsResponse(groups=groups)


def _unknown(group_id: str, error: KafkaError, version: int) -> DescribedGroup:
    described = DescribedGroup(group_id=group_id, group_state=ClassicGroupState.DEAD.value)
    if version >= UNKNOWN_IS_AN_ERROR_SINCE:
        described.error_code, described.error_message = error.code, error.own_message
    return described


def _described(group_id: str, group: ClassicGroup) -> Sliced[DescribedGroup]:
    # The protocol, metadata and assignments are shown only while they are settled.
    protocol = group.protocol_name if group.state is ClassicGroupState.STABLE else None
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=protocol or "",
    )
    # What changes is taken at once, so that all members are of one moment; the rest may take long.
    members = [
        (member, b"" if protocol is None else member.metadata(protocol), member.assignment)
        for member in group.members
    ]
    for member, metadata, assignment in members:
        described.members.append(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client.id,
                client_host=member.client.host,
                member_metadata=metadata,
                member_assignment=b"" if protocol is None else assignment,
            )
        )
        yield
    return described
