"""Where ``barnabas groups --reset-offsets`` puts a group: one method for each of the eight specifications."""

import csv
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from barnabas.admin import AsyncAdmin
from barnabas.cli.group_flags import SCENARIOS, Given, has, wrong_use
from barnabas.cli.group_report import print_error
from barnabas.cli.group_scope import (
    ScriptError,
    checked_number,
    end_offsets,
    log_offsets,
    resolve_topics,
    with_partitions,
)
from barnabas.cli.java_order import copied, grown, partition_order
from barnabas.cli.java_time import parse_datetime_ms, parse_duration_ms
from barnabas.client.types import EARLIEST_TIMESTAMP, OffsetAndMetadata
from barnabas.core.ids import TopicPartition

Positions = dict[TopicPartition, int]

# What Jackson's CSV writer quotes: texts longer than this, and those with a character up to the comma.
_UNQUOTED_MAX: Final = 24
_COMMA: Final = ord(",")


class ResetPlanner:
    """Plans new positions; changes nothing."""

    def __init__(self, admin: AsyncAdmin, given: Given, timeout_ms: int) -> None:
        self._admin = admin
        self._given = given
        self._timeout_ms = timeout_ms

    async def plan(self, group: str) -> Positions:
        """The group's new positions, in the order that Kafka's script prints them in."""
        partitions = await self._scope(group)
        scenarios: Mapping[str, Callable[[str, Sequence[TopicPartition]], Awaitable[Positions]]] = {
            "to-offset": self._to_offset,
            "to-earliest": self._to_earliest,
            "to-latest": self._to_latest,
            "shift-by": self._shift_by,
            "to-datetime": self._to_datetime,
            "by-duration": self._by_duration,
            "from-file": self._from_file,
            "to-current": self._to_current,
        }
        for option, scenario in scenarios.items():
            if has(self._given, option):
                return await scenario(group, partitions)
        named = ", ".join(f"[{option}]" for option in SCENARIOS)
        raise wrong_use(f"Option '[reset-offsets]' requires one of the following scenarios: [{named}]")

    async def _scope(self, group: str) -> Sequence[TopicPartition]:
        if has(self._given, "all-topics"):
            # Also partitions whose position is below zero, and so none to commit: Java's map has them as
            # null.
            return partition_order(await self._positions(group))
        if has(self._given, "topic"):
            partitions, topics = with_partitions(self._given["topic"])
            found, missing = await resolve_topics(self._admin, topics, self._timeout_ms)
            for error in missing.values():
                raise error
            return [*partitions, *found]
        if not has(self._given, "from-file"):
            raise wrong_use("One of the reset scopes should be defined: --all-topics, --topic.")
        return ()

    async def _positions(self, group: str) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        return (await self._admin.groups.offsets([group], timeout_ms=self._timeout_ms))[group]

    async def _committed(self, group: str) -> Positions:
        return {tp: one.offset for tp, one in (await self._positions(group)).items() if one is not None}

    async def _to_offset(self, _group: str, partitions: Sequence[TopicPartition]) -> Positions:
        return await self._within_log(dict.fromkeys(partitions, checked_number(self._given, "to-offset")))

    async def _to_earliest(self, _group: str, partitions: Sequence[TopicPartition]) -> Positions:
        return _ordered(await log_offsets(self._admin, partitions, EARLIEST_TIMESTAMP, self._timeout_ms))

    async def _to_latest(self, _group: str, partitions: Sequence[TopicPartition]) -> Positions:
        return _ordered(await end_offsets(self._admin, partitions, self._timeout_ms))

    async def _shift_by(self, group: str, partitions: Sequence[TopicPartition]) -> Positions:
        committed = await self._committed(group)
        shift = checked_number(self._given, "shift-by") if partitions else 0
        for tp in partitions:
            if tp not in committed:
                raise wrong_use(
                    f"Cannot shift offset for partition {tp} since there is no current committed offset"
                )
        return await self._within_log({tp: committed[tp] + shift for tp in partitions})

    async def _to_datetime(self, _group: str, partitions: Sequence[TopicPartition]) -> Positions:
        return await self._at_time(_parsed(parse_datetime_ms, self._given["to-datetime"]), partitions)

    async def _by_duration(self, _group: str, partitions: Sequence[TopicPartition]) -> Positions:
        duration_ms = _parsed(parse_duration_ms, self._given["by-duration"])
        return await self._at_time(time.time_ns() // 1_000_000 - duration_ms, partitions)

    async def _at_time(self, timestamp_ms: int, partitions: Sequence[TopicPartition]) -> Positions:
        found = await log_offsets(self._admin, partitions, timestamp_ms, self._timeout_ms)
        late = partition_order(tp for tp, offset in found.items() if offset < 0)
        for tp in late:
            click.echo(
                f"\nWarn: Partition {tp.partition} from topic {tp.topic} is empty. Falling back to latest "
                "known offset."
            )
        found.update(await end_offsets(self._admin, late, self._timeout_ms))
        return _ordered(found)

    async def _from_file(self, group: str, _partitions: Sequence[TopicPartition]) -> Positions:
        chosen: Sequence[str] = self._given["group"]
        plan = read_plan(self._given["from-file"], chosen[0] if len(chosen) == 1 else None)
        if group not in plan:
            print_error(f"No reset plan for group {group} found")
            return {}
        return await self._within_log(plan[group])

    async def _to_current(self, group: str, partitions: Sequence[TopicPartition]) -> Positions:
        committed = await self._committed(group)
        current = {tp: committed[tp] for tp in partitions if tp in committed}
        missing = [tp for tp in partitions if tp not in committed]
        positions = current | await end_offsets(self._admin, missing, self._timeout_ms)
        # Kafka's script copies the one map into the other, which decides the order when the other is empty.
        buckets = grown(len(positions)) if current or not missing else copied(len(missing))
        return {tp: positions[tp] for tp in partition_order(positions, buckets)}

    async def _within_log(self, wanted: Positions) -> Positions:
        """Positions, each moved to the begin or the end of its log where it is outside; says so."""
        starts = await log_offsets(self._admin, wanted, EARLIEST_TIMESTAMP, self._timeout_ms)
        ends = await end_offsets(self._admin, wanted, self._timeout_ms)
        return {tp: _moved(tp, wanted[tp], starts[tp], ends[tp]) for tp in partition_order(wanted)}


def _moved(tp: TopicPartition, offset: int, start: int, end: int) -> int:
    if start <= offset <= end:
        return offset
    nearest = end if offset > end else start
    relation = "higher than latest" if offset > end else "lower than earliest"
    click.echo(
        f"WARN New offset ({offset}) is {relation} offset for topic partition {tp}. Value will be set to "
        f"{nearest}",
        err=True,
    )
    return nearest


def _ordered(positions: Positions) -> Positions:
    return {tp: positions[tp] for tp in partition_order(positions)}


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
