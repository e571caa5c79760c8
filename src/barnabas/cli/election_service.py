"""What ``barnabas leader-election`` does once its flags are understood (``LeaderElectionCommand``)."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from barnabas.admin import ElectionType
from barnabas.cli.java_errors import EXECUTION, java_text
from barnabas.cli.options import HALF_A_MINUTE, INT_MAX, ToolError, admin_options, connected_admin
from barnabas.cli.partition_json import BadJsonError, parse_election, text_of
from barnabas.client.errors import ClientTimeoutError
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations.java_order import partition_order

_TIMED_OUT: Final = "Timeout waiting for election results"
_REFUSED: Final = "Not authorized to perform leader election"

Results = Mapping[TopicPartition, BarnabasError | None]


def run(given: Mapping[str, Any]) -> None:
    """Holds the elections and prints what became of them. Raises ToolError with the script's lines."""
    kind = ElectionType[given["election-type"].upper()]
    try:
        results = asyncio.run(_elect(given, kind, _partitions(given)))
    except BadJsonError as error:
        raise ToolError(str(error)) from error
    except ClientTimeoutError as error:
        click.echo(_TIMED_OUT)
        raise ToolError(_TIMED_OUT) from error
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            click.echo(_REFUSED)
            raise ToolError(_REFUSED) from error
        raise ToolError(EXECUTION + java_text(error)) from error
    _report(kind, results)


def _partitions(given: Mapping[str, Any]) -> list[TopicPartition] | None:
    """The partitions that were asked for; None for all that need a leader."""
    if given["path-to-json-file"] is not None:
        return parse_election(text_of(given["path-to-json-file"]))
    if given["topic"] is None:
        return None
    if abs(given["partition"]) > INT_MAX:
        raise ToolError(f"Cannot parse argument '{given['partition']}' of option partition")
    return [TopicPartition(given["topic"], given["partition"])]


async def _elect(
    given: Mapping[str, Any], kind: ElectionType, partitions: Iterable[TopicPartition] | None
) -> Results:
    options = admin_options(given["command-config"], given["bootstrap-server"], "barnabas-leader-election")
    async with connected_admin({**HALF_A_MINUTE, **options}) as admin:
        return await admin.partitions.try_elect_leaders(partitions, kind)


def _report(kind: ElectionType, results: Results) -> None:
    def those(wanted: Any) -> list[TopicPartition]:
        return partition_order(tp for tp in partition_order(results) if wanted(results[tp]))

    elected = those(lambda error: error is None)
    if elected:
        click.echo(f"Successfully completed leader election ({kind.name}) for partitions {_joined(elected)}")
    there = those(_is_not_needed)
    if there:
        click.echo(f"Valid replica already elected for partitions {_joined(there)}")
    failed = those(lambda error: error is not None and not _is_not_needed(error))
    for tp in failed:
        error = results[tp]
        assert error is not None
        click.echo(f"Error completing leader election ({kind.name}) for partition: {tp}: {java_text(error)}")
    if failed:
        raise ToolError(f"{len(failed)} replica(s) could not be elected")


def _is_not_needed(error: BarnabasError | None) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.ELECTION_NOT_NEEDED


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
