"""What a caller names where several are meant: one thing, or any iterable of them.

A text is an iterable of its letters, and a `TopicPartition` one of a text and a number. Taken as such they
would be questions about topics and groups that nobody meant.
"""

from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex, TypeAlias, TypeVar

from barnabas.core.ids import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

Names: TypeAlias = Iterable[str] | str
Partition: TypeAlias = TopicPartition | tuple[str, int]
Several: TypeAlias = Partition | list[Partition] | set[Partition] | frozenset[Partition]
"""A partition among others, or a list or set of them, which other clients take."""
Partitions: TypeAlias = Iterable[Partition] | TopicPartition


def names(given: Names, what: str) -> list[str]:
    """The names as a list without doubles, `what` being their plural; raises TypeError."""
    return _distinct(given, str, what)


def partition(given: Partition) -> TopicPartition:
    """The partition; raises TypeError."""
    if isinstance(given, tuple) and len(given) == 2:
        topic, number = given
        if isinstance(topic, str) and isinstance(number, SupportsIndex):
            return given if isinstance(given, TopicPartition) else TopicPartition(topic, number.__index__())
    raise TypeError(f"a partition is a TopicPartition or (topic, number), not {given!r:.80}")


def partitions(given: Partitions) -> list[TopicPartition]:
    """The partitions as a list; raises TypeError."""
    if isinstance(given, TopicPartition):
        return [partition(given)]
    if isinstance(given, str):
        raise TypeError(f"a partition is a TopicPartition or (topic, number), not {given!r:.80}")
    return [partition(each) for each in _iterated(given, "partitions")]


def each(given: Iterable[Several]) -> list[TopicPartition]:
    """Each partition of what was given one after the other; raises TypeError."""
    found: list[TopicPartition] = []
    for one in given:
        found += partitions(one) if isinstance(one, list | set | frozenset) else [partition(one)]
    return found


def by_partition(given: Mapping[TopicPartition, V], what: str) -> dict[TopicPartition, V]:
    """What is said of each partition, `what` being that; raises TypeError."""
    return {partition(tp): value for tp, value in by_key(given, what, "partition").items()}


def by_name(given: Mapping[str, V], what: str) -> dict[str, V]:
    """What is said of each name, `what` being that; raises TypeError."""
    found = by_key(given, what, "name")
    names(found, f"{what}, by name,")
    return found


def numbers(given: Iterable[int] | int, what: str) -> list[int]:
    """The numbers as a list without doubles, `what` being their plural; raises TypeError."""
    return _distinct(given, int, what)


def one(given: Any, kind: type[K] | tuple[type[K], ...], what: str) -> K:
    """What is of this kind, `what` saying in a sentence that it has to be; raises TypeError."""
    if not isinstance(given, kind):
        raise TypeError(f"{what}, not {given!r:.80}")
    return given


def several(given: Iterable[K] | K, kind: type[K] | tuple[type[K], ...], what: str) -> list[K]:
    """One thing of this kind or an iterable of them, as a list; raises TypeError as `one`."""
    if isinstance(given, (kind, str, bytes)) or not isinstance(given, Iterable):
        return [one(given, kind, what)]
    return [one(each, kind, what) for each in given]


def by_key(given: Mapping[K, V], what: str, key: str) -> dict[K, V]:
    """What is said of each `key`, `what` being that; raises TypeError."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} are given by {key}, as a dict, not {given!r:.80}")
    return dict(given)


def _distinct(given: Iterable[K] | K, kind: type[K], what: str) -> list[K]:
    wanted = [given] if isinstance(given, kind) else list(_iterated(given, what))
    for name in wanted:
        if not isinstance(name, kind):
            raise TypeError(f"{what} are named by {kind.__name__}, not {type(name).__name__} ({name!r:.80})")
    return list(dict.fromkeys(wanted))


def _iterated(given: Any, what: str) -> Iterable[Any]:
    if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
        raise TypeError(f"{what} are given as a list, not {given!r:.80}")
    return given


def value(given: str | float | bool | None) -> str | None:
    """A value of a configuration as the wire has it: a number or a truth as its text. Raises TypeError."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, int | float):
        return str(given)
    raise TypeError(f"a value of a configuration is a str or a number, not {given!r:.80}")
