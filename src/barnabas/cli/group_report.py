"""The tables of ``barnabas groups``, column for column those of kafka-consumer-groups.sh 3.9.

Kafka 3.9 begins each line of a report with a line break and ends none, and prints the plan of a reset on one
line. So do we into a pipe or a file; on a terminal lines are broken where a reader needs it.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import click

from barnabas.admin import GroupDescription, GroupListing, GroupState, GroupType, MemberDescription
from barnabas.cli.options import printable
from barnabas.core.ids import TopicPartition

MISSING: Final = "-"
_OFFSET_HEADER: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
_REBALANCING: Final = frozenset(
    {
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.ASSIGNING,
        GroupState.RECONCILING,
    }
)


class OffsetRow(NamedTuple):
    """One line of ``--describe --offsets``."""

    group: str
    topic: str
    partition: int
    offset: int | None
    end: int
    member_id: str
    host: str
    client_id: str

    @property
    def cells(self) -> Sequence[str]:
        offset = MISSING if self.offset is None else str(self.offset)
        lag = MISSING if self.offset is None else str(self.end - self.offset)
        return (
            self.group,
            self.topic,
            str(self.partition),
            offset,
            str(self.end),
            lag,
            self.member_id,
            self.host,
            self.client_id,
        )


class UnexpectedStateError(Exception):
    """A group in a state that this version does not know."""


def print_error(message: str) -> None:
    """An error as the script prints it: on standard output, behind an empty line."""
    click.echo(f"\nError: {printable(message)}")


def end_report() -> None:
    if sys.stdout.isatty():
        click.echo()


def announce(group: str, state: GroupState, rows: int) -> bool:
    """Says what is to be said about the state; whether there is something to print besides."""
    if state is GroupState.DEAD:
        print_error(f"Consumer group '{group}' does not exist.")
    elif state is GroupState.EMPTY:
        click.echo(f"\nConsumer group '{group}' has no active members.", err=True)
    elif state in _REBALANCING:
        click.echo(f"\nWarning: Consumer group '{group}' is rebalancing.", err=True)
    elif state is not GroupState.STABLE:
        raise UnexpectedStateError(f"Expected a valid consumer group state, but found '{state}'.")
    return state is not GroupState.DEAD and rows > 0


def print_listing(groups: Sequence[GroupListing], *, with_type: bool, with_state: bool) -> None:
    """Groups with their types and states."""
    width = max([15, *(len(one.group_id) for one in groups)]) + 10
    widths = [width, *[20] * (with_type + with_state)]
    rows = [_listed(one.group_id, one.type, one.state) for one in groups]
    for group, kind, state in [("GROUP", "TYPE", "STATE"), *rows]:
        cells = [group, *([kind] if with_type else []), *([state] if with_state else [])]
        click.echo(_line(widths, cells))


def _listed(group: str, kind: GroupType | None, state: GroupState | None) -> tuple[str, str, str]:
    return group, kind or GroupType.UNKNOWN, state or GroupState.UNKNOWN


def print_offsets(rows: Sequence[OffsetRow]) -> None:
    """The partitions of a group, with position and lag."""
    widths = [
        _width(15, (row.group for row in rows)),
        _width(15, (row.topic for row in rows)),
        10,
        15,
        15,
        15,
        _width(15, (row.member_id for row in rows)),
        _width(15, (row.host for row in rows)),
        0,
    ]
    for cells in [_OFFSET_HEADER, *(row.cells for row in rows)]:
        click.echo("\n" + _line(widths, cells), nl=False)
    end_report()


def print_members(group: str, members: Sequence[MemberDescription], *, verbose: bool) -> None:
    """The members of a group, with their partitions where `verbose`."""
    with_instance = any(one.group_instance_id for one in members)
    columns = [
        ("GROUP", 15, [group] * len(members)),
        ("CONSUMER-ID", 15, [one.member_id for one in members]),
        ("GROUP-INSTANCE-ID", 17, [one.group_instance_id or "" for one in members]),
        ("HOST", 15, [one.host for one in members]),
        ("CLIENT-ID", 15, [one.client_id for one in members]),
        ("#PARTITIONS", 15, [str(len(one.assignment)) for one in members]),
    ]
    if not with_instance:
        del columns[2]
    widths = [_width(least, cells) for _, least, cells in columns]
    click.echo("\n" + _line(widths, [name for name, _, _ in columns]) + (" ASSIGNMENT" if verbose else " "))
    for number, member in enumerate(members):
        shown = assignment_text(member.assignment) if verbose else ""
        click.echo(f"{_line(widths, [cells[number] for _, _, cells in columns])} {shown}")


def assignment_text(assignment: Iterable[TopicPartition]) -> str:
    """Partitions of a member: numbers by topic, sorted as texts, without the topics' names (as 3.9
    prints).
    """
    by_topic: dict[str, list[str]] = {}
    for tp in assignment:
        by_topic.setdefault(tp.topic, []).append(str(tp.partition))
    return ", ".join(sorted(f"({','.join(sorted(numbers))})" for numbers in by_topic.values())) or MISSING


def print_state(group: GroupDescription) -> None:
    """Coordinator, assignor, state and number of members of a group."""
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.node_id})"
    widths = [max(25, len(coordinator)), 25, 20, 15, 0]
    header = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    cells = (group.group_id, coordinator, group.assignor, group.state, str(len(group.members)))
    click.echo(f"\n{_line(widths, header)}\n{_line(widths, cells)}")


def print_plan(plan: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    widths = (30, 30, 10, 15)
    if plan:
        _print_cells(widths, ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), first=True)
    for group, offsets in plan.items():
        for tp, offset in offsets.items():
            _print_cells(widths, (group, tp.topic, str(tp.partition), str(offset)))
    end_report()


def print_deleted(statuses: Mapping[TopicPartition, str]) -> None:
    """What became of each partition's offset; partition -1 stands for a topic that is not there."""
    widths = (30, 15, 15)
    _print_cells(widths, ("TOPIC", "PARTITION", "STATUS"), first=True)
    for tp, status in sorted(statuses.items(), key=lambda item: f"{item[0].topic}{item[0].partition}"):
        number = str(tp.partition) if tp.partition >= 0 else "Not Provided"
        _print_cells(widths, (tp.topic, number, status))
    end_report()


def _print_cells(widths: Sequence[int], cells: Sequence[str], *, first: bool = False) -> None:
    start = "\n" if first or sys.stdout.isatty() else ""
    click.echo(start + _line(widths, cells), nl=False)


def _line(widths: Sequence[int], cells: Sequence[str]) -> str:
    return " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))


def _width(least: int, cells: Iterable[str]) -> int:
    return max([least, *map(len, cells)])
