"""Where ``barnabas groups --reset-offsets`` puts a group: the eight specifications, in the script's words."""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from barnabas.admin import AsyncAdmin
from barnabas.cli.group_flags import SCENARIOS, Given, has, wrong_use
from barnabas.cli.group_report import print_error
from barnabas.cli.group_scope import ScriptError, checked_number, with_partitions
from barnabas.cli.java_time import parse_datetime_ms, parse_duration_ms
from barnabas.core.ids import TopicPartition
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError
from barnabas.operations.java_order import copied, grown, partition_order
from barnabas.operations.log_ends import resolve_topics
from barnabas.operations.offset_reset import ResetPlan, ResetPlanner

Positions = dict[TopicPartition, int]

# What Jackson's CSV writer quotes: texts longer than this, and those with a character up to the comma.
_UNQUOTED_MAX: Final = 24
_COMMA: Final = ord(",")


class PrintedReset:
    """The plan of one run of the command, in the script's order, with its warnings; changes nothing."""

    def __init__(self, admin: AsyncAdmin, given: Given, timeout_ms: int) -> None:
        self._admin = admin
        self._given = given
        self._timeout_ms = timeout_ms
        self._planner = ResetPlanner(admin, timeout_ms)

    async def plan(self, group: str) -> Positions:
        """The group's new positions, in the order that Kafka's script prints them in."""
        partitions = await self._scope(group)
        try:
            plan = await self._planned(group, partitions)
        except OperationError as error:
            raise wrong_use(str(error)) from error
        if plan is None:
            return {}
        self._warn(plan)
        buckets = grown(len(plan.positions))
        if plan.uncommitted and len(plan.uncommitted) == len(plan.positions):
            # Kafka's script copies the one map into the other, which decides the order when the other is
            # empty.
            buckets = copied(len(plan.uncommitted))
        return {tp: plan.positions[tp] for tp in partition_order(plan.positions, buckets)}

    async def _planned(self, group: str, partitions: Sequence[TopicPartition]) -> ResetPlan | None:
        """None for a group that the file of positions does not name."""
        given, planner = self._given, self._planner
        if has(given, "to-offset"):
            return await planner.to_positions(dict.fromkeys(partitions, checked_number(given, "to-offset")))
        if has(given, "to-earliest"):
            return await planner.to_earliest(partitions)
        if has(given, "to-latest"):
            return await planner.to_latest(partitions)
        if has(given, "shift-by"):
            shift = checked_number(given, "shift-by") if partitions else 0
            return await planner.shift_by(group, partitions, shift)
        if has(given, "to-datetime"):
            return await planner.to_time(partitions, _parsed(parse_datetime_ms, given["to-datetime"]))
        if has(given, "by-duration"):
            duration_ms = _parsed(parse_duration_ms, given["by-duration"])
            return await planner.to_time(partitions, now_ms() - duration_ms)
        if has(given, "from-file"):
            return await self._from_file(group)
        if has(given, "to-current"):
            return await planner.to_current(group, partitions)
        named = ", ".join(f"[{option}]" for option in SCENARIOS)
        raise wrong_use(f"Option '[reset-offsets]' requires one of the following scenarios: [{named}]")

    async def _scope(self, group: str) -> Sequence[TopicPartition]:
        if has(self._given, "all-topics"):
            # Also partitions whose position is below zero, and so none to commit: Java's map has them as
            # null.
            return partition_order(await self._planner.committed(group))
        if has(self._given, "topic"):
            partitions, topics = with_partitions(self._given["topic"])
            found, missing = await resolve_topics(self._admin, topics, self._timeout_ms)
            for error in missing.values():
                raise error
            return [*partitions, *found]
        if not has(self._given, "from-file"):
            raise wrong_use("One of the reset scopes should be defined: --all-topics, --topic.")
        return ()

    async def _from_file(self, group: str) -> ResetPlan | None:
        chosen: Sequence[str] = self._given["group"]
        plan = read_plan(self._given["from-file"], chosen[0] if len(chosen) == 1 else None)
        if group not in plan:
            print_error(f"No reset plan for group {group} found")
            return None
        return await self._planner.to_positions(plan[group])

    @staticmethod
    def _warn(plan: ResetPlan) -> None:
        for tp in partition_order(plan.at_end):
            click.echo(
                f"\nWarn: Partition {tp.partition} from topic {tp.topic} is empty. Falling back to latest "
                "known offset."
            )
        for tp in partition_order(plan.positions):
            if tp in plan.moved:
                wanted, offset = plan.moved[tp], plan.positions[tp]
                relation = "higher than latest" if wanted > offset else "lower than earliest"
                click.echo(
                    f"WARN New offset ({wanted}) is {relation} offset for topic partition {tp}. Value will be"
                    f" set to {offset}",
                    err=True,
                )


def _parsed(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise ScriptError(str(error)) from error


def read_plan(path: str, group: str | None) -> dict[str, Positions]:
    """Positions by group from a file of ``topic,partition,offset`` (of `group`) or
    ``group,topic,partition,offset``.

    Raises ScriptError.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        raise ScriptError(f"java.io.IOException: Unable to read file {path}") from None
    rows = [row for row in csv.reader(text.splitlines()) if row]
    if group is not None and rows and len(rows[0]) == 3:
        rows = [[group, *row] for row in rows]
    plan: dict[str, Positions] = {}
    for row in rows:
        name, tp, offset = _plan_row(row, path)
        plan.setdefault(name, {})[tp] = offset
    return plan


def _plan_row(row: Sequence[str], path: str) -> tuple[str, TopicPartition, int]:
    if len(row) != 4 or not all(re.fullmatch(r"-?[0-9]+", number.strip()) for number in row[2:]):
        raise ScriptError(f"java.io.IOException: {path} has a line that is no position: {','.join(row)}")
    group, topic, partition, offset = row
    return group, TopicPartition(topic, int(partition)), int(offset)


def dump_plan(plan: Mapping[str, Mapping[TopicPartition, int]], *, single: bool) -> str:
    """A plan as `read_plan` reads it, without the group's name when there is a single one."""
    return "".join(
        ",".join([*([] if single else [_quoted(group)]), _quoted(tp.topic), str(tp.partition), str(offset)])
        + "\n"
        for group, offsets in plan.items()
        for tp, offset in offsets.items()
    )


def _quoted(text: str) -> str:
    if len(text) <= _UNQUOTED_MAX and all(ord(character) > _COMMA for character in text):
        return text
    return '"' + text.replace('"', '""') + '"'
