"""The thread of a `barnabas.cluster.store.sqlite.SqliteStore`; its theory of operation is there."""

import os
import select
import sqlite3
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from barnabas.cluster.store import tree
from barnabas.cluster.store.contract import (
    SessionExpiredError,
    StoreError,
    StoreUnavailableError,
    WatchEvent,
)
from barnabas.cluster.store.sqlite_failures import is_locked, unusable
from barnabas.cluster.store.sqlite_sessions import Claim, SessionFiles, SessionTransaction, shared_clock_ms
from barnabas.cluster.store.sqlite_table import Database, SessionRow
from barnabas.cluster.store.tree import Transaction
from barnabas.cluster.store.watches import WatchTable
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending

_events: Final = EventLog("cluster.sqlite")

BATCH_MAX: Final = 512
"""Calls in one transaction."""
LOCK_WAIT_MS_MAX: Final = 10_000
"""How long to wait for other processes' transactions."""
LOCK_PAUSE_S: Final = 0.002
"""Between two tries. A commit takes as long or longer, and each try costs 30 us of a processor: sixteen
sessions that write at once took 3 ms a write with a pause of 0.5 ms, and 1.8 with this.
"""
BEGIN_PAUSE_MS: Final = 50
"""The pause after a session could not be begun again; it doubles up to `BEGIN_PAUSE_MS_MAX`."""
BEGIN_PAUSE_MS_MAX: Final = 5_000
BEGIN_DOUBLINGS_MAX: Final = 7
_RING: Final = (1).to_bytes(8, sys.byteorder)


@dataclass(slots=True)
class Call:
    """One call of the store: what it does inside a transaction, and who waits for it."""

    path: str
    pending: Pending[Any]
    work: Callable[["SessionTransaction"], Any]
    writes: bool


class Worker:
    """The thread. Everything but `submit`, `start`, `stop` and `begin_session` runs on it."""

    def __init__(
        self,
        path: Path,
        timeout_ms: int,
        synchronous: str,
        deliver: Callable[[list[Callable[[], object]]], None],
        on_expired: Callable[[], object],
    ) -> None:
        self._path = path
        self._timeout_ms = timeout_ms
        self._synchronous = synchronous
        self._deliver = deliver
        self._on_expired = on_expired
        self._calls: deque[Call] = deque()
        self._commands: deque[Callable[[], object]] = deque()
        self._alarm = self._ringer = -1
        """What wakes the thread, and where to write for it."""
        self._alarm_guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running = False
        self._closed: Pending[None] | None = None
        """Completes when all is closed, once the end was asked for."""
        self._session_id = 0
        self._claim: Claim | None = None
        self._begin_again: tuple[int, Callable[[], object]] | None = None
        """When to try again to begin a session, and how."""
        self._watches = WatchTable()
        self._seen = 0
        self._peers: dict[int, int] = {}
        """Other sessions, with the pidfd of each; -1 where there is none."""
        self._ended: list[int] = []
        """Sessions that the open transaction ends."""
        self._next_heartbeat_ms = 0

    # ------------------------------------------------------------------------------- from the loop

    def start(self, started: Pending[int]) -> None:
        """Starts the thread; `started` completes with the session's id."""
        assert self._thread is None, "a store is started once"
        self._alarm, self._ringer = _alarm()
        self._running = True
        self._thread = threading.Thread(target=self._run, args=(started,), name="metadata-store", daemon=True)
        self._thread.start()

    def submit(self, call: Call) -> None:
        """Queues a call."""
        self._calls.append(call)
        if not self._running:
            self._refuse_all()
        elif len(self._calls) == 1:  # else the thread has not taken what it was woken for
            self._ring()

    def begin_session(self, begun: Pending[int]) -> None:
        """Queues the beginning of the session after an expired one."""
        self._command(lambda: self._begin_and_tell(begun))

    def stop(self, closed: Pending[None]) -> None:
        """Queues the end."""
        if self._thread is None or not self._running:
            self._deliver([lambda: closed.complete(None)])
            return
        self._command(lambda: self._end(closed))

    def _command(self, command: Callable[[], object]) -> None:
        self._commands.append(command)
        self._ring()

    def _ring(self) -> None:
        with self._alarm_guard:
            if self._alarm >= 0:  # else it is not started yet, or over: no thread sleeps
                with suppress(BlockingIOError):  # a pipe that is full has rung
                    os.write(self._ringer, _RING)

    def _close_alarm(self) -> None:
        # The number of a closed descriptor is soon another file's: so nothing may write to it after the
        # close.
        with self._alarm_guard:
            for descriptor in {self._alarm, self._ringer}:
                os.close(descriptor)
            self._alarm = self._ringer = -1

    # ------------------------------------------------------------------------------- on the thread

    def _run(self, started: Pending[int]) -> None:
        failure = None
        with ExitStack() as resources:
            resources.callback(self._close_alarm)
            try:
                session_id = self._open(resources)
            except Exception as error:
                failure = unusable(self._path, error)
                self._running = False
            else:
                self._deliver([lambda: started.complete(session_id)])
            while self._running:
                self._turn()
            while self._commands:  # an end that was asked for while the start failed
                self._commands.popleft()()
            self._refuse_all()
        # Only now is the file closed, its write-ahead log in it: the process may end at once, or try again.
        # While a connection is open, the next one of this process shares its memory of the log, which may be
        # read-only.
        if failure is not None:
            self._deliver([lambda: started.fail(failure)])
        closed = self._closed
        if closed is not None:
            self._deliver([lambda: closed.complete(None)])

    def _open(self, resources: ExitStack) -> int:
        self._path.parent.mkdir(mode=0o770, parents=True, exist_ok=True)
        self._files = SessionFiles(self._path.with_name(f"{self._path.name}.sessions"))
        resources.callback(self._files.close)
        # Of brokers that start together on a new file one makes the tables. SQLite does not wait by itself
        # where it turns a file to WAL: it says at once that the others are in the way.
        self._patiently(self._open_database)
        resources.callback(self._database.close)
        self._poll = select.poll()
        self._poll.register(self._alarm, select.POLLIN)
        return self._begin_session()

    def _open_database(self) -> None:
        self._database = Database(self._path, self._synchronous)

    def _turn(self) -> None:
        """Sleeps until there is something to do, and does it."""
        ready = [descriptor for descriptor, _ in self._poll.poll(self._wait_ms())]
        with suppress(BlockingIOError):
            os.read(self._alarm, len(_RING) * 512)
        try:
            self._serve_all()
            if self._session_id:
                self._attend(ready)
        except (sqlite3.Error, OSError) as error:
            _events.error("store_failed", path=self._path, error=error)
            time.sleep(0.05)  # the next heartbeat tries again; calls were answered
        if self._begin_again is not None and shared_clock_ms() >= self._begin_again[0]:
            (_, begin), self._begin_again = self._begin_again, None
            begin()
        while self._commands:
            self._commands.popleft()()

    def _wait_ms(self) -> int | None:
        """How long the thread may sleep unless it is woken; None: until it is woken."""
        if self._calls:
            return 0
        if self._session_id:
            return max(0, self._next_heartbeat_ms - shared_clock_ms())
        return None if self._begin_again is None else max(0, self._begin_again[0] - shared_clock_ms())

    def _attend(self, ready: list[int]) -> None:
        """Looks after what is not a call: datagrams, deaths, the heartbeat."""
        if self._claim is not None and self._claim.receiver.fileno() in ready:
            with suppress(BlockingIOError):
                while True:
                    self._claim.receiver.recv(16)
            self._serve([])
        died = [peer for peer, pidfd in self._peers.items() if pidfd in ready]
        if died:
            self._bury(died)
        if self._session_id and shared_clock_ms() >= self._next_heartbeat_ms:
            self._heartbeat()

    def _serve_all(self) -> None:
        while self._calls:
            batch = [self._calls.popleft() for _ in range(min(BATCH_MAX, len(self._calls)))]
            if self._session_id:
                self._serve(batch)
            else:
                self._refuse(batch, SessionExpiredError)

    def _serve(self, batch: list[Call]) -> None:
        """Runs calls in one transaction. Without calls: fires watches for what others changed."""
        completions: list[Callable[[], object]] = []
        try:
            with self._transaction(write=any(call.writes for call in batch)) as session:
                if session is None:
                    self._refuse(batch, SessionExpiredError)
                    return
                completions += session.firing()
                for call in batch:
                    completions += self._run_call(session, call)
        except (sqlite3.Error, OSError) as error:
            _events.error("store_unavailable", path=self._path, error=error)
            reason = str(unusable(self._path, error))
            self._refuse(batch, lambda path: StoreUnavailableError(path, reason=reason))
            return
        if completions:
            self._deliver(completions)

    def _run_call(self, session: SessionTransaction, call: Call) -> list[Callable[[], object]]:
        """Runs one call; what it fires, and then its completion."""
        pending = call.pending
        try:
            value = call.work(session)
        except sqlite3.Error:
            raise
        except Exception as failure:
            error = failure
            return [lambda: pending.fail(error)]
        return [*session.firing(), lambda: pending.complete(value)]

    def _refuse(self, batch: list[Call], why: Callable[[str], StoreError]) -> None:
        failures = [(call.pending, why(call.path)) for call in batch]
        if failures:
            self._deliver([lambda: [pending.fail(error) for pending, error in failures]])

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[SessionTransaction | None]:
        """An open transaction that has seen all changes of others; None when this session was ended.

        An exception inside undoes all of it, and the watches that fired wait again.
        """
        self._patiently(lambda: self._database.begin(write=write))
        session = SessionTransaction(self._database, self._session_id, self._watches)
        seen = self._seen
        try:
            if not self._database.has_session(self._session_id):
                self._database.rollback()
                self._lose_session()
                yield None
                return
            events, sessions_changed, self._seen = self._database.changes_after(self._seen)
            session.fire(events)
            if sessions_changed:
                self._meet_peers()
            yield session
            if session.changed:
                self._seen = self._database.last_change()
            self._patiently(self._database.commit)
        except BaseException as error:
            self._seen = seen
            self._watches.restore(session.taken)
            self._ended.clear()
            self._database.rollback()
            if isinstance(error, sqlite3.Error) and not is_locked(error):
                with suppress(sqlite3.Error):  # else the next write takes its place
                    self._patiently(self._database.drop_refused)
            raise
        if session.changed:
            self._tell_peers()

    def _patiently(self, action: Callable[[], object]) -> None:
        """Tries until no other process is in the way; sqlite's own waiting sleeps up to 100 ms at a time."""
        deadline = shared_clock_ms() + LOCK_WAIT_MS_MAX
        while True:
            try:
                action()
            except sqlite3.OperationalError as error:
                if not is_locked(error) or shared_clock_ms() > deadline:
                    raise
                time.sleep(LOCK_PAUSE_S)
            else:
                return

    # ------------------------------------------------------------------------------------ sessions

    def _begin_session(self) -> int:
        """Begins a session, after ending those of dead processes.

        The process may be killed, or the disk be full, between any two steps. So the commit is the last of
        them: files without a row belong to no session, and the next session sweeps or reuses them; a row
        whose lock no process holds is a dead session, which the next one ends.
        """
        database = self._database
        self._patiently(lambda: database.begin(write=True))
        try:
            others = database.sessions()
            self._files.sweep({other.id for other in others})
            for other in others:
                if self._files.is_dead(other.id):
                    self._end_session(other.id)
            claim = None
            while claim is None:
                session_id = database.next_number("session")
                claim = self._files.claim(session_id)
            self._claim, self._session_id = claim, session_id
            self._poll.register(claim.receiver, select.POLLIN)
            now_ms = shared_clock_ms()
            database.put_session(SessionRow(session_id, os.getpid(), now_ms, self._timeout_ms))
            database.add_session_change(now_ms)
            self._seen = database.last_change()
            self._meet_peers()
            self._patiently(database.commit)
        except BaseException:
            self._release()
            self._ended.clear()
            database.rollback()
            raise
        self._next_heartbeat_ms = now_ms + self._timeout_ms // 3
        self._tell_peers()
        return session_id

    def _begin_and_tell(self, begun: Pending[int], attempt: int = 0) -> None:
        try:
            session_id = self._begin_session()
        except (sqlite3.Error, OSError) as error:
            pause_ms = min(BEGIN_PAUSE_MS_MAX, BEGIN_PAUSE_MS << attempt)
            _events.error("session_not_begun", path=self._path, error=error, again_in_ms=pause_ms)
            again = partial(self._begin_and_tell, begun, min(attempt + 1, BEGIN_DOUBLINGS_MAX))
            self._begin_again = (shared_clock_ms() + pause_ms, again)
            return
        self._deliver([lambda: begun.complete(session_id)])

    def _meet_peers(self) -> None:
        """Looks who else has a session, and watches over new ones' processes."""
        present = {row.id: row.pid for row in self._database.sessions() if row.id != self._session_id}
        for gone in self._peers.keys() - present.keys():
            self._leave_peer(gone)
        for session_id in present.keys() - self._peers.keys():
            pidfd = -1
            if present[session_id] != os.getpid():
                # Another pid namespace, or no such call on macOS: the heartbeat looks at its lock.
                with suppress(OSError, AttributeError):
                    pidfd = os.pidfd_open(present[session_id])
                    self._poll.register(pidfd, select.POLLIN)
            self._peers[session_id] = pidfd

    def _leave_peer(self, session_id: int) -> None:
        pidfd = self._peers.pop(session_id)
        if pidfd >= 0:
            self._poll.unregister(pidfd)
            os.close(pidfd)

    def _bury(self, sessions: list[int]) -> None:
        """Ends sessions whose process died, unless another session was faster."""
        for session_id in sessions:
            # What cannot be done now (a full disk, a lock that a child inherited) is the heartbeat's: a dead
            # process would wake this thread again at once, and again.
            self._leave_peer(session_id)
            self._peers[session_id] = -1
        with self._transaction(write=True) as own:
            if own is None:
                return
            for session_id in sessions:
                if self._files.is_dead(session_id) and self._database.has_session(session_id):
                    own.record(self._end_session(session_id))
            completions = own.firing()
        self._deliver(completions)

    def _end_session(self, session_id: int) -> list[WatchEvent]:
        """Removes a session and its ephemeral znodes; what that changes. Inside a transaction."""
        wall_ms = int(time.time() * 1000)
        transaction = Transaction(self._database.next_number("zxid"), session_id, wall_ms)
        changes = tree.end_session(self._database, transaction)
        self._database.remove_session(session_id)
        self._database.add_session_change(shared_clock_ms())
        self._ended.append(session_id)
        return changes

    def _tell_peers(self) -> None:
        """After a commit: wakes all others, those too whose session it ended (they may only have hung)."""
        for peer in {*self._peers, *self._ended}:
            self._files.wake(peer)
        while self._ended:
            ended = self._ended.pop()
            if ended in self._peers:
                self._leave_peer(ended)
            self._files.remove(ended)

    def _heartbeat(self) -> None:
        """Says that this session lives, and ends those that do not."""
        interval_ms = self._timeout_ms // 3
        self._next_heartbeat_ms = shared_clock_ms() + interval_ms
        with self._transaction(write=True) as own:
            if own is None:
                return
            # The transaction may have waited for others: times are counted from the write. So after a stall
            # the others have as long as that to write theirs.
            now_ms = shared_clock_ms()
            self._next_heartbeat_ms = now_ms + interval_ms
            rows = {row.id: row for row in self._database.sessions()}
            mine = rows[own.id]
            # Where this session is late itself, nobody could write: the others live, and are as late.
            stalled = now_ms - mine.heartbeat_ms > 2 * interval_ms
            rows[own.id] = mine._replace(heartbeat_ms=now_ms)
            self._database.put_session(rows[own.id])
            for row in list(rows.values()):
                hangs = not stalled and now_ms - row.heartbeat_ms > row.timeout_ms
                if row.id != own.id and (hangs or self._files.is_dead(row.id)):
                    own.record(self._end_session(row.id))
                    del rows[row.id]
            # A session sees all changes before it writes its heartbeat.
            self._database.forget_changes(min(row.heartbeat_ms for row in rows.values()))
            completions = own.firing()
        if completions:
            self._deliver(completions)

    def _lose_session(self) -> None:
        """Others ended this session."""
        self._release()
        self._watches.clear()
        self._deliver([self._on_expired])

    def _release(self) -> None:
        """Lets go of what marks this session as alive."""
        self._session_id = 0
        claim, self._claim = self._claim, None
        if claim is not None:
            with suppress(KeyError):  # the start failed before it was registered
                self._poll.unregister(claim.receiver)
            self._files.release(claim)
        for peer in list(self._peers):
            self._leave_peer(peer)

    def _end(self, closed: Pending[None]) -> None:
        """Ends the own session, and the thread."""
        self._serve_all()
        try:
            if self._session_id:
                with self._transaction(write=True) as own:
                    if own is not None:
                        own.record(self._end_session(own.id))
        except (sqlite3.Error, OSError) as error:
            _events.warning("session_not_ended", error=error)  # the lock says that it is over
        if self._session_id:
            self._release()
        self._closed = closed
        self._running = False

    def _refuse_all(self) -> None:
        with suppress(IndexError):
            while True:
                self._refuse([self._calls.popleft()], SessionExpiredError)

    def __repr__(self) -> str:
        return f"<metadata-store thread of {self._path.name} {len(self._calls)} waiting>"


def _alarm() -> tuple[int, int]:
    """What is readable once the other was written to: an eventfd, or on macOS a pipe."""
    if hasattr(os, "eventfd"):
        return (alarm := os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)), alarm
    alarm, ringer = os.pipe()
    os.set_blocking(alarm, False)
    os.set_blocking(ringer, False)
    return alarm, ringer
