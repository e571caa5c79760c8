"""What a caller names where several are meant: one thing, or any iterable of them.

A text is an iterable of its letters, and a `TopicPartition` one of a text and a number. Taken as such they
would be questions about topics and groups that nobody meant.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

from barnabas.core.ids import TopicPartition

Names: TypeAlias = Iterable[str] | str
Partition: TypeAlias = TopicPartition | tuple[str, int]
Partitions: TypeAlias = Iterable[Partition] | TopicPartition


def names(given: Names, what: str) -> list[str]:
    """The names as a list without doubles, `what` being their plural; raises TypeError."""
    each = [given] if isinstance(given, str) else list(dict.fromkeys(_iterated(given, what)))
    for name in each:
        if not isinstance(name, str):
            raise TypeError(f"{what} are named by str, not {type(name).__name__} ({name!r:.80})")
    return each


def partition(given: Partition) -> TopicPartition:
    """The partition; raises TypeError."""
    if isinstance(given, TopicPartition):
        return given
    if isinstance(given, tuple) and list(map(type, given)) == [str, int]:
        return TopicPartition(*given)
    raise TypeError(f"a partition is a TopicPartition or (topic, number), not {given!r:.80}")


def partitions(given: Partitions) -> list[TopicPartition]:
    """The partitions as a list; raises TypeError."""
    if isinstance(given, TopicPartition):
        return [given]
    if isinstance(given, str):
        raise TypeError(f"a partition is a TopicPartition or (topic, number), not {given!r:.80}")
    return [partition(each) for each in _iterated(given, "partitions")]


def _iterated(given: Any, what: str) -> Iterable[Any]:
    if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
        raise TypeError(f"{what} are given as a list, not {given!r:.80}")
    return given
