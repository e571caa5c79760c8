"""How a broker enters the cluster: the znodes that must exist, the cluster id, its own registration."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from barnabas.cluster.brokers import Broker
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import (
    Create,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
    Stat,
    WatchEvent,
)
from barnabas.cluster.store.unreadable import readable
from barnabas.core.clock import Clock
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, gather, steps

_events: Final = EventLog("cluster.registration")


class RegistrationError(BarnabasError):
    """The broker may not join: another one has its id or its address."""


@steps
def ensure_persistent_paths(store: MetadataStore) -> Steps[None]:
    """Makes the znodes that every cluster has (``createTopLevelPaths``)."""
    yield ensure_paths(store, znodes.PERSISTENT_PATHS)


@steps
def ensure_paths(store: MetadataStore, paths: Iterable[str]) -> Steps[None]:
    """Makes znodes without data, with those above them, where they are missing."""
    wanted = dict.fromkeys(part for path in paths for part in [*znodes.ancestors(path), path])
    made = [store.create(path) for path in wanted]
    yield gather(made)
    for each in made:
        if each.error is not None and not isinstance(each.error, NodeExistsError):
            raise each.error


@steps
def cluster_id(store: MetadataStore, new_id: Callable[[], str]) -> Steps[str | None]:
    """The cluster's id; the first broker of a new cluster decides on it.

    None where its znode is unreadable.
    """
    try:
        data, _ = yield store.get(znodes.CLUSTER_ID)
    except NoNodeError:
        yield ensure_paths(store, znodes.ancestors(znodes.CLUSTER_ID))
        chosen = new_id()
        try:
            yield store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(chosen))
        except NodeExistsError:
            data, _ = yield store.get(znodes.CLUSTER_ID)
        else:
            return chosen
    return readable(store, znodes.CLUSTER_ID, znodes.decode_cluster_id, data)


@steps
def generate_broker_id(store: MetadataStore, reserved_max: int) -> Steps[int]:
    """An id that no broker had: above ``reserved.broker.max.id`` by the writes to /brokers/seqid so far."""
    yield ensure_paths(store, [znodes.BROKER_SEQUENCE])
    stat: Stat = yield store.set(znodes.BROKER_SEQUENCE, b"")
    return reserved_max + stat.version


@steps
def propagate_log_dir_event(store: MetadataStore, broker_id: int) -> Steps[None]:
    """``propagateLogDirEvent``: the controller is to ask this broker which replicas it has left."""
    prefix = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_"
    yield store.create(prefix, znodes.encode_log_dir_event(broker_id), sequence=True)


@steps
def registered_brokers(store: MetadataStore) -> Steps[list[Broker]]:
    """The brokers in /brokers/ids, in order of their ids; without those that the controller cannot read."""
    names = yield store.children(znodes.BROKER_IDS)
    reads = {broker_id: store.get(znodes.broker_path(broker_id)) for broker_id in znodes.numbered(names)}
    yield gather(reads.values())
    brokers = []
    for broker_id, read in sorted(reads.items()):
        if read.error is not None:
            continue  # it left in between
        data, _ = read.result()
        broker = readable(store, znodes.broker_path(broker_id), znodes.decode_broker, broker_id, data)
        if broker is not None:
            brokers.append(broker)
    return brokers


class BrokerRegistration:
    """One broker's ephemeral znode; its czxid is the broker's epoch, by which others tell its lives apart.

    A broker that was killed leaves its znode until its session has ended, which takes `old_session_ms` at
    most. A broker that finds its id taken waits that long for the znode to go. If it stays, it is that of
    another broker.
    """

    def __init__(
        self, store: MetadataStore, broker: Broker, clock: Clock, *, old_session_ms: float = 0
    ) -> None:
        self._store = store
        self._clock = clock
        self._old_session_ms = old_session_ms
        self.broker = broker
        self.broker_epoch = -1

    @steps
    def rival(self) -> Steps[Broker | None]:
        """What is registered under this id by another session: another broker, or an earlier life of this
        one.
        """
        path = znodes.broker_path(self.broker.id)
        try:
            data, stat = yield self._store.get(path)
        except NoNodeError:
            return None
        if stat.ephemeral_owner == self._store.session_id:
            return None
        return readable(self._store, path, znodes.decode_broker, self.broker.id, data)

    @steps
    def register(self) -> Steps[int]:
        """The new broker epoch. Raises RegistrationError with one line that says who is in the way."""
        yield self._check_addresses()
        path = znodes.broker_path(self.broker.id)
        old: Stat | None = None
        while True:
            try:
                # As Kafka does: create, then write, so that one transaction yields the stat.
                operations: list[Operation] = [
                    Create(path, ephemeral=True),
                    SetData(path, self._payload(), 0),
                ]
                _, stat = yield self._store.multi(operations)
                break
            except NodeExistsError:
                stat = yield self._store.exists(path)
            if stat is None:
                continue  # it went in between
            if stat.ephemeral_owner == self._store.session_id:
                break  # ours: a repeated request finds what the first one made
            # The first znode found may be of an earlier life of this broker; a later one is another's.
            if old is not None or (yield self._outlives_its_session(path, stat)):
                raise self.id_is_taken("in this cluster")
            old = stat
        self.broker_epoch = stat.czxid
        _events.info("broker_registered", broker=self.broker.id, epoch=stat.czxid)
        return self.broker_epoch

    def id_is_taken(self, where: str) -> RegistrationError:
        """The error for another broker with this id."""
        return RegistrationError(
            f"broker.id {self.broker.id} is already registered {where}: give this broker another broker.id,"
            " or stop the other one"
        )

    @steps
    def update(self, broker: Broker) -> Steps[None]:
        """Writes new endpoints into the registration (``updateBrokerInfo``)."""
        self.broker = broker
        yield self._store.set(znodes.broker_path(broker.id), self._payload())

    def update_later(self, broker: Broker) -> None:
        """`update`, for who does not wait for it."""
        self.update(broker).when_done(_updated)

    def cordon(self, *, all_directories: bool) -> None:
        """Tells the controller whether all log directories are cordoned, where that has changed."""
        if self.broker.cordoned == all_directories:
            return
        if self.broker_epoch < 0:
            # Not registered yet: the registration says it.
            self.broker = replace(self.broker, cordoned=all_directories)
        else:
            self.update_later(replace(self.broker, cordoned=all_directories))

    def _payload(self) -> bytes:
        return znodes.encode_broker(self.broker, self._clock.time_ms())

    @steps
    def _outlives_its_session(self, path: str, old: Stat) -> Steps[bool]:
        """Waits for this znode to go; whether it is still there when a dead broker's session must be over."""
        left_ms = self._old_session_ms
        if left_ms > 0:
            _events.warning(
                "registration_waits",
                broker=self.broker.id,
                at_most_ms=left_ms,
                reason="the id is registered; if that is an earlier life of this broker, its session ends "
                "soon",
            )
        deadline_ms = self._clock.monotonic_ms() + left_ms
        while left_ms > 0:
            changed: Pending[WatchEvent | None] = Pending()
            stat: Stat | None = yield self._store.exists(path, changed.complete)
            if stat is None or stat.czxid != old.czxid:
                return False
            timer = self._clock.call_later(left_ms, partial(changed.complete, None))
            yield changed
            timer.cancel()
            left_ms = deadline_ms - self._clock.monotonic_ms()
        stat = yield self._store.exists(path)
        return stat is not None and stat.czxid == old.czxid

    @steps
    def _check_addresses(self) -> Steps[None]:
        own = {(endpoint.host, endpoint.port) for endpoint in self.broker.endpoints}
        names = yield self._store.children(znodes.BROKER_IDS)
        reads = {
            broker_id: self._store.get(znodes.broker_path(broker_id))
            for broker_id in znodes.numbered(names)
            if broker_id != self.broker.id
        }
        yield gather(reads.values())
        for broker_id, read in reads.items():
            if read.error is not None:
                continue  # it left in between
            data, _ = read.result()
            path = znodes.broker_path(broker_id)
            other = readable(self._store, path, znodes.decode_broker, broker_id, data)
            if other is None:
                continue  # where it listens is not known
            common = own & {(endpoint.host, endpoint.port) for endpoint in other.endpoints}
            if common:
                listed = ",".join(f"{host}:{port}" for host, port in sorted(common))
                raise RegistrationError(
                    f"Configured end points {listed} in advertised listeners are already registered by "
                    f"broker {broker_id}"
                )

    def __repr__(self) -> str:
        return f"<BrokerRegistration {self.broker.id} epoch={self.broker_epoch}>"


def _updated(done: Pending[None]) -> None:
    if done.error is not None:
        # The session has ended; the registration in the next one says it.
        _events.warning("registration_not_updated", reason=done.error)
