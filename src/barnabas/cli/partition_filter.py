"""Which partitions and which offset ``barnabas get-offsets`` is asked about (``GetOffsetShell``, KIP-635)."""

import re
from collections.abc import Callable, Sequence
from typing import Final

import click

from barnabas.cli.options import INT_MAX, LONG_MAX, TopicFilter
from barnabas.client.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)

_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_TIMES: Final = {
    "latest": LATEST_TIMESTAMP,
    "earliest": EARLIEST_TIMESTAMP,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL_TIMESTAMP,
    "latest-tiered": LATEST_TIERED_TIMESTAMP,
}

Rule = tuple[TopicFilter, Callable[[int], bool]]


class PartitionFilter:
    """Partitions that any of the rules allows."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules

    def allows(self, topic: str, partition: int) -> bool:
        return any(topics.allows(topic) and partitions(partition) for topics, partitions in self._rules)


def partition_filter(
    topic_partitions: str | None, topic: str | None, partitions: str | None
) -> PartitionFilter:
    """The filter that the three options describe; raises ClickException in the words of Kafka's script."""
    if topic_partitions is not None:
        return PartitionFilter([_rule(text) for text in topic_partitions.split(",")])
    numbers = _numbers(partitions)
    topics = TopicFilter(".*" if topic is None else topic)
    return PartitionFilter([(topics, lambda number: not numbers or number in numbers)])


def _numbers(text: str | None) -> frozenset[int]:
    try:
        return frozenset(int(number) for number in text.split(",")) if text else frozenset()
    except ValueError:
        raise click.ClickException(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from None


def _rule(text: str) -> Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        # The script wraps this one in another exception, and prints it so; scripts may look for that text.
        raise click.ClickException(
            f"org.apache.kafka.tools.TerseException: Invalid rule specification: {text}"
        )
    topic, one, low, high = match.groups()
    topics = TopicFilter(topic or ".*")
    if one:
        return topics, int(one).__eq__
    start, stop = int(low or 0), int(high or INT_MAX)
    return topics, lambda number: start <= number < stop


def parse_offset_time(text: str) -> int:
    """The timestamp of ``--time``; raises ClickException."""
    if text in _TIMES:
        return _TIMES[text]
    if re.fullmatch(r"[-+]?[0-9]+", text) and -LONG_MAX <= int(text) <= LONG_MAX:
        return int(text)
    raise click.ClickException(
        f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp"
        " / -4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
    )
