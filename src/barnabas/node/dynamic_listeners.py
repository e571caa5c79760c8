"""Listeners and their limits that change while the broker runs (``DynamicListenerConfig``,
``SocketServer.reconfigure``).

A listener is known by its name. One whose name is new is opened, one whose name is no longer configured is
closed with its connections; what is advertised goes into the broker's registration, from which the controller
tells all brokers. The listener for brokers stays: they would lose each other.
"""

import socket
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.cluster.metadata.registration import BrokerRegistration
from barnabas.core.config import Config, base_name
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventLog
from barnabas.network.endpoints import Endpoint, ListenerConfig
from barnabas.network.sasl.credentials import ServerCredentials
from barnabas.network.settings import SocketSettings
from barnabas.network.socket_server import SocketServer
from barnabas.network.tls_keys import STORE_KEYS
from barnabas.node.channel_security import (
    BrokerTls,
    InterBrokerSecurity,
    broker_tls,
    listener_security,
    listener_value,
    shown_certificate,
    store_state,
)

if TYPE_CHECKING:
    from barnabas.network.tls_certificate_entry import CertificateEntry

_log = EventLog("node.dynamic_listeners")

_OF_SECURITY: Final = (
    "sasl.enabled.mechanisms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.mechanism.inter.broker.protocol",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
)
"""Keys that are read when a listener is opened, and when a channel to another broker is made."""

_RECONFIGURABLE: Final = {
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
    *STORE_KEYS,
}
"""What may change of a listener that is open (``ListenerReconfigurableConfigs``)."""


def parse_listeners(config: Config) -> ListenerConfig:
    """The listeners that a configuration asks for.
    Raises ConfigError.
    """
    return ListenerConfig.parse(config, explicit=config.explicit())


def validate_listeners(config: Config) -> None:
    """Raises ConfigError for listeners or limits of connections that no broker could have."""
    listeners = parse_listeners(config)
    for endpoint in listeners.listeners:
        listener_security(config, endpoint, ServerCredentials())
    InterBrokerSecurity(config, listeners)
    SocketSettings.from_config(config)
    for name in config.explicit():
        if base_name(name) in {"max.connections", "max.connection.creation.rate"} and config[name] <= 0:
            raise ConfigError(f"Invalid {name} {config[name]}")


class DynamicListenerConfig:
    """The listeners of one running broker."""

    def __init__(
        self,
        config: Config,
        server: SocketServer,
        registration: BrokerRegistration,
        credentials: ServerCredentials,
        security: InterBrokerSecurity,
    ) -> None:
        """`config` is the one by which the server's listeners were opened. Of `security` the keys are renewed
        with those of the listeners for brokers.
        """
        self._credentials = credentials
        self._config = config
        self._server = server
        self._registration = registration
        self._stores = {endpoint.name: store_state(config, endpoint) for endpoint in self.endpoints}
        """What the stores of keys of each listener were when they were read."""
        self._certificates = {
            endpoint.name: shown_certificate(config, endpoint) for endpoint in self.endpoints
        }
        """What each listener shows: its file may have another certificate by now."""
        self._security = security
        self._broker_tls = broker_tls(config, parse_listeners(config))
        self._shares = False

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where the broker listens now."""
        return tuple(each.endpoint for each in self._server.listeners.values())

    def share(self) -> Endpoint | None:
        """Opens the port that this broker shares with others of its machine, at its first listener for
        clients; the endpoint, or None where it shares none. Raises OSError.
        """
        port: int = self._config["barnabas.bootstrap.port"]
        if port <= 0:
            return None
        self._shares = True
        name = parse_listeners(self._config).for_clients.name
        # One that could not be opened has a line in the log.
        return self._server.share(name, port) if name in self._server.listeners else None

    def validate(self, wanted: Config) -> None:
        """Raises ConfigError for a change that an open listener cannot take, or a listener that cannot be
        opened.
        """
        old, new = parse_listeners(self._config), parse_listeners(wanted)
        before = {endpoint.name: endpoint for endpoint in old.listeners}
        after = {endpoint.name: endpoint for endpoint in new.listeners}
        for name in before.keys() & after.keys():
            if _own_values(self._config, name) != _own_values(wanted, name):
                raise ConfigError(
                    f"Configs cannot be updated dynamically for existing listener ListenerName({name}), "
                    "restart broker or create a new listener for update"
                )
            if old.protocols[name] != new.protocols[name]:
                raise ConfigError(
                    f"Security protocol cannot be updated for existing listener ListenerName({name})"
                )
            if before[name] != after[name]:
                # Kafka takes this, and continues to listen where it was.
                raise ConfigError(
                    f"Host and port cannot be updated for existing listener ListenerName({name}), "
                    "restart broker or create a new listener for update"
                )
        changed = [key for key in _OF_SECURITY if self._config[key] != wanted[key]]
        if changed and any(each.security_protocol != "PLAINTEXT" for each in old.listeners):
            raise ConfigError(
                f"Configs cannot be updated dynamically for existing listeners: {', '.join(changed)}; "
                "restart the broker or create a new listener for update"
            )
        for name in after.keys() - before.keys():
            listener_security(wanted, after[name], ServerCredentials())
        self._validate_stores(wanted, moved=True)
        freed = {endpoint.port for name, endpoint in before.items() if name not in after}
        self._probe(after[name] for name in after.keys() - before.keys() if after[name].port not in freed)

    def validate_files(self, wanted: Config) -> None:
        """Raises ConfigError where a store of an open listener is another one in its place, and may not
        follow the one before.
        """
        self._validate_stores(wanted, moved=False)

    def _validate_stores(self, wanted: Config, *, moved: bool) -> None:
        for endpoint in parse_listeners(wanted).listeners:
            if endpoint.name not in self._certificates:
                continue
            before, after = self._stores[endpoint.name], store_state(wanted, endpoint)
            if before != after and (before.values != after.values) is moved:
                self._following(wanted, endpoint)

    def _following(self, wanted: Config, endpoint: Endpoint) -> "CertificateEntry | None":
        """What the listener shows after what it shows now. Raises ConfigError."""
        old, new = self._certificates[endpoint.name], shown_certificate(wanted, endpoint)
        if old is not None and new is not None:
            old.ensure_followed_by(
                new,
                dn_may_change=listener_value(wanted, endpoint.name, "ssl.allow.dn.changes"),
                san_may_change=listener_value(wanted, endpoint.name, "ssl.allow.san.changes"),
            )
        if endpoint.name == self._security.data_listener and self._broker_tls is not None:
            self._broker_tls.ensure_followed_by(BrokerTls.of(wanted, endpoint))
        return new

    def _probe(self, added: Iterable[Endpoint]) -> None:
        for endpoint in added:
            try:
                self._server.probe(endpoint)
            except OSError as error:
                raise ConfigError(str(error.strerror)) from error

    def reconfigure(self, wanted: Config) -> None:
        """Opens and closes listeners, sets limits, and registers what is advertised now."""
        listeners, server = parse_listeners(wanted), self._server
        self._config = wanted
        server.reconfigure(SocketSettings.from_config(wanted))
        names = {endpoint.name for endpoint in listeners.listeners}
        for name in server.listeners.keys() - names:
            server.remove(name)
            self._certificates.pop(name, None)
            _log.info("listener.closed", listener=name)
        for endpoint in listeners.listeners:
            if endpoint.name not in server.listeners:
                self._open(endpoint)
            elif self._stores.get(endpoint.name) != store_state(wanted, endpoint):
                self._renew(endpoint)
        if self._shares:
            # Its listener may have been closed, or opened again: the port is where a restart would have it.
            server.move_shared(listeners.for_clients.name, wanted["barnabas.bootstrap.port"])
        open_ones = [each for each in listeners.advertised if each.name in server.listeners]
        advertised = replace(listeners, advertised=tuple(open_ones)).advertise(
            self.endpoints, socket.gethostname()
        )
        if advertised != self._registration.broker.endpoints:
            broker = replace(self._registration.broker, endpoints=advertised)
            self._registration.update_later(broker)

    def _open(self, endpoint: Endpoint) -> None:
        try:
            secure(self._server, self._config, endpoint, self._credentials)
            certificate = shown_certificate(self._config, endpoint)
            bound = self._server.bind(endpoint)
        except OSError as error:
            # It could be bound when the change was judged, here or by the broker that was asked.
            _log.error("listener.not_opened", listener=endpoint.name, reason=error.strerror)
        except ConfigError as error:
            # So could its keys be read then.
            _log.error("listener.not_opened", listener=endpoint.name, reason=error)
        else:
            self._stores[endpoint.name] = store_state(self._config, endpoint)
            self._certificates[endpoint.name] = certificate
            _log.info("listener.opened", endpoint=bound)

    def _renew(self, endpoint: Endpoint) -> None:
        """Other keys or certificates are there: new connections get them
        (``SslFactory.createNewSslEngineFactory``).
        """
        state = store_state(self._config, endpoint)
        try:
            certificate = self._following(self._config, endpoint)
            security = listener_security(self._config, endpoint, self._credentials)
            self._security.renew(self._config, endpoint)
            if endpoint.name == self._security.data_listener:
                self._broker_tls = BrokerTls.of(self._config, endpoint)
        except ConfigError as error:
            # The files were in order when the change was judged, or nobody asked this broker.
            _log.error("listener.keys_not_renewed", listener=endpoint.name, reason=error)
            return
        if security.tls is not None:
            self._server.renew(endpoint.name, security.tls)
        self._stores[endpoint.name] = state
        self._certificates[endpoint.name] = certificate
        _log.info("listener.keys_renewed", listener=endpoint.name)

    def __repr__(self) -> str:
        return f"<DynamicListenerConfig {','.join(map(str, self.endpoints))}>"


def secure(server: SocketServer, config: Config, endpoint: Endpoint, known: ServerCredentials) -> None:
    """Has a listener that is opened next protect its connections. Raises ConfigError."""
    security = listener_security(config, endpoint, known)
    server.secure(endpoint.name, security.sasl, security.tls)


def _own_values(config: Config, listener: str) -> dict[str, Any]:
    """What is set for this listener alone, as far as it cannot change while it is open
    (``immutableListenerConfigs``).
    """
    given = {**config.unknown, **{name: config[name] for name in config.explicit()}}
    prefix = f"listener.name.{listener.lower()}."
    return {
        name: value
        for name, value in given.items()
        if name.startswith(prefix) and base_name(name) not in _RECONFIGURABLE
    }
