"""`World`: a whole broker without sockets: bytes in, bytes out, on a simulated disk and a clock that stands.

A module beside `conftest`, so that the tests of every folder can import from it.
"""

import itertools
import random

from barnabas.broker.auto_topics import AutoTopics
from barnabas.broker.dispatch import Dispatcher
from barnabas.broker.handlers import api_table
from barnabas.broker.producer_ids import ProducerIdManager
from barnabas.broker.profiles import profile_of, takes_client_metrics
from barnabas.broker.services import BrokerServices
from barnabas.broker.topic_changes import TopicChanges
from barnabas.cluster.controller.producer_ids import ProducerIdBlock
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.client_quota_admin import ClientQuotaAdmin
from barnabas.cluster.metadata.delegation_tokens import DelegationTokenManager, TokenSettings
from barnabas.cluster.metadata.features import TRANSACTION_VERSION
from barnabas.cluster.metadata.scram_admin import ScramAdmin
from barnabas.cluster.metadata.topics import CreatedTopic, not_counted
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.runtime.loading import Loader
from barnabas.core.broker_config import broker_config
from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending
from barnabas.core.topic_config import topic_config, topic_defaults
from barnabas.log.config import LogConfig
from barnabas.log.manager import LogManager
from barnabas.network.peer import ListenerId, Peer
from barnabas.node.channels import LocalBroker
from barnabas.node.client_metrics import client_metrics
from barnabas.node.coordinators import group_coordinator, transaction_coordinator
from barnabas.node.marker_channel import TxnMarkerChannel
from barnabas.node.verification import AddPartitionsToTxnManager
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.fetch_session import FetchSessionCache
from barnabas.replica.manager import ReplicaManager
from barnabas.testing.disk import SimulatedFilesystem
from replica_doubles import Fetchers, IsrDecisions
from standing_clock import Clock

NOW_MS = 1_700_000_000_000
ME = 1
OTHER = 2
SMALL_INDEX = 4096
"""Bytes; Kafka's 10 MiB a log would have to be zeroed in memory for every test."""
LISTENER = ListenerId("PLAINTEXT", "PLAINTEXT")


class Elsewhere(InPlace):
    """The child process: at work at once, or with `waits` when a test says so."""

    def __init__(self):
        self.waits = False
        self.work = []

    def run(self, function, /, *args, **kwargs):
        if not self.waits:
            return super().run(function, *args, **kwargs)
        outcome = Pending()
        self.work.append((outcome, function, args, kwargs))
        return outcome

    def finish(self):
        work, self.work = self.work, []
        for outcome, function, args, kwargs in work:
            done = super().run(function, *args, **kwargs)
            outcome.fail(done.error) if done.error else outcome.complete(done.result())


class Control:
    """The connection, as far as the broker may touch it."""

    def __init__(self):
        self.muted_until = None
        self.closed = None
        self.holds = 0

    def hold(self):
        self.holds += 1

    def release(self):
        self.holds -= 1

    def mute_until(self, monotonic_ms):
        self.muted_until = monotonic_ms

    def close(self, reason):
        self.closed = reason


class Controller:
    def __init__(self):
        self.is_active = True
        self.remaining = []
        self.deleting = set()
        self.elections = {}
        self.reassigned = Pending.of({})
        self.moving = Pending.of({})
        self.features_epoch = Pending.of(1)
        self.asked = []

    def update_features(self, updates, *, validate_only):
        self.asked.append((updates, validate_only))
        return self.features_epoch

    def alter_partition_reassignments(self, reassignments, *, allow_replication_factor_change=True):
        self.asked.append(reassignments)
        self.allows_factor_change = allow_replication_factor_change
        return self.reassigned

    def list_partition_reassignments(self, partitions):
        self.asked.append(partitions and list(partitions))
        return self.moving

    def elect_leaders(self, partitions, kind):
        self.asked.append((list(partitions), kind))
        if isinstance(self.elections, Exception):
            return Pending.failed(self.elections)
        return Pending.of(dict(self.elections))

    def is_topic_queued_for_deletion(self, topic):
        return topic in self.deleting

    def controlled_shutdown(self, broker_id, broker_epoch):
        return Pending.of(self.remaining)

    def allocate_producer_ids(self, broker_id, broker_epoch):
        return Pending.of(ProducerIdBlock(5000, 1000))

    def alter_partition(self, broker_id, broker_epoch, proposals):
        return Pending.failed(KafkaError(ErrorCode.STALE_BROKER_EPOCH))


class TopicConfigs:
    """What was set on topics."""

    def __init__(self, own):
        self.own = own
        self.ensured = []

    def topic(self, topic):
        return self.own.get(topic, {})

    def ensure(self, topics):
        self.ensured += topics
        return Pending.of(None)

    def forget(self, topics):
        for topic in topics:
            self.own.pop(topic, None)


class Settings:
    """What was set on which resource."""

    def __init__(self):
        self.asked = []
        self.error = None

    def alter_topic(self, topic, change, *, validate_only):
        self.asked.append(("topic", topic, change, validate_only))
        return Pending.failed(self.error) if self.error else Pending.of(None)

    def alter_broker(self, name, change, *, validate_only):
        self.asked.append(("broker", name, change, validate_only))
        return Pending.failed(self.error) if self.error else Pending.of(None)

    def alter_client_metrics(self, name, change, *, validate_only):
        self.asked.append(("client-metrics", name, change, validate_only))
        return Pending.failed(self.error) if self.error else Pending.of(None)

    def alter_group(self, name, change, *, validate_only):
        self.asked.append(("group", name, change, validate_only))
        return Pending.failed(self.error) if self.error else Pending.of(None)


class Blocks:
    """The way to the controller for producer ids."""

    def __init__(self):
        self.first = 0
        self.error = ErrorCode.NONE

    def send(self, request):
        answer = AllocateProducerIdsResponse(
            producer_id_start=self.first, producer_id_len=1000, error_code=self.error
        )
        self.first += 1000
        return Pending.of(answer)


class Topics:
    """The store and the controller behind it; with `leaders` False the controller sleeps."""

    def __init__(self, world):
        self.world = world
        self.own = {}
        self.client_metrics = {}
        self.groups = {}
        self.client_metrics_version = 0
        self.asked = []
        self.leaders = True

    def create(self, topic, *, validate_only=False, count=not_counted):
        self.asked.append(topic)
        if topic.name in self.world.cache:
            error = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
            return Pending.failed(error)
        if topic.replication_factor > len(self.world.cache.alive_brokers()):
            return Pending.failed(KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor"))
        partitions = len(topic.assignments) or max(topic.num_partitions, 1)
        topic_id = b"\0" * 15 + bytes([len(self.own) + 1])
        config = topic_config(topic_defaults(self.world.config), topic.configs)
        if not validate_only:
            try:
                count(partitions)
            except KafkaError as error:
                return Pending.failed(error)
            self.own[topic.name] = dict(topic.configs)
            if self.leaders:
                self.world.clock.call_soon(
                    lambda: self.world.create(topic.name, partitions, topic_id=topic_id)
                )
        return Pending.of(
            CreatedTopic(topic.name, topic_id, {each: [ME] for each in range(partitions)}, config)
        )

    def create_partitions(self, topic, total, assignments, *, validate_only, count=not_counted):
        self.asked.append((topic, total, assignments))
        if topic not in self.world.cache:
            error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
            return Pending.failed(error)
        if not validate_only:
            try:
                count(total - len(self.world.cache.partitions(topic)))
            except KafkaError as error:
                return Pending.failed(error)
        if self.leaders and not validate_only:
            self.world.clock.call_soon(lambda: self.world.create(topic, total))
        return Pending.of(total)

    def topic(self, name):
        return self.own.get(name, {})

    def ensure(self, names):
        return Pending.of(None)

    def forget(self, names):
        for name in names:
            self.own.pop(name, None)

    def delete(self, topic, *, count=not_counted):
        try:
            count(len(self.world.cache.partitions(topic)))
        except KafkaError as error:
            return Pending.failed(error)
        if self.leaders:
            self.world.clock.call_soon(lambda: self.world.delete(topic))
        return Pending.of(None)


class World:
    """One broker, and what the controller and clients say to it."""

    def __init__(
        self,
        authorizer=None,
        quotas=None,
        clock=None,
        directories=("/data",),
        disk=None,
        syncer=None,
        disk_thread=None,
        verifies=False,
        **config,
    ):
        self.clock = clock or Clock()
        self.disk = disk or SimulatedFilesystem(now_ms=self.clock.time_ms)
        given = {key.replace("_", "."): value for key, value in config.items()}
        self.config = broker_config({"barnabas.api.profile": "3.9", **given})
        self.log_config = LogConfig(segment_index_bytes=SMALL_INDEX)
        self.elsewhere = Elsewhere()
        self.logs = LogManager(
            directories,
            filesystem=self.disk,
            clock=self.clock,
            offload=self.elsewhere,
            syncer=syncer,
            disk_thread=disk_thread,
            log_config=lambda topic: self.log_config,
            on_log_start=self._log_start_moved,
        )
        for directory in directories:
            self.disk.mkdir(directory)
        self.logs.start(broker_id=ME, cluster_id="cluster").result()
        self.cache = MetadataCache(ME)
        self.fetchers = Fetchers()
        self.isr = IsrDecisions()
        local = LocalBroker(LISTENER)
        self.verifier = AddPartitionsToTxnManager(
            ME,
            LISTENER.name,
            self.cache,
            self._transaction_partition,
            local=local,
            remote=None,
            clock=self.clock,
            enabled=verifies,
        )
        self.replicas = ReplicaManager(
            ME,
            config=self.config,
            clock=self.clock,
            logs=self.logs,
            metadata=self.cache,
            alter_partition=self.isr,
            fetchers=self.fetchers,
            verifier=self.verifier,
        )
        ids = itertools.count(1)
        self.sessions = FetchSessionCache(10, new_id=lambda: next(ids), now_ms=self.clock.time_ms)
        self.controller = Controller()
        self.topics = Topics(self)
        self.topic_configs = TopicConfigs(self.topics.own)
        self.blocks = Blocks()
        self.config_admin = Settings()
        self.coordinator = group_coordinator(
            self.config,
            GroupConfigManager(self.config, self.topics.groups),
            self.clock,
            random.Random(1),
            replicas=self.replicas,
            metadata=self.cache,
            loader=Loader(self.clock, InPlace(), self.disk, buffer_bytes=1 << 20, settle=lambda: None),
        )
        self.coordinator.startup(self.config["offsets.topic.num.partitions"])
        self.producer_ids = ProducerIdManager(ME, lambda: 7, self.blocks)
        self.features = profile_of(self.config).feature_levels()
        self.transaction_coordinator = transaction_coordinator(
            self.config,
            self.clock,
            replicas=self.replicas,
            channel=TxnMarkerChannel(ME, LISTENER.name, self.cache, local=local, remote=None),
            new_producer_id=self.producer_ids.generate,
            loader=Loader(self.clock, InPlace(), self.disk, buffer_bytes=1 << 20, settle=lambda: None),
            server_version=lambda: self.features.level(TRANSACTION_VERSION),
        )
        self.transaction_coordinator.startup(self.config["transaction.state.log.num.partitions"])
        options = {"authorizer": authorizer, "quotas": quotas}
        self.services = local.services = BrokerServices(
            broker_id=ME,
            cluster_id="cluster",
            config=self.config,
            clock=self.clock,
            replica_manager=self.replicas,
            metadata_cache=self.cache,
            fetch_sessions=self.sessions,
            topics=self.topics,
            controller=self.controller,
            producer_ids=self.producer_ids,
            topic_configs=self.topics,
            config_admin=self.config_admin,
            broker_epoch=lambda: 7,
            api_table=api_table(profile_of(self.config)),
            features=self.features,
            topic_changes=TopicChanges(self.cache, self.clock),
            auto_topics=AutoTopics(self.topics, self.config),
            group_coordinator=self.coordinator,
            transaction_coordinator=self.transaction_coordinator,
            scram_credentials=ScramAdmin(None),
            client_quotas=ClientQuotaAdmin(None),
            delegation_tokens=DelegationTokenManager(None, self.clock, TokenSettings(), str),
            **{name: part for name, part in options.items() if part is not None},
        )
        self.receiver = None
        if takes_client_metrics(self.config):
            pushed = client_metrics(self.config, self.topics, self.clock, random.Random(1), self.elsewhere)
            self.services.client_metrics, self.receiver = pushed
        self.dispatcher = Dispatcher(self.services)
        self.control = Control()
        self.peer = Peer(LISTENER, ("127.0.0.1", 50000), self.control)
        self.update_metadata({})

    def _transaction_partition(self, transactional_id):
        return self.transaction_coordinator.partition_for(transactional_id)

    # --- clients

    def send_frame(self, frame):
        """Handles a frame (without its length); chunks, a Pending of them, or None."""
        return self.dispatcher.handle(self.peer, memoryview(bytearray(frame)))

    def start(self, request, version, client_id="test", correlation_id=9):
        """Sends a request; a function that gives the decoded answer, or None while it waits."""
        header = RequestHeader(request.api, version, correlation_id, client_id)
        outcome = self.send_frame(materialize(encode_request(header, request))[4:])

        def answer():
            chunks = outcome
            if isinstance(outcome, Pending):
                if not outcome.done:
                    return None
                chunks = outcome.result()
            if chunks is None:
                return "no answer"
            data = materialize(chunks)
            assert int.from_bytes(data[:4], "big") == len(data) - 4
            got_id, response = decode_response(ApiKey(request.api), version, data[4:])
            assert got_id == correlation_id
            return response

        return answer

    def send(self, request, version, **options):
        """Sends a request that is answered at once, or in the next turn of the loop."""
        answer = self.start(request, version, **options)
        if answer() is None:
            self.clock.advance(0)
        found = answer()
        assert found is not None, "the request still waits"
        return None if found == "no answer" else found

    def produce(self, topic="orders", partition=0, *, acks=1, version=9, records=None, **options):
        data = PartitionProduceData(index=partition, records=batch() if records is None else records)
        request = ProduceRequest(
            acks=acks,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        return self.send(request, version, **options)

    # --- the controller

    def create(
        self,
        topic="orders",
        partitions=1,
        *,
        leader=ME,
        isr=(ME,),
        replicas=None,
        epoch=0,
        topic_id=ZERO_UUID,
        metadata=True,
    ):
        """Makes partitions come to life here, as the controller does it:
        LeaderAndIsr, then UpdateMetadata, unless a test has it come later.
        """
        states = [
            LeaderAndIsrPartitionState(
                partition_index=index,
                controller_epoch=1,
                leader=leader,
                leader_epoch=epoch,
                isr=list(isr),
                partition_epoch=epoch,
                replicas=list(replicas or isr),
                is_new=True,
            )
            for index in range(partitions)
        ]
        request = LeaderAndIsrRequest(
            controller_id=ME,
            controller_epoch=1,
            broker_epoch=7,
            topic_states=[
                LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=states)
            ],
        )
        response = self.send(request, 7)
        if not metadata:
            return response
        self.update_metadata(
            {
                topic: [
                    UpdateMetadataPartitionState(
                        partition_index=state.partition_index,
                        controller_epoch=1,
                        leader=leader,
                        leader_epoch=epoch,
                        isr=list(isr),
                        replicas=list(replicas or isr),
                    )
                    for state in states
                ]
            },
            topic_id=topic_id,
        )
        return response

    def delete_replicas(self, topic, partitions):
        """The controller takes this broker's replicas of a topic away."""
        states = [
            StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
            for index in range(partitions)
        ]
        topics = [StopReplicaTopicState(topic_name=topic, partition_states=states)]
        request = StopReplicaRequest(controller_id=1, controller_epoch=1, broker_epoch=7, topic_states=topics)
        assert self.send(request, 4).error_code == 0

    def delete(self, topic):
        """The controller says that a topic is gone."""
        self.update_metadata(
            {
                topic: [
                    UpdateMetadataPartitionState(partition_index=index, leader=-2)
                    for index in self.cache.partitions(topic)
                ]
            }
        )

    def _log_start_moved(self, tp):
        self.replicas.log_start_moved(tp)

    def update_metadata(self, topics, *, topic_id=ZERO_UUID, brokers=(ME, OTHER), epoch=1, broker_epoch=7):
        request = UpdateMetadataRequest(
            controller_id=ME,
            controller_epoch=epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)
                for name, states in topics.items()
            ],
            live_brokers=[
                UpdateMetadataBroker(
                    id=broker,
                    rack=None,
                    endpoints=[
                        UpdateMetadataEndpoint(
                            port=9090 + broker, host="127.0.0.1", listener="PLAINTEXT", security_protocol=0
                        )
                    ],
                )
                for broker in brokers
            ],
        )
        return self.send(request, 8)

    def partition(self, topic="orders", partition=0):
        return self.replicas.partition(TopicPartition(topic, partition))


def batch(count=1, *, timestamp=NOW_MS, **options):
    """A batch as a producer sends it."""
    records = [Record(index, timestamp + index, b"k", b"v%d" % index) for index in range(count)]
    return bytes(build_batch(records, **options))
