"""How connections of a broker are protected, from its configuration (``ChannelBuilders``).

A listener's own value, ``listener.name.<name>.KEY``, wins over the broker's KEY; a key of one mechanism is
``listener.name.<name>.<mechanism>.KEY``. The same line of JAAS has the users of a listener and, as `username`
and `password`, who this broker is at the listeners of the others.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.core.config import Config
from barnabas.core.errors import ConfigError
from barnabas.core.password_encoder import PasswordEncoder
from barnabas.network.endpoints import Endpoint, ListenerConfig
from barnabas.network.sasl.client import SaslLogin
from barnabas.network.sasl.credentials import ServerCredentials
from barnabas.network.sasl.logins import (
    CLIENT_KEYS,
    SERVER_KEYS,
    client_login,
    line_of_file,
    server_mechanism,
)
from barnabas.network.sasl.server import SaslListener
from barnabas.network.tls_keys import CONTEXT_KEYS, STORE_KEYS

if TYPE_CHECKING:
    import ssl

    from barnabas.network.tls import TlsListener
    from barnabas.network.tls_certificate_entry import CertificateEntry


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """How the peers of one listener prove who they are; None where they need not."""

    sasl: SaslListener | None = None
    tls: "TlsListener | None" = None


class ClientSecurity:
    """How this broker connects to a listener of the other brokers."""

    def __init__(self, login: SaslLogin | None = None, tls: "ssl.SSLContext | None" = None) -> None:
        self.login: Final = login
        self._tls = tls

    def context(self) -> "ssl.SSLContext | None":
        """What the next connection is encrypted with; None without TLS."""
        return self._tls

    def renew(self, config: Config, endpoint: Endpoint) -> None:
        """New connections have the keys and certificates that are there now. Raises ConfigError."""
        self._tls = _client_tls(config, endpoint)


def listener_value(config: Config, listener: str, key: str) -> Any:
    """The value of a key that counts for a listener."""
    own = f"listener.name.{listener.lower()}.{key}"
    return config[own] if own in config else config[key]


def _mechanism_value(config: Config, listener: str, mechanism: str, key: str) -> Any:
    """The value of a key that counts for a mechanism of a listener."""
    own = f"listener.name.{listener.lower()}.{mechanism.lower()}.{key}"
    return config[own] if own in config else listener_value(config, listener, key)


def _jaas_key(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _jaas(config: Config, listener: str, mechanism: str) -> str | None:
    """The configuration's own line, or one of the file of JAAS (``JaasContext.loadServerContext``)."""
    line = config.get(_jaas_key(listener, mechanism))
    if line is not None:
        return str(line)
    return line_of_file(mechanism, f"{listener.lower()}.KafkaServer", "KafkaServer")


def listener_security(config: Config, endpoint: Endpoint, known: ServerCredentials) -> ListenerSecurity:
    """What the listener's security protocol asks for. Raises ConfigError, which shows no secret."""
    return ListenerSecurity(_sasl(config, endpoint, known), _tls(config, endpoint))


def _tls(config: Config, endpoint: Endpoint) -> "TlsListener | None":
    if not endpoint.security_protocol.endswith("SSL"):
        return None
    # Only brokers that speak TLS load it.
    from barnabas.network.tls import TlsListener  # noqa: PLC0415
    from barnabas.network.tls_context import server_context  # noqa: PLC0415
    from barnabas.network.tls_principal import Mapper  # noqa: PLC0415

    context = server_context(tls_values(config, endpoint), _client_auth(config, endpoint))
    mapper = Mapper(listener_value(config, endpoint.name, "ssl.principal.mapping.rules"))
    return TlsListener(context, mapper.principal_of)


def _client_auth(config: Config, endpoint: Endpoint) -> str:
    """Whether clients of a listener have to show a certificate."""
    key = "ssl.client.auth"
    if endpoint.security_protocol == "SASL_SSL":
        # Who logs in needs no certificate, unless the listener itself asks for one (KIP-684).
        return config.get(f"listener.name.{endpoint.name.lower()}.{key}") or "none"
    client_auth: str = listener_value(config, endpoint.name, key)
    return client_auth


def tls_values(config: Config, endpoint: Endpoint) -> dict[str, Any]:
    """What the context of a listener is made of."""
    return {key: listener_value(config, endpoint.name, key) for key in CONTEXT_KEYS}


def shown_certificate(config: Config, endpoint: Endpoint) -> "CertificateEntry | None":
    """Of what a listener shows to its clients; None without TLS. Raises ConfigError."""
    if not endpoint.security_protocol.endswith("SSL"):
        return None
    from barnabas.network.tls_certificate_entry import CertificateEntry  # noqa: PLC0415
    from barnabas.network.tls_stores import key_pair  # noqa: PLC0415

    pair = key_pair(tls_values(config, endpoint))
    return None if pair is None else CertificateEntry.of_chain(pair.chain)


class StoreState(NamedTuple):
    """What tells whether a listener's stores of keys are others than before."""

    values: tuple[object, ...] = ()
    """Of the configuration; passwords and keys are among them."""
    files: tuple[object, ...] = ()
    """When and how large the files were written (``SslFactory.SecurityFileChangeListener``)."""

    def __repr__(self) -> str:
        return "<StoreState>"


def store_state(config: Config, endpoint: Endpoint) -> StoreState:
    """Of a listener; the same always where it has no TLS."""
    if not endpoint.security_protocol.endswith("SSL"):
        return StoreState()
    files: list[object] = []
    for key in ("ssl.keystore.location", "ssl.truststore.location"):
        location = listener_value(config, endpoint.name, key)
        try:
            found = None if location is None else Path(location).stat()
        except OSError:
            found = None
        files.append(found and (found.st_mtime_ns, found.st_size, found.st_ino))
    return StoreState(tuple(listener_value(config, endpoint.name, key) for key in STORE_KEYS), tuple(files))


@dataclass(frozen=True, slots=True)
class BrokerTls:
    """Both ends of TLS at the listener for brokers: each of them connects to the others' as a client."""

    server: "ssl.SSLContext"
    client: "ssl.SSLContext"

    @classmethod
    def of(cls, config: Config, endpoint: Endpoint) -> "BrokerTls":
        """Of a listener with TLS. Raises ConfigError."""
        from barnabas.network.tls_context import client_context, server_context  # noqa: PLC0415

        values = tls_values(config, endpoint)
        # Whose host it is depends on who connects: here it is not asked.
        client = client_context({**values, "ssl.endpoint.identification.algorithm": ""})
        return cls(server_context(values, _client_auth(config, endpoint)), client)

    def ensure_fits_itself(self) -> None:
        """Raises ConfigError for stores with which brokers that are set up alike do not reach each other
        (``SslFactory.configure``).
        """
        from barnabas.network.tls_context import failed_handshake  # noqa: PLC0415

        reason = failed_handshake(self.client, self.server)
        if reason is not None:
            raise ConfigError(
                "A client SSLEngine created with the provided settings can't connect to a server SSLEngine "
                f"created with those settings: {reason}. Of the listener for brokers the trust store "
                "(ssl.truststore.*) has to know the certificate of the key store (ssl.keystore.*)"
            )

    def ensure_followed_by(self, new: "BrokerTls") -> None:
        """Raises ConfigError for stores with which this broker and those that have not changed theirs yet do
        not reach each other (``SslFactory.createNewSslEngineFactory``).
        """
        from barnabas.network.tls_context import failed_handshake  # noqa: PLC0415

        reason = failed_handshake(new.client, self.server) or failed_handshake(self.client, new.server)
        if reason is not None:
            raise ConfigError(
                f"Validation of dynamic config update of SSLFactory failed: {reason}: brokers with the "
                "stores of before would not reach this one, or it them"
            )


def broker_tls(config: Config, listeners: ListenerConfig) -> BrokerTls | None:
    """Of the listener for brokers; None where it has no TLS. Raises ConfigError."""
    endpoint = listeners.endpoint(listeners.inter_broker_name)
    return BrokerTls.of(config, endpoint) if endpoint.security_protocol.endswith("SSL") else None


def _sasl(config: Config, endpoint: Endpoint, known: ServerCredentials) -> SaslListener | None:
    name = endpoint.name
    if not endpoint.security_protocol.startswith("SASL_"):
        return None
    enabled = listener_value(config, name, "sasl.enabled.mechanisms")
    if not enabled:
        raise ConfigError(
            f"Missing required configuration sasl.enabled.mechanisms: listener {name} asks for SASL"
        )
    mechanisms = {
        each: server_mechanism(
            each,
            _jaas(config, name, each),
            known,
            {key: _mechanism_value(config, name, each, key) for key in SERVER_KEYS},
            _jaas_key(name, each),
        )
        for each in enabled
    }
    return SaslListener(
        mechanisms=mechanisms,
        receive_bytes_max=config["sasl.server.max.receive.size"],
        failure_delay_ms=config["connection.failed.authentication.delay.ms"],
        session_ms_max=_session_limits(config, name, enabled),
    )


def _session_limits(config: Config, listener: str, mechanisms: list[str]) -> Mapping[str, int]:
    key = "connections.max.reauth.ms"
    return {each: _mechanism_value(config, listener, each, key) for each in mechanisms}


def client_security(config: Config, endpoint: Endpoint) -> ClientSecurity:
    """How this broker connects to the same listener of other brokers. Raises ConfigError."""
    return ClientSecurity(_login(config, endpoint), _client_tls(config, endpoint))


def _client_tls(config: Config, endpoint: Endpoint) -> "ssl.SSLContext | None":
    if not endpoint.security_protocol.endswith("SSL"):
        return None
    from barnabas.network.tls_context import client_context  # noqa: PLC0415

    return client_context(tls_values(config, endpoint))


def _login(config: Config, endpoint: Endpoint) -> SaslLogin | None:
    if not endpoint.security_protocol.startswith("SASL_"):
        return None
    mechanism = listener_value(config, endpoint.name, "sasl.mechanism.inter.broker.protocol")
    if mechanism not in listener_value(config, endpoint.name, "sasl.enabled.mechanisms"):
        raise ConfigError(
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is "
            f"used for inter-broker communication (listener {endpoint.name} has no {mechanism})"
        )
    key = _jaas_key(endpoint.name, mechanism)
    values = {each: _mechanism_value(config, endpoint.name, mechanism, each) for each in CLIENT_KEYS}
    return client_login(mechanism, _jaas(config, endpoint.name, mechanism), values, key)


class InterBrokerSecurity:
    """How this broker connects to the others: for their data, and for what the controller has to say."""

    def __init__(self, config: Config, listeners: ListenerConfig) -> None:
        """Raises ConfigError for log-ins that are not configured."""
        self.data_listener: Final = listeners.inter_broker_name
        self._control_listener = listeners.control_plane_name or self.data_listener
        self.data: Final = client_security(config, listeners.endpoint(self.data_listener))
        self.control: Final = (
            self.data
            if self._control_listener == self.data_listener
            else client_security(config, listeners.endpoint(self._control_listener))
        )

    def renew(self, config: Config, endpoint: Endpoint) -> None:
        """The stores of a listener are others: new connections to it have what is in them. Raises
        ConfigError.
        """
        if endpoint.name == self.data_listener:
            self.data.renew(config, endpoint)
        if endpoint.name == self._control_listener:
            self.control.renew(config, endpoint)


def password_encoders(config: Config) -> list[PasswordEncoder]:
    """What encrypts and opens the passwords in the metadata store; none without a secret.
    Raises ConfigError.
    """
    return [
        PasswordEncoder(
            config[key],
            os.urandom,
            key_factory=config["password.encoder.keyfactory.algorithm"],
            key_bits=config["password.encoder.key.length"],
            iterations=config["password.encoder.iterations"],
        )
        for key in ("password.encoder.secret", "password.encoder.old.secret")
        if config["password.encoder.secret"] is not None and config[key] is not None
    ]
