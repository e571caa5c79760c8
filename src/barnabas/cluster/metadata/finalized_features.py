"""`FinalizedFeatures`: follows how far the features of the cluster are agreed on
(``FinalizedFeatureChangeListener``, KIP-584).

They are in the znode /feature, which the controller makes, and its version is their epoch, which ApiVersions
tells to clients. With ZooKeeper no broker of 3.9 supports a feature that could be finalized, so there is
none; but the epoch is there, and grows when a tool writes the znode.
"""

from typing import Final

from barnabas.cluster.metadata.features import UNKNOWN_EPOCH, FeatureLevels
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import MetadataStore, NoNodeError, WatchEvent
from barnabas.cluster.store.unreadable import readable
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, steps

_log: Final = EventLog("cluster.features")


class FinalizedFeatures:
    """Keeps `levels` as /feature has them."""

    def __init__(self, store: MetadataStore, levels: FeatureLevels) -> None:
        self.levels = levels
        self._store = store

    @steps
    def start(self) -> Steps[None]:
        """Reads what there is; every change is followed from then on."""
        self._store.listen(self)
        yield self._read()

    def session_expired(self) -> Pending[None]:
        """Nothing has to happen before the next session."""
        return Pending.of(None)

    def session_renewed(self) -> None:
        """The watch ended with the session."""
        self._read_again()

    def _changed(self, _event: WatchEvent) -> None:
        self._read_again()

    def _read_again(self) -> None:
        self._read().when_done(self._was_read)

    def _was_read(self, done: Pending[None]) -> None:
        if done.error is not None:
            # A session that ended is followed by another, which reads it.
            _log.warning("features_not_read", error=done.error)

    @steps
    def _read(self) -> Steps[None]:
        if (yield self._store.exists(znodes.FEATURE, self._changed)) is None:
            self.levels.seen(self.levels.finalized, UNKNOWN_EPOCH)
            return
        try:
            data, stat = yield self._store.get(znodes.FEATURE)
        except NoNodeError:
            return  # the watch has fired
        found = readable(self._store, znodes.FEATURE, znodes.decode_features, data)
        # Disabled or damaged: what was known before counts.
        if found is None:
            self.levels.seen(self.levels.finalized, UNKNOWN_EPOCH)
            return
        supported = self.levels.supported if self.levels.kept else {}
        unknown = sorted(found.keys() - supported.keys())
        if unknown:
            # Kafka's brokers end here.
            _log.error(
                "features_not_supported",
                path=znodes.FEATURE,
                features=unknown,
                mend="they do nothing here: take them away with barnabas features disable"
                if self.levels.kept
                else "brokers with ZooKeeper have no features: remove them from the znode",
            )
        if not self.levels.kept:
            if not unknown:
                self.levels.seen(self.levels.finalized, stat.version)
            return
        # A level above the highest that is known here was set by a later broker.
        known = {name: min(found[name], high) for name, (_, high) in supported.items() if name in found}
        self.levels.seen(known, stat.version)

    def __repr__(self) -> str:
        return f"<FinalizedFeatures {self.levels}>"
