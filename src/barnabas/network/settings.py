"""The limits and socket options of a server, from Kafka's configuration keys."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from barnabas.core.config import INT_MAX, Config, Source
from barnabas.core.descriptors import RESERVE
from barnabas.core.errors import ConfigError

_OF_LISTENER: Final = re.compile(
    r"listener\.name\.(?P<listener>[^.]*)\.(?P<key>max\.connections|max\.connection\.creation\.rate)"
)


class ListenerLimits(NamedTuple):
    """What ``listener.name.x.KEY`` says of one listener;
    None where the broker's own value is its limit too.
    """

    connections_max: int | None = None
    creation_rate_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketSettings:
    """Kafka's defaults, except where a field says otherwise."""

    request_bytes_max: int = 104857600
    """socket.request.max.bytes"""
    send_buffer_bytes: int = -1
    """socket.send.buffer.bytes; -1 leaves it to the system, whose automatic size serves 5 GB/s."""
    receive_buffer_bytes: int = -1
    """socket.receive.buffer.bytes; -1 leaves it to the system."""
    listen_backlog: int = 50
    """socket.listen.backlog.size"""
    idle_ms_max: int = 600_000
    """connections.max.idle.ms; negative means without end."""
    parked_max: int = 500
    """queued.max.requests, here of each connection: requests whose responses may wait."""
    connections_max: int = INT_MAX
    """max.connections, over all listeners."""
    creation_rate_max: int = INT_MAX
    """max.connection.creation.rate: connections a second, over all listeners."""
    listener_limits: Mapping[str, ListenerLimits] = field(default_factory=dict)
    """The last two for single listeners, by their names."""
    quota_samples: int = 11
    """quota.window.num"""
    quota_window_ms: int = 1000
    """quota.window.size.seconds"""
    connections_per_ip_max: int = INT_MAX
    """max.connections.per.ip"""
    reserved_descriptors: int = RESERVE
    """barnabas.reserved.descriptors: what connections leave to files."""
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides, by address."""

    @classmethod
    def from_config(cls, config: Config) -> "SocketSettings":
        """The settings of a broker's configuration; keys that the table lacks keep their defaults.

        Buffer sizes count only when they were set: Kafka's default of 100 KiB would switch off the
        system's automatic sizing (a listed deviation).
        """
        keys = {
            "request_bytes_max": "socket.request.max.bytes",
            "listen_backlog": "socket.listen.backlog.size",
            "idle_ms_max": "connections.max.idle.ms",
            "parked_max": "queued.max.requests",
            "connections_max": "max.connections",
            "creation_rate_max": "max.connection.creation.rate",
            "quota_samples": "quota.window.num",
            "connections_per_ip_max": "max.connections.per.ip",
            "reserved_descriptors": "barnabas.reserved.descriptors",
        }
        values: dict[str, Any] = {name: config[key] for name, key in keys.items() if key in config}
        for name, key in (
            ("send_buffer_bytes", "socket.send.buffer.bytes"),
            ("receive_buffer_bytes", "socket.receive.buffer.bytes"),
        ):
            if key in config and config.source(key) is not Source.DEFAULT:
                values[name] = config[key]
        if "quota.window.size.seconds" in config:
            values["quota_window_ms"] = config["quota.window.size.seconds"] * 1000
        overrides = config.get("max.connections.per.ip.overrides") or ""
        return cls(
            **values,
            connections_per_ip_overrides=parse_overrides(overrides),
            listener_limits=_listener_limits(config),
        )

    def limits(self, listener: str) -> tuple[int, int]:
        """The most connections of a listener, and the most that it accepts in a second."""
        own = self.listener_limits.get(listener, ListenerLimits())
        return (
            self.connections_max if own.connections_max is None else own.connections_max,
            self.creation_rate_max if own.creation_rate_max is None else own.creation_rate_max,
        )


def _listener_limits(config: Config) -> dict[str, ListenerLimits]:
    limits: dict[str, ListenerLimits] = {}
    for name in config.explicit():
        if match := _OF_LISTENER.fullmatch(name):
            # The prefix has the listener's name in small letters (``ListenerName.configPrefix``).
            listener, old = match["listener"].upper(), limits.get(match["listener"].upper(), ListenerLimits())
            field_name = "connections_max" if match["key"] == "max.connections" else "creation_rate_max"
            limits[listener] = old._replace(**{field_name: config[name]})
    return limits


def parse_overrides(text: str) -> dict[str, int]:
    """``address:count`` pairs, comma-separated; an IPv6 address may hold colons. Raises ConfigError."""
    overrides = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        host, _, count = item.rpartition(":")
        if not host or not count.strip().isdigit():
            raise ConfigError(
                f"Invalid value {text} for configuration max.connections.per.ip.overrides: "
                f"{item} is not of the form address:count"
            )
        overrides[_normal(host.strip().strip("[]"))] = int(count)
    return overrides


def _normal(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host
