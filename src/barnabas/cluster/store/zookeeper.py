"""`ZookeeperStore`: the metadata store of clusters that span machines, or that JVM brokers are part of.

Theory of operation
-------------------
kazoo's thread speaks with ZooKeeper and hands everything over by `call_soon`: answers, watches and states of
the connection arrive on the loop in the order in which ZooKeeper sent them. All decisions are made on the
loop.

*A lost connection* is not the end of the session. The calls that wait for an answer keep their places and are
sent again on the next connection (``KafkaZkClient.retryRequestsUntilConnected``), those made meanwhile
follow. A write that had taken effect before its answer was lost then fails by its own condition (the znode
exists, the version is another); its owner looks whether what it finds is its own. ZooKeeper forgets a
session's watches with the connection, and kazoo does not leave them again: so before any call is sent, every
znode that is watched is read again, and what changed meanwhile fires its watches.

*The end of the session* comes to light at the next connection. kazoo would begin the next session right away,
with the controller still in office; so the listener that kazoo calls, on its own thread, blocks until every
session listener has resigned.

*Each connection* logs in before it counts as one (`zookeeper_client`). A server that refuses the log-in ends
the start; later it is tried again each second, and the log has one line until it succeeds.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import KazooState, WatchedEvent, ZnodeStat

from barnabas.cluster.store import tree, znodes
from barnabas.cluster.store.contract import (
    Change,
    Create,
    NodeExistsError,
    NoNodeError,
    Operation,
    SessionExpiredError,
    SessionListener,
    SetData,
    SingleWrites,
    Stat,
    StoreUnusableError,
    Watch,
    WatchEvent,
)
from barnabas.cluster.store.watches import WatchTable
from barnabas.cluster.store.zookeeper_client import (
    CHANGES,
    make_client,
    raise_if_refused,
    stat_of,
    transaction,
    translate,
)
from barnabas.cluster.store.zookeeper_security import ZookeeperSecurity
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, gather, steps

_events: Final = EventLog("cluster.zookeeper")

T = TypeVar("T")
CallSoon: TypeAlias = Callable[[Callable[[], object]], object]

SESSION_TIMEOUT_MS: Final = 18_000


class _Call(Generic[T]):
    """A request that has no answer yet."""

    __slots__ = ("convert", "path", "pending", "request", "sent")

    def __init__(
        self, path: str, request: Callable[[KazooClient], IAsyncResult], convert: Callable[[Any], T]
    ) -> None:
        self.path = path
        self.request = request
        self.convert = convert
        self.pending: Pending[T] = Pending()
        self.sent = False

    def __repr__(self) -> str:
        return f"<_Call {self.path} {'sent' if self.sent else 'waiting'}>"


class ZookeeperStore(SingleWrites):
    """One session on a ZooKeeper ensemble; a `barnabas.cluster.store.contract.MetadataStore`.

    `connect` is Kafka's ``zookeeper.connect``: servers, then perhaps a path that everything is kept below.
    `call_soon` must be thread-safe (``loop.call_soon_threadsafe``).
    """

    def __init__(
        self,
        connect: str,
        call_soon: CallSoon,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        connection_timeout_ms: int | None = None,
        security: ZookeeperSecurity | None = None,
    ) -> None:
        """Raises ConfigError for an address that is none."""
        self._servers, slash, chroot = connect.partition("/")
        self._chroot = (slash + chroot).rstrip("/")
        try:
            tree.check_path(self._chroot or tree.ROOT)
        except ValueError as error:
            raise ConfigError(
                f"Invalid value {connect} for configuration zookeeper.connect: {error}"
            ) from error
        self._call_soon = call_soon
        self._connection_timeout_ms = connection_timeout_ms or session_timeout_ms
        self._set_acl = security is not None and security.set_acl
        self._client = make_client(self._servers, session_timeout_ms, security, self._log_in_refused)
        self._client.add_listener(self._state_changed)
        self._session_id = 0
        self._listeners: list[SessionListener] = []
        self._started: Pending[None] = Pending()
        self._calls: deque[_Call[Any]] = deque()
        """Without an answer, in the order in which they were made."""
        self._watches = WatchTable()
        self._nodes_seen: dict[str, int] = {}
        """For each znode watched, the transaction that last wrote it (0: it was not there)."""
        self._children_seen: dict[str, int] = {}
        """For each znode whose children are watched, the transaction that last changed them."""
        self._expired = False
        self._closing = False
        self._refused = False
        """Whether the last connection was not let in."""
        self._let_in = threading.Event()
        """Set by kazoo's thread with the first connection."""
        self._resigned = threading.Event()
        """What kazoo's thread waits for at the end of a session."""
        self._ending = threading.Lock()
        """Held by who ends the client: kazoo lets nobody close what another is stopping."""
        self._lock = threading.Lock()
        self._connected = False
        """Guarded by the lock: whether what is sent now goes out after everything sent before."""

    @property
    def session_id(self) -> int:
        return self._session_id

    # ------------------------------------------------------------------------------- begin and end

    def start(self) -> Pending[None]:
        self._spawn("zookeeper-connect", self._connect)
        return self._started

    def _connect(self) -> None:
        """Runs on a thread of its own, which waits for the first connection."""
        # kazoo's own `start` looks a moment later whether there is a connection, and stops for good where it
        # was lost in between.
        self._client.start_async()
        if self._let_in.wait(self._connection_timeout_ms / 1000):
            return
        last = self._client.handler.last_failure
        failure = TimeoutError(
            f"no ZooKeeper server of {self._servers} let this broker in within "
            f"{self._connection_timeout_ms} ms "
            f"(zookeeper.connect, zookeeper.connection.timeout.ms){last and f': {last}'}"
        )
        failure.__cause__ = OSError(last) if last else None
        self._stop(Pending())
        self._hand_over(lambda: self._started.fail(failure))

    @steps
    def _make_chroot(self) -> Steps[None]:
        for path in [*znodes.ancestors(self._chroot), self._chroot] if self._chroot else ():
            operation = Create(path, None)
            with suppress(NodeExistsError):
                yield self._submit(self._write([operation], [path]))

    def close(self) -> Pending[None]:
        closed: Pending[None] = Pending()
        self._closing = True
        self._resigned.set()
        self._watches.clear()
        self._spawn("zookeeper-close", lambda: self._stop(closed))
        return closed

    def _stop(self, closed: Pending[None]) -> None:
        """Runs on a thread of its own: kazoo waits for the answers that are due, and for its own thread."""
        with self._ending:
            try:
                self._client.stop()
                self._client.close()
            except Exception:
                _events.warning("close_failed", exc_info=True)
        self._hand_over(lambda: self._closed(closed))

    def _closed(self, closed: Pending[None]) -> None:
        self._expire_calls()
        closed.complete(None)

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    def _hand_over(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits for the answer
            self._call_soon(callback)

    def listen(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    # --------------------------------------------------------------------------------------- calls

    def multi(self, operations: Sequence[Operation]) -> Pending[list[Any]]:
        return self._submit(self._write(operations, [self._full(each.path) for each in operations]))

    def get(self, path: str, watch: Watch | None = None) -> Pending[tuple[bytes | None, Stat]]:
        full = self._full(path)

        def answer(found: tuple[bytes | None, ZnodeStat]) -> tuple[bytes | None, Stat]:
            data, stat = found
            self._watch_node(path, watch, stat)
            return data, stat_of(stat)

        return self._submit(
            _Call(path, lambda client: client.get_async(full, watch and self._watch_fired), answer)
        )

    def exists(self, path: str, watch: Watch | None = None) -> Pending[Stat | None]:

        def answer(stat: ZnodeStat | None) -> Stat | None:
            self._watch_node(path, watch, stat)
            return stat_of(stat) if stat else None

        return self._submit(_Call(path, self._exists(path, watched=watch is not None), answer))

    def children(self, path: str, watch: Watch | None = None) -> Pending[list[str]]:

        def answer(found: tuple[list[str], ZnodeStat]) -> list[str]:
            names, stat = found
            if watch is not None:
                self._watches.on_children(path, watch)
                self._children_seen[path] = stat.pzxid
            return sorted(names)

        return self._submit(_Call(path, self._list(path, watched=watch is not None), answer))

    def _write(self, operations: Sequence[Operation], paths: Sequence[str]) -> _Call[list[Any]]:
        def answer(results: Sequence[Any]) -> list[Any]:
            raise_if_refused(operations, results)
            return [self._result(each, result) for each, result in zip(operations, results, strict=True)]

        path = operations[0].path if operations else tree.ROOT
        return _Call(
            path,
            lambda client: transaction(client, operations, paths, set_acl=self._set_acl).commit_async(),
            answer,
        )

    def _result(self, operation: Operation, result: Any) -> Any:
        if isinstance(operation, Create):
            return self._local(result)
        return stat_of(result) if isinstance(operation, SetData) else None

    def _exists(self, path: str, *, watched: bool) -> Callable[[KazooClient], IAsyncResult]:
        full = self._full(path)
        return lambda client: client.exists_async(full, self._watch_fired if watched else None)

    def _list(self, path: str, *, watched: bool) -> Callable[[KazooClient], IAsyncResult]:
        full = self._full(path)
        watch = self._watch_fired if watched else None
        return lambda client: client.get_children_async(full, watch, include_data=True)

    def _full(self, path: str) -> str:
        tree.check_path(path)
        return self._chroot + path if path != tree.ROOT else self._chroot or path

    def _local(self, full: str) -> str:
        return full.removeprefix(self._chroot) or tree.ROOT

    # ------------------------------------------------------------------------- requests and answers

    def _submit(self, call: _Call[T]) -> Pending[T]:
        if self._expired or self._closing:
            self._hand_over(lambda: call.pending.fail(SessionExpiredError(call.path)))
            return call.pending
        self._calls.append(call)
        self._send(call)
        return call.pending

    def _send(self, call: _Call[Any]) -> None:
        """Sends now, or leaves it to the next connection: a call never overtakes one that was lost."""
        with self._lock:
            if not self._connected:
                return
            call.sent = True
            result = call.request(self._client)
        result.rawlink(partial(self._answered, call))

    def _answered(self, call: _Call[Any], result: IAsyncResult) -> None:
        """Runs on kazoo's thread."""
        if isinstance(result.exception, ConnectionLoss):
            with self._lock:
                self._connected = False
        self._hand_over(lambda: self._settle(call, result.exception, result.value))

    def _settle(self, call: _Call[T], error: Exception | None, value: Any) -> None:
        if call.pending.done:
            return  # failed with its session
        if isinstance(error, ConnectionLoss):
            call.sent = False  # the next connection, or the end of the session, is its answer
            return
        self._calls.remove(call)
        if error is not None:
            call.pending.fail(translate(error, call.path))
            return
        try:
            converted = call.convert(value)
        except Exception as failure:
            call.pending.fail(failure)
        else:
            call.pending.complete(converted)

    # -------------------------------------------------------------------------------------- watches

    def _watch_node(self, path: str, watch: Watch | None, stat: ZnodeStat | None) -> None:
        if watch is not None:
            self._watches.on_node(path, watch)
            self._nodes_seen[path] = stat.mzxid if stat else 0

    def _watch_fired(self, event: WatchedEvent) -> None:
        """Runs on kazoo's thread. The one watch that ZooKeeper and kazoo know of."""
        change = CHANGES.get(event.type)
        if change is not None:  # others tell of the connection
            self._hand_over(lambda: self._fire(change, self._local(event.path)))

    def _fire(self, change: Change, path: str) -> None:
        if change is not Change.CHILDREN:
            self._nodes_seen.pop(path, None)
        if change in (Change.CHILDREN, Change.DELETED):
            self._children_seen.pop(path, None)
        for fired in self._watches.take([WatchEvent(change, path)]):
            try:
                fired.watch(fired.event)
            except Exception:
                _events.error("watch_failed", path=path, exc_info=True)

    def _watch_again(self) -> list[_Call[Any]]:
        """Reads everything that is watched, to learn what changed while there was no connection."""
        nodes = [
            _Call(path, self._exists(path, watched=True), partial(self._compare_node, path, seen))
            for path, seen in self._nodes_seen.items()
        ]
        lists = [
            _Call(path, self._list(path, watched=True), partial(self._compare_children, path, seen))
            for path, seen in self._children_seen.items()
        ]
        for call in lists:
            call.pending.when_done(partial(self._parent_gone, call.path))
        return [*nodes, *lists]

    def _parent_gone(self, path: str, done: Pending[Any]) -> None:
        if isinstance(done.error, NoNodeError):
            self._fire(Change.DELETED, path)

    def _compare_node(self, path: str, seen: int, stat: ZnodeStat | None) -> None:
        if stat is None and seen:
            self._fire(Change.DELETED, path)
        elif stat is not None and stat.mzxid != seen:
            self._fire(Change.DATA if seen else Change.CREATED, path)

    def _compare_children(self, path: str, seen: int, found: tuple[list[str], ZnodeStat]) -> None:
        if found[1].pzxid != seen:
            self._fire(Change.CHILDREN, path)

    # ------------------------------------------------------------------------------------ connection

    def _state_changed(self, state: str) -> None:
        """Runs on kazoo's thread, which continues when this returns."""
        if state == KazooState.CONNECTED:
            self._let_in.set()
            session_id, _ = self._client.client_id
            self._hand_over(lambda: self._begin(session_id))
            return
        with self._lock:
            self._connected = False
        if state == KazooState.SUSPENDED:
            self._hand_over(lambda: _events.warning("connection_lost", servers=self._servers))
        elif not self._closing:
            self._resigned.clear()
            self._hand_over(self._lose_session)
            self._resigned.wait()

    def _log_in_refused(self, reason: str) -> None:
        """Runs on kazoo's thread, which tries again after a while."""
        self._hand_over(lambda: self._log_in_failed(reason))

    def _log_in_failed(self, reason: str) -> None:
        # Kafka ends when it is refused at the start, and retries later (``ZooKeeperClientWatcher``).
        failure = StoreUnusableError(
            f"ZooKeeper at {self._servers} refuses the log-in of this broker: {reason}"
        )
        if not self._started.fail(failure) and not self._refused:
            _events.error("log_in_refused", servers=self._servers, reason=reason)
        self._refused = True

    def _begin(self, session_id: int) -> None:
        """There is a connection: of the session that was, or of a new one."""
        if self._closing:
            return
        self._refused = False
        before, self._session_id = self._session_id, session_id
        self._expired = False
        with self._lock:
            self._connected = True
        self._calls.extendleft(reversed(self._watch_again()))
        for call in [call for call in self._calls if not call.sent]:
            self._send(call)
        if not before:
            self._make_chroot().when_done(self._chroot_made)
        elif before != session_id:
            for listener in self._listeners:
                listener.session_renewed()

    def _chroot_made(self, made: Pending[None]) -> None:
        if made.error is not None:
            self._started.fail(made.error)
        else:
            self._started.complete(None)

    def _lose_session(self) -> None:
        _events.warning("session_expired", session=f"{self._session_id:#x}")
        self._expired = True
        self._watches.clear()
        self._nodes_seen.clear()
        self._children_seen.clear()
        self._expire_calls()
        ready = gather([listener.session_expired() for listener in self._listeners])
        ready.when_done(lambda _: self._resigned.set())

    def _expire_calls(self) -> None:
        while self._calls:
            call = self._calls.popleft()
            call.pending.fail(SessionExpiredError(call.path))

    def __repr__(self) -> str:
        state = "expired" if self._expired else "connected" if self._connected else "no connection"
        return f"<ZookeeperStore {self._servers}{self._chroot} session={self._session_id:#x} {state}>"
