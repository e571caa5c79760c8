"""What keeps clients out until the broker knows its cluster.

Theory of operation
-------------------
A broker that has just registered knows no topic. The controller sends it all of them: UpdateMetadata, and
LeaderAndIsr for the partitions that it holds. A client that asks before would be answered
UNKNOWN_TOPIC_OR_PARTITION for a topic that it used a moment ago, and some give up then. So the sockets take
connections from the start, because the controller needs them, but the requests of others wait in a `Gate`
until `FirstMetadata` says that nothing is missing.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import MetadataStore, NoNodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.chunks import Chunks
from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending, Steps, gather, steps
from barnabas.core.slices import Slices
from barnabas.network.errors import CloseConnection
from barnabas.network.peer import Outcome, Peer, Service
from barnabas.protocol.api import ApiKey
from barnabas.replica.hosted import HostedPartitions

_log = EventLog("node.readiness")

AT_ONCE: Final = frozenset(
    {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.API_VERSIONS}
)
"""The requests by which a broker gets to know its cluster, and the one that needs no knowledge."""

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait at the gate; who sends more finds its connection closed, as if the broker were not up."""

PATIENCE_MS_MIN: Final = 18_000
"""What a controller may be silent before clients are let in without the rest; the default of
``zookeeper.session.timeout.ms``. With sessions of a second, a controller that dies after it has named this
broker is replaced by one that sends the topics only later than that.
"""

_LOOK_S_MIN: Final = 0.002
_LOOK_S_MAX: Final = 0.2

READ_TOPICS_MAX: Final = 100
"""Up to this number of missing topics the znodes of each are read; beyond it, it is only looked whether they
are there.
"""


class _Held(NamedTuple):
    """A request that waits at the gate."""

    peer: Peer
    frame: memoryview
    answer: Pending[Chunks | None]


class Gate:
    """Holds requests back until it is opened; implements `network.peer.Service`."""

    def __init__(self, service: Service, clock: Clock) -> None:
        self._is_open = False
        self._service = service
        self._clock = clock
        self._held: list[_Held] = []
        self._held_bytes = 0

    def handle(self, peer: Peer, frame: memoryview) -> Outcome:
        # A connection that was made before the gate opened goes through it for as long as it lives.
        if self._is_open or int.from_bytes(frame[:2]) in AT_ONCE:
            return self._service.handle(peer, frame)
        self._held_bytes += len(frame)
        if self._held_bytes > HELD_BYTES_MAX:
            self._held_bytes -= len(frame)
            raise CloseConnection("this broker is starting, and too many requests wait for that already")
        # One of each connection: the next is read when this one is handled, so that they keep their order.
        peer.hold()
        answer: Pending[Chunks | None] = Pending()
        self._held.append(_Held(peer, frame, answer))
        return answer

    def begin_turn(self) -> None:
        self._service.begin_turn()

    def end_turn(self) -> None:
        self._service.end_turn()

    @steps
    def open(self) -> Steps[None]:
        """Handles what waited, in the order in which it came, and holds nothing back from now on.

        In slices: thousands of clients may have waited, and none of them may hold the others, nor the
        controller.
        """
        self._is_open = True
        held, self._held, self._held_bytes = self._held, [], 0
        slices = Slices(self._clock)
        for peer, frame, answer in held:
            try:
                outcome = self._service.handle(peer, frame)
            except Exception as error:
                answer.fail(error)
            else:
                if isinstance(outcome, Pending):
                    outcome.when_done(answer.end_as)
                else:
                    answer.complete(outcome)
            peer.release()
            if slices.over():
                yield slices.next_turn()

    def __repr__(self) -> str:
        return f"<Gate {len(self._held)} requests wait, {self._held_bytes} bytes>"


@steps
def existing_topics(store: MetadataStore) -> Steps[set[str]]:
    """The topics of the cluster that are not about to be deleted."""
    names = set((yield store.children(znodes.TOPICS)))
    return names - set((yield store.children(znodes.DELETE_TOPICS)))


@steps
def topics_with_leaders(store: MetadataStore, among: set[str]) -> Steps[set[str]]:
    """Those of the topics that are there and whose partitions ever had a leader: the controller sends only
    these.

    Nor does it send what it cannot read. That is looked into once few topics are left.
    """
    names = among & (yield existing_topics(store))
    looks = {name: store.exists(znodes.partitions_path(name)) for name in sorted(names)}
    yield gather(looks.values())
    led = {name for name, look in looks.items() if look.error is not None or look.result() is not None}
    if len(led) > READ_TOPICS_MAX:
        return led
    reads = {name: _is_readable(store, name) for name in sorted(led)}
    yield gather(reads.values())
    return {name for name, read in reads.items() if read.error is not None or read.result()}


@steps
def _is_readable(store: MetadataStore, topic: str) -> Steps[bool]:
    """Whether the znode of a topic can be read, and the state of one of its partitions."""
    path = znodes.topic_path(topic)
    try:
        data, _ = yield store.get(path)
        names = yield store.children(znodes.partitions_path(topic))
    except NoNodeError:
        return False
    if readable(store, path, znodes.decode_topic, data) is None:
        return False
    for partition in znodes.numbered(names):
        path = znodes.partition_state_path(TopicPartition(topic, partition))
        try:
            data, stat = yield store.get(path)
        except NoNodeError:
            continue
        if readable(store, path, znodes.decode_partition_state, data, stat) is not None:
            return True
    return False


def look_again_s(waited_s: float) -> float:
    """How soon the start looks again whether the first metadata is complete. Most have it at once. One that
    waits for long uses next to no processor, or the parent of a machine would take it for work
    (`machine.broker_processes`).
    """
    return min(max(_LOOK_S_MIN, waited_s / 100), _LOOK_S_MAX)


class FirstMetadata:
    """Which of the cluster's topics the broker does not know yet;
    `topics` are those there when it registered.
    """

    def __init__(
        self,
        broker_id: int,
        topics: set[str],
        metadata: MetadataCache,
        hosted: HostedPartitions,
        clock: Clock,
        *,
        session_ms: float,
    ) -> None:
        """The wait ends after a session time-out, and at least `PATIENCE_MS_MIN`, in which nothing more came
        from a controller that knows the broker.
        """
        self.topics = topics
        self._broker_id = broker_id
        self._metadata = metadata
        self._hosted = hosted
        self._clock = clock
        self._patience_ms = max(session_ms, PATIENCE_MS_MIN)
        self._least: int | None = None
        self._since_ms = clock.monotonic_ms()
        self._next: TopicPartition | None = None

    @property
    def named(self) -> bool:
        """Whether the controller has named this broker."""
        return self._metadata.alive_broker(self._broker_id) is not None

    @property
    def known(self) -> int:
        """How much the broker knows by now: itself, topics of the cluster, and partitions of its own."""
        return int(self.named) + len(self._metadata.snapshot.partitions) + len(self._hosted)

    def complete(self) -> bool:
        """Whether clients may ask."""
        if not self.named:
            return False
        if self._next is not None and self._is_missing(self._next):
            return self._is_stuck()  # one look, while thousands of partitions are made
        self._next = next(self._missing_partitions(), None)
        self.topics.difference_update(self._metadata.snapshot.partitions)
        return (self._next is None and not self.topics) or self._is_stuck()

    def _is_stuck(self) -> bool:
        missing, now_ms = len(self.topics) - len(self._hosted), self._clock.monotonic_ms()
        if self._least is None or missing < self._least:
            self._least, self._since_ms = missing, now_ms
        if now_ms - self._since_ms < self._patience_ms:
            return False
        _log.error(
            "start.metadata_incomplete",
            topics=sorted(self.topics)[:10],
            partition=self._next,
            meaning="the controller does not send these: clients are answered that they are unknown",
        )
        return True

    def _missing_partitions(self) -> Iterator[TopicPartition]:
        for topic, partitions in self._metadata.snapshot.partitions.items():
            for partition, state in partitions.items():
                if self._broker_id in state.replicas:
                    tp = TopicPartition(topic, partition)
                    if self._is_missing(tp):
                        yield tp

    def _is_missing(self, tp: TopicPartition) -> bool:
        return (
            tp not in self._hosted.online
            and not self._hosted.is_offline(tp)
            and self._metadata.partition(tp) is not None
        )

    def __repr__(self) -> str:
        return (
            f"<FirstMetadata of {self._broker_id} named={self.named} topics={len(self.topics)} "
            f"next={self._next}>"
        )
