"""Who may scrape a broker's metrics, from its configuration.

Metrics name topics, groups and clients. On a broker whose listeners ask who comes, they are served on the
loopback alone unless a password is set, or the operator names an address.
"""

from collections.abc import Sequence
from ipaddress import ip_address

from barnabas.core.config import Config
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventLog
from barnabas.network.endpoints import Endpoint
from barnabas.node.channel_security import tls_values
from barnabas.node.metrics_endpoint import MetricsAccess

_log = EventLog("node.metrics")

_LISTENER = Endpoint("METRICS", "", 0, "SSL")
"""What its keys are looked up by: ``listener.name.metrics.ssl.*``, else those of the broker."""
_LOOPBACK = "127.0.0.1"


def metrics_access(config: Config) -> MetricsAccess:
    """Raises ConfigError, which shows no secret."""
    password, user = config["metrics.password"], config["metrics.user"]
    if password is not None and (not password or ":" in user):
        raise ConfigError("metrics.password must not be empty, and metrics.user has no colon")
    if not config["metrics.tls"]:
        return MetricsAccess(None, user, password)
    from barnabas.network.tls_context import server_context  # noqa: PLC0415 - OpenSSL's context

    client_auth = config.get("listener.name.metrics.ssl.client.auth") or "none"
    return MetricsAccess(server_context(tls_values(config, _LISTENER), client_auth), user, password)


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
