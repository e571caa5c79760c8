"""A broker of the model of replication with its coordinators, and with the real handlers of clients."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, cast

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_4_4
from barnabas.broker.services import BrokerServices
from barnabas.cluster.metadata.features import TRANSACTION_VERSION, FeatureLevels
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.runtime.loading import Loader
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending
from barnabas.network.peer import ListenerId
from barnabas.node.channels import LocalBroker
from barnabas.node.coordinators import group_coordinator, transaction_coordinator
from barnabas.node.marker_channel import TxnMarkerChannel
from barnabas.node.verification import AddPartitionsToTxnManager
from barnabas.protocol.message import Request, Response
from barnabas.replica.verification import Verifier
from barnabas.testing.clock import ProcessClock, VirtualClock, VirtualTimer
from barnabas.testing.replication.broker import LISTENER, SimulatedBroker
from barnabas.testing.replication.wire import on_the_wire
from barnabas.testing.transactions import rare
from barnabas.testing.transactions.calls import BrokerCalls, Past

_LOAD_MS: Final = 60.0
_LOAD_BYTES: Final = 1 << 16


class TransactionalBroker(SimulatedBroker):
    """One broker over all its lives."""

    def __init__(
        self,
        broker_id: int,
        *,
        clock: VirtualClock,
        past: Past,
        new_producer_id: Callable[[], Pending[int]],
        levels: FeatureLevels,
        **rest: Any,
    ) -> None:
        """`levels` are those of the cluster, which every broker knows at once; `rest` is that of
        `SimulatedBroker`.
        """
        self.world = clock
        self.past = past
        self.levels = levels
        self._new_producer_id = new_producer_id
        super().__init__(broker_id, clock=clock, **rest)

    def _start_life(self) -> None:
        self._calls = BrokerCalls(self)
        self.local = WatchedHandlers(self)
        super()._start_life()
        config, clock = self._config, self.clock
        self.group_coordinator = group_coordinator(
            config,
            GroupConfigManager(config, {}),
            clock,
            self.rng,
            replicas=self.replicas,
            metadata=self.metadata,
            loader=self._loader(),
        )
        self.transaction_coordinator = transaction_coordinator(
            config,
            clock,
            replicas=self.replicas,
            channel=WatchedChannel(self.id, LISTENER, self.metadata, local=self.local, remote=self._calls),
            new_producer_id=self._new_producer_id,
            loader=self._loader(),
            server_version=lambda: self.levels.level(TRANSACTION_VERSION),
        )
        rare.watch_elections(self)
        nobody = cast("Any", None)
        self.local.services = BrokerServices(
            broker_id=self.id,
            cluster_id="c",
            config=config,
            clock=clock,
            replica_manager=self.replicas,
            metadata_cache=self.metadata,
            fetch_sessions=self.fetch_sessions,
            controller=self.controller,
            broker_epoch=lambda: self.registration.broker_epoch,
            api_table=api_table(PROFILE_4_4),
            features=self.levels,
            group_coordinator=self.group_coordinator,
            transaction_coordinator=self.transaction_coordinator,
            # No request of this model gets there.
            topics=nobody,
            producer_ids=nobody,
            topic_configs=nobody,
            config_admin=nobody,
            scram_credentials=nobody,
            client_quotas=nobody,
            delegation_tokens=nobody,
            topic_changes=nobody,
            auto_topics=nobody,
        )

    def _loader(self) -> Loader:
        clock = LoadClock(self.clock, self.rng)
        return Loader(clock, InPlace(), self.disk, buffer_bytes=_LOAD_BYTES, settle=lambda: None)

    def _verifier(self) -> Verifier:
        return AddPartitionsToTxnManager(
            self.id,
            LISTENER,
            self.metadata,
            self._partition_for,
            local=self.local,
            remote=self._calls,
            clock=self.clock,
            enabled=True,
        )

    def _partition_for(self, transactional_id: str) -> int:
        # The verifier comes before the coordinator, and is asked when both are there.
        return self.transaction_coordinator.partition_for(transactional_id)

    def _start_coordinators(self) -> None:
        self.group_coordinator.startup(self._config["offsets.topic.num.partitions"])
        self.transaction_coordinator.startup(self._config["transaction.state.log.num.partitions"])

    def _stop_coordinators(self) -> None:
        self.transaction_coordinator.shutdown()
        self.group_coordinator.shutdown()

    def serve(self, request: Request, version: int) -> Pending[Response]:
        """The answer of the handler, as the other end decodes it."""
        answer = self.local.handle(on_the_wire(request, version), (version, version))
        # Encoded at once: what a leader has sent does not change with its log.
        return answer.then(lambda response: on_the_wire(response, version))


class LoadClock:
    """The clock of loads: between two of them, and before each, other things happen."""

    def __init__(self, clock: ProcessClock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self.time_ms = clock.time_ms
        self.monotonic_ms = clock.monotonic_ms

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> VirtualTimer:
        """As `Clock.call_later`."""
        return self._clock.call_later(delay_ms, callback)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Later than soon."""
        self._clock.call_later(self._rng.expovariate(1 / _LOAD_MS), callback)


class WatchedHandlers(LocalBroker):
    """The handlers of a broker, for itself and for what the wire brings."""

    def __init__(self, broker: TransactionalBroker) -> None:
        super().__init__(ListenerId(LISTENER, "PLAINTEXT"))
        self._broker = broker

    def handle(self, request: Request, versions: tuple[int, int] | None = None) -> Pending[Any]:
        """As `LocalBroker.handle`."""
        rare.before(self._broker, request)
        return super().handle(request, versions)


class WatchedChannel(TxnMarkerChannel):
    """The way of markers."""

    def leaders_of(self, topic: str, partitions: Iterable[int]) -> dict[int | None, list[int]]:
        """As `TxnMarkerChannel.leaders_of`."""
        led = super().leaders_of(topic, partitions)
        for leader in led:
            rare.marker_goes_to(leader)
        return led
