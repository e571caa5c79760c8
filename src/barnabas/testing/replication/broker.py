"""One machine's broker: the real controller, registration, replica manager and logs, without sockets.

It wires them itself: `node.parts` makes network clients, whose tasks need an event loop, and this model has
none. A life here begins and ends in milliseconds of processor time, for thousands of lives in a run.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from barnabas.broker.handlers.leader_and_isr import refused, take_roles
from barnabas.broker.handlers.stop_replica import stop_replicas
from barnabas.broker.handlers.update_metadata import take_over
from barnabas.cluster.brokers import Broker as BrokerIdentity
from barnabas.cluster.controller.controller import KafkaController
from barnabas.cluster.controller.term import ControllerConfig
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.registration import BrokerRegistration, ensure_persistent_paths
from barnabas.cluster.store.contract import SessionExpiredError
from barnabas.cluster.store.memory import MemoryEnsemble
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, random_uuid
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Sliced, in_one_piece
from barnabas.log.config import LogConfig
from barnabas.log.manager import LogManager
from barnabas.network.endpoints import Endpoint
from barnabas.node.control_requests import ControlRequests
from barnabas.node.isr_channel import IsrChannel
from barnabas.protocol.message import Response
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from barnabas.replica.alter_partition import AlterPartitionManager
from barnabas.replica.fetch_session import FetchSessionCache
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.verification import Verifier
from barnabas.testing.clock import ProcessClock, VirtualClock
from barnabas.testing.disk import SimulatedFilesystem
from barnabas.testing.replication import rare
from barnabas.testing.replication.channels import RETRY_MS, Channels, ToController
from barnabas.testing.replication.follower import LeaderCalls, fetchers
from barnabas.testing.replication.judge import Judge
from barnabas.testing.replication.store import SlowStore
from barnabas.testing.replication.wire import PartyNetwork, on_the_wire
from barnabas.testing.simulation.trace import Trace

if TYPE_CHECKING:
    from barnabas.log.log import Log

T = TypeVar("T")

Brokers: TypeAlias = "dict[int, SimulatedBroker]"

LISTENER: Final = "INTERNAL"
_SHUTDOWN_TRIES: Final = 3
_FETCH_SESSIONS: Final = 1
"""So few that two followers take each other's now and then."""
_VERSION: Final = 7
"""Of LeaderAndIsr."""


class SimulatedBroker:
    """One broker over all its lives; its disk stays."""

    def __init__(
        self,
        broker_id: int,
        *,
        clock: VirtualClock,
        rng: Random,
        wire: PartyNetwork,
        ensemble: MemoryEnsemble,
        brokers: Brokers,
        judge: Judge,
        trace: Trace,
        settings: dict[str, str],
        log_config: LogConfig,
    ) -> None:
        self.id = broker_id
        self.name = f"broker-{broker_id}"
        self.brokers = brokers
        self.wire = wire
        self.rng = rng
        self.lives = 0
        self.alive = False
        self.opened = False
        """Whether the logs of this life are open."""
        self._stopping = self._again = False
        self._world = clock
        self._ensemble = ensemble
        self._judge = judge
        self._trace = trace
        self._config = broker_config({"broker.id": str(broker_id), **settings})
        self._log_config = log_config
        self._new_disk()
        self._start_life()

    @property
    def life(self) -> int:
        """A number of its own for each life; 0 while it is dead."""
        return self.lives if self.alive else 0

    def lose_disk(self) -> None:
        """Deletes all its files. Only while it is dead."""
        self._judge.disks_were_lost = True
        self._new_disk()

    def _new_disk(self) -> None:
        self.disk = SimulatedFilesystem(seed=self.rng.getrandbits(32), now_ms=self._world.time_ms)
        self.disk.mkdir("/data")

    def arrive(self, callback: Callable[[], object]) -> None:
        """See `wire.Party`."""
        self.clock.arrive(callback)

    def _start_life(self) -> None:
        self.clock = ProcessClock(self._world)
        self.store = SlowStore(self._ensemble, self._world, self.clock, self.rng)
        self.opened = False
        self.metadata = MetadataCache(self.id)
        self.logs = LogManager(
            ["/data"],
            filesystem=self.disk,
            clock=self.clock,
            offload=InPlace(),
            log_config=lambda _topic: self._log_config,
        )
        endpoint = Endpoint(LISTENER, self.name, 9092)
        self.registration = BrokerRegistration(self.store, BrokerIdentity(self.id, (endpoint,)), self.clock)
        self.fetch_sessions = FetchSessionCache(
            _FETCH_SESSIONS, now_ms=self.clock.time_ms, new_id=lambda: self.rng.randrange(1, 2**31)
        )
        self.unanswered: Counter[tuple[str, TopicPartition]] = Counter()
        """Batches in the log of a leader that wait for their answer, by producer."""
        self.active_segments: dict[TopicPartition, int] = {}
        """Where the last segment of each log began when the last roles were taken."""
        self.leader_calls = LeaderCalls(self)
        self.fetchers = fetchers(self, self.leader_calls)
        self.replicas = ReplicaManager(
            self.id,
            config=self._config,
            clock=self.clock,
            logs=self.logs,
            metadata=self.metadata,
            alter_partition=AlterPartitionManager(
                self.id,
                lambda: self.registration.broker_epoch,
                IsrChannel(ToController(self), self.clock),
                self.clock,
            ),
            fetchers=self.fetchers,
            verifier=self._verifier(),
        )
        self.channels = Channels(self)
        self.controller = KafkaController(
            ControllerConfig(self.id, LISTENER),
            self.store,
            ControlRequests(self.channels),
            self.registration,
            self.clock,
            lambda: random_uuid(self.rng),
        )

    def _verifier(self) -> Verifier | None:
        """Who asks the coordinators of transactions; without coordinators there are none."""
        return None

    def _start_coordinators(self) -> None:
        """The broker is about to hear of its roles."""

    def _stop_coordinators(self) -> None:
        """The broker ends in order."""

    # --- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins a life, unless one is under way; after one that is coming to its end."""
        if self.alive:
            self._again = self._stopping
            return
        self._again = self._stopping = False
        self.lives += 1
        self.alive = True
        self._trace(f"{self.name} starts")
        if self.lives > 1:
            self._end_session()
            self._start_life()
        self._start().when_done(self._started)

    @steps
    def _start(self) -> Steps[None]:
        yield self.logs.start(broker_id=self.id, cluster_id="c")
        self.opened = True
        yield self.store.start()
        yield ensure_persistent_paths(self.store)
        yield self.registration.register()
        self._start_coordinators()
        yield self.controller.startup()
        self.replicas.start()

    def _started(self, done: Pending[None]) -> None:
        if isinstance(done.error, SessionExpiredError):
            # A start that loses its session ends in an error, and who watches over the broker starts it
            # again.
            self._die()
            self._world.call_later(RETRY_MS, self.start)
        elif done.error is not None:
            raise done.error

    def kill(self) -> None:
        """Ends the broker where it stands. Its files stay, and for a while its session does."""
        if self.alive:
            self._trace(f"{self.name} is killed")
            rare.at_a_kill(self, self._ensemble.table)
            self._die()
            self._world.call_later(self.rng.random() * 3_000, self._session_of(self.store.session_id))

    def _die(self) -> None:
        self.alive = False
        self.clock.die()
        self.disk.release_locks()

    def _session_of(self, session_id: int) -> Callable[[], object]:
        return lambda: self._ensemble.end(session_id) if self._ensemble.alive(session_id) else None

    def _end_session(self) -> None:
        """The store takes the session of an earlier life for dead when the same broker comes again."""
        self._session_of(self.store.session_id)()

    def expire_session(self, notice_ms: float) -> None:
        """The store takes the broker for dead;
        it learns of it only later, and acts meanwhile as if nothing was.
        """
        session_id, life = self.store.session_id, self.life
        if life and self._ensemble.alive(session_id):
            self._trace(f"{self.name} loses its session")
            rare.at_the_end_of_a_session(self)
            self._ensemble.end(session_id)
            self.clock.call_later(notice_ms, self.store.expired)

    def freeze(self, session_ms: float, notice_ms: float) -> None:
        """SIGSTOP. After `session_ms` the store takes it for dead;
        it learns of that `notice_ms` after it runs again.
        """
        clock, store = self.clock, self.store
        if not self.alive or clock.late is not None:
            return
        self._trace(f"{self.name} is frozen")
        clock.stop()
        session_id = store.session_id

        def expire() -> None:
            if clock.late is not None and self._ensemble.alive(session_id):
                self._ensemble.end(session_id)
                clock.call_soon(lambda: clock.call_later(notice_ms, store.expired))

        self._world.call_later(session_ms, expire)

    def thaw(self) -> None:
        """SIGCONT: all that came meanwhile is handled first."""
        if self.clock.late is not None:
            self._trace(f"{self.name} goes on")
            rare.when_it_goes_on(self, self._ensemble.table)
            self.clock.go_on()

    def stop(self) -> None:
        """Hands its partitions on and ends in order."""
        if self.alive:
            self._trace(f"{self.name} is asked to stop")
            self._stopping = True
            self.arrive(lambda: self._hand_over(_SHUTDOWN_TRIES))

    def _hand_over(self, tries: int) -> None:
        controller = self.brokers.get(self.metadata.controller_id)
        if controller is None or not tries:
            self._end()
            return
        epoch = self.registration.broker_epoch

        def answered(answer: Pending[list[TopicPartition]]) -> None:
            if answer.error is None and not answer.result():
                self._end()
            else:
                self.clock.call_later(RETRY_MS, lambda: self._hand_over(tries - 1))

        self.wire.call(
            self, controller, lambda: controller.controller.controlled_shutdown(self.id, epoch), answered
        )

    def _end(self) -> None:
        self._stop_coordinators()
        self.fetchers.close()
        self.replicas.shutdown()
        self.logs.shutdown(clean=True)
        self.opened = False
        self.controller.shutdown()
        self.store.close()
        self._trace(f"{self.name} stopped")
        self._die()
        if self._again:
            self.start()

    # --- what it holds ----------------------------------------------------------------------------------

    def log(self, tp: TopicPartition) -> "Log | None":
        """The log of a partition, also of a broker that was killed;
        None where there is none, or it is not open.
        """
        return self.logs.get(tp)

    # --- what the controller says -----------------------------------------------------------------------

    def obey(self, request: Any) -> Pending[Response]:
        """Carries out a request of a controller, as the handlers do."""
        kind = type(request)
        request = on_the_wire(request, kind.max_version)
        code = ErrorCode.NONE
        if request.broker_epoch < self.registration.broker_epoch:
            code = ErrorCode.STALE_BROKER_EPOCH
        elif request.controller_epoch < self.replicas.controller_epoch:
            code = ErrorCode.STALE_CONTROLLER_EPOCH
        self._trace(f"{self.name} gets {kind.__name__} {code.name}")
        if isinstance(request, LeaderAndIsrRequest):
            return self._take_roles(request, code)
        if isinstance(request, StopReplicaRequest):
            if code:
                return Pending.of(StopReplicaResponse(error_code=code))
            return self._ordered(stop_replicas(self.replicas, request))
        assert isinstance(request, UpdateMetadataRequest), request
        updated = Pending.of(None) if code else self._ordered(take_over(self.replicas, request))
        return updated.then(lambda _: UpdateMetadataResponse(error_code=code))

    def _ordered(self, work: Sliced[T]) -> Pending[T]:
        outcome = self.replicas.control_queue.run(work)
        return outcome if isinstance(outcome, Pending) else Pending.of(outcome)

    def _take_roles(self, request: LeaderAndIsrRequest, code: ErrorCode) -> Pending[Response]:
        if code:
            return Pending.of(in_one_piece(refused(request, KafkaError(code), _VERSION)))
        answer: Pending[Response] = Pending()

        def taken(done: Pending[LeaderAndIsrResponse]) -> None:
            error = done.error
            if isinstance(error, KafkaError):
                answer.complete(in_one_piece(refused(request, error, _VERSION)))
            elif error is not None:
                raise error
            else:
                self._judge.took_roles(self)
                rare.after_roles(self)
                answer.complete(done.result())

        self._ordered(take_roles(self.replicas, request, _VERSION)).when_done(taken)
        return answer

    def __repr__(self) -> str:
        return f"<Broker {self.id} {'life ' + str(self.lives) if self.alive else 'dead'}>"


def live(brokers: Brokers) -> Iterator[SimulatedBroker]:
    """The brokers that run."""
    return (broker for broker in brokers.values() if broker.alive)
