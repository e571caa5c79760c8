"""`SqliteStore`: the embedded metadata store. Durable, one machine, shared by the broker processes on it.

Theory of operation
-------------------
One thread does all of it: SQLite waits for other processes' locks and for the disk, which the event loop
must not. Calls are queued to the thread; it takes what waits, runs it in one transaction (a write that is
refused is undone alone), commits once, and hands all completions to the loop in one piece, in order.

*Watches across processes.* A commit writes what it changed into the table ``change`` and sends one datagram
to the unix socket of every other session. Each session looks up the changes after the last one it saw, at
the start of every transaction: so no result ever shows a change whose watch has not fired, and a datagram
that is lost delays a watch to the next heartbeat, and no longer.

*The end of a session.* A session holds a lock (``flock``) on a file of its own; the kernel lets go of it
when the process dies, however it dies. The others are woken by a pidfd, try the lock, and the first of them
removes the dead session's ephemeral znodes. A process that hangs keeps its lock but misses its heartbeats;
after the session timeout the others end its session all the same, and when it wakes it finds its row deleted:
its calls fail with SessionExpiredError and it begins a new session when its listeners are ready.
While one process stands still in the middle of a write, nobody can write a heartbeat. That ends no session:
a session whose own last heartbeat is late does not judge the others.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from barnabas.cluster.store import tree
from barnabas.cluster.store.contract import (
    Operation,
    SessionListener,
    SingleWrites,
    Stat,
    Watch,
)
from barnabas.cluster.store.sqlite_worker import Call, Worker
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, gather

if TYPE_CHECKING:
    from barnabas.cluster.store.sqlite_sessions import SessionTransaction

_events: Final = EventLog("cluster.sqlite")

T = TypeVar("T")
CallSoon: TypeAlias = Callable[[Callable[[], object]], object]

SESSION_TIMEOUT_MS: Final = 18_000


class SqliteStore(SingleWrites):
    """One session on the file; a `barnabas.cluster.store.contract.MetadataStore`.

    `call_soon` must be thread-safe (``loop.call_soon_threadsafe``): completions and watches arrive by it.
    """

    def __init__(
        self,
        path: Path,
        call_soon: CallSoon,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        synchronous: str = "FULL",
    ) -> None:
        self._call_soon = call_soon
        self._session_id = 0
        self._listeners: list[SessionListener] = []
        self._worker = Worker(path, session_timeout_ms, synchronous, self._deliver, self._expired)

    @property
    def session_id(self) -> int:
        return self._session_id

    def start(self) -> Pending[None]:
        started: Pending[int] = Pending()
        self._worker.start(started)
        return started.then(self._began)

    def close(self) -> Pending[None]:
        closed: Pending[None] = Pending()
        self._worker.stop(closed)
        return closed

    def listen(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def multi(self, operations: Sequence[Operation]) -> Pending[list[Any]]:
        path = operations[0].path if operations else tree.ROOT
        return self._call(path, lambda session: session.write(operations), writes=True)

    def get(self, path: str, watch: Watch | None = None) -> Pending[tuple[bytes | None, Stat]]:
        return self._call(path, lambda session: session.get(path, watch))

    def exists(self, path: str, watch: Watch | None = None) -> Pending[Stat | None]:
        return self._call(path, lambda session: session.exists(path, watch))

    def children(self, path: str, watch: Watch | None = None) -> Pending[list[str]]:
        return self._call(path, lambda session: session.children(path, watch))

    def _call(
        self, path: str, work: Callable[["SessionTransaction"], T], *, writes: bool = False
    ) -> Pending[T]:
        tree.check_path(path)
        pending: Pending[T] = Pending()
        self._worker.submit(Call(path, pending, work, writes))
        return pending

    def _deliver(self, completions: list[Callable[[], object]]) -> None:
        """Runs on the worker's thread: passes completions to the loop."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits for the answer
            self._call_soon(lambda: _run_all(completions))

    def _began(self, session_id: int) -> None:
        self._session_id = session_id

    def _expired(self) -> None:
        """Runs on the loop: the session was ended by others."""
        _events.warning("session_expired", session=self._session_id)
        ready = gather([listener.session_expired() for listener in self._listeners])
        ready.when_done(lambda _: self._renew())

    def _renew(self) -> None:
        begun: Pending[int] = Pending()
        self._worker.begin_session(begun)
        begun.then(self._renewed)

    def _renewed(self, session_id: int) -> None:
        self._began(session_id)
        for listener in self._listeners:
            listener.session_renewed()

    def __repr__(self) -> str:
        return f"<SqliteStore session={self._session_id} {self._worker!r}>"


def _run_all(completions: list[Callable[[], object]]) -> None:
    for completion in completions:
        try:
            completion()
        except Exception:
            _events.error("completion_failed", exc_info=True)
