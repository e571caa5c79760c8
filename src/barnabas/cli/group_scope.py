"""What the actions of ``barnabas groups`` act on:
topics with partitions, ends of logs, numbers of options.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from barnabas.admin import AsyncAdmin
from barnabas.cli.group_flags import Given, wrong_use
from barnabas.cli.options import INT_MAX, LONG_MAX
from barnabas.client.types import LATEST_TIMESTAMP
from barnabas.core.errors import BarnabasError, KafkaError
from barnabas.core.ids import TopicPartition


class ScriptError(Exception):
    """Ends the command with this text, in the words of Kafka's script."""


def checked_number(given: Given, option: str) -> int:
    """The whole number that an option has; raises ScriptError."""
    text: str = given[option]
    if not re.fullmatch(r"[-+]?[0-9]+", text) or abs(int(text)) > LONG_MAX:
        raise ScriptError(f"Cannot parse argument '{text}' of option {option}")
    return int(text)


def with_partitions(arguments: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """``topic:0,1`` as partitions, and the topics that were given without; ends the command on a bad one."""
    partitions: list[TopicPartition] = []
    topics: list[str] = []
    for argument in arguments:
        if ":" in argument:
            partitions += _partitions(argument)
        else:
            topics.append(argument)
    return partitions, topics


def _partitions(argument: str) -> list[TopicPartition]:
    topic, _, numbers = argument.partition(":")
    if not numbers or ":" in numbers:
        raise wrong_use(f"Invalid topic arg '{argument}', expected topic name and partitions")
    found = []
    for number in numbers.split(","):
        if not re.fullmatch(r"[-+]?[0-9]+", number) or abs(int(number)) > INT_MAX:
            raise wrong_use(f"Invalid partition '{number}' specified in topic arg '{argument}''")
        found.append(TopicPartition(topic, int(number)))
    return found


async def resolve_topics(
    admin: AsyncAdmin, topics: Sequence[str], timeout_ms: int
) -> tuple[list[TopicPartition], Mapping[str, BarnabasError]]:
    """All partitions of these topics, and why others have none."""
    partitions: list[TopicPartition] = []
    missing: dict[str, BarnabasError] = {}
    for topic, result in (await admin.topics.try_describe(topics, timeout_ms=timeout_ms)).items():
        if isinstance(result, BarnabasError):
            missing[topic] = plain(result)
        else:
            partitions += [TopicPartition(topic, one.partition) for one in result.partitions]
    return partitions, missing


async def log_offsets(
    admin: AsyncAdmin, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: int
) -> dict[TopicPartition, int]:
    """The offset of each partition for a time; raises the first error."""
    wanted = dict.fromkeys(partitions, timestamp)
    try:
        found = await admin.offsets.list(wanted, timeout_ms=timeout_ms)
    except KafkaError as error:
        raise plain(error) from error
    return {tp: one.offset for tp, one in found.items()}


async def end_offsets(
    admin: AsyncAdmin, partitions: Iterable[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, int]:
    """Where each partition ends; raises the first error."""
    return await log_offsets(admin, partitions, LATEST_TIMESTAMP, timeout_ms)


def plain(error: BarnabasError) -> BarnabasError:
    """The error in the default words of its code: Kafka's tools print no more than those."""
    return KafkaError(error.code) if isinstance(error, KafkaError) else error
