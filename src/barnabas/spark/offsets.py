r"""Offsets as the connector writes them in options and checkpoints: ``{"topic": {"0": 23, "1": -1}}``.

Where to begin and where to end is an `OffsetSpec`; a place in every partition is `Positions`.

Theory of operation of a checkpoint
-----------------------------------
Spark writes only the END of a batch to its write-ahead log, and asks for the initial offset twice in the
first batch and again after every restart before that batch was committed. Had "latest" been resolved there,
records between two askings would be skipped without a word. So the initial offset is a constant,
`UNRESOLVED`; it is resolved once, when the first batch is planned, and its end carries the resolved start
with it. A replay finds it there. Each offset carries the topic ids too, so that a topic that was deleted and
created again is told from the one before.

Both stand in a note, a JSON text that is the name of one more topic without partitions::

    {"flights": {"0": 300}, "@barnabas {\"ids\": {\"flights\": \"3xQ...\"}, \"from\": {\"flights\": {\"0\":
    100}}}": {}}

To the official connector that is a topic of which nothing is to be read, so it continues from such a
checkpoint; no topic can have the name. It keeps the start of a query's first batch in a file of its own,
``sources/0/0`` of the checkpoint, which PySpark shows no Python source.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from barnabas.core.config import LONG_MAX
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import OptionError

Positions: TypeAlias = dict[TopicPartition, int]
StreamOffset: TypeAlias = dict[str, dict[str, int]]
TopicIds: TypeAlias = dict[str, str]
"""The ids of topics by name; a broker before Kafka 2.8 has none."""

EARLIEST: Final = -2
LATEST: Final = -1

UNRESOLVED: Final[StreamOffset] = {}
_NOTE: Final = "@barnabas "

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
    GROUP = "group"
    """What a consumer group has committed (ours)."""


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Where to begin, or to end, in words that only the brokers can turn into offsets."""

    kind: SpecKind
    values: Positions = field(default_factory=dict)
    """Offsets (-2 earliest, -1 latest) or timestamps in ms, by partition."""
    timestamp: int = 0
    no_match_is_latest: bool = False
    """``startingOffsetsByTimestampStrategy`` = latest: what a time behind the last record means."""
    group: str = ""


def parse_partitions(text: str) -> list[TopicPartition]:
    """The partitions of the option ``assign``. Raises OptionError."""
    try:
        found = [
            TopicPartition(topic, _number(number))
            for topic, numbers in json.loads(text).items()
            for number in numbers
        ]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise OptionError(f"Expected e.g. {_PARTITIONS_EXAMPLE}, got {text}") from None
    return found


def parse_positions(text: str, edge: str) -> Positions:
    """Offsets by partition, as in ``startingOffsets`` (`edge` is starting or ending). Raises OptionError."""
    positions = _parse(text, _OFFSETS_EXAMPLE)
    for tp, offset in positions.items():
        # ListOffsets reads other negative numbers as special timestamps (KIP-734), and would give their
        # offset.
        if not EARLIEST <= offset <= LONG_MAX:
            raise OptionError(
                f"{edge}Offsets for {tp} is {offset}: it must be an offset, -2 for earliest or -1 for latest"
            )
    return positions


def parse_timestamps(text: str, edge: str) -> Positions:
    """Timestamps by partition, as in ``startingOffsetsByTimestamp``. Raises OptionError."""
    times = _parse(text, _TIMES_EXAMPLE)
    for tp, timestamp in times.items():
        if not EARLIEST <= timestamp <= LONG_MAX:
            raise OptionError(
                f"{edge}OffsetsByTimestamp for {tp} is {timestamp}: it must be milliseconds since 1970"
            )
    return times


def _parse(text: str, example: str) -> Positions:
    try:
        return from_nested(json.loads(text))
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise OptionError(f"Expected e.g. {example}, got {text}") from None


def _number(value: object) -> int:
    """The value when it is a whole number of JSON.
    Raises TypeError: `int` would read 5.7, "5" and true as well.
    """
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def from_nested(nested: Mapping[str, Mapping[str, int]]) -> Positions:
    """Positions from the form of the JSON.
    Raises ValueError, TypeError and AttributeError for another form.
    """
    return {
        TopicPartition(topic, int(number)): _number(offset)
        for topic, numbers in nested.items()
        for number, offset in numbers.items()
    }


def to_nested(positions: Mapping[TopicPartition, int]) -> StreamOffset:
    """The form of the JSON, sorted, so that equal positions are equal texts (Spark compares texts)."""
    nested: StreamOffset = {}
    for tp in sorted(positions):
        nested.setdefault(tp.topic, {})[str(tp.partition)] = positions[tp]
    return nested


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A place in every partition of a query, as an offset in a checkpoint says it."""

    positions: Positions
    topic_ids: TopicIds = field(default_factory=dict)
    start: Positions | None = None
    """Where the batch begins that ends here, when it is the query's first."""

    def created_again(self, now: TopicIds) -> set[str]:
        """The topics that have another id now: they were deleted and created again."""
        return {name for name, topic_id in self.topic_ids.items() if now.get(name, topic_id) != topic_id}

    def encode(self) -> StreamOffset:
        """The offset for the checkpoint."""
        note: dict[str, Any] = {"ids": dict(sorted(self.topic_ids.items()))}
        if self.start is not None:
            note["from"] = to_nested(self.start)
        return {**to_nested(self.positions), _NOTE + json.dumps(note): {}}

    @staticmethod
    def is_ours(offset: Mapping[str, object]) -> bool:
        """Whether an offset of a query's source was encoded here."""
        return any(name.startswith(_NOTE) for name in offset)

    @classmethod
    def decode(cls, offset: Mapping[str, Mapping[str, int]]) -> "SourceOffset":
        """The place of an offset, one of the official connector's too, which has no note."""
        notes = [json.loads(name.removeprefix(_NOTE)) for name in offset if name.startswith(_NOTE)]
        note = notes[0] if notes else {}
        positions = from_nested(
            {name: numbers for name, numbers in offset.items() if not name.startswith(_NOTE)}
        )
        start = from_nested(note["from"]) if "from" in note else None
        return cls(positions, note.get("ids", {}), start)


def describe(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for a message, as Scala prints a set of them."""
    return "{" + ",".join(map(str, sorted(partitions))) + "}"
