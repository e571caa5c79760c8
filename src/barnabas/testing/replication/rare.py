"""Which rare states a history of the model has come to (`barnabas.testing.sometimes`)."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Protocol

from barnabas.cluster.controller.controller import KafkaController
from barnabas.cluster.store import znodes
from barnabas.cluster.store.memory import MemoryTable
from barnabas.core.ids import NO_LEADER, TopicPartition
from barnabas.log.manager import LogManager
from barnabas.log.producers import BATCHES_KEPT
from barnabas.replica.manager import ReplicaManager
from barnabas.testing.replication.channels import Channels
from barnabas.testing.sometimes import sometimes


class Copying(Protocol):
    """A broker as far as its logs are looked at: `broker.SimulatedBroker`, which imports this module."""

    replicas: ReplicaManager
    logs: LogManager
    active_segments: dict[TopicPartition, int]


class Watched(Copying, Protocol):
    """What is looked at in a broker that a fault befalls; the same class."""

    id: int
    unanswered: Counter[tuple[str, TopicPartition]]
    channels: Channels
    controller: KafkaController

    @property
    def brokers(self) -> "Mapping[int, Watched]": ...


class Holding(Protocol):
    """A broker whose logs the judge reads; the same class."""

    logs: LogManager


def _pipeline_is_unanswered(broker: Watched, _table: MemoryTable) -> bool:
    return max(broker.unanswered.values(), default=0) >= BATCHES_KEPT


def _isr_is_to_change(broker: Watched, _table: MemoryTable) -> bool:
    led = (each for each in broker.replicas.partitions if each.leader_log is not None)
    return any(each.isr_state.in_flight for each in led)


def _hears_of_roles(broker: Watched, _table: MemoryTable) -> bool:
    return any(other.channels.waits_for_roles(broker.id) for other in broker.brokers.values())


@lru_cache(maxsize=64)
def _adding(topic_znode: bytes) -> frozenset[int]:
    """The brokers that reassignments add to partitions of a topic. Kept: a fault looks for its moment many
    times between two changes of a topic.
    """
    assignments = znodes.decode_topic(topic_znode).partitions.values()
    return frozenset(broker for assignment in assignments for broker in assignment.adding)


def _is_added(broker: Watched, table: MemoryTable) -> bool:
    znode_of = (table.find(znodes.topic_path(topic)) for topic in table.children(znodes.TOPICS))
    return any(broker.id in _adding(znode.data) for znode in znode_of if znode is not None)


def _deletes_topics(broker: Watched, table: MemoryTable) -> bool:
    return broker.controller.is_active and bool(table.children(znodes.DELETE_TOPICS))


_ROLES: Final = "a session is lost while a LeaderAndIsr is under way"
MOMENTS: Final[dict[str, Callable[[Watched, MemoryTable], bool]]] = {
    "a leader dies with five batches of one producer unanswered": _pipeline_is_unanswered,
    "a leader dies while its ISR is to shrink or grow": _isr_is_to_change,
    "a replica dies that a reassignment adds": _is_added,
    "a controller dies while topics are being deleted": _deletes_topics,
    _ROLES: _hears_of_roles,
}
"""The rare states that depend on when a fault strikes, and whether it is the moment for a broker. Others
follow from what faults do.
"""


def at_a_kill(broker: Watched, table: MemoryTable) -> None:
    """The broker is about to die where it stands."""
    for state, is_it in MOMENTS.items():
        if state != _ROLES and is_it(broker, table):
            sometimes(state)
    led = (each for each in broker.replicas.partitions if each.leader_log is not None)
    if any(each.isr_state.isr == {broker.id} for each in led):
        sometimes("the only replica in sync dies")


def at_the_end_of_a_session(broker: Watched) -> None:
    """The store takes the broker, which lives, for dead."""
    if any(other.channels.waits_for_roles(broker.id) for other in broker.brokers.values()):
        sometimes(_ROLES)


def when_it_goes_on(broker: Watched, table: MemoryTable) -> None:
    """A broker that stood still runs again."""
    for partition in broker.replicas.partitions:
        znode = table.find(znodes.partition_state_path(partition.tp))
        if partition.leader_log is not None and znode is not None:
            stored = znodes.decode_partition_state(znode.data, znode.stat).leader_and_isr
            if stored.leader not in (broker.id, NO_LEADER):
                sometimes("a leader of the past goes on when another leads")


def when_a_state_is_written(
    brokers: Mapping[int, Holding], tp: TopicPartition, before: int, after: int
) -> None:
    """A controller writes who leads a partition."""
    log = brokers[after].logs.get(tp) if after not in (before, NO_LEADER) else None
    if log is not None and log.log_end_offset > log.high_watermark:
        sometimes("a replica leads whose log goes on beyond its high watermark")


def after_roles(broker: Copying) -> None:
    """A broker has its roles: from now on its followers' logs may be cut."""
    broker.active_segments.update({tp: log.segments[-1].base_offset for tp, log in broker.logs.logs.items()})


def after_a_cut(broker: Copying) -> None:
    """A follower of this broker has cut its log."""
    for tp, log in broker.logs.logs.items():
        # A snapshot is taken where a segment begins.
        if log.segments[-1].base_offset < broker.active_segments.get(tp, 0):
            sometimes("a follower is cut below a snapshot")
    after_roles(broker)
