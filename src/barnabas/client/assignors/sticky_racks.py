"""`Racks`: which members of a sticky group are near which partitions (KIP-881)."""

from collections import Counter
from collections.abc import Mapping, Sequence

from barnabas.client.assignors.assignor import Subscription, Topics, partitions_of, racks_matter
from barnabas.core.ids import TopicPartition


class Racks:
    """Empty, and then matching everything, where racks make no difference."""

    def __init__(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> None:
        consumers = {member_id: one.rack for member_id, one in subscriptions.items() if one.rack}
        replicas = {
            tp: racks
            for topic in topics
            for tp, racks in zip(partitions_of(topic, topics), topics[topic], strict=True)
        }
        matter = racks_matter(set(consumers.values()), replicas.values())
        self._consumers = consumers if matter else {}
        self._replicas = replicas if matter else {}

    @property
    def matter(self) -> bool:
        return bool(self._consumers)

    def mismatch(self, member_id: str, tp: TopicPartition) -> bool:
        """Whether the member has a rack and the partition has no replica there."""
        rack = self._consumers.get(member_id)
        return rack is not None and rack not in self._replicas.get(tp, ())

    def near(self, member_id: str, tp: TopicPartition) -> bool:
        rack = self._consumers.get(member_id)
        return rack is not None and rack in self._replicas.get(tp, ())

    def hardest_first(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Those that the fewest members are near come first."""
        if not self.matter:
            return list(partitions)
        members = Counter(self._consumers.values())
        return sorted(partitions, key=lambda tp: sum(members[rack] for rack in self._replicas[tp]))

    def next_near(self, tp: TopicPartition, members: Sequence[str], start: int) -> int | None:
        """The index of the first member that is near, from `start` on and around."""
        for step in range(len(members)):
            index = (start + step) % len(members)
            if self.near(members[index], tp):
                return index
        return None
