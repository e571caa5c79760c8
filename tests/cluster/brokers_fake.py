"""Brokers that do what the controller says, without a log or a network, and a cluster of them."""

from itertools import count
from types import SimpleNamespace

from barnabas.broker.authorizer import AllowAll
from barnabas.broker.context import RequestContext
from barnabas.broker.dispatch import execute
from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_3_9
from barnabas.cluster.brokers import Broker
from barnabas.cluster.controller.controller import KafkaController
from barnabas.cluster.controller.term import ControllerConfig
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.config_admin import ConfigAdmin
from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.cordoned import cordoned_brokers
from barnabas.cluster.metadata.registration import BrokerRegistration, ensure_persistent_paths
from barnabas.cluster.metadata.topics import NewTopic, TopicAdmin, TopicDefaults
from barnabas.cluster.store.memory import MemoryStore
from barnabas.core.broker_config import broker_config
from barnabas.core.dynamic_broker_config import DynamicBrokerConfig
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.topic_config import TOPIC_CONFIG
from barnabas.network.endpoints import Endpoint
from barnabas.network.peer import ListenerId, Peer
from barnabas.node.control_requests import ControlRequests
from barnabas.protocol.framing import RequestHeader
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from metadata_updates import apply

NOW_MS = 1_700_000_000_000


class FakeClock:
    """Time that stands still until it is told to pass."""

    def __init__(self, loop) -> None:
        self._loop = loop
        self.now_ms = NOW_MS
        self._timers = {}
        self._ids = count()

    def time_ms(self) -> int:
        return int(self.now_ms)

    def monotonic_ms(self) -> float:
        return self.now_ms

    def call_soon(self, callback) -> None:
        self._loop.call_soon(callback)

    def call_later(self, delay_ms, callback):
        key = next(self._ids)
        self._timers[key] = (self.now_ms + delay_ms, callback)
        timers = self._timers

        class Handle:
            def cancel(self) -> None:
                timers.pop(key, None)

        return Handle()

    def advance(self, delay_ms) -> None:
        self.now_ms += delay_ms
        for key, (at, callback) in sorted(self._timers.items()):
            if at <= self.now_ms:
                del self._timers[key]
                callback()
        self._loop.run()


class FakeBroker:
    """One broker: what it was told, and what became of it."""

    def __init__(self, cluster, broker_id: int) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.up = False
        self.requests = []
        self.failing_dirs = set()
        self.lacks = ()
        """Listeners that it does not have."""
        self.answers_by_name = False
        """Whether it answers LeaderAndIsr as before version 5."""

    def start(self) -> None:
        cluster = self.cluster
        self.requests = []
        self.led, self.followed, self.deleted = {}, {}, []
        self.controller_epoch = 0
        self.cache = MetadataCache(self.id)
        self.store = cluster.make_store()
        cluster.wait(self.store.start())
        cluster.wait(ensure_persistent_paths(self.store))
        self.registration = BrokerRegistration(self.store, self.describe(), cluster.clock)
        self.controller = KafkaController(
            ControllerConfig(self.id, "INTERNAL", **cluster.config),
            self.store,
            ControlRequests(Channel(cluster)),
            self.registration,
            cluster.clock,
            cluster.random_uuid,
        )
        self.configs = ConfigStore(self.store, cluster.clock)
        self.changes = []
        cluster.wait(self.configs.start(lambda change, values: self.changes.append((change, dict(values)))))
        self.config_admin = ConfigAdmin(
            self.id, self.configs, self.cache, DynamicBrokerConfig(broker_config({}))
        )
        defaults = TopicDefaults(1, 1, TOPIC_CONFIG.parse({}))
        self.topics = TopicAdmin(
            self.store,
            self.cache,
            defaults,
            cluster.random,
            cordoned_brokers(self.store, lambda: self.controller.cordoned_brokers),
        )
        self.up = True
        cluster.wait(self.registration.register())
        cluster.wait(self.controller.startup())
        cluster.settle()

    def describe(self):
        """What it registers."""
        endpoints = (
            Endpoint("INTERNAL", "127.0.0.1", 19000 + self.id),
            Endpoint("CONTROL", "127.0.0.1", 29000 + self.id, "PLAINTEXT"),
            Endpoint("CLIENT", f"host{self.id}", 9000 + self.id, "SSL"),
        )
        present = tuple(each for each in endpoints if each.name not in self.lacks)
        return Broker(self.id, present, self.cluster.racks.get(self.id))

    def stop(self) -> None:
        """The process ends: its session with it."""
        self.up = False
        self.cluster.wait(self.controller.shutdown())
        self.cluster.wait(self.store.close())
        self.cluster.settle()

    def receive(self, request):
        # What the controller sends must be fit for the wire.
        type(request).decode(b"".join(request.encode(request.max_version)), request.max_version)
        self.requests.append(request)
        if request.controller_epoch < self.controller_epoch:
            return _STALE[type(request)]
        self.controller_epoch = request.controller_epoch
        if isinstance(request, LeaderAndIsrRequest):
            return self._lead_or_follow(request)
        if isinstance(request, StopReplicaRequest):
            return self._stop(request)
        apply(self.cache, request)
        return UpdateMetadataResponse()

    def _lead_or_follow(self, request):
        topics = []
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                code = ErrorCode.KAFKA_STORAGE_ERROR if tp in self.failing_dirs else ErrorCode.NONE
                errors.append(LeaderAndIsrPartitionError(partition_index=tp.partition, error_code=code))
                self.led.pop(tp, None)
                self.followed.pop(tp, None)
                (self.led if state.leader == self.id else self.followed)[tp] = state
                errors[-1].topic_name = topic.topic_name if self.answers_by_name else ""
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        if self.answers_by_name:
            return LeaderAndIsrResponse(
                partition_errors=[each for topic in topics for each in topic.partition_errors]
            )
        return LeaderAndIsrResponse(topics=topics)

    def _stop(self, request):
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                code = ErrorCode.NONE
                if state.delete_partition and tp in self.failing_dirs:
                    code = ErrorCode.KAFKA_STORAGE_ERROR
                elif state.delete_partition:
                    self.deleted.append(tp)
                self.led.pop(tp, None)
                self.followed.pop(tp, None)
                errors.append(
                    StopReplicaPartitionError(
                        topic_name=tp.topic, partition_index=tp.partition, error_code=code
                    )
                )
        return StopReplicaResponse(partition_errors=errors)

    def sent(self, kind):
        return [request for request in self.requests if isinstance(request, kind)]


_STALE = {
    LeaderAndIsrRequest: LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH),
    UpdateMetadataRequest: UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH),
    StopReplicaRequest: StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH),
}


class Channel:
    """One controller's way to the brokers; delivers in later turns, in order."""

    def __init__(self, cluster) -> None:
        self._cluster = cluster
        self.known = set()

    def add_broker(self, broker) -> None:
        self.known.add(broker.id)

    def remove_broker(self, broker_id) -> None:
        self.known.discard(broker_id)

    def send(self, broker_id, request, on_response) -> None:
        if broker_id in self.known:
            self._cluster.loop.call_soon(lambda: self._deliver(broker_id, request, on_response))

    def _deliver(self, broker_id, request, on_response) -> None:
        broker = self._cluster.brokers[broker_id]
        if broker_id in self.known and broker.up and self._cluster.delivers:
            response = broker.receive(request)
            if self._cluster.holds_answers:
                self._cluster.held.append(lambda: on_response(response))
            else:
                self._cluster.loop.call_soon(lambda: on_response(response))


def ask(controller, request, version=None):
    """What the handler of the request's API answers, now or later, on the broker of this controller."""
    api = api_table(PROFILE_3_9)[request.api]
    services = SimpleNamespace(controller=controller, authorizer=AllowAll(), clock=controller._clock)
    peer = Peer(ListenerId("PLAINTEXT", "PLAINTEXT"), ("127.0.0.1", 9999))
    header = RequestHeader(request.api, api.max_version if version is None else version, 0, "broker")
    outcome = execute(
        api, RequestContext(services, header, peer, 0), request, lambda _api, _context, answer: answer
    )
    return outcome if isinstance(outcome, Pending) else Pending.of(outcome)


class FakeCluster:
    """Brokers on one tree."""

    def __init__(
        self, loop, ensemble, chooser, *, brokers=(0,), racks=None, make_store=None, **config
    ) -> None:
        from barnabas.core.ids import random_uuid

        self.make_store = make_store or (lambda: MemoryStore(ensemble, loop.call_soon))

        self.loop = loop
        self.ensemble = ensemble
        self.clock = FakeClock(loop)
        self.random = chooser
        self.random_uuid = lambda: random_uuid(chooser)
        self.racks = racks or {}
        self.config = config
        self.delivers = True
        self.holds_answers = False
        self.held = []
        """Answers of brokers that are on their way for as long as `holds_answers` says."""
        self.brokers = {broker_id: FakeBroker(self, broker_id) for broker_id in brokers}
        for broker in self.brokers.values():
            broker.start()

    def wait(self, pending):
        return self.loop.wait(pending)

    def settle(self) -> None:
        self.loop.run()

    def release_answers(self) -> None:
        """What was held reaches the controller, late."""
        held, self.held, self.holds_answers = self.held, [], False
        for answer in held:
            answer()
        self.settle()

    @property
    def controller(self) -> FakeBroker:
        (active,) = [each for each in self.brokers.values() if each.up and each.controller.is_active]
        return active

    def create(self, name, assignments=None, configs=None, **numbers):
        topic = NewTopic(name, assignments=assignments or {}, configs=configs or {}, **numbers)
        created = self.wait(self.controller.topics.create(topic))
        self.settle()
        return created

    def delete(self, name) -> None:
        self.wait(self.controller.topics.delete(name))
        self.settle()

    def state(self, topic, partition=0):
        from barnabas.cluster.store import znodes

        znode = self.ensemble.table.find(znodes.partition_state_path(TopicPartition(topic, partition)))
        return znodes.decode_partition_state(znode.data, znode.stat).leader_and_isr

    def paths(self, below="/"):
        return {path for path in self.ensemble.table._znodes if path.startswith(below)}
