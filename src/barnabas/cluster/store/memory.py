"""`MemoryStore`: the metadata store in this process, for tests, simulation and throw-away brokers.

Several sessions share one `MemoryEnsemble`. Calls take effect at once and complete in a later turn, through
the `call_soon` that the session was given, so callers cannot come to rely on answers without delay.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from barnabas.cluster.store import tree
from barnabas.cluster.store.contract import (
    NoNodeError,
    Operation,
    SessionExpiredError,
    SessionListener,
    SingleWrites,
    Stat,
    Watch,
    WatchEvent,
)
from barnabas.cluster.store.tree import Transaction, Znode
from barnabas.cluster.store.watches import WatchTable
from barnabas.core.pending import Pending, gather

T = TypeVar("T")
CallSoon: TypeAlias = Callable[[Callable[[], object]], object]


class MemoryTable:
    """Znodes in dictionaries, with a journal to undo a transaction that fails half-way."""

    def __init__(self) -> None:
        self._znodes: dict[str, Znode] = {tree.ROOT: tree.root()}
        self._children: dict[str, set[str]] = {}
        self._owned: dict[int, set[str]] = {}
        self._journal: list[tuple[str, Znode | None]] = []

    def find(self, path: str) -> Znode | None:
        """The znode of a path."""
        return self._znodes.get(path)

    def put(self, znode: Znode) -> None:
        """Adds or replaces a znode."""
        self._journal.append((znode.path, self._znodes.get(znode.path)))
        self._store(znode)

    def remove(self, path: str) -> None:
        """Takes a znode out."""
        self._journal.append((path, self._znodes[path]))
        self._drop(path)

    def children(self, path: str) -> list[str]:
        """The names below a path, sorted."""
        return sorted(self._children.get(path, ()))

    def owned_by(self, session_id: int) -> list[str]:
        """The paths of a session's ephemeral znodes."""
        return sorted(self._owned.get(session_id, ()))

    def commit(self) -> None:
        """Keeps what was written since the last commit or rollback."""
        self._journal.clear()

    def rollback(self) -> None:
        """Undoes what was written since the last commit or rollback."""
        while self._journal:
            path, before = self._journal.pop()
            if before is None:
                self._drop(path)
            else:
                self._store(before)

    def _store(self, znode: Znode) -> None:
        self._znodes[znode.path] = znode
        if znode.path != tree.ROOT:
            self._children.setdefault(tree.parent_of(znode.path), set()).add(tree.name_of(znode.path))
        if znode.stat.ephemeral_owner:
            self._owned.setdefault(znode.stat.ephemeral_owner, set()).add(znode.path)

    def _drop(self, path: str) -> None:
        znode = self._znodes.pop(path)
        self._children[tree.parent_of(path)].discard(tree.name_of(path))
        if znode.stat.ephemeral_owner:
            self._owned[znode.stat.ephemeral_owner].discard(path)


class MemoryEnsemble:
    """The tree that sessions share, and the sessions."""

    def __init__(self, time_ms: Callable[[], int] = lambda: 0) -> None:
        self.table = MemoryTable()
        self._time_ms = time_ms
        self._zxid = 0
        self._last_session = 0
        self._sessions: dict[int, MemoryStore] = {}

    def begin(self, store: "MemoryStore") -> int:
        """The id of a new session."""
        self._last_session += 1
        self._sessions[self._last_session] = store
        return self._last_session

    def alive(self, session_id: int) -> bool:
        """Whether the session has not ended."""
        return session_id in self._sessions

    def write(self, session_id: int, operations: Sequence[Operation]) -> list[Any]:
        """Carries out one transaction; all sessions hear of it. Raises StoreError and changes nothing."""
        try:
            results, changes = tree.apply(self.table, operations, self._transaction(session_id))
        except Exception:
            self.table.rollback()
            raise
        self._commit(changes)
        return results

    def end(self, session_id: int) -> None:
        """Ends a session: its ephemeral znodes go."""
        self._sessions.pop(session_id, None)
        self._commit(tree.end_session(self.table, self._transaction(session_id)))

    def expire(self, session_id: int) -> None:
        """Ends a session against its owner's will, who hears of it (a process that hung for too long)."""
        store = self._sessions[session_id]
        self.end(session_id)
        store.expired()

    def _transaction(self, session_id: int) -> Transaction:
        return Transaction(self._zxid + 1, session_id, self._time_ms())

    def _commit(self, changes: list[WatchEvent]) -> None:
        self._zxid += 1
        self.table.commit()
        for store in self._sessions.values():
            store.changed(changes)

    def __repr__(self) -> str:
        return f"<MemoryEnsemble zxid={self._zxid} sessions={sorted(self._sessions)}>"


class MemoryStore(SingleWrites):
    """One session on a `MemoryEnsemble`; a `barnabas.cluster.store.contract.MetadataStore`."""

    def __init__(self, ensemble: MemoryEnsemble, call_soon: CallSoon) -> None:
        self._ensemble = ensemble
        self._call_soon = call_soon
        self._session_id = 0
        self._watches = WatchTable()
        self._listeners: list[SessionListener] = []

    @property
    def session_id(self) -> int:
        return self._session_id

    def start(self) -> Pending[None]:
        self._session_id = self._ensemble.begin(self)
        return self._later(Pending(), lambda: None)

    def close(self) -> Pending[None]:
        if self._ensemble.alive(self._session_id):
            self._ensemble.end(self._session_id)
        return self._later(Pending(), lambda: None)

    def listen(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def multi(self, operations: Sequence[Operation]) -> Pending[list[Any]]:
        return self._call(
            operations[0].path if operations else tree.ROOT,
            lambda: self._ensemble.write(self._session_id, operations),
        )

    def get(self, path: str, watch: Watch | None = None) -> Pending[tuple[bytes | None, Stat]]:

        def read() -> tuple[bytes | None, Stat]:
            znode = self._find(path)
            if watch:
                self._watches.on_node(path, watch)
            return znode.data, znode.stat

        return self._call(path, read)

    def exists(self, path: str, watch: Watch | None = None) -> Pending[Stat | None]:

        def read() -> Stat | None:
            tree.check_path(path)
            znode = self._ensemble.table.find(path)
            if watch:
                self._watches.on_node(path, watch)
            return znode.stat if znode else None

        return self._call(path, read)

    def children(self, path: str, watch: Watch | None = None) -> Pending[list[str]]:

        def read() -> list[str]:
            self._find(path)
            if watch:
                self._watches.on_children(path, watch)
            return self._ensemble.table.children(path)

        return self._call(path, read)

    def changed(self, changes: Sequence[WatchEvent]) -> None:
        """Fires the watches that these changes are waited for with."""
        for fired in self._watches.take(changes):
            self._call_soon(partial(fired.watch, fired.event))

    def expired(self) -> None:
        """The session ended: the listeners hear of it, and the next one begins when they are ready."""
        self._watches.clear()
        self._call_soon(self._tell_and_renew)

    def _tell_and_renew(self) -> None:
        ready = gather([listener.session_expired() for listener in self._listeners])
        ready.when_done(lambda _: self._renew())

    def _renew(self) -> None:
        self._session_id = self._ensemble.begin(self)
        for listener in self._listeners:
            listener.session_renewed()

    def _find(self, path: str) -> Znode:
        tree.check_path(path)
        znode = self._ensemble.table.find(path)
        if znode is None:
            raise NoNodeError(path)
        return znode

    def _call(self, path: str, function: Callable[[], T]) -> Pending[T]:
        pending: Pending[T] = Pending()
        if not self._ensemble.alive(self._session_id):
            self._call_soon(lambda: pending.fail(SessionExpiredError(path)))
            return pending
        return self._later(pending, function)

    def _later(self, pending: Pending[T], function: Callable[[], T]) -> Pending[T]:
        try:
            value = function()
        except Exception as failure:
            error = failure
            self._call_soon(lambda: pending.fail(error))
        else:
            self._call_soon(lambda: pending.complete(value))
        return pending

    def __repr__(self) -> str:
        return f"<MemoryStore session={self._session_id} watches={len(self._watches)}>"
