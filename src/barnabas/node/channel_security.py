"""How connections of a broker are protected, from its configuration (``ChannelBuilders``).

A listener's own value, ``listener.name.<name>.KEY``, wins over the broker's KEY; a key of one mechanism is
``listener.name.<name>.<mechanism>.KEY``. The same line of JAAS has the users of a listener and, as `username`
and `password`, who this broker is at the listeners of the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.core.config import Config
from barnabas.core.errors import ConfigError
from barnabas.network.endpoints import Endpoint, ListenerConfig
from barnabas.network.sasl.client import SaslLogin
from barnabas.network.sasl.logins import client_login, server_mechanism
from barnabas.network.sasl.scram import FindCredential
from barnabas.network.sasl.server import SaslListener


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """How the peers of one listener prove who they are; None where they need not."""

    sasl: SaslListener | None = None


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How this broker connects to a listener of the other brokers."""

    login: SaslLogin | None = None


def listener_value(config: Config, listener: str, key: str) -> Any:
    """The value of a key that counts for a listener."""
    own = f"listener.name.{listener.lower()}.{key}"
    return config[own] if own in config else config[key]


def _jaas_key(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def listener_security(config: Config, endpoint: Endpoint, find: FindCredential) -> ListenerSecurity:
    """What the listener's security protocol asks for. Raises ConfigError, which shows no secret."""
    name = endpoint.name
    if not endpoint.security_protocol.startswith("SASL_"):
        return ListenerSecurity()
    enabled = listener_value(config, name, "sasl.enabled.mechanisms")
    if not enabled:
        raise ConfigError(
            f"Missing required configuration sasl.enabled.mechanisms: listener {name} asks for SASL"
        )
    mechanisms = {
        each: server_mechanism(each, config.get(_jaas_key(name, each)), find, _jaas_key(name, each))
        for each in enabled
    }
    return ListenerSecurity(
        SaslListener(
            mechanisms=mechanisms,
            receive_bytes_max=config["sasl.server.max.receive.size"],
            failure_delay_ms=config["connection.failed.authentication.delay.ms"],
            session_ms_max=_session_limits(config, name, enabled),
        )
    )


def _session_limits(config: Config, listener: str, mechanisms: list[str]) -> Mapping[str, int]:
    key = "connections.max.reauth.ms"
    of_listener = listener_value(config, listener, key)
    return {
        each: config.get(f"listener.name.{listener.lower()}.{each.lower()}.{key}", of_listener)
        for each in mechanisms
    }


def client_security(config: Config, endpoint: Endpoint) -> ClientSecurity:
    """How this broker logs in at the same listener of other brokers. Raises ConfigError."""
    if not endpoint.security_protocol.startswith("SASL_"):
        return ClientSecurity()
    mechanism = listener_value(config, endpoint.name, "sasl.mechanism.inter.broker.protocol")
    if mechanism not in listener_value(config, endpoint.name, "sasl.enabled.mechanisms"):
        raise ConfigError(
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is "
            f"used for inter-broker communication (listener {endpoint.name} has no {mechanism})"
        )
    key = _jaas_key(endpoint.name, mechanism)
    return ClientSecurity(client_login(mechanism, config.get(key), key))


@dataclass(frozen=True, slots=True)
class InterBrokerSecurity:
    """How this broker connects to the others: for their data, and for what the controller has to say."""

    data: ClientSecurity
    control: ClientSecurity

    @classmethod
    def of(cls, config: Config, listeners: ListenerConfig) -> "InterBrokerSecurity":
        """Raises ConfigError for log-ins that are not configured."""
        data = client_security(config, listeners.endpoint(listeners.inter_broker_name))
        control = listeners.control_plane_name
        return cls(data, client_security(config, listeners.endpoint(control)) if control else data)
