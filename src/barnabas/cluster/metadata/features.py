"""Features (KIP-584): which there are, what brokers announce in /brokers/ids, the levels that the cluster has
agreed on, and who knows groups of the consumer protocol (KIP-848).

Kafka's registrations have room for the features that a broker supports, each with a range of versions
(KIP-584), and Kafka 4 calls the protocol of KIP-848 ``group.version`` 1. Apache Kafka 3.9 with ZooKeeper
announces nothing there, and as a coordinator it passes over the records of such groups: groups in a partition
that it takes over are lost. So a broker of ours announces ``group.version`` where such a broker can be, and a
broker that does not announce it counts as one of those.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from barnabas.cluster.brokers import Broker
from barnabas.cluster.metadata.registration import registered_brokers
from barnabas.cluster.store.contract import MetadataStore
from barnabas.core.pending import Pending, Steps, steps

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
"""0 and 1 as Kafka 3.9, 2 the second part of KIP-890 (`coordinator.transaction.transaction_version`)."""

Levels: TypeAlias = Mapping[str, int]
Range: TypeAlias = tuple[int, int]
"""The lowest and the highest level, both included."""

UNKNOWN_EPOCH: Final = -1
"""``UNKNOWN_FINALIZED_FEATURES_EPOCH``: there is no /feature, or features may not be finalized yet."""

FEATURES: Final[dict[str, Any]] = {GROUP_VERSION: {"min_version": 0, "max_version": 1}}
"""What a broker of ours announces where a JVM broker may be."""


class FeatureLevels:
    """The features of the cluster as this broker knows them: the one place that says which level is on.

    `finalized` and `epoch` follow /feature (`finalized_features`). Where /feature may have no levels, because
    a JVM broker of 3.9 may read it and would end, `kept` is false: `finalized` stays what it is at the start.
    """

    def __init__(
        self,
        supported: Mapping[str, Range] | None = None,
        finalized: Levels | None = None,
        *,
        kept: bool = False,
    ) -> None:
        self.supported = supported or {}
        self.finalized: Levels = finalized or {}
        self.epoch = UNKNOWN_EPOCH
        self.kept = kept
        self._waiting: list[tuple[int, Pending[None]]] = []

    def support(self, supported: Mapping[str, Range]) -> None:
        """These features are supported from now on, each at its highest level; where levels are not kept."""
        self.supported = supported
        self.seen({name: high for name, (_, high) in supported.items()}, self.epoch)

    def level(self, name: str) -> int:
        """The level of a feature that is on; 0 where it is off, or not supported here."""
        return self.finalized.get(name, 0)

    def seen(self, finalized: Levels, epoch: int) -> None:
        """These levels count from now on."""
        self.finalized, self.epoch = finalized, epoch
        due = [each for each in self._waiting if each[0] <= epoch]
        self._waiting = [each for each in self._waiting if each[0] > epoch]
        for _, reached in due:
            reached.complete(None)

    def reached(self, epoch: int) -> Pending[None]:
        """Done when this broker knows the levels of this epoch (``waitUntilFeatureEpochOrThrow``)."""
        if self.epoch >= epoch:
            return Pending.of(None)
        reached: Pending[None] = Pending()
        self._waiting.append((epoch, reached))
        return reached

    def __repr__(self) -> str:
        return f"<FeatureLevels {dict(self.finalized)} epoch={self.epoch}>"


def knows_consumer_groups(broker: Broker) -> bool:
    """Whether groups of the consumer protocol survive on this broker."""
    supported = broker.features.get(GROUP_VERSION)
    return isinstance(supported, dict) and supported.get("max_version", 0) >= 1


@steps
def forgetful_brokers(store: MetadataStore) -> Steps[list[int]]:
    """The registered brokers that would forget groups of the consumer protocol, by id."""
    registered = yield registered_brokers(store)
    return [broker.id for broker in registered if not knows_consumer_groups(broker)]
