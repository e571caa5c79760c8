"""`RoundRobinAssignor`: all partitions of all topics, dealt out like cards."""

from collections.abc import Mapping
from itertools import cycle

from barnabas.client.assignors.assignor import (
    Assignment,
    Assignor,
    Subscription,
    Topics,
    members_in_order,
    partitions_of,
)


class RoundRobinAssignor(Assignor):
    """The next partition goes to the next member that subscribes to its topic."""

    name = "roundrobin"

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        assignment: Assignment = {member_id: [] for member_id in subscriptions}
        wanted = {member_id: set(one.topics) for member_id, one in subscriptions.items()}
        dealer = cycle(members_in_order(subscriptions))
        for topic in sorted(set[str]().union(*wanted.values()).intersection(topics)):
            for tp in partitions_of(topic, topics):
                taker = next(member_id for member_id in dealer if topic in wanted[member_id])
                assignment[taker].append(tp)
        return assignment
