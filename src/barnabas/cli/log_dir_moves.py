"""Moves between the log directories of a broker, as ``barnabas reassign-partitions`` begins and shows them.

A replica that the reassignment only just gave to a broker is not there yet: its move is asked for again until
it is.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final

import click

from barnabas.admin import AsyncAdmin, ReplicaLogDirInfo, TopicPartitionReplica
from barnabas.cli.java_errors import java_text
from barnabas.cli.options import ToolError
from barnabas.core.errors import ErrorCode, KafkaError

_RETRY_S: Final = 0.1

Targets = Mapping[TopicPartitionReplica, str]


async def begin(admin: AsyncAdmin, targets: Targets, timeout_ms: int) -> None:
    """``executeMoves``: begins these moves, and says which.
    Raises ToolError for one that is refused or does not begin in time.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    pending = dict(targets)
    while pending:
        results = await admin.log_dirs.try_alter_replicas(pending)
        for replica, error in sorted(results.items(), key=lambda each: each[0]):
            if error is None:
                path = pending.pop(replica)
                # The script too has a space at the end of this line.
                click.echo(
                    f"Successfully started moving log directory to {path} for replica"
                    f" {replica.topic}-{replica.partition} with broker {replica.broker} "
                )
            elif not (isinstance(error, KafkaError) and error.code is ErrorCode.REPLICA_NOT_AVAILABLE):
                raise ToolError(f"Error: Failed to alter dir for {replica}\n{java_text(error)}")
        if not pending:
            return
        if time.monotonic() >= deadline:
            raise ToolError(
                f"Timed out before log directory move{'' if len(pending) == 1 else 's'} could be started for:"
                f" {_joined(pending)}"
            )
        await asyncio.sleep(_RETRY_S)


async def verify(admin: AsyncAdmin, targets: Targets) -> bool:
    """Prints how each move stands, an empty line where there are none;
    whether all are over (``LogDirMoveState.done``).
    """
    places = await admin.log_dirs.describe_replicas(targets)
    click.echo("\n".join(_state(replica, places[replica], targets[replica]) for replica in sorted(targets)))
    return all(one.current_log_dir is not None and one.future_log_dir is None for one in places.values())


def _state(replica: TopicPartitionReplica, place: ReplicaLogDirInfo, target: str) -> str:
    partition = f"Partition {replica.topic}-{replica.partition}"
    if place.current_log_dir is None:
        return (
            f"{partition} is not found in any live log dir on broker {replica.broker}."
            " There is likely an offline log directory on the broker."
        )
    if place.future_log_dir == target:
        return f"Reassignment of replica {replica} is still in progress."
    if place.future_log_dir is not None:
        return (
            f"{partition} on broker {replica.broker} is being moved to log dir {place.future_log_dir}"
            f" instead of {target}."
        )
    if place.current_log_dir == target:
        return f"Reassignment of replica {replica} completed successfully."
    return (
        f"{partition} on broker {replica.broker} is not being moved from log dir {place.current_log_dir} "
        f"to {target}."
    )


async def cancel(admin: AsyncAdmin, targets: Targets, timeout_ms: int) -> None:
    """Gives up those of these moves that are under way: their replicas are asked back to where they are."""
    places = await admin.log_dirs.describe_replicas(targets)
    moving = {
        replica: place.current_log_dir
        for replica, place in places.items()
        if place.current_log_dir is not None and place.future_log_dir is not None
    }
    if not moving:
        # The script ends no line here either.
        click.echo("None of the specified partition moves are active.", nl=False)
    await begin(admin, moving, timeout_ms)


def _joined(replicas: Iterable[TopicPartitionReplica]) -> str:
    return ",".join(map(str, sorted(replicas)))
