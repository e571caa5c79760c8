"""Partitions by topic: what a member has, is to give up, or is to have (``Assignment``)."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from barnabas.core.ids import Uuid

Assignment: TypeAlias = Mapping[Uuid, frozenset[int]]
"""Never changed once made; a topic without partitions has no entry."""

NOTHING: Final[Assignment] = MappingProxyType({})


class PartitionsOfTopic(Protocol):
    """The shape that requests, responses and records share."""

    topic_id: Uuid
    partitions: list[int]


def assignment_of(topics: Iterable[PartitionsOfTopic]) -> Assignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


def pairs(assignment: Assignment) -> Iterator[tuple[Uuid, int]]:
    """Each partition with the id of its topic."""
    return ((topic_id, partition) for topic_id, partitions in assignment.items() for partition in partitions)


def contains_any(assignment: Assignment, of: Assignment) -> bool:
    return any(
        not partitions.isdisjoint(of[topic_id])
        for topic_id, partitions in assignment.items()
        if topic_id in of
    )


def is_within(assignment: Assignment, limits: Assignment) -> bool:
    """``isSubset``: whether each partition is among the others."""
    return all(partitions <= limits.get(topic_id, frozenset()) for topic_id, partitions in assignment.items())


def merged(one: Assignment, other: Assignment) -> Assignment:
    return {
        topic_id: one.get(topic_id, frozenset()) | other.get(topic_id, frozenset())
        for topic_id in {**one, **other}
    }
