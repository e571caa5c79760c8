"""Names of things: topic-partitions, UUIDs, Java's string hash, Kafka's topic names.

A UUID is 16 plain bytes everywhere inside; only its text form (22 characters of URL-safe base64, as
``org.apache.kafka.common.Uuid`` prints it) is built at the edges.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Final, NamedTuple, Never, Self, TypeAlias

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.instead import knows

Uuid: TypeAlias = bytes
ZERO_UUID: Final[Uuid] = bytes(16)

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
"""The leader that UpdateMetadata names for a partition which is being deleted."""
NO_EPOCH: Final = -1
EPOCH_DURING_DELETE: Final = -2
NO_BROKER: Final = -1

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})

TOPIC_NAME_LENGTH_MAX: Final = 249
_JAVA_INT: Final = re.compile(r"([-+]?)0*([0-9]{1,10})")
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+\Z")


_new_tuple: Final = tuple.__new__


class _TopicAndPartition(NamedTuple):
    topic: str
    partition: int


_FOR_AN_OFFSET: Final = "write seek(tp, offset), commit({tp: offset}) or position(tp)"


@knows(
    {
        "error": "what goes wrong is raised",
        "metadata": "write commit({tp: OffsetAndMetadata(offset, metadata)})",
        "offset": _FOR_AN_OFFSET,
    }
)
class TopicPartition(_TopicAndPartition):
    """One partition of one topic."""

    __slots__ = ()

    def __new__(cls, topic: str, partition: int, *others: Never, offset: object = None) -> Self:
        if others or offset is not None:
            raise TypeError(f"TopicPartition is a topic and a partition; for an offset {_FOR_AN_OFFSET}")
        return _new_tuple(cls, (topic, partition))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_partition(topic: str, partition: int) -> TopicPartition:
    """``TopicPartition(topic, partition)`` in a third of the time, for what is done for each request."""
    return _new_tuple(TopicPartition, (topic, partition))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """The partitions under their topics, in order of appearance."""
    grouped: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, []).append(tp)
    return grouped


PartitionSet: TypeAlias = dict[str, dict[int, None]]
"""Partitions under their topics, each of them once, in the order in which they came.

What may hold hundreds of thousands is joined and compared a topic at a time, where a set of `TopicPartition`
would hash each."""


def partition_set(partitions: Iterable[TopicPartition]) -> PartitionSet:
    found: PartitionSet = {}
    for topic, partition in partitions:
        found.setdefault(topic, {})[partition] = None
    return found


def partitions_in(partitions: Mapping[str, Iterable[int]]) -> Iterator[TopicPartition]:
    for topic, of_topic in partitions.items():
        for partition in of_topic:
            yield topic_partition(topic, partition)


def random_uuid(chooser: Random) -> Uuid:
    """A UUID of version 4 that Kafka may use: its text does not begin with a dash (``Uuid.randomUuid``)."""
    while True:
        value = bytearray(chooser.randbytes(16))
        value[6] = value[6] & 0x0F | 0x40
        value[8] = value[8] & 0x3F | 0x80
        if value[0] >> 2 != 0b111110:  # the sextet that is "-" in URL-safe base64
            return bytes(value)


def uuid_text(value: Uuid) -> str:
    """The 22 characters that Kafka prints for a UUID."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def uuid_from_text(text: str) -> Uuid:
    """The inverse of `uuid_text`; raises ValueError for a text that is not a UUID."""
    value = base64.urlsafe_b64decode(text + "==")
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a UUID: it holds {len(value)} bytes, not 16")
    return value


def java_hash(text: str) -> int:
    """``String.hashCode`` of Java: over UTF-16 units, in signed 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def java_abs(value: int) -> int:
    """``Utils.abs`` of Kafka: Integer.MIN_VALUE becomes 0."""
    return 0 if value == -(1 << 31) else abs(value)


def validate_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION with Kafka's own words (``Topic.validate``)."""
    problem = _topic_name_problem(name)
    if problem:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def missing_topic(name: str, otherwise: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> ErrorCode:
    """The answer for a topic that does not exist: what is wrong with its name, if anything is."""
    try:
        validate_topic_name(name)
    except KafkaError as error:
        return error.code
    return otherwise


def is_topic_name(name: str) -> bool:
    """Whether a topic may have this name."""
    return _topic_name_problem(name) is None


def _topic_name_problem(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
    if not _LEGAL_TOPIC.match(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def topics_collide(one: str, other: str) -> bool:
    """Whether two names differ only in '.' against '_', which metric names cannot tell apart."""
    return one.replace(".", "_") == other.replace(".", "_")


def broker_id_of(name: str) -> int | None:
    """The number that a resource's name is, as ``Integer.parseInt`` reads it; None where it is none."""
    match = _JAVA_INT.fullmatch(name)
    if match is None:
        return None
    number = int("".join(match.groups()))
    return number if -(2**31) <= number < 2**31 else None
