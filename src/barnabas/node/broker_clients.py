"""The `NetworkClient`s between brokers, one for each path, and the keys that each obeys.

Kafka makes each where it is used; side by side they show how they differ: how long an answer is waited for,
whether a connection may be idle, whether the other side is asked for its versions first.
"""

from dataclasses import replace
from random import Random
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.config import Config, Source
from barnabas.network.api_versions import BROKER_SOFTWARE_NAME
from barnabas.network.client import NetworkClient
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.node_link import ClientSettings
from barnabas.network.selector import Selector
from barnabas.node.channel_security import ClientSecurity

PLAIN: Final = ClientSecurity()
"""Without a log-in."""


def controller_client(
    broker_id: int, config: Config, clock: Clock, rng: Random, security: ClientSecurity = PLAIN
) -> NetworkClient:
    """The controller's connections to brokers: the versions are known, an attempt follows at once."""
    settings = _settings(broker_id, config, connect_ms=config["controller.socket.timeout.ms"])
    return _client(clock, rng, replace(settings, discover_versions=False), security)


def to_controller_client(
    broker_id: int,
    config: Config,
    clock: Clock,
    rng: Random,
    security: ClientSecurity = PLAIN,
    *,
    retry_timeout_ms: float,
) -> NetworkClient:
    """A broker's connection to the controller, which may be older: versions are asked for."""
    timeout_ms = int(min(config["controller.socket.timeout.ms"], retry_timeout_ms))
    settings = _settings(broker_id, config, connect_ms=timeout_ms)
    return _client(
        clock,
        rng,
        replace(
            settings, request_timeout_ms=timeout_ms, reconnect_backoff_ms=50, reconnect_backoff_max_ms=50
        ),
        security,
    )


def controlled_shutdown_client(
    broker_id: int, config: Config, clock: Clock, rng: Random, security: ClientSecurity = PLAIN
) -> NetworkClient:
    """The connection by which a broker that stops asks the controller."""
    settings = _settings(broker_id, config, connect_ms=config["controller.socket.timeout.ms"])
    idle_ms = config["connections.max.idle.ms"]
    return _client(clock, rng, replace(settings, discover_versions=False, idle_ms_max=idle_ms), security)


def marker_client(
    broker_id: int, config: Config, clock: Clock, rng: Random, security: ClientSecurity = PLAIN
) -> NetworkClient:
    """A transaction coordinator's connections to the leaders of partitions (``TxnMarkerSenderThread``)."""
    settings = replace(
        _settings(broker_id, config, connect_ms=config["request.timeout.ms"]),
        client_id=f"broker-{broker_id}-txn-marker-sender",
        discover_versions=False,
        reconnect_backoff_ms=50,
        reconnect_backoff_max_ms=50,
        idle_ms_max=config["connections.max.idle.ms"],
    )
    return _client(clock, rng, settings, security)


def verification_client(
    broker_id: int, config: Config, clock: Clock, rng: Random, security: ClientSecurity = PLAIN
) -> NetworkClient:
    """A partition leader's connections to the coordinators of transactions
    (``AddPartitionsToTxnSenderThread``): a broker before KIP-890 is recognised by its versions.
    """
    settings = replace(
        _settings(broker_id, config, connect_ms=config["request.timeout.ms"]),
        client_id=f"AddPartitionsManager-client-{broker_id}",
        reconnect_backoff_ms=50,
        reconnect_backoff_max_ms=50,
        idle_ms_max=config["connections.max.idle.ms"],
    )
    return _client(clock, rng, settings, security)


def fetcher_clients(
    broker_id: int,
    config: Config,
    clock: Clock,
    rng: Random,
    security: ClientSecurity = PLAIN,
    *,
    first: int = 0,
) -> list[NetworkClient]:
    """A follower's connections to its leaders: a client for each of `num.replica.fetchers`
    (``BrokerBlockingSender``), from the `first` one on.

    An attempt follows at once; the fetcher waits by itself after one that failed.
    """
    settings = replace(
        _settings(broker_id, config, connect_ms=config["replica.socket.timeout.ms"]),
        discover_versions=False,
        idle_ms_max=config["connections.max.idle.ms"],
    )
    return [
        NetworkClient(
            Selector(clock, receive_buffer_bytes=_receive_buffer_bytes(config), tls=security.context),
            ManualMetadataUpdater(),
            replace(settings, client_id=f"broker-{broker_id}-fetcher-{fetcher_id}", login=security.login),
            rng,
        )
        for fetcher_id in range(first, config["num.replica.fetchers"])
    ]


def _receive_buffer_bytes(config: Config) -> int:
    """What was set: Kafka's default of 64 KiB would switch off the system's automatic sizing, as
    `SocketSettings` says.
    """
    key = "replica.socket.receive.buffer.bytes"
    size: int = config[key]
    return -1 if config.source(key) is Source.DEFAULT else size


def _settings(broker_id: int, config: Config, *, connect_ms: int) -> ClientSettings:
    """What all of them have: one request in flight, no pause before a connection is tried again, and no end
    of a connection without traffic (``Selector.NO_IDLE_TIMEOUT_MS``).

    An attempt to connect takes `connect_ms` at most (``NetworkClientUtils.awaitReady``), and less where
    `socket.connection.setup.timeout.ms` is less.
    """
    return ClientSettings(
        client_id=str(broker_id),
        software_name=BROKER_SOFTWARE_NAME,
        max_in_flight=1,
        request_timeout_ms=config["request.timeout.ms"],
        reconnect_backoff_ms=0,
        reconnect_backoff_max_ms=0,
        setup_timeout_ms=min(config["socket.connection.setup.timeout.ms"], connect_ms),
        setup_timeout_max_ms=min(config["socket.connection.setup.timeout.max.ms"], connect_ms),
        idle_ms_max=-1,
    )


def _client(clock: Clock, rng: Random, settings: ClientSettings, security: ClientSecurity) -> NetworkClient:
    settings = replace(settings, login=security.login)
    return NetworkClient(Selector(clock, tls=security.context), ManualMetadataUpdater(), settings, rng)
