"""``admin.groups``: list, describe and delete consumer groups, remove members; offsets are in `GroupOffsets`.

Each call goes to the groups' coordinators (`ask_coordinators`). A group is first described with
ConsumerGroupDescribe; what that does not know (a classic group, an older broker) with DescribeGroups
(``DescribeConsumerGroupsHandler``).
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.admin.context import error_of
from barnabas.admin.coordinators import Answers, ask_coordinators
from barnabas.admin.group_answers import classic_group, consumer_group, is_for_consumers, listing
from barnabas.admin.group_offsets import GroupOffsets, errors_by_part
from barnabas.admin.group_types import GroupDescription, GroupListing, GroupState, GroupType
from barnabas.client import named
from barnabas.client.cluster import Versions
from barnabas.client.group.membership import REASON_LENGTH_MAX
from barnabas.client.keyed_call import raise_first
from barnabas.client.metadata import Broker
from barnabas.client.retries import Deadline
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.network.errors import DisconnectedError, UnsupportedVersionError
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_LEAVE_BATCHED: Final = (3, LeaveGroupRequest.max_version)
_WITH_STATES: Final = (4, ListGroupsRequest.max_version)
_WITH_TYPES: Final = (5, ListGroupsRequest.max_version)
_DEFAULT_REASON: Final = "member was removed by an admin"
_NOT_MODERN: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""How a coordinator that knows ConsumerGroupDescribe says that a group is none of the new protocol."""


class Groups(GroupOffsets):
    """Consumer groups. Methods named ``try_...`` give an error per part, the others raise the first."""

    async def list(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        of_consumers: bool = True,
        timeout_ms: float | None = None,
    ) -> list[GroupListing]:
        """The groups of all brokers, in no order of its own: those of consumers or all (KIP-1043), only those
        in some states or of some types where given. Raises the first broker's error, UnsupportedVersionError
        where a broker knows no such filter.
        """
        answers = await self.try_list(
            states=states, types=types, of_consumers=of_consumers, timeout_ms=timeout_ms
        )
        return [one for groups in raise_first(answers).values() for one in groups]

    async def try_list(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        of_consumers: bool = True,
        timeout_ms: float | None = None,
    ) -> "dict[int, Sequence[GroupListing] | BarnabasError]":
        """As `list`, by broker, with an error per broker: the groups of the others are there all the same."""
        deadline = self._context.deadline(timeout_ms)
        await self._context.metadata([], deadline)
        request = ListGroupsRequest(
            states_filter=named.names(states, "states"), types_filter=named.names(types, "types")
        )
        versions = _WITH_TYPES if request.types_filter else _WITH_STATES if request.states_filter else None

        async def ask(broker: int) -> "Sequence[GroupListing] | BarnabasError":
            try:
                answer = await self._list_one(broker, request, versions, deadline)
            except BarnabasError as error:
                return error
            return [
                listing(one)
                for one in answer.groups
                if not of_consumers or is_for_consumers(one.protocol_type)
            ]

        brokers = list(self._context.cluster.metadata.brokers)
        return dict(zip(brokers, await asyncio.gather(*map(ask, brokers)), strict=True))

    async def _list_one(
        self, broker: int, request: ListGroupsRequest, versions: Versions | None, deadline: Deadline
    ) -> ListGroupsResponse:
        async def attempt() -> ListGroupsResponse:
            response = await self._context.cluster.send(
                broker, request, ListGroupsResponse, versions=versions
            )
            error = error_of(response.error_code)
            if error is not None:
                raise error
            return response

        failure = f"Broker {broker} did not list its groups"
        return await self._context.cluster.retrying(attempt, deadline, failure)

    async def describe(
        self, groups: named.Names, *, timeout_ms: float | None = None
    ) -> dict[str, GroupDescription]:
        """Members, assignments and states; raises the first error of a group."""
        return raise_first(await self.try_describe(groups, timeout_ms=timeout_ms))

    async def try_describe(
        self, groups: named.Names, *, timeout_ms: float | None = None
    ) -> dict[str, GroupDescription | BarnabasError]:
        """As `describe`, with an error per group: NotAConsumerGroupError, KafkaError, ClientTimeoutError."""
        return await ask_coordinators(self._context, self._describe, groups, timeout_ms)

    async def _describe(self, node: int, groups: Sequence[str]) -> Answers[GroupDescription]:
        results = dict(await self._describe_modern(node, groups))
        classic = [group for group in groups if _is_classic(results.get(group))]
        if classic:
            results.update(await self._describe_classic(node, classic))
        return results

    async def _describe_modern(self, node: int, groups: Sequence[str]) -> Answers[GroupDescription]:
        request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)
        try:
            response = await self._context.cluster.send(node, request, ConsumerGroupDescribeResponse)
        except UnsupportedVersionError:
            return {}
        coordinator = self._broker(node)
        return {
            one.group_id: error_of(one.error_code, one.error_message) or consumer_group(one, coordinator)
            for one in response.groups
        }

    async def _describe_classic(self, node: int, groups: Sequence[str]) -> Answers[GroupDescription]:
        request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)
        response = await self._context.cluster.send(node, request, DescribeGroupsResponse)
        coordinator = self._broker(node)
        return {
            one.group_id: error_of(one.error_code, one.error_message) or classic_group(one, coordinator)
            for one in response.groups
        }

    def _broker(self, node: int) -> Broker:
        """Where the coordinator is. A broker that has just left the metadata is like a lost connection:
        another look-up follows.
        """
        broker = self._context.cluster.metadata.brokers.get(node)
        if broker is None:
            raise DisconnectedError(f"broker {node} is not known any more")
        return broker

    async def delete(self, groups: named.Names, *, timeout_ms: float | None = None) -> None:
        """Deletes empty groups with their offsets; raises the first error of a group."""
        raise_first(await self.try_delete(groups, timeout_ms=timeout_ms))

    async def try_delete(
        self, groups: named.Names, *, timeout_ms: float | None = None
    ) -> dict[str, BarnabasError | None]:
        """As `delete`, with an error per group (say NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""

        async def ask(node: int, members: Sequence[str]) -> Answers[None]:
            request = DeleteGroupsRequest(groups_names=list(members))
            response = await self._context.cluster.send(node, request, DeleteGroupsResponse)
            return {one.group_id: error_of(one.error_code) for one in response.results}

        return await ask_coordinators(self._context, ask, groups, timeout_ms)

    async def remove_members(
        self,
        group: str,
        instance_ids: named.Names | None = None,
        *,
        reason: str = "",
        timeout_ms: float | None = None,
    ) -> None:
        """Makes static members leave, or (None) all members; raises the first error (KIP-345, KIP-800)."""
        raise_first(await self.try_remove_members(group, instance_ids, reason=reason, timeout_ms=timeout_ms))

    async def try_remove_members(
        self,
        group: str,
        instance_ids: named.Names | None = None,
        *,
        reason: str = "",
        timeout_ms: float | None = None,
    ) -> dict[str, BarnabasError | None]:
        """As `remove_members`, with an error per member, by instance id (by member id where it has none)."""
        said = (named.one(reason, str, "a reason is a str") or _DEFAULT_REASON)[:REASON_LENGTH_MAX]
        if instance_ids is None:
            described = await self.describe([group], timeout_ms=timeout_ms)
            members = _identities(described[group], said)
        else:
            members = [
                MemberIdentity(member_id="", group_instance_id=one, reason=said)
                for one in named.names(instance_ids, "static members")
            ]
        request = LeaveGroupRequest(group_id=group, members=members)

        async def ask(node: int, _groups: Sequence[str]) -> Answers[dict[str, ErrorCode]]:
            response = await self._context.cluster.send(
                node, request, LeaveGroupResponse, versions=_LEAVE_BATCHED
            )
            codes = {
                one.group_instance_id or one.member_id: ErrorCode.of(one.error_code)
                for one in response.members
            }
            return {group: error_of(response.error_code) or codes}

        return errors_by_part(await self._ask_one(ask, group, timeout_ms)) if members else {}


def _is_classic(modern: GroupDescription | BarnabasError | None) -> bool:
    """Whether DescribeGroups is to be asked: there was no answer, or no such group in it."""
    return modern is None or (isinstance(modern, KafkaError) and modern.code in _NOT_MODERN)


def _identities(group: GroupDescription, reason: str) -> list[MemberIdentity]:
    return [
        MemberIdentity(
            member_id="" if one.group_instance_id else one.member_id,
            group_instance_id=one.group_instance_id,
            reason=reason,
        )
        for one in group.members
    ]
