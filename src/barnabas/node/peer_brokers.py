"""`PeerBrokers`: protects groups of the consumer protocol from brokers that would forget them.

Only a cluster with ZooKeeper can have such brokers (`cluster.metadata.features`). While one is registered, a
broker with `group.coordinator.rebalance.protocols=consumer` refuses to start. One that registers later cannot
be kept out, because it knows nothing of this check: an error line in the log names it.
"""

from typing import Final

from barnabas.cluster.metadata.features import FEATURES, forgetful_brokers
from barnabas.cluster.store.contract import MetadataStore, StoreError
from barnabas.core.config import Config
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps

_log = EventLog("node.peer_brokers")

LOOK_INTERVAL_MS: Final = 5000

PROTOCOLS_KEY: Final = "group.coordinator.rebalance.protocols"


class PeerBrokers:
    """The other brokers of the cluster, as far as they endanger groups."""

    def __init__(self, store: MetadataStore, config: Config) -> None:
        with_zookeeper = bool(config["zookeeper.connect"])
        self.features = FEATURES if with_zookeeper else {}
        """What this broker announces; only brokers of this program can share an embedded store."""
        self.watched = with_zookeeper and "consumer" in config[PROTOCOLS_KEY]
        """Whether the other brokers have to be checked."""
        self._store = store
        self._known: set[int] = set()

    @steps
    def check(self) -> Steps[None]:
        """Raises ConfigError while a broker is registered that would forget groups."""
        if not self.watched:
            return
        forgetful = yield forgetful_brokers(self._store)
        if forgetful:
            brokers = ", ".join(map(str, forgetful))
            raise ConfigError(
                f"Invalid value consumer for configuration {PROTOCOLS_KEY}: broker {brokers} of this "
                "cluster runs Apache Kafka with ZooKeeper, which would forget such groups; allowed is "
                "classic while it is registered"
            )

    @steps
    def look(self) -> Steps[None]:
        """Logs an error for each broker that registered since and would forget groups."""
        try:
            forgetful = set((yield forgetful_brokers(self._store)))
        except StoreError as error:
            _log.warning("peers.unknown", reason=error)
            return
        for broker in sorted(forgetful - self._known):
            _log.error(
                "peer.forgets_groups",
                broker=broker,
                danger="it runs Apache Kafka with ZooKeeper, and forgets every group of the consumer "
                "protocol whose partition of __consumer_offsets it comes to lead",
                mend="stop it, or bring the groups back to the classic protocol: barnabas groups says how",
            )
        self._known = forgetful

    def __repr__(self) -> str:
        return f"<PeerBrokers watched={self.watched} forgetful={sorted(self._known)}>"
