"""Listeners as configured: names, hosts, ports and security protocols, checked as Kafka checks them.

    listeners             => Entry *("," Entry)
    Entry                 => NAME "://" [ HOST | "[" IPV6 "]" ] ":" PORT
    listener.security.protocol.map => NAME ":" PROTOCOL *("," NAME ":" PROTOCOL)

Pure functions over texts; `ListenerConfig.parse` is the whole of it (``KafkaConfig``,
``SocketServerConfigs.listenerListToEndPoints``, ``CoreUtils.listenerListToEndPoints``). Kafka's error texts,
each raised as ConfigError.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any, Final

from barnabas.core.errors import ConfigError

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
INTER_BROKER_NAME: Final = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
CONTROL_PLANE_NAME: Final = "control.plane.listener.name"

LISTENERS_DEFAULT: Final = "PLAINTEXT://:9092"
PROTOCOL_MAP_DEFAULT: Final = ",".join(f"{name}:{name}" for name in SECURITY_PROTOCOLS)

_ENTRY = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener's name with where it is reached. An empty host means all interfaces."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def with_port(self, port: int) -> "Endpoint":
        """The same with another port (0 was bound to a free one)."""
        return replace(self, port=port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """The listeners of one broker."""

    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker_name: str
    control_plane_name: str | None
    protocols: Mapping[str, str]
    """Security protocol by listener name; also names that this broker has no listener for."""

    @classmethod
    def parse(cls, config: Mapping[str, Any], explicit: Iterable[str] = ()) -> "ListenerConfig":
        """Reads and checks the keys above; `explicit` names the keys that were set. Raises ConfigError."""
        protocols = parse_protocol_map(config.get(PROTOCOL_MAP, PROTOCOL_MAP_DEFAULT))
        listeners = parse_endpoints(config.get(LISTENERS, LISTENERS_DEFAULT), protocols)
        advertised = listeners
        if config.get(ADVERTISED) is not None:
            advertised = parse_endpoints(config[ADVERTISED], protocols, distinct_ports=False)
        parsed = cls(
            tuple(listeners),
            tuple(advertised),
            _inter_broker_name(config, protocols, INTER_BROKER_PROTOCOL in set(explicit)),
            _control_plane_name(config, protocols),
            protocols,
        )
        _check(parsed)
        return parsed

    def endpoint(self, name: str) -> Endpoint:
        """The listener with this name; raises KeyError."""
        return _by_name(self.listeners)[name]

    @property
    def for_clients(self) -> Endpoint:
        """The first listener that is not for brokers alone; the first of all where there is none."""
        for_brokers = {self.inter_broker_name, self.control_plane_name}
        return next((each for each in self.listeners if each.name not in for_brokers), self.listeners[0])

    def advertise(self, bound: Iterable[Endpoint], canonical_host: str) -> tuple[Endpoint, ...]:
        """The endpoints to register, once ports are bound.

        A port 0 becomes the bound one (``KafkaServer``), an empty host the machine's canonical name.
        """
        ports = {endpoint.name: endpoint.port for endpoint in bound}
        return tuple(
            replace(
                endpoint,
                host=endpoint.host or canonical_host,
                port=endpoint.port or ports.get(endpoint.name, 0),
            )
            for endpoint in self.advertised
        )


def parse_protocol_map(text: str) -> dict[str, str]:
    """Security protocols by listener name of a listener.security.protocol.map. Raises ConfigError."""
    protocols = {}
    for entry in _split(text):
        name, colon, protocol = entry.rpartition(":")
        if not colon:
            raise ConfigError(f"Error parsing configuration property '{PROTOCOL_MAP}': {entry}")
        protocols[_listener_name(name)] = _protocol(protocol.strip(), PROTOCOL_MAP)
    return protocols


def parse_endpoints(
    text: str, protocols: Mapping[str, str], *, distinct_ports: bool = True
) -> list[Endpoint]:
    """The endpoints of a list of listeners, names upper-cased. Raises ConfigError."""
    try:
        endpoints = [_parse_entry(entry, protocols) for entry in _split(text)]
    except (ValueError, ConfigError) as error:
        raise ConfigError(f"Error creating broker listeners from '{text}': {error}") from None
    if len(_by_name(endpoints)) != len(endpoints):
        raise ConfigError(f"Each listener must have a different name, listeners: {text}")
    if distinct_ports:
        _check_ports(endpoints, text)
    return endpoints


def _split(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _by_name(endpoints: Iterable[Endpoint]) -> dict[str, Endpoint]:
    return {endpoint.name: endpoint for endpoint in endpoints}


def _parse_entry(entry: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise ValueError(f"Unable to parse {entry} to a broker endpoint")
    name, host, port = _listener_name(match[1]), match[2], int(match[3])
    if name not in protocols:
        raise ValueError(f"No security protocol defined for listener {name}")
    if not 0 <= port <= _PORT_MAX:
        raise ValueError(f"port out of range:{port}")
    return Endpoint(name, host, port, protocols[name])


def _check_ports(endpoints: list[Endpoint], text: str) -> None:
    counts = Counter(endpoint.port for endpoint in endpoints if endpoint.port)
    for port in (port for port, count in counts.items() if count > 1):
        sharing = [endpoint for endpoint in endpoints if endpoint.port == port]
        by_ip = [version for version in map(_ip_version, sharing) if version]
        others = len(sharing) - len(by_ip)
        if others > 1:
            raise ConfigError(f"Each listener must have a different port, listeners: {text}")
        if len(by_ip) == 2 and (others or by_ip[0] == by_ip[1]):
            raise ConfigError(
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
                f"listeners: {text}, port: {port}"
            )
        if len(by_ip) != 2:
            raise ConfigError(
                "Each listener must have a different port unless exactly one listener has an IPv4 address "
                f"and the other IPv6 address, listeners: {text}, port: {port}"
            )


def _ip_version(endpoint: Endpoint) -> int | None:
    for version, kind in ((4, IPv4Address), (6, IPv6Address)):
        try:
            kind(endpoint.host)
        except AddressValueError:
            continue
        return version
    return None


def _listener_name(name: str) -> str:
    """``ListenerName.normalised``."""
    if not name.strip():
        raise ConfigError("The provided listener name is null or empty string")
    return name.strip().upper()


def _protocol(name: str, key: str) -> str:
    if name.upper() not in SECURITY_PROTOCOLS:
        raise ConfigError(f"Invalid security protocol `{name}` defined in {key}")
    return name.upper()


def _inter_broker_name(config: Mapping[str, Any], protocols: Mapping[str, str], explicit: bool) -> str:
    name = config.get(INTER_BROKER_NAME)
    if name is None:
        return _protocol(config.get(INTER_BROKER_PROTOCOL) or "PLAINTEXT", INTER_BROKER_PROTOCOL)
    if explicit:
        raise ConfigError(f"Only one of {INTER_BROKER_NAME} and {INTER_BROKER_PROTOCOL} should be set.")
    name = _listener_name(name)
    if name not in protocols:
        raise ConfigError(
            f"Listener with name {name} defined in {INTER_BROKER_NAME} not found in {PROTOCOL_MAP}."
        )
    return name


def _control_plane_name(config: Mapping[str, Any], protocols: Mapping[str, str]) -> str | None:
    name = config.get(CONTROL_PLANE_NAME)
    if name is None:
        return None
    name = _listener_name(name)
    if name not in protocols:
        raise ConfigError(
            f"Listener with {name} defined in {CONTROL_PLANE_NAME} not found in {PROTOCOL_MAP}."
        )
    return name


def _check(config: ListenerConfig) -> None:
    """The checks between keys, in Kafka's order (``KafkaConfig.validateValues``)."""
    names = list(_by_name(config.listeners))
    advertised = list(_by_name(config.advertised))
    _require(advertised, "There must be at least one broker advertised listener.")
    options = f"The valid options based on currently configured listeners are {','.join(advertised)}"
    _require(
        config.inter_broker_name in advertised,
        f"{INTER_BROKER_NAME} must be a listener name defined in {ADVERTISED}. {options}",
    )
    _require(
        set(advertised) <= set(names),
        f"{ADVERTISED} listener names must be equal to or a subset of the ones defined in {LISTENERS}. "
        f"Found {','.join(advertised)}. The valid options based on the current configuration are "
        f"{','.join(names)}",
    )
    _require(
        all(endpoint.host != "0.0.0.0" for endpoint in config.advertised),
        f"{ADVERTISED} cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
    )
    control = config.control_plane_name
    if control is not None:
        _require(
            control in advertised,
            f"{CONTROL_PLANE_NAME} must be a listener name defined in {ADVERTISED}. {options}",
        )
        _require(
            control != config.inter_broker_name,
            f"{CONTROL_PLANE_NAME}, when defined, should have a different value from the inter broker "
            f"listener name. Currently they both have the value ListenerName({control})",
        )


def _require(holds: object, problem: str) -> None:
    if not holds:
        raise ConfigError(problem)
