"""`MetadataCache`: what a broker knows of the cluster, and answers clients (``ZkMetadataCache``).

Theory of operation
-------------------
Only the controller's UpdateMetadata requests change it. The brokers in one *replace* the known ones;
its partitions are a delta, in which leader -2 removes a partition. Each request makes a new immutable
`Snapshot` (sharing what did not change), so a reader that takes `cache.snapshot` once sees one state of the
cluster however long it reads.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from barnabas.cluster.brokers import Broker
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import LEADER_DURING_DELETE, NO_BROKER, ZERO_UUID, TopicPartition, Uuid
from barnabas.core.slices import Sliced, in_one_piece
from barnabas.network.endpoints import Endpoint

_events: Final = EventLog("cluster.metadata_cache")


class PartitionState(NamedTuple):
    """What the controller said last of a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int


class MetadataDelta(NamedTuple):
    """What an UpdateMetadata brings."""

    controller_id: int
    brokers: Mapping[int, Broker]
    """All that live."""
    topic_ids: Iterable[tuple[str, Uuid]]
    """The ids of topics; zeros for one without an id."""
    partitions: Iterable[tuple[TopicPartition, PartitionState]]
    """Those that changed; with leader -2 those that are deleted.
    Walked once: it may be made from the request on the way.
    """


class MetadataChange(NamedTuple):
    """What an UpdateMetadata changed."""

    topics: set[str]
    """All that it names."""
    deleted: list[TopicPartition]


class PartitionAnswer(NamedTuple):
    """A partition as a Metadata response describes it on one listener."""

    error: ErrorCode
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


_DIFFERENT_NAMED_MAX: Final = 10
"""How many brokers with other listeners are named in the log."""

_NOTHING: Final[Mapping[int, PartitionState]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the cluster; never changes."""

    partitions: Mapping[str, Mapping[int, PartitionState]] = field(default_factory=dict)
    topic_ids: Mapping[str, Uuid] = field(default_factory=dict)
    topic_names: Mapping[Uuid, str] = field(default_factory=dict)
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    endpoints: Mapping[int, Mapping[str, Endpoint]] = field(default_factory=dict)
    """For each live broker, its endpoints by listener.
    The same object as before when no broker has changed.
    """
    controller_id: int = NO_BROKER

    def describe(
        self,
        topic: str,
        listener: str,
        *,
        partitions: Iterable[int] | None = None,
        endpoints_as_errors: bool = False,
        listeners_as_errors: bool = True,
    ) -> Iterator[PartitionAnswer]:
        """The partitions of a topic as clients of a listener see them, or `partitions` of them, which must
        exist; none for a topic that is not here.

        `endpoints_as_errors` (Metadata v0) leaves replicas out that have no endpoint there, with
        REPLICA_NOT_AVAILABLE; `listeners_as_errors` (v6 on) says LISTENER_NOT_FOUND when the leader lives
        but lacks the listener.
        """
        known = self.partitions.get(topic, _NOTHING)
        for partition in known if partitions is None else partitions:
            yield self._answer(
                partition, known[partition], listener, endpoints_as_errors, listeners_as_errors
            )

    def _answer(
        self,
        partition: int,
        state: PartitionState,
        listener: str,
        endpoints_as_errors: bool,
        listeners_as_errors: bool,
    ) -> PartitionAnswer:
        replicas, isr = state.replicas, state.isr
        if endpoints_as_errors:
            replicas, isr = self._reachable(replicas, listener), self._reachable(isr, listener)
        if listener in self.endpoints.get(state.leader, ()):
            complete = len(replicas) == len(state.replicas) and len(isr) == len(state.isr)
            error = ErrorCode.NONE if complete else ErrorCode.REPLICA_NOT_AVAILABLE
            leader = state.leader
        else:
            error = ErrorCode.LEADER_NOT_AVAILABLE
            if listeners_as_errors and state.leader in self.brokers:
                error = ErrorCode.LISTENER_NOT_FOUND
            leader = NO_BROKER
        return PartitionAnswer(
            error, partition, leader, state.leader_epoch, replicas, isr, state.offline_replicas
        )

    def _reachable(self, brokers: Iterable[int], listener: str) -> tuple[int, ...]:
        return tuple(broker for broker in brokers if listener in self.endpoints.get(broker, ()))


class MetadataCache:
    """The current `Snapshot`, and the questions that are asked most."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.snapshot = Snapshot()
        self._different_listeners: dict[int, list[str]] = {}
        """The brokers without the same listeners as this one, as the log has named them."""

    @property
    def controller_id(self) -> int:
        """The broker that sent the last update; -1 before the first."""
        return self.snapshot.controller_id

    def topics(self) -> list[str]:
        return list(self.snapshot.partitions)

    def __contains__(self, topic: object) -> bool:
        return topic in self.snapshot.partitions

    def topic_id(self, name: str) -> Uuid:
        """A topic's id; the zero UUID when it is not known."""
        return self.snapshot.topic_ids.get(name, ZERO_UUID)

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self.snapshot.topic_names.get(topic_id)

    def partition(self, tp: TopicPartition) -> PartitionState | None:
        """What the controller said last of a partition."""
        return self.snapshot.partitions.get(tp.topic, _NOTHING).get(tp.partition)

    def partitions(self, topic: str) -> Mapping[int, PartitionState]:
        """All partitions of a topic; empty for one that is not here."""
        return self.snapshot.partitions.get(topic, _NOTHING)

    def alive_brokers(self) -> list[Broker]:
        return list(self.snapshot.brokers.values())

    def alive_broker(self, broker_id: int) -> Broker | None:
        return self.snapshot.brokers.get(broker_id)

    def broker_endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        """Where a live broker is reached on a listener."""
        return self.snapshot.endpoints.get(broker_id, {}).get(listener)

    def leader_endpoint(self, tp: TopicPartition, listener: str) -> Endpoint | None:
        """Where the leader of a partition is reached on a listener, if it has one that lives there."""
        state = self.partition(tp)
        return None if state is None else self.broker_endpoint(state.leader, listener)

    def apply(self, delta: MetadataDelta) -> list[TopicPartition]:
        """Takes a small update over; the partitions that it deleted."""
        return in_one_piece(self.apply_in_slices(delta)).deleted

    def apply_in_slices(self, delta: MetadataDelta) -> Sliced[MetadataChange]:
        """Takes an update over.

        Readers see the whole update at the end, and nothing of it before. No other update may be applied
        meanwhile.
        """
        before = self.snapshot
        brokers = delta.brokers
        endpoints: Mapping[int, Mapping[str, Endpoint]]
        endpoints = yield from _endpoints(brokers)
        yield from self._check_listeners(endpoints)
        if (brokers, endpoints) == (before.brokers, before.endpoints):
            # Nearly always: what was worked out of a snapshot may go by the identity of its parts.
            brokers, endpoints = before.brokers, before.endpoints
        topic_ids = dict(before.topic_ids)
        touched: dict[str, None] = {}
        for topic, topic_id in delta.topic_ids:
            touched[topic] = None
            if topic_id == ZERO_UUID:
                topic_ids.pop(topic, None)
            else:
                topic_ids[topic] = topic_id
            yield
        partitions, deleted = yield from _merge(before.partitions, delta, topic_ids, touched)
        topic_names = yield from _names_by_id(before, topic_ids, touched)
        assert self.snapshot is before, "two updates crossed: one of them would be lost"
        self.snapshot = Snapshot(
            partitions,
            topic_ids,
            topic_names,
            brokers,
            endpoints,
            delta.controller_id if delta.controller_id >= 0 else NO_BROKER,
        )
        return MetadataChange(set(touched), deleted)

    def _check_listeners(self, endpoints: Mapping[int, Mapping[str, Endpoint]]) -> Sliced[None]:
        own = endpoints.get(self._broker_id)
        if own is None:
            return
        different: dict[int, list[str]] = {}
        for broker_id, names in endpoints.items():
            if names.keys() != own.keys() and len(different) < _DIFFERENT_NAMED_MAX:
                different[broker_id] = sorted(names)
            yield
        # Every update names all brokers; an operator who adds a listener needs the line once.
        if different and different != self._different_listeners:
            _events.error("listeners_not_identical", own=sorted(own), brokers=different)
        self._different_listeners = different

    def __repr__(self) -> str:
        snapshot = self.snapshot
        return (
            f"<MetadataCache {len(snapshot.partitions)} topics brokers={sorted(snapshot.brokers)} "
            f"controller={snapshot.controller_id}>"
        )


def _merge(
    known: Mapping[str, Mapping[int, PartitionState]],
    delta: MetadataDelta,
    topic_ids: dict[str, Uuid],
    touched: dict[str, None],
) -> Sliced[tuple[dict[str, Mapping[int, PartitionState]], list[TopicPartition]]]:
    """All partitions after the delta, and the deleted ones; takes deleted topics out of `topic_ids`.

    Notes the topics that the delta names in `touched`.
    """
    merged = dict(known)
    copies: dict[str, dict[int, PartitionState]] = {}
    deleted: dict[TopicPartition, None] = {}
    for tp, state in delta.partitions:
        copy = copies.get(tp.topic)
        if copy is None:
            copy = copies[tp.topic] = dict(known.get(tp.topic, ()))
            touched[tp.topic] = None
        if state.leader == LEADER_DURING_DELETE:
            copy.pop(tp.partition, None)
            deleted[tp] = None
        else:
            copy[tp.partition] = state
            deleted.pop(tp, None)
        yield
    for topic, copy in copies.items():
        if copy:
            merged[topic] = copy
        else:
            merged.pop(topic, None)
            topic_ids.pop(topic, None)
        yield
    return merged, list(deleted)


def _names_by_id(
    before: Snapshot, topic_ids: Mapping[str, Uuid], touched: Iterable[str]
) -> Sliced[dict[Uuid, str]]:
    names = dict(before.topic_names)
    for topic in touched:
        old = before.topic_ids.get(topic)
        if old is not None and names.get(old) == topic:
            del names[old]
        yield
    for topic in touched:
        new = topic_ids.get(topic)
        if new is not None:
            names[new] = topic
        yield
    return names


def _endpoints(brokers: Mapping[int, Broker]) -> Sliced[dict[int, Mapping[str, Endpoint]]]:
    endpoints: dict[int, Mapping[str, Endpoint]] = {}
    for broker in brokers.values():
        endpoints[broker.id] = {endpoint.name: endpoint for endpoint in broker.endpoints}
        yield
    return endpoints
