"""kazoo's client, played in this process over the tree of a `MemoryEnsemble`: a ZookeeperStore on it keeps
every promise of the contract without a server, and a test says when a connection breaks and what an answer
waits for.
"""

import threading
from collections import Counter, deque
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.protocol import serialization
from kazoo.protocol.states import EventType, KazooState, WatchedEvent, ZnodeStat

from barnabas.cluster.store import contract, zookeeper
from barnabas.cluster.store.memory import MemoryEnsemble
from barnabas.cluster.store.zookeeper import ZookeeperStore

_ERRORS = {
    contract.NoNodeError: kazoo_errors.NoNodeError,
    contract.NodeExistsError: kazoo_errors.NodeExistsError,
    contract.BadVersionError: kazoo_errors.BadVersionError,
    contract.NotEmptyError: kazoo_errors.NotEmptyError,
    contract.EphemeralParentError: kazoo_errors.NoChildrenForEphemeralsError,
}
_EVENTS = {
    contract.Change.CREATED: EventType.CREATED,
    contract.Change.DELETED: EventType.DELETED,
    contract.Change.DATA: EventType.CHANGED,
    contract.Change.CHILDREN: EventType.CHILD,
}
_EPHEMERAL, _SEQUENCE = 1, 2


class Result:
    """kazoo's AsyncResult, as far as the store looks at it."""

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: Exception | None = None
        self._is_there = False
        self._link: Any = None

    def rawlink(self, link) -> None:
        if self._is_there:
            link(self)
        else:
            self._link = link

    def give(self, value=None, exception=None) -> None:
        self.value, self.exception, self._is_there = value, exception, True
        if self._link is not None:
            self._link(self)


class FakeKazoo:
    """One client. `cut` breaks its connection, `mend` connects again, `expire` ends its session."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self.asked = 0
        """Requests that went out, again or for the first time."""
        self.refuse_next: Exception | None = None
        """What the next request is answered with."""
        self.refuse_stop: Exception | None = None
        self.is_closed = False
        self.acls: dict[str, Any] = {}
        """What each znode was made with."""
        self._ensemble = ensemble
        self._session = 0
        self._listeners: list[Any] = []
        self._watchers: dict[str, set[tuple[str, Any]]] = {}
        self._lists_changed: Counter[str] = Counter()
        self._answers = True
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        self._waiting: deque[tuple[Any, Result]] = deque()

    # ------------------------------------------------------------------------ what kazoo's client has

    @property
    def client_id(self):
        return self._session, b""

    def add_listener(self, listener) -> None:
        self._listeners.append(listener)

    def start_async(self) -> None:
        self._session = self._ensemble.begin(self)
        self._tell(KazooState.CONNECTED)

    def stop(self) -> None:
        if self.refuse_stop is not None:
            raise self.refuse_stop
        self._is_stopped = True
        if self._thread is not None:
            self._thread.join()
        if self._ensemble.alive(self._session):
            self._ensemble.end(self._session)
        self._fail_waiting(kazoo_errors.ConnectionClosedError())

    def close(self) -> None:
        self.is_closed = True

    def get_async(self, path, watch=None):
        def read():
            znode = self._ensemble.table.find(path)
            if znode is None:
                raise contract.NoNodeError(path)
            self._leave("node", path, watch)
            return znode.data, self._stat(path)

        return self._call(read)

    def exists_async(self, path, watch=None):
        def read():
            self._leave("node", path, watch)
            return self._stat(path) if self._ensemble.table.find(path) is not None else None

        return self._call(read)

    def get_children_async(self, path, watch=None, include_data=False):
        assert include_data

        def read():
            if self._ensemble.table.find(path) is None:
                raise contract.NoNodeError(path)
            self._leave("children", path, watch)
            return self._ensemble.table.children(path)[::-1], self._stat(path)  # a server does not sort

        return self._call(read)

    def transaction(self):
        return FakeTransaction(self)

    @property
    def watches_left(self) -> int:
        """Those that the server knows of."""
        return sum(map(len, self._watchers.values()))

    # -------------------------------------------------------------------------------- what a test does

    def hold_answers(self) -> None:
        """What is asked from now on waits, and has not taken effect."""
        self._answers = False

    def break_connection(self) -> None:
        """The calls that wait for an answer hear of it first; kazoo keeps later ones for the next
        connection.
        """
        self._answers = False
        self._watchers.clear()  # ZooKeeper forgets them with the connection
        self._fail_waiting(kazoo_errors.ConnectionLoss())

    def suspend(self) -> None:
        self._tell(KazooState.SUSPENDED)

    def cut(self) -> None:
        self.break_connection()
        self.suspend()

    def mend(self) -> None:
        """The next connection, of the same session."""
        self._tell(KazooState.CONNECTED)
        self._answers = True
        while self._waiting:
            function, result = self._waiting.popleft()
            self._answer(function, result)

    def expire(self) -> None:
        """The server ends the session; the rest is what kazoo does on its own thread."""
        self._answers = False
        self._watchers.clear()
        self._ensemble.end(self._session)
        self._thread = threading.Thread(target=self._begin_again, daemon=True)
        self._thread.start()

    def _begin_again(self) -> None:
        self._tell(KazooState.LOST)  # returns when the listeners have resigned
        self._fail_waiting(kazoo_errors.SessionExpiredError())
        if not self._is_stopped:
            self._answers = True
            self.start_async()

    # ------------------------------------------------------------------------------ of the ensemble

    def changed(self, changes) -> None:
        for event in changes:
            if event.change is contract.Change.CHILDREN:
                self._lists_changed[event.path] += 1
            kinds = {
                contract.Change.CHILDREN: {"children"},
                contract.Change.DELETED: {"node", "children"},
            }.get(event.change, {"node"})
            watchers = self._watchers.get(event.path, set())
            for kind, watch in [each for each in watchers if each[0] in kinds]:
                watchers.discard((kind, watch))
                watch(WatchedEvent(_EVENTS[event.change], KazooState.CONNECTED, event.path))

    def carry_out(self, requests) -> Result:
        self.acls |= {each.path: each.acl for each in requests if isinstance(each, serialization.Create)}
        return self._call(lambda: self._write([_operation(each) for each in requests]))

    def _write(self, operations):
        try:
            results = self._ensemble.write(self._session, operations)
        except contract.StoreError as error:
            # A transaction that is refused is an answer, with a word for each of its operations.
            refused = _ERRORS[type(error)]()
            before = [kazoo_errors.RolledBackError() for _ in operations[: error.index]]
            behind = [kazoo_errors.RuntimeInconsistency() for _ in operations[error.index + 1 :]]
            return [*before, refused, *behind]
        return [
            self._kazoos(operation.path, result) if isinstance(operation, contract.SetData) else result
            for operation, result in zip(operations, results, strict=True)
        ]

    def _call(self, function) -> Result:
        self.asked += 1
        result = Result()
        if self._answers:
            self._answer(function, result)
        else:
            self._waiting.append((function, result))
        return result

    def _answer(self, function, result) -> None:
        if (error := self.refuse_next) is not None:
            self.refuse_next = None
            result.give(exception=error)
            return
        try:
            value = function()
        except contract.StoreError as error:
            result.give(exception=_ERRORS[type(error)]())
        else:
            result.give(value)

    def _fail_waiting(self, error) -> None:
        while self._waiting:
            self._waiting.popleft()[1].give(exception=error)

    def _leave(self, kind, path, watch) -> None:
        if watch is not None:
            self._watchers.setdefault(path, set()).add((kind, watch))

    def _stat(self, path) -> ZnodeStat:
        return self._kazoos(path, self._ensemble.table.find(path).stat)

    def _kazoos(self, path, stat) -> ZnodeStat:
        return ZnodeStat(
            *(stat.czxid, stat.mzxid, stat.created_ms, stat.modified_ms, stat.version, 0, 0),
            *(stat.ephemeral_owner, 0, 0, self._lists_changed[path]),
        )

    def _tell(self, state) -> None:
        for listener in self._listeners:
            listener(state)


class FakeTransaction:
    """kazoo's TransactionRequest."""

    def __init__(self, client: FakeKazoo) -> None:
        self.operations: list[Any] = []
        self._client = client

    def commit_async(self) -> Result:
        return self._client.carry_out(self.operations)


def _operation(request) -> contract.Operation:
    match request:
        case serialization.Create():
            return contract.Create(
                request.path,
                request.data,
                ephemeral=bool(request.flags & _EPHEMERAL),
                sequence=bool(request.flags & _SEQUENCE),
            )
        case serialization.SetData():
            return contract.SetData(request.path, request.data, request.version)
        case serialization.Delete():
            return contract.Delete(request.path, request.version)
    return contract.Check(request.path, request.version)


def played_store(
    monkeypatch, ensemble, call_soon, connect, security=None
) -> tuple[ZookeeperStore, FakeKazoo]:
    """A store whose client is played, and that client; not started."""
    client = FakeKazoo(ensemble)
    with monkeypatch.context() as patch:
        patch.setattr(zookeeper, "make_client", lambda *_: client)
        return ZookeeperStore(connect, call_soon, security=security), client
