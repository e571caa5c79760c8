"""`Parts`: everything of a broker between its store, its logs and its sockets, put together in one place."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from barnabas.broker.authorizer import AclAdmin, Authorizer
from barnabas.broker.auto_topics import AutoTopics
from barnabas.broker.handlers import api_table, wider
from barnabas.broker.producer_ids import ProducerIdManager
from barnabas.broker.profiles import profile_of, takes_client_metrics, wants_client_metrics
from barnabas.broker.registry import ApiTable
from barnabas.broker.services import BrokerServices
from barnabas.broker.topic_changes import TopicChanges
from barnabas.cluster.controller.controller import KafkaController
from barnabas.cluster.controller.term import ControllerConfig
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.client_quota_admin import ClientQuotaAdmin
from barnabas.cluster.metadata.config_admin import ConfigAdmin
from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.cordoned import cordoned_brokers
from barnabas.cluster.metadata.decisions import read_decisions
from barnabas.cluster.metadata.delegation_tokens import DelegationTokenManager
from barnabas.cluster.metadata.features import TRANSACTION_VERSION, Range
from barnabas.cluster.metadata.finalized_features import FinalizedFeatures
from barnabas.cluster.metadata.registration import BrokerRegistration, propagate_log_dir_event
from barnabas.cluster.metadata.scram_admin import ScramAdmin
from barnabas.cluster.metadata.topics import TopicAdmin, TopicDefaults
from barnabas.cluster.store.contract import MetadataStore
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.runtime.loading import Loader
from barnabas.core.api_profile import KAFKA_3_9
from barnabas.core.broker_config import with_profile
from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.dynamic_broker_config import DynamicBrokerConfig
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import random_uuid
from barnabas.core.offload import Offload
from barnabas.core.pending import Pending
from barnabas.core.topic_config import topic_defaults
from barnabas.log.manager import LogManager
from barnabas.network.client import NetworkClient
from barnabas.network.endpoints import ListenerConfig
from barnabas.network.node_link import Node
from barnabas.network.peer import ListenerId
from barnabas.node.broker_clients import (
    controlled_shutdown_client,
    controller_client,
    fetcher_clients,
    marker_client,
    to_controller_client,
    verification_client,
)
from barnabas.node.channel_security import InterBrokerSecurity
from barnabas.node.channels import BrokerChannels, LocalBroker
from barnabas.node.client_metrics import client_metrics
from barnabas.node.control_requests import ControlRequests
from barnabas.node.controlled_shutdown import ControlledShutdown
from barnabas.node.coordinators import group_coordinator, transaction_coordinator
from barnabas.node.isr_channel import IsrChannel
from barnabas.node.leader_endpoint import FetchSettings, Follower, LeaderClient, leader_endpoints
from barnabas.node.marker_channel import TxnMarkerChannel
from barnabas.node.to_controller import NodeToControllerChannelManager
from barnabas.node.verification import AddPartitionsToTxnManager
from barnabas.replica.alter_partition import AlterPartitionManager
from barnabas.replica.fetch_session import FetchSessionCache
from barnabas.replica.fetcher.manager import ReplicaFetcherManager
from barnabas.replica.fetcher.replica_fetcher import LeaderEndPoint
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.quota import ReplicationQuotas
from barnabas.replica.strays import StrayReplicas
from barnabas.security.quota_managers import QuotaManagers

_log = EventLog("node.parts")

FETCH_SESSION_IDS = range(1, 2**31)

LOG_DIR_EVENT_RETRY_MS: Final = 1000


class Foundation(NamedTuple):
    """What a broker stands on: this is there before any of its parts is made."""

    config: Config
    """As it is at the start; `Parts.reconfigure` brings later ones."""
    listeners: ListenerConfig
    security: InterBrokerSecurity
    """How this broker connects to the others."""
    clock: Clock
    rng: random.Random
    broker_id: int
    cluster_id: str
    store: MetadataStore
    configs: ConfigStore
    dynamic_config: DynamicBrokerConfig
    newest: Config | None
    """With the newest profile that this broker may come to; None where its profile does not change."""
    logs: LogManager
    registration: BrokerRegistration
    offload: Offload
    """For what would hold the loop."""
    loader: Loader
    transaction_loader: Loader
    authorizer: Authorizer
    acls: AclAdmin
    quotas: QuotaManagers
    """Of clients."""
    delegation_tokens: DelegationTokenManager
    apis: Callable[[ApiTable], ApiTable]
    """As `Environment.apis`."""

    def broker_epoch(self) -> int:
        return self.registration.broker_epoch


class Parts:
    """The controller, the replicas, the channels between brokers, and what handlers reach of all of them."""

    def __init__(self, on: Foundation) -> None:
        config, clock, rng = on.config, on.clock, on.rng
        newest = config if on.newest is None else on.newest
        self._closed = False
        self.loaders = {"group": on.loader, "transaction": on.transaction_loader}
        """By the name of the coordinator."""
        self._store = on.store
        self.registration = on.registration
        # Each part knows those above it. `local` alone gets the handlers last, as they reach all the others.
        self.metadata = MetadataCache(on.broker_id)
        local = LocalBroker(_controller_listener(on.listeners))
        self._to_brokers = controller_client(on.broker_id, config, clock, rng, on.security.control)
        self._alter_partition_channel = _to_controller(on, "alter-partition", self.metadata, local)
        self._forwarding_channel = _to_controller(
            on, "forwarding", self.metadata, local, config["request.timeout.ms"]
        )
        self.controlled_shutdown = _controlled_shutdown(on, self.metadata, local)
        profile = profile_of(config)
        self.finalized_features = FinalizedFeatures(on.store, profile.feature_levels())
        features = profile.features if profile.keeps_features else {}
        self.controller = _controller(on, features, local, self._to_brokers)
        self._quotas = _quotas(on)
        self._new_fetcher_clients = partial(
            fetcher_clients, on.broker_id, clock=clock, rng=rng, security=on.security.data
        )
        self._to_leaders = self._new_fetcher_clients(config)
        self._leader_endpoints = _leader_endpoints(on, self.metadata)
        self.fetchers = _fetchers(on, self._leader_endpoints(self._to_leaders), self._quotas)
        alter_partition = AlterPartitionManager(
            on.broker_id, on.broker_epoch, IsrChannel(self._alter_partition_channel, clock), clock
        )
        self.verifier = AddPartitionsToTxnManager(
            on.broker_id,
            on.listeners.inter_broker_name,
            self.metadata,
            self._transaction_partition,
            local=local,
            remote=verification_client(on.broker_id, config, clock, rng, on.security.data),
            clock=clock,
            enabled=config["transaction.partition.verification.enable"],
        )
        self.replicas = ReplicaManager(
            on.broker_id,
            config=config,
            clock=clock,
            logs=on.logs,
            metadata=self.metadata,
            alter_partition=alter_partition,
            fetchers=self.fetchers,
            quotas=self._quotas,
            verifier=self.verifier,
        )
        decisions = partial(read_decisions, on.store)
        self.strays = StrayReplicas(
            on.broker_id, on.broker_epoch, self.replicas, on.logs.logs, self.metadata, decisions, clock
        )
        self._topics = TopicAdmin(
            on.store,
            self.metadata,
            _topic_defaults(config),
            rng,
            cordoned_brokers(on.store, lambda: self.controller.cordoned_brokers),
        )
        self._topic_changes = TopicChanges(self.metadata, clock)
        self._group_configs = GroupConfigManager(config, on.configs.groups)
        self.group_coordinator = group_coordinator(
            newest,
            self._group_configs,
            clock,
            rng,
            replicas=self.replicas,
            metadata=self.metadata,
            loader=on.loader,
        )
        producer_ids = ProducerIdManager(on.broker_id, on.broker_epoch, self._forwarding_channel)
        self._markers = TxnMarkerChannel(
            on.broker_id,
            on.listeners.inter_broker_name,
            self.metadata,
            local=local,
            remote=marker_client(on.broker_id, config, clock, rng, on.security.data),
        )
        self.transaction_coordinator = transaction_coordinator(
            config,
            clock,
            replicas=self.replicas,
            channel=self._markers,
            new_producer_id=producer_ids.generate,
            loader=on.transaction_loader,
            server_version=partial(self.finalized_features.levels.level, TRANSACTION_VERSION),
        )
        self.client_metrics = (
            client_metrics(newest, on.configs, clock, rng, on.offload)
            if takes_client_metrics(newest)
            else None
        )
        if wants_client_metrics(newest) and self.client_metrics is None:
            _log.info(
                "client_metrics.off", missing="pip install 'barnabas[telemetry]': clients push no metrics"
            )
        self._apis = on.apis
        api_table_now = on.apis(api_table(profile))
        self.apis = api_table_now
        """What is handled; clients are told of `services.api_table`."""
        if on.newest is not None:
            oldest = profile_of(with_profile(newest, KAFKA_3_9))
            self.apis = wider(on.apis(api_table(oldest)), on.apis(api_table(profile_of(newest))))
        self.services = local.services = BrokerServices(
            broker_id=on.broker_id,
            cluster_id=on.cluster_id,
            config=config,
            clock=clock,
            replica_manager=self.replicas,
            metadata_cache=self.metadata,
            fetch_sessions=_fetch_sessions(on),
            topics=self._topics,
            controller=self.controller,
            producer_ids=producer_ids,
            topic_configs=on.configs,
            config_admin=ConfigAdmin(on.broker_id, on.configs, self.metadata, on.dynamic_config),
            broker_epoch=on.broker_epoch,
            api_table=api_table_now,
            features=self.finalized_features.levels,
            client_metrics=None if self.client_metrics is None else self.client_metrics.manager,
            topic_changes=self._topic_changes,
            auto_topics=AutoTopics(self._topics, config),
            group_coordinator=self.group_coordinator,
            scram_credentials=ScramAdmin(on.configs),
            client_quotas=ClientQuotaAdmin(on.configs),
            delegation_tokens=on.delegation_tokens,
            transaction_coordinator=self.transaction_coordinator,
            authorizer=on.authorizer,
            acls=on.acls,
            quotas=on.quotas,
        )

    def _transaction_partition(self, transactional_id: str) -> int:
        # The verifier comes before the coordinator, and is asked when both are there.
        return self.transaction_coordinator.partition_for(transactional_id)

    def reconfigure(self, config: Config, rates: Mapping[str, int]) -> None:
        """Dynamic keys of the broker were changed: what handlers, new topics, elections and throttles go by
        from now on.
        """
        self._resize_fetchers(self.services.config["num.replica.fetchers"], config)
        self.services.config = config
        profile = profile_of(config)
        self.services.api_table = self._apis(api_table(profile))
        if not profile.keeps_features:
            self.finalized_features.levels.support(profile.features)
        self._quotas.broker_configured(rates)
        self.verifier.enabled = config["transaction.partition.verification.enable"]
        self._group_configs.broker_configured(config)
        self._topics.defaults = _topic_defaults(config)
        self.controller.default_unclean_election_changed(config["unclean.leader.election.enable"])

    def _resize_fetchers(self, old: int, config: Config) -> None:
        number: int = config["num.replica.fetchers"]
        if number != old:
            # Clients that are no longer needed stay for the next change; they have no connection.
            self._to_leaders += self._new_fetcher_clients(config, first=len(self._to_leaders))
            self.fetchers.resize(self._leader_endpoints(self._to_leaders[:number]))

    def topic_configured(self, topic: str, values: Mapping[str, str]) -> None:
        """A topic's own settings were changed."""
        self._quotas.topic_configured(topic, values)
        if values.get("unclean.leader.election.enable") == "true":
            # Partitions that wait for an in-sync replica need not wait any longer.
            self.controller.unclean_election_enabled(topic)

    def directory_failed(self) -> None:
        """A log directory went offline: its partitions are no longer served, and the controller
        hears of it.
        """
        online = self.replicas.partitions.online
        lost = [tp for tp, partition in online.items() if partition.log is not None and partition.log.offline]
        self.replicas.log_directory_failed(lost)
        self._tell_log_dir_event()

    def _tell_log_dir_event(self) -> None:
        if not self._closed:
            propagate_log_dir_event(self._store, self.services.broker_id).when_done(self._log_dir_event_told)

    def _log_dir_event_told(self, done: Pending[None]) -> None:
        if done.error is not None:
            # Without it the controller would leave these partitions to a leader that cannot serve them.
            _log.warning("log_dir_event.retry", error=done.error)
            self.services.clock.call_later(LOG_DIR_EVENT_RETRY_MS, self._tell_log_dir_event)

    async def close(self) -> None:
        """Answers what waits, resigns, and closes the connections to other brokers."""
        self._closed = True
        self._topic_changes.shutdown()
        self.transaction_coordinator.shutdown()
        self.group_coordinator.shutdown()
        self.fetchers.close()
        self.replicas.shutdown()
        self.controller.shutdown()
        for client in (*self._to_leaders, self._to_brokers):
            await client.close()
        await self._markers.close()
        await self.verifier.close()
        for channel in (self._alter_partition_channel, self._forwarding_channel):
            await channel.close()


def _topic_defaults(config: Config) -> TopicDefaults:
    return TopicDefaults(
        config["num.partitions"], config["default.replication.factor"], topic_defaults(config)
    )


def _controller_listener(listeners: ListenerConfig) -> ListenerId:
    """The listener that requests between the controller and brokers go to."""
    endpoint = listeners.endpoint(listeners.control_plane_name or listeners.inter_broker_name)
    return ListenerId(endpoint.name, endpoint.security_protocol)


def _to_controller(
    on: Foundation,
    channel: str,
    metadata: MetadataCache,
    local: LocalBroker,
    retry_timeout_ms: float = math.inf,
) -> NodeToControllerChannelManager:
    return NodeToControllerChannelManager(
        channel,
        on.broker_id,
        _controller_listener(on.listeners).name,
        metadata,
        on.clock,
        local=local,
        remote=to_controller_client(
            on.broker_id,
            on.config,
            on.clock,
            on.rng,
            on.security.control,
            retry_timeout_ms=retry_timeout_ms,
        ),
        retry_timeout_ms=retry_timeout_ms,
    )


def _controlled_shutdown(on: Foundation, metadata: MetadataCache, local: LocalBroker) -> ControlledShutdown:
    return ControlledShutdown(
        on.broker_id,
        on.listeners.inter_broker_name,
        metadata,
        on.config,
        on.clock,
        local=local,
        remote=controlled_shutdown_client(on.broker_id, on.config, on.clock, on.rng, on.security.data),
    )


def _controller(
    on: Foundation, features: Mapping[str, Range], local: LocalBroker, to_brokers: NetworkClient
) -> KafkaController:
    listener = _controller_listener(on.listeners)
    return KafkaController(
        ControllerConfig.of(on.config, on.broker_id, on.listeners, features),
        on.store,
        ControlRequests(
            BrokerChannels(on.broker_id, listener.name, on.clock, local=local, remote=to_brokers)
        ),
        on.registration,
        on.clock,
        lambda: random_uuid(on.rng),
    )


def _quotas(on: Foundation) -> ReplicationQuotas:
    quotas = ReplicationQuotas(on.broker_id, on.config, on.clock)
    quotas.broker_configured(on.dynamic_config.rates)
    for topic, values in on.configs.topics.items():
        quotas.topic_configured(topic, values)
    return quotas


def _leader_endpoints(
    on: Foundation, metadata: MetadataCache
) -> Callable[[Sequence[LeaderClient]], list[Callable[[int], LeaderEndPoint]]]:
    """What makes the end points of as many fetchers as there are clients."""

    def find_leader(broker_id: int) -> Node | None:
        """Where a broker serves followers, if it lives and has the listener for brokers."""
        broker = metadata.alive_broker(broker_id)
        return None if broker is None else broker.node(on.listeners.inter_broker_name)

    return partial(
        leader_endpoints,
        find_node=find_leader,
        follower=Follower(on.broker_id, on.broker_epoch),
        settings=FetchSettings.of(on.config),
        clock=on.clock,
    )


def _fetchers(
    on: Foundation, endpoints: Sequence[Callable[[int], LeaderEndPoint]], quotas: ReplicationQuotas
) -> ReplicaFetcherManager:
    return ReplicaFetcherManager(
        endpoints,
        on.clock,
        backoff_ms=on.config["replica.fetch.backoff.ms"],
        truncated=on.logs.checkpoint_recovery_points,
        quota=quotas.follower,
    )


def _fetch_sessions(on: Foundation) -> FetchSessionCache:
    return FetchSessionCache(
        on.config["max.incremental.fetch.session.cache.slots"],
        now_ms=on.clock.time_ms,
        new_id=lambda: on.rng.choice(FETCH_SESSION_IDS),
    )
