"""`Topics`: what groups read, and `Progress`, how far each has come:
the records themselves need not exist.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from barnabas.core.ids import TopicPartition, Uuid
from barnabas.testing.clock import VirtualClock


class Topic(NamedTuple):
    """A topic with a producer that writes so many records a second into each partition."""

    name: str
    partitions: int
    rate: float

    @property
    def id(self) -> Uuid:
        """Made of the name, so that it is the same in every process."""
        return blake2b(self.name.encode(), digest_size=16).digest()

    @property
    def tps(self) -> list[TopicPartition]:
        """Its partitions."""
        return [TopicPartition(self.name, number) for number in range(self.partitions)]


class Topics:
    """All topics, their ends at each moment."""

    def __init__(self, topics: Iterable[Topic], clock: VirtualClock) -> None:
        self.by_name = {topic.name: topic for topic in topics}
        self.by_id = {topic.id: topic for topic in self.by_name.values()}
        self._clock = clock

    def tps(self, names: Iterable[str]) -> list[TopicPartition]:
        """All partitions of these topics, in order."""
        return [tp for name in sorted(names) for tp in self.by_name[name].tps]

    def end(self, tp: TopicPartition) -> int:
        """Where the partition ends now."""
        return int(self._clock.now_ms * self.by_name[tp.topic].rate / 1000)


class Progress:
    """Which records each group has processed: at least once means that it never leaves a gap."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, TopicPartition], int] = {}

    def processed(self, group: str, tp: TopicPartition, begin: int, end: int) -> int | None:
        """A member processed these records;
        the first one that the group has not processed, if there is a gap.
        """
        known = self._next.get((group, tp), 0)
        self._next[group, tp] = max(known, end)
        return known if begin > known else None

    def reached(self, group: str, tp: TopicPartition) -> int:
        """All records before this one were processed."""
        return self._next.get((group, tp), 0)
