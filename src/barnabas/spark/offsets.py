"""Offsets as the connector writes them in options and checkpoints: ``{"topic": {"0": 23, "1": -1}}``.

Where to begin and where to end is an `OffsetSpec`; a place in every partition is `Positions`.

Theory of operation of a checkpoint
-----------------------------------
Spark writes only the END of a batch to its write-ahead log, and asks for the initial offset twice in the
first batch and again after every restart before that batch was committed. Had "latest" been resolved there,
records between two askings would be skipped without a word. So the initial offset is a constant, `UNRESOLVED`;
it is resolved once, when the first batch is planned, and its end carries the resolved start with it under
``@from`` (no topic can have that name). A replay finds it there.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import OptionError

Positions: TypeAlias = dict[TopicPartition, int]
StreamOffset: TypeAlias = dict[str, dict[str, Any]]

EARLIEST: Final = -2
LATEST: Final = -1

UNRESOLVED: Final[StreamOffset] = {}
_FROM: Final = "@from"

_PARTITIONS_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[0,1]}'
_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE: Final = (
    '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
)


class SpecKind(Enum):
    """How offsets were asked for."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offset"
    TIMESTAMP = "timestamp"
    """One time for all partitions."""
    TIMESTAMPS = "timestamps"
    """A time for each partition."""


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Where to begin, or to end, in words that only the brokers can turn into offsets."""

    kind: SpecKind
    values: Positions = field(default_factory=dict)
    """Offsets (-2 earliest, -1 latest) or timestamps in ms, by partition."""
    timestamp: int = 0
    no_match_is_latest: bool = False
    """``startingOffsetsByTimestampStrategy`` = latest: what a time behind the last record means."""


def parse_partitions(text: str) -> list[TopicPartition]:
    """The partitions of the option ``assign``. Raises OptionError."""
    try:
        found = [
            TopicPartition(topic, int(number))
            for topic, numbers in json.loads(text).items()
            for number in numbers
        ]
    except (ValueError, TypeError, AttributeError):
        raise OptionError(f"Expected e.g. {_PARTITIONS_EXAMPLE}, got {text}") from None
    return found


def parse_positions(text: str) -> Positions:
    """Offsets by partition, as in ``startingOffsets``. Raises OptionError."""
    return _parse(text, _OFFSETS_EXAMPLE)


def parse_timestamps(text: str) -> Positions:
    """Timestamps by partition, as in ``startingOffsetsByTimestamp``. Raises OptionError."""
    return _parse(text, _TIMES_EXAMPLE)


def _parse(text: str, example: str) -> Positions:
    try:
        return from_nested(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise OptionError(f"Expected e.g. {example}, got {text}") from None


def from_nested(nested: Mapping[str, Mapping[str, int]]) -> Positions:
    """Positions from the form of the JSON."""
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, numbers in nested.items()
        for number, offset in numbers.items()
    }


def to_nested(positions: Mapping[TopicPartition, int]) -> StreamOffset:
    """The form of the JSON, sorted, so that equal positions are equal texts (Spark compares texts)."""
    nested: StreamOffset = {}
    for tp in sorted(positions):
        nested.setdefault(tp.topic, {})[str(tp.partition)] = positions[tp]
    return nested


def first_offset(start: Positions, end: Positions) -> StreamOffset:
    """The end of a query's first batch, which remembers where the batch began."""
    return {**to_nested(end), _FROM: to_nested(start)}


def positions_of(offset: StreamOffset) -> Positions:
    """The positions in an offset that `latestOffset` returned."""
    return from_nested({topic: numbers for topic, numbers in offset.items() if topic != _FROM})


def start_of(start: StreamOffset, end: StreamOffset) -> Positions:
    """Where the batch from `start` to `end` begins, also when it is the first one of the query."""
    return positions_of(start) if start != UNRESOLVED else from_nested(end.get(_FROM, {}))


def describe(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for a message, as Scala prints a set of them."""
    return "{" + ",".join(map(str, sorted(partitions))) + "}"
