"""Who may scrape a broker's metrics, from its configuration.

Metrics name topics, groups and clients. On a broker whose listeners ask who comes, they are served on the
loopback alone unless a password is set, or the operator names an address.
"""

import os
from collections.abc import Callable, MutableMapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from barnabas.core.config import Config
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventLog
from barnabas.network.endpoints import Endpoint
from barnabas.node.channel_security import store_state, tls_values
from barnabas.node.metrics_endpoint import MetricsAccess

if TYPE_CHECKING:
    import ssl

_log = EventLog("node.metrics")

_LISTENER = Endpoint("METRICS", "", 0, "SSL")
"""What its keys are looked up by: ``listener.name.metrics.ssl.*``, else those of the broker."""
_LOOPBACK = "127.0.0.1"
MACHINE_TOKEN: Final = "BARNABAS_MACHINE_TOKEN"  # noqa: S105 - its name
"""Where the parent of a machine leaves a broker its token: in the memory of the fork, in no list."""


class _Renewed:
    """The context of the next connection: that of the keys and certificates that are there now. Where they
    cannot be read, the last ones stay.
    """

    def __init__(self, current: Callable[[], Config]) -> None:
        """Raises ConfigError."""
        self._current = current
        config = current()
        self._state = store_state(config, _LISTENER)
        self._context = _context(config)

    def __call__(self) -> "ssl.SSLContext":
        config = self._current()
        state = store_state(config, _LISTENER)
        if state != self._state:
            self._state = state
            try:
                self._context = _context(config)
            except ConfigError as error:
                _log.error("metrics.keys_not_renewed", reason=error)
            else:
                _log.info("metrics.keys_renewed")
        return self._context


def _context(config: Config) -> "ssl.SSLContext":
    from barnabas.network.tls_context import server_context  # noqa: PLC0415 - OpenSSL's context

    client_auth = config.get("listener.name.metrics.ssl.client.auth") or "none"
    return server_context(tls_values(config, _LISTENER), client_auth)


def metrics_access(
    current: Callable[[], Config], environment: MutableMapping[str, str] = os.environ
) -> MetricsAccess:
    """Of the configuration as it is now, and of its keys as they are later. Raises ConfigError, which shows
    no secret.
    """
    config = current()
    password, user = config["metrics.password"], config["metrics.user"]
    if password is not None and (not password or ":" in user):
        raise ConfigError("metrics.password must not be empty, and metrics.user has no colon")
    tls = _Renewed(current) if config["metrics.tls"] else None
    # An empty one would be what anybody can send.
    return MetricsAccess(tls, user, password, environment.pop(MACHINE_TOKEN, None) or None)


def metrics_host(config: Config, endpoints: Sequence[Endpoint], access: MetricsAccess) -> str:
    """Where to listen."""
    named: str | None = config["metrics.host"]
    guarded = any(endpoint.security_protocol != "PLAINTEXT" for endpoint in endpoints)
    if named is None:
        return _LOOPBACK if guarded and access.password is None else endpoints[0].host
    if guarded and not _is_loopback(named) and (access.password is None or access.tls is None):
        _log.warning(
            "metrics.unguarded",
            host=named,
            mend="set metrics.password and metrics.tls, or leave metrics.host out",
        )
    return named


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
