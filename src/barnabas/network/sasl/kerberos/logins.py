"""From a line of JAAS for ``Krb5LoginModule`` to log-ins with Kerberos, by MIT's library.

Theory of operation
-------------------
The library gets tickets with the key tab, keeps them in memory, and gets others before they end: there is no
thread that renews, and no kinit. To get one means to ask a KDC, and perhaps DNS; so the first token of a
log-in is made on a thread (`SaslLogin.prepare`), and what follows needs neither. A server needs its key tab
alone. It keeps no record of tickets that it has seen: one that is shown again does not get through the rest
of the exchange, which needs its key.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

from barnabas.core.errors import ConfigError
from barnabas.core.pending import Pending
from barnabas.network.sasl.client import SaslLogin
from barnabas.network.sasl.kerberos.exchange import NAME, Context, GssapiClient, GssapiServer
from barnabas.network.sasl.kerberos.names import ShortNamer
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError, SaslServer
from barnabas.network.threads import in_thread

SERVICE_NAME: Final = "sasl.kerberos.service.name"
_caches: Final = count(1)


def server_logins(options: Mapping[str, str], rules: Sequence[str], key: str) -> Callable[[], SaslServer]:
    """What makes a log-in at the broker. Raises ConfigError, which names `key`."""
    gssapi = _library()
    principal, key_tab = options.get("principal"), options.get("keyTab")
    if not principal or not key_tab:
        raise ConfigError(f"Invalid value [hidden] for configuration {key}: it has no principal and keyTab")
    try:
        credentials = gssapi.Credentials(
            name=gssapi.Name(principal, gssapi.NameType.kerberos_principal),
            usage="accept",
            store={"keytab": f"FILE:{key_tab}", "rcache": "none:"},
        )
        realm = str(gssapi.Name("x", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos))
    except gssapi.exceptions.GSSError as error:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {key}: {principal} with {key_tab}: {_text(error)}"
        ) from None
    namer = ShortNamer(rules, realm.partition("@")[2])
    return partial(GssapiServer, partial(_accepted, gssapi, credentials), namer)


def client_login(options: Mapping[str, str], service: str | None, key: str) -> SaslLogin:
    """How a client logs in, with the key tab of its line or what kinit has left. Raises ConfigError."""
    gssapi = _library()
    own = options.get("serviceName")
    if own and service and own != service:
        raise ConfigError(
            f"Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file {own}, value "
            f"in Kafka config {service}"
        )
    service = own or service
    if not service:
        raise ConfigError(
            f"Missing required configuration {SERVICE_NAME}: No serviceName defined in either JAAS or Kafka "
            "config"
        )
    store: dict[str, str] = {}
    if options.get("useKeyTab", "false").lower() == "true":
        if not options.get("keyTab") or not options.get("principal"):
            raise ConfigError(
                f"Invalid value [hidden] for configuration {key}: useKeyTab needs principal and keyTab"
            )
        store = {"client_keytab": f"FILE:{options['keyTab']}", "ccache": f"MEMORY:barnabas-{next(_caches)}"}
    elif options.get("useTicketCache", "false").lower() != "true":
        raise ConfigError(
            f"Invalid value [hidden] for configuration {key}: it has neither useKeyTab=true nor "
            "useTicketCache=true"
        )
    elif options.get("ticketCache"):
        store = {"ccache": f"FILE:{options['ticketCache']}"}
    return _Tickets(gssapi, options.get("principal"), service, store).login("")


class _Tickets:
    """What one client shows; a log-in for each host."""

    def __init__(self, gssapi: Any, principal: str | None, service: str, store: dict[str, str]) -> None:
        self._gssapi = gssapi
        self._principal = principal
        self._service = service
        self._store = store
        self._lock = threading.Lock()

    def login(self, host: str) -> SaslLogin:
        """For the nodes of a host; for others by `of_host`."""
        begun: list[tuple[Context, bytes]] = []

        def prepare() -> Pending[None]:
            return in_thread("kerberos", partial(self._begin, host)).then(begun.append)

        return SaslLogin(NAME, partial(GssapiClient, begun.pop), prepare, self.login)

    def _begin(self, host: str) -> tuple[Context, bytes]:
        """The context with a host and its first token. Asks the KDC; raises SaslAuthenticationError."""
        gssapi = self._gssapi
        try:
            # One at a time: the first gets the ticket that the others find.
            with self._lock:
                name = None
                if self._principal:
                    name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
                credentials = gssapi.Credentials(name=name, usage="initiate", store=self._store or None)
                target = gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service)
                flag = gssapi.RequirementFlag
                context = gssapi.SecurityContext(
                    name=target,
                    creds=credentials,
                    usage="initiate",
                    mech=gssapi.MechType.kerberos,
                    flags=flag.mutual_authentication | flag.integrity | flag.out_of_sequence_detection,
                )
                token = context.step() or b""
        except gssapi.exceptions.GSSError as error:
            raise SaslAuthenticationError(
                f"this client got no ticket for {self._service}/{host}: {_text(error)}"
            ) from None
        return _Context(gssapi, context), token


class _Context:
    """A `Context` of the library."""

    def __init__(self, gssapi: Any, context: Any) -> None:
        self._gssapi = gssapi
        self._context = context

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        return str(self._context.initiator_name)

    def step(self, token: bytes) -> bytes:
        return self._done(lambda: self._context.step(token) or b"")

    def wrap(self, message: bytes) -> bytes:
        return self._done(lambda: self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        return self._done(lambda: self._context.unwrap(message).message)

    def _done(self, work: Callable[[], bytes]) -> bytes:
        try:
            return bytes(work())
        except self._gssapi.exceptions.GSSError as error:
            raise SaslExchangeError(_text(error)) from None


def _accepted(gssapi: Any, credentials: Any) -> Context:
    return _Context(gssapi, gssapi.SecurityContext(creds=credentials, usage="accept"))


def _text(error: Any) -> str:
    """What the library says, in one line."""
    return " ".join(str(error).split())[:400]


def _library() -> Any:
    try:
        # An extra: most brokers do without, and it needs Kerberos on the machine.
        import gssapi  # noqa: PLC0415
    except ImportError as missing:
        raise ConfigError(
            "GSSAPI needs the extra 'gssapi', which is not installed: pip install 'barnabas[gssapi]' "
            f"({missing})"
        ) from None
    return gssapi
