"""`Broker`: one machine's broker: the real controller, registration, replica manager and logs, without sockets."""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from barnabas.cluster.brokers import Broker as BrokerIdentity
from barnabas.cluster.controller.channel_manager import ControlResponse
from barnabas.cluster.controller.controller import KafkaController
from barnabas.cluster.controller.term import ControllerConfig
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.registration import BrokerRegistration, ensure_persistent_paths
from barnabas.cluster.metadata.topics import random_uuid
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.broker_config import broker_config
from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Sliced, in_one_piece
from barnabas.log.config import LogConfig
from barnabas.log.manager import LogManager
from barnabas.network.endpoints import Endpoint
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from barnabas.replica.alter_partition import AlterPartitionManager
from barnabas.replica.fetch_session import FetchSessionCache
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.state_changes import refusal
from barnabas.testing.clock import ProcessClock, VirtualClock
from barnabas.testing.disk import SimulatedFilesystem
from barnabas.testing.replication.follower import LeaderCalls, fetchers
from barnabas.testing.replication.wire import LostCallError, Wire
from barnabas.testing.simulation.trace import Trace

if TYPE_CHECKING:
    from barnabas.log.log import Log

T = TypeVar("T")

Brokers: TypeAlias = "dict[int, Broker]"

_LISTENER: Final = "INTERNAL"
_RETRY_MS: Final = 100.0
_SHUTDOWN_TRIES: Final = 3
_FETCH_SESSIONS: Final = 1
"""So few that two followers take each other's now and then."""
_VERSION: Final = 7
"""Of LeaderAndIsr."""


class Broker:
    """One broker over all its lives; its disk stays."""

    def __init__(
        self,
        broker_id: int,
        *,
        clock: VirtualClock,
        rng: Random,
        wire: Wire,
        ensemble: MemoryEnsemble,
        brokers: Brokers,
        trace: Trace,
        settings: dict[str, str],
        log_config: LogConfig,
    ) -> None:
        self.id = broker_id
        self.name = f"broker-{broker_id}"
        self.disk = SimulatedFilesystem(seed=rng.getrandbits(32), now_ms=clock.time_ms)
        self.disk.mkdir("/data")
        self.brokers = brokers
        self.wire = wire
        self.rng = rng
        self.lives = 0
        self.alive = False
        self._stopping = self._again = False
        self._world = clock
        self._ensemble = ensemble
        self._trace = trace
        self._config = broker_config({"broker.id": str(broker_id), **settings})
        self._log_config = log_config
        self._start_life()

    @property
    def life(self) -> int:
        """A number of its own for each life; 0 while it is dead."""
        return self.lives if self.alive else 0

    def _start_life(self) -> None:
        self.clock = ProcessClock(self._world)
        self.store = MemoryStore(self._ensemble, self.clock.call_soon)
        self.metadata = MetadataCache(self.id)
        self.logs = LogManager(
            ["/data"],
            filesystem=self.disk,
            clock=self.clock,
            offload=InPlace(),
            log_config=lambda _topic: self._log_config,
        )
        endpoint = Endpoint(_LISTENER, self.name, 9092)
        self.registration = BrokerRegistration(self.store, BrokerIdentity(self.id, (endpoint,)), self.clock)
        self.fetch_sessions = FetchSessionCache(
            _FETCH_SESSIONS, now_ms=self.clock.time_ms, new_id=lambda: self.rng.randrange(1, 2**31)
        )
        self.leader_calls = LeaderCalls(self)
        self.fetchers = fetchers(self, self.leader_calls)
        self.replicas = ReplicaManager(
            self.id,
            config=self._config,
            clock=self.clock,
            logs=self.logs,
            metadata=self.metadata,
            alter_partition=AlterPartitionManager(
                self.id, lambda: self.registration.broker_epoch, _ToController(self), self.clock
            ),
            fetchers=self.fetchers,
        )
        self.controller = KafkaController(
            ControllerConfig(self.id, _LISTENER),
            self.store,
            _Channels(self),
            self.registration,
            self.clock,
            lambda: random_uuid(self.rng),
        )

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
        yield self.store.start()
        yield ensure_persistent_paths(self.store)
        yield self.registration.register()
        yield self.controller.startup()
        self.replicas.start()

    def _started(self, done: Pending[None]) -> None:
        if done.error is not None:
            raise done.error

    def kill(self) -> None:
        """Ends the broker where it stands. Its files stay, and for a while its session does."""
        if self.alive:
            self._trace(f"{self.name} is killed")
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
        """The store takes the broker for dead; it learns of it only later, and acts meanwhile as if nothing was."""
        session_id, life = self.store.session_id, self.life
        if life and self._ensemble.alive(session_id):
            self._trace(f"{self.name} loses its session")
            self._ensemble.end(session_id)
            self.clock.call_later(notice_ms, self.store.expired)

    def stop(self) -> None:
        """Hands its partitions on and ends in order."""
        if self.alive:
            self._trace(f"{self.name} is asked to stop")
            self._stopping = True
            self._hand_over(_SHUTDOWN_TRIES)

    def _hand_over(self, tries: int) -> None:
        controller = self.brokers.get(self.metadata.controller_id)
        if controller is None or not tries:
            self._end()
            return
        request = ControlledShutdownRequest(broker_id=self.id, broker_epoch=self.registration.broker_epoch)

        def answered(answer: Pending[Any]) -> None:
            if (
                answer.error is None
                and not answer.result().error_code
                and not answer.result().remaining_partitions
            ):
                self._end()
            else:
                self.clock.call_later(_RETRY_MS, lambda: self._hand_over(tries - 1))

        self.wire.call(self, controller, lambda: controller.controller.controlled_shutdown(request), answered)

    def _end(self) -> None:
        self.fetchers.close()
        self.replicas.shutdown()
        self.logs.shutdown(clean=True)
        self.controller.shutdown()
        self.store.close()
        self._trace(f"{self.name} stopped")
        self._die()
        if self._again:
            self.start()

    # --- what it holds ----------------------------------------------------------------------------------

    def log(self, tp: TopicPartition) -> "Log | None":
        """The log of a partition, also of a broker that was killed; None while it is not open."""
        return self.logs.get(tp)

    # --- what the controller says -----------------------------------------------------------------------

    def obey(self, request: Any) -> Pending[ControlResponse]:
        """Carries out a request of a controller, as the handlers do."""
        kind = type(request)
        request = kind.decode(materialize(request.encode(kind.max_version)), kind.max_version)[0]
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
            return self._ordered(self.replicas.stop_replicas(request))
        assert isinstance(request, UpdateMetadataRequest), request
        updated = Pending.of(None) if code else self._ordered(self.replicas.update_metadata(request))
        return updated.then(lambda _: UpdateMetadataResponse(error_code=code))

    def _ordered(self, work: Sliced[T]) -> Pending[T]:
        outcome = self.replicas.control_queue.run(work)
        return outcome if isinstance(outcome, Pending) else Pending.of(outcome)

    def _take_roles(self, request: LeaderAndIsrRequest, code: ErrorCode) -> Pending[ControlResponse]:
        if code:
            return Pending.of(in_one_piece(refusal(request, code, _VERSION)))
        answer: Pending[ControlResponse] = Pending()

        def taken(done: Pending[LeaderAndIsrResponse]) -> None:
            error = done.error
            if isinstance(error, KafkaError):
                answer.complete(in_one_piece(refusal(request, error.code, _VERSION)))
            elif error is not None:
                raise error
            else:
                answer.complete(done.result())

        self._ordered(self.replicas.become_leader_or_follower(request, _VERSION)).when_done(taken)
        return answer

    def __repr__(self) -> str:
        return f"<Broker {self.id} {'life ' + str(self.lives) if self.alive else 'dead'}>"


class _Channels:
    """A controller's requests to the brokers: for each in order, and again until the broker answers or is gone."""

    def __init__(self, owner: Broker) -> None:
        self._owner = owner
        self._queues: dict[int, deque[tuple[Any, Callable[[ControlResponse], object]]]] = {}

    def add_broker(self, broker: BrokerIdentity) -> None:
        """Opens the way to a broker."""
        self._queues[broker.id] = deque()

    def remove_broker(self, broker_id: int) -> None:
        """The broker is gone; what was to be sent is forgotten."""
        self._queues.pop(broker_id, None)

    def send(self, broker_id: int, request: Any, on_response: Callable[[ControlResponse], object]) -> None:
        """Sends a request when those before it are answered."""
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.append((request, on_response))
            if len(queue) == 1:
                self._send_first(broker_id, queue)

    def _send_first(
        self, broker_id: int, queue: deque[tuple[Any, Callable[[ControlResponse], object]]]
    ) -> None:
        if self._queues.get(broker_id) is not queue:
            return
        request, on_response = queue[0]

        def answered(answer: Pending[ControlResponse]) -> None:
            if self._queues.get(broker_id) is not queue:
                return
            if isinstance(answer.error, LostCallError):
                self._owner.clock.call_later(_RETRY_MS, lambda: self._send_first(broker_id, queue))
                return
            queue.popleft()
            on_response(answer.result())
            if queue:
                self._send_first(broker_id, queue)

        target = self._owner.brokers[broker_id]
        self._owner.wire.call(self._owner, target, lambda: target.obey(request), answered)

    def __repr__(self) -> str:
        return f"<_Channels { ({broker: len(queue) for broker, queue in self._queues.items()}) }>"


class _ToController:
    """A leader's way to the controller that it knows of."""

    def __init__(self, owner: Broker) -> None:
        self._owner = owner

    def send(
        self, request: AlterPartitionRequest, *, versions: tuple[int, int]
    ) -> Pending[AlterPartitionResponse]:
        """The controller's answer; fails when it could not be had."""
        answer: Pending[AlterPartitionResponse] = Pending()
        controller = self._owner.brokers.get(self._owner.metadata.controller_id)
        if controller is None:
            return Pending.failed(LostCallError())

        _, version = versions
        self._owner.wire.call(
            self._owner,
            controller,
            lambda: controller.controller.alter_partition(request, version),
            answer.end_as,
        )
        return answer


def live(brokers: Brokers) -> Iterator[Broker]:
    """The brokers that run."""
    return (broker for broker in brokers.values() if broker.alive)
