"""`BrokerNode`: one broker, from its configuration to its stop (``KafkaServer``).

Theory of operation
-------------------
The start follows Kafka's order (``KafkaServer.startup``), because each step needs what the one before it
made: the metadata store; the cluster's id and the broker's; the configuration of topics; the logs; the
sockets, bound but silent, so that their ports are known; the registration, which gives the broker its epoch;
the election. The broker is *ready* when it has the first metadata of the controller
(`barnabas.node.readiness`): the first client finds a broker that knows its topics. For that it waits as long
as it takes, as Kafka does, and says so in the log.

Every step that starts something also says how to end it; the stop undoes them from the last to the first. It
hands over leaderships before that. The marker of a clean shutdown is left as soon as the logs are recovered,
also where a later step of the start fails.
"""

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final, TypeVar

from barnabas.broker.authorizer import AclAdmin, AllowAll, Authorizer, NoAcls
from barnabas.broker.dispatch import Dispatcher
from barnabas.cluster.brokers import Broker
from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.delegation_tokens import DelegationTokenManager, TokenSettings
from barnabas.cluster.metadata.registration import (
    BrokerRegistration,
    RegistrationError,
    cluster_id,
    ensure_persistent_paths,
    generate_broker_id,
)
from barnabas.cluster.metadata.scram_credentials import ScramCredentials
from barnabas.cluster.store.contract import MetadataStore, StoreError, StoreUnusableError
from barnabas.cluster.store.znodes import DEFAULT_ENTITY, ConfigChange, desanitize
from barnabas.coordinator.runtime.loading import Loader
from barnabas.core.api_profile import follows_the_cluster
from barnabas.core.broker_config import (
    WITHOUT_FILE,
    broker_config,
    cordoned_log_directories,
    log_directories,
    with_profile,
)
from barnabas.core.clock import every
from barnabas.core.config import Config
from barnabas.core.delegation_token import TokenCredential
from barnabas.core.descriptors import soft_limit
from barnabas.core.dynamic_broker_config import RATES, DynamicBrokerConfig
from barnabas.core.errors import BarnabasError, ConfigError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
    random_uuid,
    uuid_text,
)
from barnabas.core.odd_keys import warn_of_odd_keys
from barnabas.core.offload import ChildEndedError
from barnabas.core.pending import Pending
from barnabas.core.scram import ScramMechanism
from barnabas.core.topic_config import topic_config, topic_defaults
from barnabas.log.cleaner.log_cleaner import LogCleaner
from barnabas.log.cleaner.settings import CleanerSettings
from barnabas.log.config import LogConfig
from barnabas.log.directory import MetaProperties
from barnabas.log.manager import LogManager
from barnabas.network.endpoints import Endpoint, ListenerConfig
from barnabas.network.probe import answers
from barnabas.network.sasl.credentials import ServerCredentials
from barnabas.network.settings import SocketSettings
from barnabas.network.socket_server import SocketServer
from barnabas.node.channel_security import InterBrokerSecurity, broker_tls, password_encoders
from barnabas.node.coordinators import partitions_of
from barnabas.node.dynamic_listeners import (
    DynamicListenerConfig,
    parse_listeners,
    secure,
    validate_listeners,
)
from barnabas.node.environment import Environment, metadata_path, of_machine
from barnabas.node.parts import Foundation, Parts
from barnabas.node.peer_brokers import LOOK_INTERVAL_MS, PeerBrokers
from barnabas.node.readiness import FirstMetadata, Gate, existing_topics, look_again_s, topics_with_leaders
from barnabas.node.start_progress import ACCEPTING, GOT_ON
from barnabas.node.token_keys import TokenKeys
from barnabas.security.acl_authorizer import AclAuthorizer, parse_super_users
from barnabas.security.acl_store import AclStore
from barnabas.security.quota_managers import QuotaManagers

_log = EventLog("node")

T = TypeVar("T")

TIMER_MAX_MS: Final = 2**31
"""A repetition rarer than this (25 days) means never: Kafka's defaults say so with 2^63-1."""

WAITING_LINE_MS_MAX: Final = 10_000
"""How often the log says that the start still waits for the controller."""
INTERRUPT_POLL_S: Final = 0.1
"""How often a wait for the store looks whether the start is interrupted."""
SESSION_MS_MIN: Final = 6_000
"""ZooKeeper grants no shorter session: two of its ticks, of 3 s by default."""
SESSION_MARGIN_MS: Final = 10_000
"""ZooKeeper ends a session up to a tick late, and later where its leader changes."""
EMBEDDED_SESSION_MS: Final = 2_000
"""The embedded store sees at once that a process has ended; but a child of it may live for a moment."""
STRAYS_LOOK_MS_MIN: Final = 100
"""The least time between two looks for strays; else ``log.initial.task.delay.ms``."""
PROGRESS_WORD_MS: Final = 1_000
"""How often at most a start that waits for the controller says that it got on."""
TOPICS_LOOK_MS: Final = 500
"""How often the start looks whether the topics that it waits for are still there."""


class StartError(BarnabasError):
    """The broker cannot start; the text says why and what to do."""


class BrokerNode:
    """One running broker. Belongs to the running event loop."""

    def __init__(
        self,
        config: Config | Mapping[str, Any] | None = None,
        environment: Environment | None = None,
        *,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        """Checks the configuration; raises ConfigError. Without an environment it runs on this machine.
        `on_progress` hears how the start gets on, in the words of `node.start_progress`.

        Settings by key, or none, go over what ``barnabas serve`` starts from, so that a single broker has
        groups and transactions; a `Config` is taken as it is.
        """
        self._on_progress = on_progress
        if not isinstance(config, Config):
            config = broker_config({**WITHOUT_FILE, **(config or {})})
        self.config = config
        validate_listeners(config)
        self.log_dirs = log_directories(config)
        self.broker_id: int = config["broker.id"]
        self.endpoints: tuple[Endpoint, ...] = ()
        """Where it listens, with real ports; empty until it is started."""
        self.bootstrap: Endpoint | None = None
        """The address that it shares with other brokers of this machine, if it does."""
        self.metrics_url: str | None = None
        """Where metrics are served, if they are."""
        self._configured = config
        """By file and options, as it was given."""
        self._dynamic_config = DynamicBrokerConfig(config, password_encoders(config))
        self._dynamic_config.add_reconfigurable(validate_listeners)
        self._dynamic_listeners: DynamicListenerConfig | None = None
        self._topic_defaults = topic_defaults(config)
        loop = asyncio.get_running_loop()
        self._environment = environment or of_machine(config, loop)
        self._clock = self._environment.clock
        self._failure: asyncio.Future[str] = loop.create_future()
        self._parts: Parts | None = None
        self._server: SocketServer | None = None
        self._cleaner: LogCleaner | None = None
        self._scram_credentials = ScramCredentials()
        self._token_keys = TokenKeys(self._clock)
        self._delegation_tokens: DelegationTokenManager | None = None
        self._credentials = ServerCredentials(
            self._scram_credentials.find,
            self._find_token,
            self._token_keys.keys_of,
            self._clock.time_ms,
        )
        """Who may log in."""
        self._quotas = QuotaManagers.from_config(config, self._clock.monotonic_ms)
        self._running = AsyncExitStack()
        """What has been started, in order; undone from the end."""
        self._stopping_cleanly = False
        self._interrupted = False
        self._is_handing_over = False

    # ------------------------------------------------------------------------------------------ start

    async def start(self) -> None:
        """Starts everything; raises StartError or ConfigError, and then leaves nothing running."""
        try:
            await self._start()
        except (RegistrationError, StoreError, StoreUnusableError, ChildEndedError) as error:
            await self._running.aclose()
            raise StartError(str(error)) from error
        except OSError as error:
            await self._running.aclose()
            raise StartError(self._why(error)) from error
        except BaseException:
            await self._running.aclose()
            raise

    def interrupt_start(self) -> None:
        """Has a start that waits for the controller return as it is: the next call is `stop`."""
        self._interrupted = True

    def _why(self, error: OSError) -> str:
        """What stopped the start, so that a person knows which disk it was."""
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return str(error)
        where = error.filename or ",".join(map(str, self.log_dirs))
        return f"the disk of {where} is full: free some space there, then start again"

    async def _start(self) -> None:
        store = await self._open_store()
        stored_cluster_id = await wait(cluster_id(store, self._new_cluster_id))
        configs = ConfigStore(store, self._clock)
        logs = await self._open_logs(store, configs, stored_cluster_id)
        listeners = parse_listeners(self.config)
        if (tls := broker_tls(self.config, listeners)) is not None:
            tls.ensure_fits_itself()
        server = self._bind(listeners)
        await self._read_token_keys()
        bound_by = self.config
        peers = PeerBrokers(store, self._configured, lambda: self._use_profile(peers.profile))
        await wait(peers.check())
        self._use_profile(peers.profile)
        registration = BrokerRegistration(
            store,
            self._describe_self(listeners, peers.features),
            self._clock,
            old_session_ms=self._old_session_ms(),
        )
        authorizer, acls = await self._open_authorizer(store)
        tokens = self._delegation_tokens = DelegationTokenManager(
            store,
            self._clock,
            TokenSettings.of(self.config),
            lambda: uuid_text(random_uuid(self._environment.rng)),
        )
        await wait(tokens.start())
        foundation = Foundation(
            config=self.config,
            listeners=listeners,
            security=InterBrokerSecurity(self.config, listeners),
            clock=self._clock,
            rng=self._environment.rng,
            broker_id=self.broker_id,
            cluster_id=self.cluster_id,
            store=store,
            configs=configs,
            dynamic_config=self._dynamic_config,
            newest=peers.newest,
            logs=logs,
            registration=registration,
            offload=self._environment.offload,
            loader=self._loader("offsets.load.buffer.size"),
            transaction_loader=self._loader("transaction.state.log.load.buffer.size"),
            authorizer=authorizer,
            acls=acls,
            quotas=self._quotas,
            delegation_tokens=tokens,
            apis=self._environment.apis,
        )
        parts = self._parts = Parts(foundation)
        self._running.push_async_callback(parts.close)
        for coordinator, topic, key in (
            (parts.group_coordinator, GROUP_METADATA_TOPIC, "offsets.topic.num.partitions"),
            (parts.transaction_coordinator, TRANSACTION_STATE_TOPIC, "transaction.state.log.num.partitions"),
        ):
            coordinator.startup(await wait(partitions_of(store, topic, self.config[key])))
        topics = await wait(existing_topics(store))
        _name_unknown(tp for tp in logs.logs if tp.topic not in topics)
        await wait(parts.finalized_features.start())
        if not await self._register(registration):
            return
        dynamic_listeners = self._dynamic_listeners = DynamicListenerConfig(
            bound_by, server, registration, self._credentials, foundation.security
        )
        self._dynamic_config.add_reconfigurable(dynamic_listeners.validate)
        self._dynamic_config.add_reloaded_files(dynamic_listeners.validate_files)
        dispatcher = Dispatcher(parts.services, parts.apis)
        gate = Gate(dispatcher, self._clock)
        server.start(gate)
        if self._on_progress is not None:
            self._on_progress(ACCEPTING)
        await wait(parts.controller.startup())
        await self._until_known(parts, store, topics)
        if self._interrupted:
            return
        # Of the topics that the controller named it named all partitions.
        known = parts.metadata.snapshot.partitions
        _name_unknown(tp for tp in logs.logs if tp.topic in known and tp.partition not in known[tp.topic])
        server.processor.service = dispatcher
        await wait(gate.open())
        self._reconfigure_listeners(dynamic_listeners)  # what was changed since they were opened
        self._start_timers(logs)
        self._expire_tokens(parts, tokens)
        self._start_cleaner(logs)
        await self._serve_metrics(parts, logs, dispatcher, server)
        between_ms = max(STRAYS_LOOK_MS_MIN, self.config["log.initial.task.delay.ms"])
        self._repeat("stray-replicas", between_ms, parts.strays.look, delay_ms=between_ms)
        if peers.watched:
            self._repeat("peer-brokers", LOOK_INTERVAL_MS, peers.look)
        parts.replicas.start()
        # The last step: who comes there may not have to wait for this broker.
        self.bootstrap = dynamic_listeners.share()
        self._environment.settle()

    async def _open_authorizer(self, store: MetadataStore) -> tuple[Authorizer, AclAdmin]:
        """Who decides what clients may do; its rules are read before the first of them is heard."""
        config = self.config
        if not config["authorizer.class.name"]:
            return AllowAll(), NoAcls()
        authorizer = AclAuthorizer(
            AclStore(store, self._clock, self._environment.rng),
            parse_super_users(config["super.users"]),
            allow_without_rules=config["allow.everyone.if.no.acl.found"],
        )
        await wait(authorizer.start())
        return authorizer, authorizer

    def _loader(self, buffer_key: str) -> Loader:
        environment = self._environment
        return Loader(
            self._clock,
            environment.offload,
            environment.filesystem,
            buffer_bytes=self.config[buffer_key],
            settle=environment.settle,
        )

    def _new_cluster_id(self) -> str:
        return uuid_text(random_uuid(self._environment.rng))

    async def _open_store(self) -> MetadataStore:
        store = self._environment.open_store()
        self._running.push_async_callback(lambda: wait(store.close()))
        await wait(store.start())
        await wait(ensure_persistent_paths(store))
        return store

    async def _open_logs(
        self, store: MetadataStore, configs: ConfigStore, stored_cluster_id: str | None
    ) -> LogManager:
        """Locks, recovers and loads; the directories may decide the ids of the broker and of its cluster."""
        environment = self._environment
        logs = LogManager(
            self.log_dirs,
            filesystem=environment.filesystem,
            clock=self._clock,
            offload=environment.offload,
            disk_thread=environment.disk_thread,
            log_config=lambda topic: self._log_config(configs.topic(topic)),
            syncer=environment.syncer,
            on_offline=lambda path: self._directory_failed(logs, path),
            on_log_start=self._log_start_moved,
            producer_expiration_ms=self.config["producer.id.expiration.ms"],
            descriptors=soft_limit(),
            recovery_threads=self.config["num.recovery.threads.per.data.dir"],
            stray_delete_delay_ms=self.config["barnabas.log.stray.delete.delay.ms"],
        )
        self._running.callback(environment.offload.close)
        self._running.callback(environment.syncer.close)
        self._running.callback(environment.disk_thread.close)
        self._running.callback(lambda: logs.shutdown(clean=self._stopping_cleanly))
        found = logs.open_directories()
        self.cluster_id = _cluster_id(stored_cluster_id, found)
        embedded = metadata_path(self.config)
        if found is not None and found.cluster_id not in (None, self.cluster_id) and embedded is not None:
            raise StartError(
                f"the metadata store {embedded} is of cluster {self.cluster_id}, but the data in "
                f"{','.join(map(str, self.log_dirs))} of cluster {found.cluster_id}: restore the store from "
                "a backup, or name the one of that cluster with barnabas.metadata.path or zookeeper.connect"
            )
        if self.broker_id < 0:
            self.broker_id = await self._choose_id(store, -1 if found is None else found.broker_id)
        await wait(configs.start(lambda change, values: self._reconfigure(logs, change, values)))
        for entity in (DEFAULT_ENTITY, str(self.broker_id)):
            update = partial(self._dynamic_config.update, per_broker=entity != DEFAULT_ENTITY)
            # In the moment in which it is read: a change that is noticed later wins.
            await wait(configs.read("brokers", entity).then(update))
        await wait(self._scram_credentials.start(configs))
        await wait(self._quotas.start(configs))
        self._use_config()
        logs.cordon(cordoned_log_directories(self.config))
        logs.producer_expiration_ms = self.config["producer.id.expiration.ms"]
        environment.offload.resize(self.config["num.recovery.threads.per.data.dir"])
        await wait(logs.start(broker_id=self.broker_id, cluster_id=self.cluster_id))
        # All is recovered: if the start fails from here on, the next one need not do it again.
        self._stopping_cleanly = True
        return logs

    async def _choose_id(self, store: MetadataStore, stored: int | None) -> int:
        if stored is not None and stored >= 0:
            return stored
        if not self.config["broker.id.generation.enable"]:
            raise ConfigError("broker.id must be set while broker.id.generation.enable is false")
        return await wait(generate_broker_id(store, self.config["reserved.broker.max.id"]))

    def _bind(self, listeners: ListenerConfig) -> SocketServer:
        server = SocketServer(
            self._clock,
            SocketSettings.from_config(self.config),
            inter_broker_listener=listeners.inter_broker_name,
            address_rates=self._quotas.addresses,
        )
        self._server = server
        self._running.push_async_callback(server.stop)
        for endpoint in listeners.listeners:
            secure(server, self.config, endpoint, self._credentials)
        self.endpoints = tuple(server.bind(endpoint) for endpoint in listeners.listeners)
        return server

    def _find_token(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        tokens = self._delegation_tokens
        return None if tokens is None else tokens.find(mechanism, token_id)

    async def _read_token_keys(self) -> None:
        self._running.callback(self._token_keys.close)
        try:
            await wait(self._token_keys.start())
        except BarnabasError as error:
            raise StartError(str(error)) from error

    def _describe_self(self, listeners: ListenerConfig, features: Mapping[str, Any]) -> Broker:
        advertised = listeners.advertise(self.endpoints, socket.gethostname())
        return Broker(
            self.broker_id, advertised, self.config["broker.rack"], features, cordoned=self._all_cordoned()
        )

    def _all_cordoned(self) -> bool:
        return len(cordoned_log_directories(self.config)) == len(self.log_dirs)

    def _old_session_ms(self) -> float:
        """How long the registration of a broker that was killed may stay."""
        if not self.config["zookeeper.connect"]:
            return EMBEDDED_SESSION_MS
        session_ms: int = max(self.config["zookeeper.session.timeout.ms"], SESSION_MS_MIN)
        return session_ms + SESSION_MARGIN_MS

    @staticmethod
    async def _refuse_rival(registration: BrokerRegistration) -> None:
        """Raises RegistrationError where another broker answers that has this one's id. One that does not may
        be an earlier life of this one, whose session is to end soon.
        """
        rival = await wait(registration.rival())
        ours = {(each.host, each.port) for each in registration.broker.endpoints}
        for host, port in {(each.host, each.port) for each in rival.endpoints} - ours if rival else ():
            if await answers(host, port):
                raise registration.id_is_taken(f"in this cluster, by a broker at {host}:{port}")

    async def _register(self, registration: BrokerRegistration) -> bool:
        """Registers this broker, once its last session has ended; False when it is interrupted."""
        await self._refuse_rival(registration)
        registered = registration.register()
        done = asyncio.Event()
        registered.when_done(lambda _: done.set())
        while not (registered.done or self._interrupted):
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), INTERRUPT_POLL_S)
        if registered.done:
            registered.result()
        return not self._interrupted

    async def _until_known(self, parts: Parts, store: MetadataStore, topics: set[str]) -> None:
        """Waits for the controller's first metadata:
        this broker itself, the topics, and the roles of its partitions.
        """
        now_ms, session_ms = self._clock.monotonic_ms, self.config["zookeeper.session.timeout.ms"]
        first = FirstMetadata(
            self.broker_id,
            topics,
            parts.metadata,
            parts.replicas.partitions,
            self._clock,
            session_ms=session_ms,
        )
        line_ms = min(WAITING_LINE_MS_MAX, session_ms)
        began_ms = now_ms()
        next_line_ms, next_look_ms = began_ms + line_ms, began_ms + TOPICS_LOOK_MS
        last, next_word_ms = self._learned(parts, first), began_ms
        while not (self._interrupted or self._failure.done() or first.complete()):
            if now_ms() >= next_line_ms:
                next_line_ms += line_ms
                _log.warning(
                    "start.waits_for_controller",
                    controller=parts.controller.active_controller_id,
                    missing=len(first.topics) if first.named else "everything",
                    mend="see whether that broker runs, and whether it can reach this one",
                )
            if first.topics and first.named and now_ms() >= next_look_ms:
                # Some may be deleted by now, and one whose partitions never had a leader is not sent.
                there: set[str] = await wait(topics_with_leaders(store, first.topics))
                first.topics &= there
                next_look_ms = now_ms() + TOPICS_LOOK_MS
            if self._on_progress is not None and now_ms() >= next_word_ms:
                learned = self._learned(parts, first)
                if learned != last:
                    self._on_progress(GOT_ON)
                    last = learned
                next_word_ms = now_ms() + PROGRESS_WORD_MS
            await asyncio.sleep(look_again_s((now_ms() - began_ms) / 1000))

    @staticmethod
    def _learned(parts: Parts, first: FirstMetadata) -> tuple[int, int]:
        """What changes while the start gets on; of a controller that reads the whole cluster also the seconds
        of processor time.
        """
        return first.known, int(time.process_time()) if parts.controller.is_active else 0

    def _start_timers(self, logs: LogManager) -> None:
        config = self.config
        for name, key, work in (
            ("kafka-log-retention", "log.retention.check.interval.ms", logs.clean_up),
            ("kafka-log-flusher", "log.flush.scheduler.interval.ms", logs.flush_by_time),
            (
                "kafka-recovery-point-checkpoint",
                "log.flush.offset.checkpoint.interval.ms",
                logs.checkpoint_recovery_points,
            ),
            (
                "kafka-log-start-offset-checkpoint",
                "log.flush.start.offset.checkpoint.interval.ms",
                logs.checkpoint_log_start_offsets,
            ),
            (
                "PeriodicProducerExpirationCheck",
                "producer.id.expiration.check.interval.ms",
                logs.expire_producers,
            ),
        ):
            if config[key] < TIMER_MAX_MS:
                self._repeat(name, config[key], work, delay_ms=config["log.initial.task.delay.ms"])
        self._repeat("log-file-watch", config["barnabas.log.files.check.interval.ms"], logs.look_after_files)

    def _expire_tokens(self, parts: Parts, tokens: DelegationTokenManager) -> None:
        """The controller removes delegation tokens that have expired (``KafkaController.startup``)."""

        def work() -> None:
            if parts.controller.is_active:
                tokens.expire_tokens()

        interval_ms = self.config["delegation.token.expiry.check.interval.ms"]
        if tokens.enabled and interval_ms < TIMER_MAX_MS:
            self._repeat("delete-expired-tokens", interval_ms, work)

    def _start_cleaner(self, logs: LogManager) -> None:
        if not self.config["log.cleaner.enable"]:
            return
        environment = self._environment
        cleaner = self._cleaner = LogCleaner(
            logs,
            self._clock,
            disk=environment.filesystem,
            syncer=environment.syncer,
            new_offload=environment.new_offload,
            settings=CleanerSettings.from_config(self.config),
            throttle=environment.throttle,
        )
        self._running.push_async_callback(lambda: wait(cleaner.shutdown()))
        # Without ``log.initial.task.delay.ms``, which is for the other periodic work
        # (``LogManager.startup``): a broker that lives for less than that each time would never compact.
        cleaner.startup()

    async def _serve_metrics(
        self, parts: Parts, logs: LogManager, dispatcher: Dispatcher, server: SocketServer
    ) -> None:
        port: int = self.config["metrics.port"]
        if port < 0:
            return
        # Only brokers that serve metrics need the library.
        from barnabas.node.broker_metrics import broker_metrics  # noqa: PLC0415
        from barnabas.node.loop_lag import INTERVAL_MS, LoopLag  # noqa: PLC0415
        from barnabas.node.metrics_access import metrics_access, metrics_host  # noqa: PLC0415
        from barnabas.node.metrics_endpoint import MetricsEndpoint, RegistryText  # noqa: PLC0415

        loop_lag = LoopLag(self._clock)
        self._repeat("event-loop-lag", INTERVAL_MS, loop_lag.look, delay_ms=INTERVAL_MS)
        registry = broker_metrics(
            parts,
            logs,
            dispatcher.metrics,
            loop_lag.lag,
            cleaner=self._cleaner,
            connections=server.quotas.by_listener,
            broker_state=self._broker_state,
            group_lag=self.config["barnabas.group.lag.metrics.enable"],
        )
        access = metrics_access(lambda: self.config)
        endpoint = MetricsEndpoint(RegistryText(registry, self._clock), access)
        self._running.push_async_callback(endpoint.close)
        self.metrics_url = await endpoint.start(metrics_host(self.config, self.endpoints, access), port)

    def _broker_state(self) -> int:
        """``BrokerState``, as far as one can be asked for it: RUNNING or PENDING_CONTROLLED_SHUTDOWN."""
        return 6 if self._is_handing_over else 3

    def _repeat(
        self, name: str, interval_ms: float, work: Callable[[], object], *, delay_ms: float = 0
    ) -> None:
        timer = every(self._clock, name, interval_ms, work, delay_ms=delay_ms)
        self._running.callback(timer.cancel)

    # ----------------------------------------------------------------------------------- while it runs

    async def failed(self) -> str:
        """Waits until the broker has to end; returns why."""
        return await self._failure

    def _log_config(self, own: Mapping[str, str]) -> LogConfig:
        values = topic_config(self._topic_defaults, own)
        return LogConfig.from_values(values, validate_records=self.config["barnabas.validate.records"])

    def _directory_failed(self, logs: LogManager, path: str) -> None:
        is_directory = (
            path in logs.offline_directories
        )  # else one partition was set aside, with a line of its own
        starting = self._parts is None and not logs.online_directories  # the start fails, and says why
        if is_directory and not starting:
            _log.error("log_dir.failed", path=path, mend="replace the disk, then restart the broker")
        if self._parts is not None:
            self._parts.directory_failed()
        if not logs.online_directories and not self._failure.done():
            self._failure.set_result(
                f"all log directories have failed, {path} was the last: the log says why"
            )

    def _log_start_moved(self, tp: TopicPartition) -> None:
        if self._parts is not None:
            self._parts.replicas.log_start_moved(tp)

    def _reconfigure(self, logs: LogManager, change: ConfigChange, values: Mapping[str, str]) -> None:
        """Settings were changed, here or by another broker (``TopicConfigHandler``,
        ``BrokerConfigHandler``).
        """
        self._scram_credentials.config_changed(change, values)
        self._quotas.config_changed(change, values)
        if change.entity_type == "topics":
            topic = desanitize(change.entity)
            logs.reconfigure(topic)
            if self._parts is not None:
                self._parts.topic_configured(topic, values)
        elif change.entity_type == "brokers" and change.entity in (DEFAULT_ENTITY, str(self.broker_id)):
            changed = self._dynamic_config.update(values, per_broker=change.entity != DEFAULT_ENTITY)
            self._use_config()
            logs.producer_expiration_ms = self.config["producer.id.expiration.ms"]
            if self._cleaner is not None:
                self._cleaner.reconfigure(CleanerSettings.from_config(self.config))
            if self._dynamic_listeners is not None:
                self._reconfigure_listeners(self._dynamic_listeners)
            for topic in {tp.topic for tp in logs.logs}:
                logs.reconfigure(topic)
            logs.cordon(cordoned_log_directories(self.config))
            if self._parts is not None:
                self._parts.reconfigure(self.config, self._dynamic_config.rates)
                self._parts.registration.cordon(all_directories=self._all_cordoned())
            _log.info("config.changed", keys=sorted(changed))
            warn_of_odd_keys(self.config, values.keys() - RATES.keys())

    def _reconfigure_listeners(self, listeners: DynamicListenerConfig) -> None:
        listeners.reconfigure(self.config)
        self.endpoints = listeners.endpoints

    def _use_profile(self, profile: str) -> None:
        """This broker is that Kafka to the clients that come from now on."""
        if not follows_the_cluster(self._configured):
            return
        self._dynamic_config.use_static(with_profile(self._configured, profile))
        self._use_config()
        if self._parts is not None:
            self._parts.reconfigure(self.config, self._dynamic_config.rates)

    def _use_config(self) -> None:
        self.config = self._dynamic_config.current
        self._topic_defaults = topic_defaults(self.config)

    # -------------------------------------------------------------------------------------------- stop

    async def stop(self) -> None:
        """Hands over leaderships, answers what waits, closes the logs cleanly, ends the session."""
        self._is_handing_over = True
        if self._server is not None:
            self._server.unshare()
        if self._parts is not None and self.config["controlled.shutdown.enable"]:
            await self._hand_over(self._parts)
        await self._running.aclose()

    async def kill(self) -> None:
        """Ends as if the process had died: clients are cut off, no leadership is handed over, and the next
        start recovers the logs. Only the store hears of it at once, where a dead process would be missed
        first.
        """
        self._stopping_cleanly = False
        for connection in list(self._server.connections) if self._server is not None else ():
            connection.close()
        await self._running.aclose()

    async def _hand_over(self, parts: Parts) -> None:
        """Asks the controller to move leaderships away (``KafkaServer.controlledShutdown``).

        A cluster of one has no other broker that could lead.
        """
        if len(parts.metadata.alive_brokers()) < 2:
            return
        parts.fetchers.begin_shutdown()
        await parts.controlled_shutdown.run(parts.registration.broker_epoch)

    def __repr__(self) -> str:
        return f"<BrokerNode {self.broker_id} {','.join(map(str, self.endpoints))}>"


async def wait(pending: Pending[T]) -> T:
    """A Pending's value, awaited on the running loop."""
    if not pending.done:
        done = asyncio.Event()
        pending.when_done(lambda _: done.set())
        await done.wait()
    return pending.result()


def _cluster_id(stored: str | None, found: MetaProperties | None) -> str:
    """The id in the store, or that of the log directories where its znode is unreadable.

    Raises StartError without either.
    """
    known = stored if stored is not None or found is None else found.cluster_id
    if known is None:
        raise StartError(
            "/cluster/id of the metadata store is unreadable, and no log directory says which cluster this "
            "is: write the id into the znode again; meta.properties of any other broker has it"
        )
    return known


def _name_unknown(partitions: Iterable[TopicPartition]) -> None:
    """Says which partitions on disk no client will be served: the store may be an older one than the data."""
    unknown = sorted(map(str, partitions))
    if unknown:
        _log.warning(
            "partitions.unknown",
            count=len(unknown),
            partitions=",".join(unknown),
            meaning="the metadata store does not have them, or deletes their topics; their files are kept, "
            "no client is served from them",
        )
