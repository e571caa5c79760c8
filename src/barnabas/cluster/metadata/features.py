"""Which features brokers announce in /brokers/ids, and who knows groups of the consumer protocol (KIP-848).

Kafka's registrations have room for the features that a broker supports, each with a range of versions
(KIP-584), and Kafka 4 calls the protocol of KIP-848 ``group.version`` 1. Apache Kafka 3.9 with ZooKeeper
announces nothing there, and as a coordinator it passes over the records of such groups: groups in a partition
that it takes over are lost. So a broker of ours announces ``group.version`` where such a broker can be, and a
broker that does not announce it counts as one of those.
"""

from typing import Any, Final

from barnabas.cluster.brokers import Broker
from barnabas.cluster.metadata.registration import registered_brokers
from barnabas.cluster.store.contract import MetadataStore
from barnabas.core.pending import Steps, steps

GROUP_VERSION: Final = "group.version"
FEATURES: Final[dict[str, Any]] = {GROUP_VERSION: {"min_version": 0, "max_version": 1}}
"""What a broker of ours supports."""


def knows_consumer_groups(broker: Broker) -> bool:
    """Whether groups of the consumer protocol survive on this broker."""
    supported = broker.features.get(GROUP_VERSION)
    return isinstance(supported, dict) and supported.get("max_version", 0) >= 1


@steps
def forgetful_brokers(store: MetadataStore) -> Steps[list[int]]:
    """The registered brokers that would forget groups of the consumer protocol, by id."""
    registered = yield registered_brokers(store)
    return [broker.id for broker in registered if not knows_consumer_groups(broker)]
