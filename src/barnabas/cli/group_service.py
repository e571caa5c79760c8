"""What ``barnabas groups`` does once its flags are understood
(``ConsumerGroupCommand.ConsumerGroupService``).
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from barnabas.admin import (
    AsyncAdmin,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
)
from barnabas.cli import group_report as report
from barnabas.cli.bootstrap import name_asked
from barnabas.cli.facts import print_facts
from barnabas.cli.group_flags import Given, has, wrong_use
from barnabas.cli.group_reset import PrintedReset, dump_plan
from barnabas.cli.group_scope import (
    ScriptError,
    checked_number,
    with_partitions,
)
from barnabas.cli.java_errors import EXECUTION, java_text
from barnabas.cli.options import admin_options, connected_admin
from barnabas.client.keyed_call import none_where
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations.java_order import partition_order, text_order
from barnabas.operations.log_ends import end_offsets, resolve_topics
from barnabas.operations.offset_reset import RESETTABLE, commit

K = TypeVar("K", GroupState, GroupType)
_STATES: Final = [state for state in GroupState if state is not GroupState.UNKNOWN]
_TYPES: Final = [GroupType.CONSUMER, GroupType.CLASSIC]

_REFUSALS: Final = {
    ErrorCode.INVALID_GROUP_ID: "'{}' is not valid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "'{}' does not exist.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Access to '{}' is not authorized.",
    ErrorCode.NON_EMPTY_GROUP: (
        "Deleting offsets of a consumer group '{}' is forbidden if the group is not empty."
    ),
}
_OF_A_PARTITION: Final = frozenset(
    {
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def run(given: Given) -> None:
    """Runs the one action that was asked for.

    What fails is printed on standard output and does not change the exit code: so does Kafka's script.
    """
    try:
        timeout_ms = checked_number(given, "timeout")
        asyncio.run(_run(given, _options(given), timeout_ms))
    except (ScriptError, report.UnexpectedStateError) as error:
        failure = str(error)
    except BarnabasError as error:
        failure = java_text(error)
    else:
        return
    name_asked(click.get_current_context())
    report.print_error(f"Executing consumer group command failed due to {failure}")


def _options(given: Given) -> dict[str, Any]:
    file = Path(given["command-config"]) if given["command-config"] else None
    if file is not None and not file.is_file():
        raise ScriptError(f"java.nio.file.NoSuchFileException: {file}")
    return admin_options(file, given["bootstrap-server"], "barnabas-groups")


async def _run(given: Given, options: dict[str, Any], timeout_ms: int) -> None:
    async with connected_admin(options, timeout_ms) as admin:
        await GroupService(admin, given, timeout_ms).run()


class GroupService:
    """One run of the command."""

    def __init__(self, admin: AsyncAdmin, given: Given, timeout_ms: int) -> None:
        self._admin = admin
        self._given = given
        self._timeout_ms = timeout_ms

    async def run(self) -> None:
        if has(self._given, "list"):
            await self.list_groups()
        elif has(self._given, "describe"):
            await self.describe_groups()
        elif has(self._given, "delete"):
            await self.delete_groups()
        elif has(self._given, "reset-offsets"):
            await self.reset_offsets()
        else:
            await self.delete_offsets()

    async def list_groups(self) -> None:
        """``--list``: names, or a table when types or states are asked for."""
        with_type, with_state = has(self._given, "type"), has(self._given, "state")
        states = parse_states(self._given["state"] or "")
        listed = await self._listed(states, parse_types(self._given["type"] or ""))
        if self._given["as-json"]:
            print_facts({"groups": listed})
        elif with_type or with_state:
            report.print_listing(listed, with_type=with_type, with_state=with_state)
        else:
            for one in listed:
                click.echo(one.group_id)

    async def _listed(
        self, states: Sequence[GroupState] = (), types: Sequence[GroupType] = ()
    ) -> Sequence[GroupListing]:
        listed = await self._admin.groups.list(states=states, types=types, timeout_ms=self._timeout_ms)
        by_name = {one.group_id: one for one in listed}
        return [by_name[name] for name in text_order(by_name)]

    async def _chosen(self) -> Sequence[str]:
        if has(self._given, "all-groups"):
            return [one.group_id for one in await self._listed()]
        return text_order(self._given["group"])

    async def _described(self, groups: Sequence[str]) -> dict[str, GroupDescription | None]:
        """Groups by name; None for a group that its coordinator does not know.

        Brokers up to 3.9 say so with the state Dead, later ones with an error (KIP-1043).
        """
        found = await self._admin.groups.try_describe(groups, timeout_ms=self._timeout_ms)
        return none_where(ErrorCode.GROUP_ID_NOT_FOUND, found)

    async def describe_groups(self) -> None:
        """``--describe``: offsets, members or the state of each group."""
        groups = dict(sorted((await self._described(await self._chosen())).items()))
        verbose = has(self._given, "verbose")
        if self._given["as-json"]:
            await self._describe_as_json(groups)
        elif has(self._given, "members"):
            for name, group in groups.items():
                members = group.members if group else ()
                report.announce(name, _state(group), len(members))
                report.print_members(name, group, verbose=verbose)
        elif has(self._given, "state"):
            for name, group in groups.items():
                if report.announce(name, _state(group), 1) and group is not None:
                    report.print_state(group, verbose=verbose)
        else:
            await self._describe_offsets(groups, verbose=verbose)

    async def _describe_offsets(
        self, groups: Mapping[str, GroupDescription | None], *, verbose: bool
    ) -> None:
        for name, rows in (await self._offsets(groups)).items():
            if report.announce(name, _state(groups[name]), len(rows)):
                report.print_offsets(rows, verbose=verbose)

    async def _describe_as_json(self, groups: Mapping[str, GroupDescription | None]) -> None:
        """State, members and, unless one of these was asked for, positions of each group."""
        brief = has(self._given, "members") or has(self._given, "state")
        offsets = None if brief else await self._offsets(groups)
        found = []
        for name, group in groups.items():
            rows = None if offsets is None else [report.offset_facts(row) for row in offsets[name]]
            found.append({**report.group_facts(name, group), "offsets": rows})
        print_facts({"groups": found})

    async def _offsets(
        self, groups: Mapping[str, GroupDescription | None]
    ) -> dict[str, list[report.OffsetRow]]:
        committed = await self._admin.groups.offsets(groups, timeout_ms=self._timeout_ms)
        owners = {name: _owners(group, committed[name]) for name, group in groups.items()}
        partitions = {tp for rows in owners.values() for _, members in rows for tp in members}
        ends = await end_offsets(self._admin, partitions, self._timeout_ms)
        found: dict[str, list[report.OffsetRow]] = {}
        for name in groups:
            rows = found[name] = []
            for owner, members in owners[name]:
                for tp in members:
                    position = committed[name].get(tp)
                    offset = None if position is None else position.offset
                    epoch = None if position is None or position.leader_epoch < 0 else position.leader_epoch
                    rows.append(
                        report.OffsetRow(name, tp.topic, tp.partition, offset, ends[tp], *owner, epoch)
                    )
        return found

    async def delete_groups(self) -> None:
        """``--delete``: empty groups, with their offsets."""
        results = await self._admin.groups.try_delete(await self._chosen(), timeout_ms=self._timeout_ms)
        done = text_order(name for name, error in results.items() if error is None)
        failed = {name: error for name, error in results.items() if error is not None}
        if not failed:
            click.echo(f"Deletion of requested consumer groups ('{', '.join(done)}') was successful.")
            return
        report.print_error("Deletion of some consumer groups failed:")
        for name in text_order(failed):
            click.echo(f"* Group '{name}' could not be deleted due to: {EXECUTION}{java_text(failed[name])}")
        if done:
            # The quotes are where Kafka's script puts them.
            quoted = "'".join(done)
            click.echo(f"\nThese consumer groups were deleted successfully: '{quoted}', '")

    async def delete_offsets(self) -> None:
        """``--delete-offsets``: positions of partitions that no member reads."""
        if len(self._given["group"]) > 1:
            raise ScriptError("Found multiple arguments for option group, but you asked for only one")
        (group,) = self._given["group"]
        topics: Sequence[str] = self._given["topic"]
        partitions, plain = with_partitions(topics)
        found, missing = await resolve_topics(self._admin, plain, self._timeout_ms)
        statuses = {TopicPartition(topic, -1): _status(error) for topic, error in missing.items()}
        error, results = await self._forget(group, [*partitions, *found])
        statuses.update({tp: _status(result) for tp, result in results.items()})
        if error is None:
            click.echo(f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group}")
        else:
            report.print_error(_refusal(group, error))
        report.print_deleted(statuses)

    async def _forget(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> tuple[BarnabasError | None, Mapping[TopicPartition, BarnabasError | None]]:
        """The error of the whole (the group's, or the first partition's) and that of each partition."""
        wanted = partition_order(partitions)
        try:
            results = await self._admin.groups.try_delete_offsets(group, wanted, timeout_ms=self._timeout_ms)
        except BarnabasError as error:
            return error, dict.fromkeys(wanted, error)
        return next((error for error in results.values() if error is not None), None), results

    async def reset_offsets(self) -> None:
        """``--reset-offsets``: plans new positions of groups without members, commits them with --execute."""
        planner = PrintedReset(self._admin, self._given, self._timeout_ms)
        plan: dict[str, dict[TopicPartition, int]] = {}
        try:
            for name, group in (await self._described(await self._chosen())).items():
                if _state(group) in RESETTABLE:
                    plan[name] = await planner.plan(name)
                    await self._commit(name, plan[name])
                else:
                    report.print_error(
                        f"Assignments can only be reset if the group '{name}' is inactive, but the current"
                        f" state is {_state(group)}."
                    )
                    plan[name] = {}
        except BarnabasError as error:
            raise ScriptError(EXECUTION + java_text(error)) from error
        if has(self._given, "export"):
            click.echo(dump_plan(plan, single=len(self._given["group"]) == 1))
        else:
            report.print_plan(plan)

    async def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if has(self._given, "execute"):
            await commit(self._admin, group, offsets, self._timeout_ms)


Owner = tuple[str, str, str]
"""Member id, host and client id."""


def _owners(
    group: GroupDescription | None, committed: Mapping[TopicPartition, object]
) -> Sequence[tuple[Owner, Sequence[TopicPartition]]]:
    """Members with their partitions, the busiest first; at the end what is committed and no member reads."""
    busy = [one for one in (group.members if group else ()) if one.assignment]
    busy.sort(key=lambda one: -len(one.assignment))
    owned = {tp for one in busy for tp in one.assignment}
    owners = [((one.member_id, one.host, one.client_id), sorted(one.assignment)) for one in busy]
    unowned = [tp for tp in committed if tp not in owned]
    no_owner = (report.MISSING, report.MISSING, report.MISSING)
    return [*owners, (no_owner, sorted(unowned))] if unowned else owners


def _state(group: GroupDescription | None) -> GroupState:
    return group.state if group else GroupState.DEAD


def _status(error: BarnabasError | None) -> str:
    return "Successful" if error is None else f"Error: :{java_text(error)}"


def _refusal(group: str, error: BarnabasError) -> str:
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    if code in _OF_A_PARTITION:
        return "Encounter some partition level error, see the follow-up details:"
    return _REFUSALS.get(code, f"Encounter some unknown error: {code.name}").format(group)


def parse_states(text: str) -> Sequence[GroupState]:
    """The value of ``--state``; ends the command when it names something else."""
    return _parsed(_STATES, text, "state", "states")


def parse_types(text: str) -> Sequence[GroupType]:
    """The value of ``--type``; ends the command when it names something else."""
    return _parsed(_TYPES, text, "types", "types")


def _parsed(known: Sequence[K], text: str, listed: str, named: str) -> Sequence[K]:
    found = [type(known[0]).parse(name.strip()) for name in text.split(",") if text]
    if not set(found).issubset(known):
        raise wrong_use(f"Invalid {listed} list '{text}'. Valid {named} are: {', '.join(known)}")
    return found
