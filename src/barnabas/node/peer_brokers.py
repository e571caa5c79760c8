"""`PeerBrokers`: what the other brokers of the cluster allow this one to be.

Theory of operation
-------------------
Only a cluster with ZooKeeper can have brokers of Apache Kafka 3.9, which as coordinators forget groups of the
consumer protocol (`cluster.metadata.features`). Two things follow.

A broker whose ``barnabas.api.profile`` is auto is a Kafka 4.4 to its clients while every registered broker
keeps such groups and ``inter.broker.protocol.version`` is not set, and a Kafka 3.9 otherwise. It looks when a
broker comes or goes. The controller tells the others of a new broker before that one gets a role, so they are
3.9 again before it coordinates a group. Connections keep the versions that they were told of.

A broker with `group.coordinator.rebalance.protocols=consumer` in its configuration refuses to start beside
such a broker. One that registers later cannot be kept out, because it knows nothing of this check: an error
line in the log names it.
"""

from collections.abc import Callable
from typing import Final

from barnabas.cluster.metadata.features import FEATURES, forgetful_brokers
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import Change, MetadataStore, StoreError, WatchEvent
from barnabas.core.api_profile import KAFKA_3_9, KAFKA_4_4, api_profile, follows_the_cluster
from barnabas.core.broker_config import with_profile
from barnabas.core.config import Config, Source
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, steps

_log = EventLog("node.peer_brokers")

LOOK_INTERVAL_MS: Final = 5000

PROTOCOLS_KEY: Final = "group.coordinator.rebalance.protocols"
PINNING_KEY: Final = "inter.broker.protocol.version"


class PeerBrokers:
    """The other brokers of the cluster."""

    def __init__(
        self, store: MetadataStore, config: Config, on_profile: Callable[[], object] = lambda: None
    ) -> None:
        """`on_profile` is called when the profile is another one than it was at the start."""
        with_zookeeper = bool(config["zookeeper.connect"])
        self._follows = follows_the_cluster(config)
        self._asks_for_groups = with_zookeeper and "consumer" in config[PROTOCOLS_KEY]
        self._pinned = config.source(PINNING_KEY) is not Source.DEFAULT
        self.newest = with_profile(config, KAFKA_4_4) if self._follows else None
        """The configuration with the newest profile that this broker may come to; None where it stays as it
        is.
        """
        self.profile = api_profile(config)
        keeps_groups = "consumer" in (self.newest or config)[PROTOCOLS_KEY]
        self.features = FEATURES if with_zookeeper and keeps_groups else {}
        """What this broker announces; only brokers of this program can share an embedded store."""
        self.watched = with_zookeeper and keeps_groups
        """Whether the other brokers have to be looked at."""
        self._store = store
        self._on_profile = on_profile
        self._known: set[int] = set()
        self._held_by: str | None = None
        self._is_watching = False

    @steps
    def check(self) -> Steps[None]:
        """What this broker is at its start. Raises ConfigError while a broker is registered that would forget
        the groups that the configuration asks for.
        """
        if not self.watched:
            return
        forgetful = yield forgetful_brokers(self._store)
        if forgetful and self._asks_for_groups:
            brokers = ", ".join(map(str, forgetful))
            raise ConfigError(
                f"Invalid value consumer for configuration {PROTOCOLS_KEY}: broker {brokers} of this "
                "cluster runs Apache Kafka with ZooKeeper, which would forget such groups; allowed is "
                "classic while it is registered"
            )
        self._known = set(forgetful)
        self._decide()

    @steps
    def look(self) -> Steps[None]:
        """Looks who is registered: the profile follows, and the log says who would forget groups."""
        try:
            if not self._is_watching:
                self._is_watching = True
                yield self._store.children(znodes.BROKER_IDS, self._brokers_changed)
            forgetful = set((yield forgetful_brokers(self._store)))
        except StoreError as error:
            self._is_watching = False
            _log.warning("peers.unknown", reason=error)
            return
        # Where the profile was 3.9 all the time, nobody has such groups.
        if self._asks_for_groups or self.profile == KAFKA_4_4:
            for broker in sorted(forgetful - self._known):
                _log.error(
                    "peer.forgets_groups",
                    broker=broker,
                    danger="it runs Apache Kafka with ZooKeeper, and forgets every group of the consumer "
                    "protocol whose partition of __consumer_offsets it comes to lead",
                    mend="stop it, or bring the groups back to the classic protocol: barnabas groups says "
                    "how",
                )
        self._known = forgetful
        before = self.profile
        self._decide()
        if self.profile != before:
            self._on_profile()

    def _brokers_changed(self, event: WatchEvent) -> None:
        self._is_watching = False
        if event.change is Change.CHILDREN:
            self.look().when_done(_looked)

    def _decide(self) -> None:
        """The profile by who is registered."""
        if not self._follows:
            return
        held_by = None
        if self._pinned:
            held_by = f"{PINNING_KEY} is set"
        elif self._known:
            brokers = ", ".join(map(str, sorted(self._known)))
            held_by = f"broker {brokers} does not keep groups of the consumer protocol, as Apache Kafka 3.9"
        profile = KAFKA_4_4 if held_by is None else KAFKA_3_9
        if (profile, held_by) != (self.profile, self._held_by):
            _log.info("profile", now=profile, held_down_by=held_by)
        self.profile, self._held_by = profile, held_by

    def __repr__(self) -> str:
        return f"<PeerBrokers profile={self.profile} forgetful={sorted(self._known)}>"


def _looked(done: Pending[None]) -> None:
    if done.error is not None:
        _log.warning("peers.unknown", reason=done.error)
