"""`Follower`: copies partitions from their leaders, one fetch at a time for each (``ReplicaFetcherThread``).

A script in the place of the fetcher that the broker does not have yet: it asks from the end of its log on, says which
epoch its last record has, cuts where the leader says that the two diverge (KIP-595), and appends what it is given.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas.cluster.metadata.registration import BrokerRegistration
from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import NO_EPOCH, TopicPartition
from barnabas.core.pending import Pending
from barnabas.log.leader_epochs import EpochEnd
from barnabas.protocol.messages.fetch import FetchPartition
from barnabas.replica.fetch import FetchParams, PartitionRead
from barnabas.replica.fetch_session import CachedPartition
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.partition import Isolation
from barnabas.replica.state_changes import InitialFetchState
from barnabas.testing.clock import ProcessClock
from barnabas.testing.replication.wire import Party, Wire

if TYPE_CHECKING:
    from barnabas.log.log import Log

_WAIT_MS: Final = 200
_BACKOFF_MS: Final = 50.0
_PAUSE_MS: Final = 10.0
_SIZES: Final = (200, 2_000, 10_000)


class Fetched(NamedTuple):
    """A leader's answer, as it is on the wire."""

    error: ErrorCode
    records: bytes = b""
    high_watermark: int = -1
    log_end_offset: int = -1
    diverging: EpochEnd | None = None


class FetchingBroker(Party, Protocol):
    """What a fetch needs of the broker that makes it, and of the one that serves it."""

    id: int
    rng: Random
    wire: Wire
    clock: ProcessClock
    replicas: ReplicaManager
    registration: BrokerRegistration

    @property
    def brokers(self) -> Mapping[int, "FetchingBroker"]: ...


class Follower:
    """All partitions that a broker follows (`replica.state_changes.Fetchers`)."""

    def __init__(self, broker: FetchingBroker) -> None:
        self._broker = broker
        self._targets: dict[TopicPartition, InitialFetchState] = {}
        self.idle = False
        """Whether it stops to copy for a while."""

    def fetch(self, targets: Iterable[InitialFetchState]) -> None:
        """Starts to fetch these, from the beginning where it fetched them before."""
        for target in targets:
            self._targets[target.partition.tp] = target
            self._ask(target)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetches these no more."""
        for tp in partitions:
            self._targets.pop(tp, None)

    def _ask(self, target: InitialFetchState) -> None:
        tp, log = target.partition.tp, target.partition.log
        if self._targets.get(tp) is not target or log is None:
            return
        if self.idle:
            self._later(target, _BACKOFF_MS)
            return
        latest = log.leader_epochs.latest_epoch
        request = FetchPartition(
            partition=tp.partition,
            fetch_offset=log.log_end_offset,
            log_start_offset=log.log_start_offset,
            current_leader_epoch=target.leader_epoch,
            last_fetched_epoch=NO_EPOCH if latest is None else latest,
            partition_max_bytes=self._broker.rng.choice(_SIZES),
        )
        me, leader = self._broker, self._broker.brokers[target.leader]
        me.wire.call(
            me,
            leader,
            lambda: serve(leader, me, CachedPartition(tp.topic, target.partition.topic_id, request)),
            lambda answer: self._answered(target, log, answer),
        )

    def _answered(self, target: InitialFetchState, log: "Log", answer: Pending[Fetched]) -> None:
        if self._targets.get(target.partition.tp) is not target:
            return  # an order of the controller came meanwhile
        fetched = answer.result() if answer.error is None else Fetched(ErrorCode.NETWORK_EXCEPTION)
        if fetched.diverging is not None:
            known = log.leader_epochs.end_offset_for(fetched.diverging.epoch, log.log_end_offset)
            log.truncate_to(max(0, min(fetched.diverging.end_offset, known.end_offset)))
        elif fetched.error is ErrorCode.NONE:
            if fetched.records:
                log.append_as_follower(fetched.records, self._broker.clock.time_ms())
            log.high_watermark = min(fetched.high_watermark, log.log_end_offset)
        pause_ms = _BACKOFF_MS if fetched.error else self._broker.rng.expovariate(1 / _PAUSE_MS)
        self._later(target, pause_ms)

    def _later(self, target: InitialFetchState, delay_ms: float) -> None:
        self._broker.clock.call_later(delay_ms, lambda: self._ask(target))

    def __repr__(self) -> str:
        return f"<Follower {sorted(map(str, self._targets))}>"


def serve(leader: FetchingBroker, follower: FetchingBroker, wanted: CachedPartition) -> Pending[Fetched]:
    """A replica's fetch at its leader."""
    params = FetchParams(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation=Isolation.LOG_END,
        replica_id=follower.id,
        broker_epoch=follower.registration.broker_epoch,
    )
    reads = leader.replicas.reader.fetch(params, [wanted])
    return reads.then(_on_the_wire) if isinstance(reads, Pending) else Pending.of(_on_the_wire(reads))


def _on_the_wire(reads: list[PartitionRead]) -> Fetched:
    (read,) = reads
    found = read.found
    if found is None:
        return Fetched(read.error)
    records = found.records if isinstance(found.records, bytes) else bytes(materialize([found.records]))
    return Fetched(read.error, records, found.high_watermark, found.log_end_offset, found.diverging)
