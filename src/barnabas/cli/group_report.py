"""The tables of ``barnabas groups``: those of groups are column for column those of kafka-consumer-groups.sh
4.3, plans of resets and what was deleted those of 3.9.

Kafka 3.9 begins each line of such a report with a line break and ends none, and prints the plan of a reset on
one line. So do we into a pipe or a file; on a terminal lines are broken where a reader needs it.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from barnabas.admin import GroupDescription, GroupListing, GroupState, GroupType
from barnabas.cli.printing import printable
from barnabas.core.ids import TopicPartition

MISSING: Final = "-"
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
    leader_epoch: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.offset is None else self.end - self.offset


class UnexpectedStateError(Exception):
    """A group in a state that this version does not know."""


def print_error(message: str) -> None:
    """An error as the script prints it: on standard output, behind an empty line."""
    click.echo(f"\nError: {printable(message)}")


def group_facts(name: str, group: GroupDescription | None) -> dict[str, Any]:
    """A group for ``--json``; of one that is not there the name, and the state Dead."""
    coordinator = group.coordinator if group else None
    return {
        "group_id": name,
        "state": group.state if group else GroupState.DEAD,
        "type": group.type if group else None,
        "assignor": (group.assignor or None) if group else None,
        "coordinator": coordinator,
        "group_epoch": group.group_epoch if group else None,
        "target_assignment_epoch": group.target_assignment_epoch if group else None,
        "members": group.members if group else [],
    }


def offset_facts(row: OffsetRow) -> dict[str, Any]:
    """A partition of a group for ``--json``; member, host and client are null where nobody reads it."""
    facts = {name: None if value == MISSING else value for name, value in row._asdict().items()}
    return {**facts, "lag": row.lag}


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


def print_offsets(rows: Sequence[OffsetRow], *, verbose: bool) -> None:
    """The partitions of a group, with position and lag, and where `verbose` the epoch of the position."""
    columns = [
        ("GROUP", 15, [row.group for row in rows]),
        ("TOPIC", 15, [row.topic for row in rows]),
        ("PARTITION", 10, [str(row.partition) for row in rows]),
        ("LEADER-EPOCH", 15, [_number(row.leader_epoch) for row in rows]),
        ("CURRENT-OFFSET", 15, [_number(row.offset) for row in rows]),
        ("LOG-END-OFFSET", 15, [str(row.end) for row in rows]),
        ("LAG", 15, [_number(row.lag) for row in rows]),
        ("CONSUMER-ID", 15, [row.member_id for row in rows]),
        ("HOST", 15, [row.host for row in rows]),
        ("CLIENT-ID", 0, [row.client_id for row in rows]),
    ]
    if not verbose:
        del columns[3]
    _print_table(columns)


def print_members(group: str, description: GroupDescription | None, *, verbose: bool) -> None:
    """The members of a group, with their epochs and partitions where `verbose`."""
    members = description.members if description else ()
    columns = [
        ("GROUP", 15, [group] * len(members)),
        ("CONSUMER-ID", 15, [one.member_id for one in members]),
        ("GROUP-INSTANCE-ID", 17, [one.group_instance_id or "" for one in members]),
        ("HOST", 15, [one.host for one in members]),
        ("CLIENT-ID", 15, [one.client_id for one in members]),
        ("#PARTITIONS", 15, [str(len(one.assignment)) for one in members]),
    ]
    if not any(one.group_instance_id for one in members):
        del columns[2]
    if verbose:
        target_epoch = _number(description.target_assignment_epoch if description else None)
        columns += [
            ("CURRENT-EPOCH", 15, [_number(one.member_epoch) for one in members]),
            ("CURRENT-ASSIGNMENT", 20, [assignment_text(one.assignment) for one in members]),
            ("TARGET-EPOCH", 15, [target_epoch] * len(members)),
            ("TARGET-ASSIGNMENT", 20, [assignment_text(one.target_assignment or ()) for one in members]),
        ]
        # Only where members of both protocols are in the group.
        if any(one.upgraded is False for one in members):
            columns.append(("UPGRADED", 0, [str(bool(one.upgraded)).lower() for one in members]))
    else:
        # The script ends these lines with a blank.
        columns.append(("", 0, [""] * len(members)))
    _print_table(columns)


def assignment_text(assignment: Iterable[TopicPartition]) -> str:
    """Partitions of a member by topic, as ``orders:0,1;payments:2``."""
    by_topic: dict[str, list[int]] = {}
    for tp in assignment:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    texts = (f"{topic}:{','.join(map(str, sorted(by_topic[topic])))}" for topic in sorted(by_topic))
    return ";".join(texts) or MISSING


def print_state(group: GroupDescription, *, verbose: bool) -> None:
    """Coordinator, assignor, state and number of members of a group, and its epochs where `verbose`."""
    node = group.coordinator
    columns = [
        ("GROUP", 15, [group.group_id]),
        ("COORDINATOR (ID)", 25, [f"{node.host}:{node.port}  ({node.node_id})"]),
        ("ASSIGNMENT-STRATEGY", 20, [group.assignor or MISSING]),
        ("STATE", 20, [str(group.state)]),
        ("GROUP-EPOCH", 15, [_number(group.group_epoch)]),
        ("TARGET-ASSIGNMENT-EPOCH", 25, [_number(group.target_assignment_epoch)]),
        ("#MEMBERS", 0, [str(len(group.members))]),
    ]
    if not verbose:
        del columns[4:6]
    _print_table(columns)


def _number(value: int | None) -> str:
    return MISSING if value is None else str(value)


def _print_table(columns: Sequence[tuple[str, int, Sequence[str]]]) -> None:
    """A table by its columns: the name, the least width, and a cell for each row."""
    widths = [_width(least, cells) if least else 0 for _, least, cells in columns]
    click.echo("\n" + _line(widths, [name for name, _, _ in columns]))
    for cells in zip(*(cells for _, _, cells in columns), strict=True):
        click.echo(_line(widths, cells))


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
