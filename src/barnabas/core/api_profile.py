"""Which Kafka a broker is to its clients (``barnabas.api.profile``), as far as configuration decides it.

What brokers say to each other is Kafka 3.9's always. What clients find is 3.9's where a JVM broker of 3.9 can
be in the cluster, and 4.4's elsewhere: a client of today looks for the consumer protocol of groups (KIP-848)
and for features, and a Kafka 3.9 with ZooKeeper has neither. The versions of APIs that a profile stands for
are `barnabas.broker.profiles`.
"""

from collections.abc import Mapping
from typing import Any, Final

KAFKA_3_9: Final = "3.9"
KAFKA_4_4: Final = "4.4"
AUTO: Final = "auto"

_DEFAULTS_OF_4_4: Final[Mapping[str, str]] = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.migration.policy": "bidirectional",
}
"""Keys whose default is another one in Kafka 4.4."""


def follows_the_cluster(config: Mapping[str, Any]) -> bool:
    """Whether the profile depends on which brokers are registered, and changes with them."""
    return config["barnabas.api.profile"] == AUTO and bool(config["zookeeper.connect"])


def api_profile(config: Mapping[str, Any]) -> str:
    """The profile of a broker with this configuration: `KAFKA_3_9` or `KAFKA_4_4`.

    `auto` is 4.4 on the embedded store, which only brokers of this program can share, and 3.9 with ZooKeeper
    until it is known who else is registered (`barnabas.node.peer_brokers`).
    """
    chosen: str = config["barnabas.api.profile"]
    if chosen == AUTO:
        return KAFKA_3_9 if config["zookeeper.connect"] else KAFKA_4_4
    return chosen


def defaults_of(profile: str) -> Mapping[str, str]:
    """The defaults, as texts by key, in which a profile differs from Kafka 3.9."""
    return _DEFAULTS_OF_4_4 if profile == KAFKA_4_4 else {}
