"""How kazoo's client is set up to serve `barnabas.cluster.store.zookeeper`, and how calls and answers are
translated.

kazoo speaks ZooKeeper's protocol on a thread of its own. By default it hands results and watches to two more
threads, which lose the order between them; here both are handed over where they arise, so that a watch still
comes before the result that shows the change.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, TransactionRequest
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization
from kazoo.protocol.states import Callback, EventType, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from barnabas.cluster.store import contract
from barnabas.core.errors import ConfigError

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
_OF_OTHER_OPERATIONS: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
"""What a transaction that failed says of the operations before and after the one that it failed for."""

CHANGES: Final = {
    EventType.CREATED: contract.Change.CREATED,
    EventType.DELETED: contract.Change.DELETED,
    EventType.CHANGED: contract.Change.DATA,
    EventType.CHILD: contract.Change.CHILDREN,
}


class _StraightHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo is untyped
    """Runs callbacks on the thread that has something to say; they only pass it on."""

    name = "straight_handler"

    def start(self) -> None:
        """There are no threads to start: kazoo itself runs callbacks at once where none are running."""

    def stop(self) -> None:
        """There are no threads to stop."""

    def dispatch_callback(self, callback: Callback) -> None:
        """Runs the callback of a watch."""
        callback.func(*callback.args)


def make_client(hosts: str, session_timeout_ms: int) -> KazooClient:
    """A client that never gives up to connect; not started. Raises ConfigError."""
    handler = _StraightHandler()
    # kazoo logs every attempt to connect; the store logs once what matters of it.
    logger = logging.getLogger("barnabas.cluster.store.zookeeper.kazoo")
    logger.setLevel(logging.ERROR)
    retry = KazooRetry(
        max_tries=-1, delay=RECONNECT_FIRST_S, max_delay=RECONNECT_MAX_S, sleep_func=handler.sleep_func
    )
    try:
        return KazooClient(
            hosts, timeout=session_timeout_ms / 1000, handler=handler, connection_retry=retry, logger=logger
        )
    except ValueError as error:
        raise ConfigError(f"Invalid value {hosts} for configuration zookeeper.connect: {error}") from error


def transaction(
    client: KazooClient, operations: Sequence[contract.Operation], paths: Sequence[str]
) -> TransactionRequest:
    """The operations, on these paths, as one request; not sent."""
    request = client.transaction()
    # Its own methods refuse znodes without data.
    request.operations += [_request(each, path) for each, path in zip(operations, paths, strict=True)]
    return request


def _request(operation: contract.Operation, path: str) -> object:
    if isinstance(operation, contract.Create):
        flags = _EPHEMERAL * operation.ephemeral | _SEQUENCE * operation.sequence
        return serialization.Create(path, operation.data, OPEN_ACL_UNSAFE, flags)
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
    translated = _ERRORS.get(type(error), contract.StoreUnavailableError)(path, index)
    translated.__cause__ = error
    return translated


def stat_of(stat: ZnodeStat) -> contract.Stat:
    """The `Stat` of a znode."""
    return contract.Stat(
        stat.czxid, stat.mzxid, stat.ctime, stat.mtime, stat.version, stat.ephemeralOwner or 0
    )
