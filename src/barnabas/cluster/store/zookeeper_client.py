"""How kazoo's client is set up to serve `barnabas.cluster.store.zookeeper`, and how calls and answers are
translated.

kazoo speaks ZooKeeper's protocol on a thread of its own. By default it hands results and watches to two more
threads, which lose the order between them; here both are handed over where they arise, so that a watch still
comes before the result that shows the change.

Each connection, of an old session too, encrypts and logs in before anybody hears that there is one: nothing
is asked, and no watch left, as somebody else. kazoo would say "connected" first, needs another library for
SASL, and never connects again once a server has refused it.
"""

import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, TransactionRequest
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import Callback, EventType, ZnodeStat
from kazoo.retry import KazooRetry

from barnabas.cluster.store import contract
from barnabas.cluster.store.zookeeper_acls import default_acls
from barnabas.cluster.store.zookeeper_security import ZookeeperLogin, ZookeeperSecurity
from barnabas.core.errors import ConfigError
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError

RECONNECT_FIRST_S: Final = 0.05
RECONNECT_MAX_S: Final = 1.0
"""As ZooKeeper's own client, which sleeps for up to a second between two attempts."""

_EPHEMERAL: Final = 1
_SEQUENCE: Final = 2

_ERRORS: Final[dict[type[Exception], type[contract.StoreError]]] = {
    kazoo_errors.NoNodeError: contract.NoNodeError,
    kazoo_errors.NodeExistsError: contract.NodeExistsError,
    kazoo_errors.BadVersionError: contract.BadVersionError,
    kazoo_errors.NotEmptyError: contract.NotEmptyError,
    kazoo_errors.NoChildrenForEphemeralsError: contract.EphemeralParentError,
    kazoo_errors.SessionExpiredError: contract.SessionExpiredError,
    kazoo_errors.ConnectionClosedError: contract.SessionExpiredError,
}
_REASONS: Final[dict[type[Exception], str]] = {
    kazoo_errors.NoAuthError: "its ACL is for other users (the section Client of the file of JAAS, or the "
    "certificate, say who this client is)",
    kazoo_errors.InvalidACLError: "zookeeper.set.acl is true, and the server does not know this client",
}
"""What a refusal means that a user can mend."""
_OF_OTHER_OPERATIONS: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
"""What a transaction that failed says of the operations before and after the one that it failed for."""

CHANGES: Final = {
    EventType.CREATED: contract.Change.CREATED,
    EventType.DELETED: contract.Change.DELETED,
    EventType.CHANGED: contract.Change.DATA,
    EventType.CHILD: contract.Change.CHILDREN,
}


class StraightHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo is untyped
    """Runs callbacks on the thread that has something to say; they only pass it on."""

    name = "straight_handler"

    def __init__(self, make_tls: Callable[[], ssl.SSLContext] | None) -> None:
        super().__init__()
        self._make_tls = make_tls
        self.last_failure = ""
        """Why the last attempt to connect failed."""

    def start(self) -> None:
        """There are no threads to start: kazoo itself runs callbacks at once where none are running."""

    def stop(self) -> None:
        """There are no threads to stop."""

    def dispatch_callback(self, callback: Callback) -> None:
        """Runs the callback of a watch."""
        callback.func(*callback.args)

    def create_connection(self, *args: Any, hostname: str | None = None, **options: Any) -> Any:
        """A socket, on which TLS is spoken where it is asked for."""
        sock = None
        try:
            sock = super().create_connection(*args, hostname=hostname, **options)
            if self._make_tls is None:
                return sock
            sock.settimeout(options.get("timeout"))
            return self._make_tls().wrap_socket(sock, server_hostname=hostname)
        except (OSError, ConfigError) as error:
            self.last_failure = str(error)
            if sock is not None:
                sock.close()
            # kazoo tries again after an OSError alone.
            raise OSError(self.last_failure) from error

    def select(self, readable: Any, writable: Any, broken: Any, timeout: float | None = None) -> Any:
        """As ``select``: a TLS socket is readable too when what came has been decrypted already."""
        held = [each for each in readable if isinstance(each, ssl.SSLSocket) and each.pending()]
        found = super().select(readable, writable, broken, 0 if held else timeout)
        return ([*held, *(each for each in found[0] if each not in held)], *found[1:])


class LoggedInConnection(ConnectionHandler):  # type: ignore[misc] # kazoo is untyped
    """kazoo's connection, which logs in where it would say "connected"."""

    def __init__(self, client: KazooClient, login: ZookeeperLogin, refused: Callable[[str], None]) -> None:
        before = client._connection  # noqa: SLF001 - kazoo takes no connection of another kind
        super().__init__(client, before.retry_sleeper, before.logger)
        self._login = login
        self._refused = refused

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        # A session that has ended has no time-out; kazoo opens another one.
        if isinstance(request, serialization.Connect) and answer[0].time_out > 0:
            try:
                self._log_in(timeout)
            except (kazoo_errors.AuthFailedError, SaslAuthenticationError, SaslExchangeError) as error:
                self._refused(str(error) or "the server does not take user and password")
                raise kazoo_errors.ConnectionDropped("the log-in was refused") from None
        return answer

    def _log_in(self, timeout: float) -> None:
        exchange = self._login.start()
        token = exchange.evaluate(b"")
        xid = 0
        while token is not None:
            xid += 1
            self._submit(serialization.SASL(token), timeout, xid)
            header, frame, offset = self._read_header(timeout)
            if header.err:
                raise kazoo_errors.AuthFailedError
            challenge, _ = serialization.SASL.deserialize(frame, offset)
            if challenge is None:
                raise SaslExchangeError("the server has no SASL")
            token = exchange.evaluate(challenge)


def make_client(
    hosts: str,
    session_timeout_ms: int,
    security: ZookeeperSecurity | None = None,
    refused: Callable[[str], None] = lambda _: None,
) -> KazooClient:
    """A client that never gives up to connect; not started. `refused` hears, on kazoo's thread, each time a
    server does not let it log in. Raises ConfigError.
    """
    security = security or ZookeeperSecurity()
    handler = StraightHandler(security.tls)
    # kazoo logs every attempt to connect; the store logs once what matters of it.
    logger = logging.getLogger("barnabas.cluster.store.zookeeper.kazoo")
    logger.setLevel(logging.ERROR)
    retry = KazooRetry(
        max_tries=-1, delay=RECONNECT_FIRST_S, max_delay=RECONNECT_MAX_S, sleep_func=handler.sleep_func
    )
    try:
        client = KazooClient(
            hosts, timeout=session_timeout_ms / 1000, handler=handler, connection_retry=retry, logger=logger
        )
    except ValueError as error:
        raise ConfigError(f"Invalid value {hosts} for configuration zookeeper.connect: {error}") from error
    if security.login is not None:
        client._connection = LoggedInConnection(client, security.login, refused)  # noqa: SLF001 - as above
    return client


def transaction(
    client: KazooClient,
    operations: Sequence[contract.Operation],
    paths: Sequence[str],
    *,
    set_acl: bool = False,
) -> TransactionRequest:
    """The operations, on these paths, as one request; not sent. ACLs are those of the operations' own paths,
    which are below the chroot.
    """
    request = client.transaction()
    # Its own methods refuse znodes without data.
    request.operations += [
        _request(each, path, set_acl) for each, path in zip(operations, paths, strict=True)
    ]
    return request


def _request(operation: contract.Operation, path: str, set_acl: bool) -> object:
    if isinstance(operation, contract.Create):
        flags = _EPHEMERAL * operation.ephemeral | _SEQUENCE * operation.sequence
        acl = default_acls(operation.path, secure=set_acl)
        return serialization.Create(path, operation.data, acl, flags)
    if isinstance(operation, contract.SetData):
        return serialization.SetData(path, operation.data, operation.version)
    if isinstance(operation, contract.Delete):
        return serialization.Delete(path, operation.version)
    return serialization.CheckVersion(path, operation.version)


def raise_if_refused(operations: Sequence[contract.Operation], results: Sequence[Any]) -> None:
    """Raises the error of the first operation of a transaction that could not be done."""
    for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
        if isinstance(result, Exception) and not isinstance(result, _OF_OTHER_OPERATIONS):
            raise translate(result, operation.path, index)


def translate(error: Exception, path: str, index: int = 0) -> contract.StoreError:
    """An error of kazoo as one of the store's."""
    if (reason := _REASONS.get(type(error))) is not None:
        refused = contract.StoreUnavailableError(path, index, f"ZooKeeper refuses {path}: {reason}")
        refused.__cause__ = error
        return refused
    translated = _ERRORS.get(type(error), contract.StoreUnavailableError)(path, index)
    translated.__cause__ = error
    return translated


def stat_of(stat: ZnodeStat) -> contract.Stat:
    """The `Stat` of a znode."""
    return contract.Stat(
        stat.czxid, stat.mzxid, stat.ctime, stat.mtime, stat.version, stat.ephemeralOwner or 0
    )
