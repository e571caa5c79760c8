"""Producers and consumers of the model, and the answers that they got."""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending, gather
from barnabas.log.producers import BATCHES_KEPT
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.fetch_reader import FetchParams, PartitionRead
from barnabas.replica.log_read import Isolation
from barnabas.replica.produce import ACKS_ALL, AppendResult
from barnabas.testing.clock import VirtualClock
from barnabas.testing.replication.broker import Brokers, SimulatedBroker, live
from barnabas.testing.replication.judge import Judge, values_of
from barnabas.testing.replication.wire import PartyNetwork

if TYPE_CHECKING:
    from barnabas.core.ids import Uuid

_TIMEOUT_MS: Final = 2_000
_PATIENCE_MS: Final = 300


class SimulatedClient(ABC):
    """One who finds leaders by asking any broker that it reaches."""

    life = 1

    def __init__(
        self, name: str, clock: VirtualClock, rng: Random, wire: PartyNetwork, brokers: Brokers, judge: Judge
    ) -> None:
        self.name = name
        self.stopping = False
        self._clock = clock
        self._rng = rng
        self._wire = wire
        self._brokers = brokers
        self._judge = judge

    def arrive(self, callback: Callable[[], object]) -> None:
        """See `wire.Party`."""
        callback()

    @abstractmethod
    def run(self, tps: list[TopicPartition], pause_ms: float) -> None:
        """Does one thing, and the next after a pause of this mean, until it is stopped."""

    def _leader(self, tp: TopicPartition) -> SimulatedBroker | None:
        known = [broker.metadata for broker in live(self._brokers)]
        state = self._rng.choice(known).partition(tp) if known else None
        return None if state is None else self._brokers.get(state.leader)


class SimulatedProducer(SimulatedClient):
    """Sends batches with acks=all, and now and then with acks=1, to whom nothing is promised."""

    def run(self, tps: list[TopicPartition], pause_ms: float) -> None:
        """Sends one batch, and the next one later."""
        if self.stopping:
            return
        self._send(self._rng.choice(tps))
        self._clock.call_later(self._rng.expovariate(1 / pause_ms), lambda: self.run(tps, pause_ms))

    def _send(self, tp: TopicPartition) -> None:
        leader = self._leader(tp)
        if leader is None:
            return
        acks = 1 if self._rng.random() < 0.2 else ACKS_ALL
        values = [self._judge.new_value(self.name) for _ in range(self._rng.randint(1, 3))]
        now_ms = self._clock.time_ms()
        batch = build_batch([Record(place, now_ms, None, value) for place, value in enumerate(values)])

        def append() -> Pending[list[AppendResult]]:
            results = [leader.replicas.appender.append(tp, bytearray(batch), acks)]
            answer = leader.replicas.appender.acknowledge(results, acks, _TIMEOUT_MS)
            if acks == ACKS_ALL:
                watched = answer if isinstance(answer, Pending) else Pending.of(answer)
                unanswered, waits_here = leader.unanswered, (self.name, tp)
                unanswered[waits_here] += 1
                watched.when_done(lambda _: unanswered.subtract([waits_here]))
                watched.when_done(lambda done: self._judge.acknowledged(leader, tp, done.result()[0], values))
            return answer if isinstance(answer, Pending) else Pending.of(answer)

        self._wire.call(self, leader, append, lambda _: None)


class Unanswered(NamedTuple):
    """A batch of an idempotent producer that nobody has answered."""

    sequence: int
    values: list[bytes]
    batch: bytes


class IdempotentProducer(SimulatedClient):
    """Has up to five batches of a partition on their way, and sends again what got no answer.

    Its records may be there once only, and in order, with all faults of the brokers. Where a leader refuses
    one it gives nothing up: a leader of the past may not know what a later one has acknowledged.
    """

    def __init__(
        self, name: str, clock: VirtualClock, rng: Random, wire: PartyNetwork, brokers: Brokers, judge: Judge
    ) -> None:
        super().__init__(name, clock, rng, wire, brokers, judge)
        self.unanswered: defaultdict[TopicPartition, list[Unanswered]] = defaultdict(list)
        self.refused: dict[TopicPartition, ErrorCode] = {}
        """What the oldest unanswered batch of a partition got last."""
        self._sequences: Counter[TopicPartition] = Counter()
        self._waiting: set[TopicPartition] = set()

    def run(self, tps: list[TopicPartition], pause_ms: float) -> None:
        """Sends what a partition has; after it is stopped only what was sent before."""
        tp = self._rng.choice(tps)
        if tp not in self._waiting:
            self._send(tp)
        if not self.stopping or any(self.unanswered.values()):
            self._clock.call_later(self._rng.expovariate(1 / pause_ms), lambda: self.run(tps, pause_ms))

    def _send(self, tp: TopicPartition) -> None:
        leader = self._leader(tp)
        if leader is None:
            return
        sent = self.unanswered[tp]
        while not self.stopping and len(sent) < BATCHES_KEPT:
            sent.append(self._next(tp))
        batches = list(sent)
        if not batches:
            return

        def append_all() -> Pending[list[AppendResult]]:
            outcomes = [self._append(leader, tp, each) for each in batches]
            return gather(outcomes).then(lambda _: [outcome.result() for outcome in outcomes])

        self._waiting.add(tp)
        self._wire.call(self, leader, append_all, lambda answer: self._answered(tp, batches, answer))

    def _next(self, tp: TopicPartition) -> Unanswered:
        values = [self._judge.new_value(self.name) for _ in range(self._rng.randint(1, 3))]
        now_ms = self._clock.time_ms()
        batch = build_batch(
            [Record(place, now_ms, None, value) for place, value in enumerate(values)],
            producer_id=1,
            producer_epoch=0,
            base_sequence=self._sequences[tp],
        )
        self._sequences[tp] += len(values)
        return Unanswered(self._sequences[tp], values, bytes(batch))

    def _append(self, leader: SimulatedBroker, tp: TopicPartition, sent: Unanswered) -> Pending[AppendResult]:
        appender = leader.replicas.appender
        answer = appender.acknowledge(
            [appender.append(tp, bytearray(sent.batch), ACKS_ALL)], ACKS_ALL, _TIMEOUT_MS
        )
        watched = answer if isinstance(answer, Pending) else Pending.of(answer)
        watched.when_done(lambda done: self._judge.acknowledged(leader, tp, done.result()[0], sent.values))
        return watched.then(lambda results: results[0])

    def _answered(
        self, tp: TopicPartition, batches: list[Unanswered], answer: Pending[list[AppendResult]]
    ) -> None:
        self._waiting.discard(tp)
        if answer.error is not None:
            return
        for sent, result in zip(batches, answer.result(), strict=True):
            if result.error is not ErrorCode.NONE:
                self.refused[tp] = result.error
                return  # it is sent again, and all behind it
            self.unanswered[tp].remove(sent)


class SimulatedConsumer(SimulatedClient):
    """Reads every partition to its high watermark, from the beginning on:
    from leaders, or from any replica (KIP-392).
    """

    def __init__(
        self,
        name: str,
        clock: VirtualClock,
        rng: Random,
        wire: PartyNetwork,
        brokers: Brokers,
        judge: Judge,
        *,
        nearest: bool,
    ) -> None:
        super().__init__(name, clock, rng, wire, brokers, judge)
        self._nearest = nearest
        self._positions: dict[TopicPartition, int] = {}

    def run(self, tps: list[TopicPartition], pause_ms: float) -> None:
        """Fetches one partition, and the next when it has the answer."""
        if self.stopping:
            return
        tp = self._rng.choice(tps)
        server = self._rng.choice(list(self._brokers.values())) if self._nearest else self._leader(tp)
        if server is not None:
            self._fetch(tp, server)
        self._clock.call_later(self._rng.expovariate(1 / pause_ms), lambda: self.run(tps, pause_ms))

    def _fetch(self, tp: TopicPartition, server: SimulatedBroker) -> None:
        position = self._positions.get(tp, 0)
        params = FetchParams(
            max_wait_ms=_PATIENCE_MS,
            min_bytes=1,
            max_bytes=10_000,
            isolation=Isolation.HIGH_WATERMARK,
            leader_only=not self._nearest,
        )
        topic_id: Uuid = server.metadata.topic_id(tp.topic)

        wanted = CachedPartition(tp.topic, topic_id, tp.partition, fetch_offset=position, max_bytes=10_000)

        def read() -> Pending[list[tuple[int, bytes]]]:
            reads = server.replicas.fetches.fetch(params, [wanted])
            answer = reads if isinstance(reads, Pending) else Pending.of(reads)
            return answer.then(lambda done: self._seen(server, tp, done[0]))

        def answered(answer: Pending[list[tuple[int, bytes]]]) -> None:
            if answer.error is not None or self._positions.get(tp, 0) != position:
                return
            for offset, value in answer.result():
                if offset >= position:
                    self._judge.answers[tp].read.append((offset, value))
                    self._positions[tp] = offset + 1

        self._wire.call(self, server, read, answered)

    def _seen(
        self, server: SimulatedBroker, tp: TopicPartition, read: PartitionRead
    ) -> list[tuple[int, bytes]]:
        if read.found is None:
            return []
        records = read.found.records
        found = values_of(records if isinstance(records, bytes) else bytes(materialize([records])))
        self._judge.shown(server, tp, found)
        return found
