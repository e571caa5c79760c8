"""What ``barnabas reassign-partitions`` does once its flags are understood
(``ReassignPartitionsCommand``).
"""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import click

from barnabas.admin import AsyncAdmin, PartitionReassignment
from barnabas.cli import log_dir_moves
from barnabas.cli.facts import partition_facts, print_facts
from barnabas.cli.java_errors import java_text
from barnabas.cli.options import INT_MAX, ToolError, admin_options, connected_admin
from barnabas.cli.partition_json import (
    BadJsonError,
    ReassignmentPlan,
    format_reassignment,
    parse_reassignment,
    parse_topics,
    text_of,
)
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.operations import reassignment_throttles as throttles
from barnabas.operations.errors import OperationError
from barnabas.operations.java_order import number_order, text_order
from barnabas.operations.reassignment_plan import (
    check_brokers,
    check_targets,
    current_of,
    current_replicas,
    duplicates,
    propose,
    replicas_of,
)

T = TypeVar("T")

Given = Mapping[str, Any]
Moving = Mapping[TopicPartition, PartitionReassignment]

_EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this "
    "and create a new partition assignment in addition to the existing one. The --additional flag can also "
    "be used to change the throttle by resubmitting the current reassignment."
)
_VERIFY_PERIODICALLY: Final = (
    "Warning: You must run --verify periodically, until the reassignment "
    "completes, to ensure the throttle is removed."
)


def run(given: Given) -> None:
    """Runs the one action that was asked for. Raises ToolError with the script's lines."""
    try:
        asyncio.run(_run(given))
    except (BadJsonError, OperationError) as error:
        raise ToolError(f"Error: {error}") from error
    except BarnabasError as error:
        raise ToolError(f"Error: {java_text(error)}") from error


async def _run(given: Given) -> None:
    options = admin_options(given["command-config"], given["bootstrap-server"], "reassign-partitions-tool")
    async with connected_admin(options) as admin:
        if given["verify"]:
            await _verify(admin, _read(given), preserve_throttles=given["preserve-throttles"])
        elif given["generate"]:
            await _generate(admin, given)
        elif given["execute"]:
            await _execute(admin, _read(given), given)
        elif given["cancel"]:
            await _cancel(admin, _read(given), given)
        else:
            await _list(admin, as_json=given["as-json"])


def _read(given: Given) -> ReassignmentPlan:
    return parse_reassignment(text_of(given["reassignment-json-file"]))


# --- verify


async def _verify(admin: AsyncAdmin, plan: ReassignmentPlan, *, preserve_throttles: bool) -> None:
    targets = plan.targets
    moving = await admin.partitions.reassignments()
    click.echo("Status of partition reassignment:")
    described = await admin.topics.try_describe({tp.topic for tp, _ in targets if tp not in moving})
    for tp, replicas in sorted(dict(targets).items()):
        if tp in moving:
            click.echo(f"Reassignment of partition {tp} is still in progress.")
            continue
        current = replicas_of(tp, described[tp.topic])
        if current == replicas:
            click.echo(f"Reassignment of partition {tp} is completed.")
        else:
            click.echo(
                f"There is no active reassignment of partition {tp}, but replica set is {_numbers(current)}"
                f" rather than {_numbers(replicas)}."
            )
    if await log_dir_moves.verify(admin, plan.log_dirs) and not moving and not preserve_throttles:
        await _clear_throttles(admin, targets)


async def _clear_throttles(admin: AsyncAdmin, targets: Iterable[tuple[TopicPartition, list[int]]]) -> None:
    """Removes all throttles: it is no longer known from which brokers the moves were."""
    targets = list(targets)
    alive = [broker.node_id for broker in (await admin.cluster.describe()).brokers]
    brokers = number_order([*alive, *(broker for _, replicas in targets for broker in replicas)])
    click.echo(
        f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {_numbers(brokers)}"
    )
    await throttles.clear_brokers(admin, brokers)
    topics = text_order(tp.topic for tp, _ in targets)
    click.echo(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    await throttles.clear_topics(admin, topics)


# --- generate


async def _generate(admin: AsyncAdmin, given: Given) -> None:
    wanted = _broker_list(given["broker-list"])
    topics = parse_topics(text_of(given["topics-to-move-json-file"]))
    if repeated := duplicates(topics):
        raise OperationError(
            f"List of topics to reassign contains duplicate entries: [{', '.join(repeated)}]"
        )
    current = await current_replicas(admin, topics)
    proposed = await propose(admin, current, wanted, rack_aware=not given["disable-rack-aware"])
    if given["as-json"]:
        print_facts(
            {
                "current": json.loads(format_reassignment(current)),
                "proposed": json.loads(format_reassignment(proposed)),
            }
        )
        return
    click.echo(f"Current partition replica assignment\n{format_reassignment(current)}\n")
    click.echo(f"Proposed partition reassignment configuration\n{format_reassignment(proposed)}")


def _broker_list(text: str) -> list[int]:
    brokers = []
    for each in text.split(","):
        if not re.fullmatch(r"[-+]?[0-9]{1,10}", each) or abs(int(each)) > INT_MAX:
            raise OperationError(f'For input string: "{each}"')
        brokers.append(int(each))
    if repeated := duplicates(brokers):
        raise OperationError(f"Broker list contains duplicate entries: [{', '.join(map(str, repeated))}]")
    return brokers


# --- execute


async def _execute(admin: AsyncAdmin, plan: ReassignmentPlan, given: Given) -> None:
    check_targets(plan.targets)
    wanted = dict(plan.targets)
    moving = await admin.partitions.reassignments()
    if moving and not given["additional"]:
        raise ToolError(_EXISTING)
    await check_brokers(admin, number_order(broker for replicas in wanted.values() for broker in replicas))
    current = await current_of(admin, wanted)
    click.echo(f"Current partition replica assignment\n\n{format_reassignment(current)}\n")
    click.echo("Save this to use as the --reassignment-json-file option during rollback")
    rate, log_dirs_rate = given["throttle"], given["replica-alter-log-dirs-throttle"]
    if rate >= 0 or log_dirs_rate >= 0:
        click.echo(_VERIFY_PERIODICALLY)
    # Before the first byte is copied, so that none is copied too fast.
    if rate >= 0:
        await throttles.throttle(admin, throttles.moves(moving, wanted, current), rate)
        click.echo(f"The inter-broker throttle limit was set to {rate} B/s")
    if log_dirs_rate >= 0:
        await throttles.throttle_log_dirs(admin, {replica.broker for replica in plan.log_dirs}, log_dirs_rate)
        click.echo(f"The replica-alter-dir throttle limit was set to {log_dirs_rate} B/s")
    may_change = not given["disallow-replication-factor-change"]
    begun = await admin.partitions.try_reassign(wanted, allow_replication_factor_change=may_change)
    _raise_together("Error reassigning partition(s):", begun)
    click.echo(f"Successfully started partition reassignment{_s(wanted)} for {_joined(wanted)}")
    await log_dir_moves.begin(admin, plan.log_dirs, given["timeout"])


# --- cancel, list


async def _cancel(admin: AsyncAdmin, plan: ReassignmentPlan, given: Given) -> None:
    moving = await admin.partitions.reassignments(dict.fromkeys(tp for tp, _ in plan.targets))
    if moving:
        failed = await admin.partitions.try_reassign(dict.fromkeys(moving))
        errors = [error for error in failed.values() if error]
        _raise_together(f"Error cancelling partition reassignment{_s(errors)} for:", failed)
        click.echo(f"Successfully cancelled partition reassignment{_s(moving)} for: {_joined(moving)}")
    else:
        click.echo("None of the specified partition reassignments are active.")
    await log_dir_moves.cancel(admin, plan.log_dirs, given["timeout"])
    if not given["preserve-throttles"]:
        await _clear_throttles(admin, plan.targets)


async def _list(admin: AsyncAdmin, *, as_json: bool) -> None:
    moving = await admin.partitions.reassignments()
    if as_json:
        found = [
            partition_facts(tp, replicas=one.replicas, adding=one.adding, removing=one.removing)
            for tp, one in sorted(moving.items())
        ]
        print_facts({"reassignments": found})
        return
    if not moving:
        click.echo("No partition reassignments found.")
        return
    click.echo("Current partition reassignments:")
    for tp, one in sorted(moving.items()):
        adding = f" adding: {_numbers(one.adding)}." if one.adding else ""
        removing = f" removing: {_numbers(one.removing)}." if one.removing else ""
        click.echo(f"{tp}: replicas: {_numbers(one.replicas)}.{adding}{removing}")


# --- words


def _raise_together(title: str, results: Mapping[TopicPartition, BarnabasError | None]) -> None:
    lines = [f"{tp}: {error}" for tp, error in sorted(results.items(), key=lambda each: each[0]) if error]
    if lines:
        raise ToolError("\n".join([title, *lines]))


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))


def _s(several: Any) -> str:
    return "" if len(several) == 1 else "s"


def _numbers(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
