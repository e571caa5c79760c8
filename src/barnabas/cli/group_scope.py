"""What the actions of ``barnabas groups`` act on:
topics with partitions, ends of logs, numbers of options.
"""

import re
from collections.abc import Iterable

from barnabas.cli.group_flags import Given, wrong_use
from barnabas.cli.options import INT_MAX, LONG_MAX
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
