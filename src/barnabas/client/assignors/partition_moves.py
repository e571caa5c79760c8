"""`PartitionMoves`: which partitions a sticky assignment has moved so far, so that it undoes before it adds.

If a partition of a topic has gone from A to B, and now another one of that topic is to go from B to A, the
first one goes back instead: two members never swap partitions of one topic.
"""

from collections import defaultdict

from barnabas.core.ids import TopicPartition

Pair = tuple[str, str]


class PartitionMoves:
    """Moves by topic and by pair of members (from, to)."""

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, Pair] = {}
        self._by_pair: defaultdict[tuple[str, Pair], dict[TopicPartition, None]] = defaultdict(dict)

    def better_candidate(self, tp: TopicPartition, source: str, target: str) -> TopicPartition:
        """What to move from source to target instead of this partition;
        itself when there is nothing better.
        """
        if tp in self._moved:
            source = self._moved[tp][0]
        return next(iter(self._by_pair[tp.topic, (target, source)]), tp)

    def record(self, tp: TopicPartition, source: str, target: str) -> None:
        """The partition moved; a chain of moves counts as one, and a chain that ends where it began as
        none.
        """
        earlier = self._moved.pop(tp, None)
        if earlier is not None:
            del self._by_pair[tp.topic, earlier][tp]
            source = earlier[0]
        if source != target:
            self._moved[tp] = (source, target)
            self._by_pair[tp.topic, (source, target)][tp] = None

    def __repr__(self) -> str:
        return f"<PartitionMoves {len(self._moved)} partitions>"
