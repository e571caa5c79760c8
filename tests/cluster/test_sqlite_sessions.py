"""The beginning and the end of a session of the embedded store, with a kill or a full disk at each of its
steps.
"""

import contextlib
import errno
import fcntl
import logging
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from barnabas.cluster.store import sqlite_worker
from barnabas.cluster.store.contract import StoreUnusableError
from barnabas.cluster.store.sqlite import SqliteStore
from barnabas.cluster.store.sqlite_sessions import shared_clock_ms
from barnabas.cluster.store.sqlite_table import Database
from barnabas.core.pending import Pending

# Forks a process for each line that it reads. The process begins a session, makes an ephemeral znode and ends
# the session; it kills itself before the line of the store's thread that has the number, in the order in
# which lines are first run.
KILLED = """
import os, queue, signal, sys, threading
from pathlib import Path
from barnabas.cluster.store import sqlite_sessions, sqlite_table, sqlite_worker
from barnabas.cluster.store.sqlite import SqliteStore

FILES = {module.__file__ for module in (sqlite_sessions, sqlite_table, sqlite_worker)}

def live(path, step):
    calls, seen = queue.SimpleQueue(), set()

    def trace(frame, event, argument):
        if frame.f_code.co_filename not in FILES:
            return None
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and line not in seen:
            if len(seen) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            seen.add(line)
        return trace

    def wait(pending):
        while not pending.done:
            calls.get()()
        return pending.result()

    threading.settrace(trace)
    store = SqliteStore(path, calls.put, synchronous="OFF")
    wait(store.start())
    wait(store.create("/mine", ephemeral=True))
    if step < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    wait(store.close())
    os._exit(0)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        live(Path(sys.argv[1]), int(line))
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Killed:
    """Processes that are killed in the middle of their session's life."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, step: int) -> bool:
        """Whether the process was killed before its line `step`; one below zero is killed in mid-session."""
        self.process.stdin.write(f"{step}\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        assert status in (0, signal.SIGKILL)
        return status != 0

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def killed(path):
    made = Killed(path)
    yield made
    made.close()


def session_files(path):
    return sorted(each.name for each in path.with_name("store.db.sessions").iterdir())


def files_of(*stores):
    return sorted(f"{store.session_id}.{kind}" for store in stores for kind in ("lock", "sock"))


LONG_AGO_MS = -100_000_000

_others = set()
"""Threads of stores that were there before the test: a broker that the whole session shares has one."""


@pytest.fixture(autouse=True)
def without_others():
    _others.update(store_threads())
    yield
    _others.clear()


def store_threads():
    stores = (each for each in threading.enumerate() if each.name == "metadata-store")
    return [each for each in stores if each not in _others]


def open_descriptors(threads=0):
    """What is open, once no more threads of stores are left than so many.

    Without the store's own file: SQLite closes it later while another connection of the process has locks on
    it.
    """
    deadline = time.monotonic() + 10
    while len(store_threads()) > threads and time.monotonic() < deadline:
        time.sleep(0.001)
    links = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            links.append(str(each.readlink()))
    return sorted(re.sub(r"\[\d+\]", "", link) for link in links if not link.endswith("/store.db"))


@pytest.fixture
def begin(loop, path):
    """Begins sessions, and ends them with the test."""
    stores = []

    def begin(**options):
        stores.append(SqliteStore(path, loop.call_soon, synchronous="OFF", **options))
        loop.wait(stores[-1].start())
        return stores[-1]

    yield begin
    for store in stores:
        loop.wait(store.close())


def shorten_log(path):
    connection = sqlite3.connect(path, timeout=5)
    connection.execute("PRAGMA synchronous = OFF")  # as the stores: a busy disk would be all that is tested
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


@pytest.mark.parametrize("company", [False, True], ids=["alone", "beside another"])
def test_a_kill_at_any_line_of_a_session_keeps_nobody_out(loop, path, killed, begin, company):
    beside = begin() if company else None
    step = 0
    while killed.run(step):
        if step % 8 == 0:
            killed.run(-1)  # with a row and a lock that nobody holds
        if step % 4 == 0:
            shorten_log(path)
        store = begin()
        assert loop.wait(store.children("/")) == [], f"killed at line {step}"
        expected = files_of(beside, store) if beside else files_of(store)
        assert session_files(path) == expected, f"killed at line {step}"
        loop.wait(store.close())
        step += 1
    assert step > 100, "the walk went through the whole life of a session"
    if beside:
        assert loop.wait(beside.create("/still", ephemeral=True)) == "/still"


def test_a_socket_that_a_kill_left_keeps_nobody_out(loop, path, begin):
    first = begin()
    number = first.session_id
    loop.wait(first.close())
    folder = path.with_name("store.db.sessions")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(folder / f"{number + 1}.sock"))
    (folder / f"{number + 1}.lock").touch()
    (folder / f"{number + 90}.lock").touch()

    store = begin()
    assert store.session_id == number + 1
    assert session_files(path) == files_of(store)


def test_a_lock_that_somebody_holds_costs_a_number_and_no_more(loop, path, begin):
    first = begin()
    with (path.with_name("store.db.sessions") / f"{first.session_id + 1}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        # The sweep takes its name away; a process that opened it before that holds on to it.
        second = begin()

    assert second.session_id > first.session_id


def test_changes_that_everybody_has_heard_of_are_forgotten(loop, begin, path):
    store = begin(session_timeout_ms=30)
    for number in range(20):
        loop.wait(store.create(f"/{number}"))
    connection = sqlite3.connect(path, timeout=5)
    deadline = time.monotonic() + 20
    while connection.execute("SELECT count(*) FROM change").fetchone() != (1,):  # the last has the number
        loop.wait(store.exists("/"))
        assert time.monotonic() < deadline
    connection.close()


def test_a_session_whose_lock_cannot_be_looked_at_counts_as_alive(loop, begin, path):
    """As where no descriptor is left, or no access: its heartbeats will settle it."""
    first = begin()
    loop.wait(first.create("/mine", ephemeral=True))
    lock = path.with_name("store.db.sessions") / f"{first.session_id}.lock"
    kept = lock.rename(lock.with_name("kept"))
    lock.symlink_to(lock)

    second = begin()

    assert loop.wait(second.children("/")) == ["mine"]
    kept.rename(lock)


class Full:
    """A call that fails as on a full disk, so many times on a store's thread, before or after it did its
    work.
    """

    def __init__(self, function, times, *, after=False):
        self.function, self.left, self.after = function, times, after
        self.thread = None
        self.calls = 0

    def __call__(self, *args, **kwargs):
        thread = threading.current_thread()
        if not self.left or thread.name != "metadata-store" or self.thread not in (None, thread):
            return self.function(*args, **kwargs)
        self.calls += 1
        self.left -= 1
        if self.after:
            self.function(*args, **kwargs)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __get__(self, instance, owner=None):
        return lambda *args, **kwargs: self(instance, *args, **kwargs)


class SocketFails(socket.socket):
    """A socket that cannot be bound."""

    def bind(self, _address):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


STEPS = [
    (fcntl, "flock"),
    (Path, "unlink"),
    (socket, "socket"),
    (os.path, "samestat"),
    (Database, "next_number"),
    (Database, "put_session"),
    (Database, "add_session_change"),
    (Database, "last_change"),
    (Database, "sessions"),
    (Database, "commit"),
]
STEP_IDS = [step for _, step in STEPS]


def expire(path, store, begin):
    """Ends a session as another process does that finds its heartbeat too old; the other's session."""
    connection = sqlite3.connect(path, timeout=5)
    with connection:
        connection.execute("UPDATE session SET heartbeat_ms = -100000000 WHERE id = ?", (store.session_id,))
    connection.close()
    return begin(session_timeout_ms=30)


class Listener:
    """Counts renewals; the store waits for `ready` before it begins a new session."""

    def __init__(self, on_expired=lambda: None):
        self.on_expired = on_expired
        self.ready = Pending.of(None)
        self.renewals = 0

    def session_expired(self):
        self.on_expired()
        return self.ready

    def session_renewed(self):
        self.renewals += 1


@pytest.mark.parametrize(
    ("owner", "step", "after"),
    [
        *((owner, step, False) for owner, step in STEPS),
        *((Database, step, True) for owner, step in STEPS if owner is Database),
    ],
)
def test_a_start_that_fails_at_a_step_leaves_nothing(loop, path, begin, monkeypatch, owner, step, after):
    loop.wait(begin().close())
    before = open_descriptors()
    failing = Full(getattr(owner, step), 1, after=after)
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, failing)
        store = SqliteStore(path, loop.call_soon, synchronous="OFF")
        started = store.start()
        loop.until(lambda: started.done)
    assert failing.calls
    if started.error is None:  # what only removes leftovers may fail
        loop.wait(store.close())
    else:
        assert isinstance(started.error, StoreUnusableError)
        assert "full" in str(started.error)

    assert open_descriptors() == before
    # A lock file that could not be locked stays, empty, until the next sweep.
    assert len(session_files(path)) == (step in ("flock", "samestat"))
    assert files_of(begin()) == session_files(path)


def test_a_start_that_failed_says_so_when_its_file_is_closed(loop, path, begin, monkeypatch):
    """Before that, the next start in this process found SQLite's shared memory of the first, which was
    read-only.
    """
    loop.wait(begin().close())
    order, close = [], Database.close
    monkeypatch.setattr(Database, "next_number", Full(Database.next_number, 1))
    monkeypatch.setattr(Database, "close", lambda database: (close(database), order.append("closed")))
    store = SqliteStore(path, lambda told: (order.append("told"), loop.call_soon(told)))
    started = store.start()
    loop.until(lambda: started.done)

    assert isinstance(started.error, StoreUnusableError)
    assert order == ["closed", "told"]


@pytest.mark.parametrize(("owner", "step"), STEPS, ids=STEP_IDS)
def test_a_session_that_cannot_begin_again_tries_with_longer_pauses(
    loop, path, begin, monkeypatch, caplog, owner, step
):
    store, failing = begin(), Full(getattr(owner, step), 5)
    failing.thread = store_threads()[0]
    listener = Listener(on_expired=lambda: monkeypatch.setattr(owner, step, failing))
    store.listen(listener)
    first, before = store.session_id, open_descriptors(1)
    monkeypatch.setattr(sqlite_worker, "BEGIN_PAUSE_MS", 1)
    with caplog.at_level(logging.ERROR):
        other = expire(path, store, begin)
        loop.until(lambda: listener.renewals == 1)
    loop.wait(other.close())
    pauses = [line.rpartition("=")[2] for line in caplog.messages if "session_not_begun" in line]

    assert store.session_id > first
    assert pauses == ["1", "2", "4", "8", "16"][: len(pauses)]
    assert pauses or step == "unlink", "only a leftover that cannot be removed is no reason to wait"
    assert len(open_descriptors(1)) == len(before)
    assert session_files(path) == files_of(store)


def test_a_socket_that_cannot_be_bound_leaves_nothing(loop, path, begin, monkeypatch):
    loop.wait(begin().close())
    before = open_descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", SocketFails)
        with pytest.raises(StoreUnusableError, match="the disk of the metadata store"):
            begin()
    assert (open_descriptors(), session_files(path)) == (before, [])
    begin()


def test_a_store_that_waits_for_its_listeners_sleeps(loop, path, begin, monkeypatch):
    listener = Listener()
    listener.ready = Pending()
    store = begin(session_timeout_ms=30)
    store.listen(listener)
    connection = sqlite3.connect(path, timeout=5)
    with connection:
        connection.execute("DELETE FROM session")
    connection.close()
    lost = store.exists("/")
    loop.until(lambda: lost.done)
    thread = store_threads()[0]
    clock = time.pthread_getcpuclockid(thread.ident)
    before = time.clock_gettime(clock)
    threading.Event().wait(0.5)
    used_s = time.clock_gettime(clock) - before
    listener.ready.complete(None)
    loop.until(lambda: listener.renewals == 1)

    assert used_s < 0.1, "its next heartbeat is overdue all the time, but it has no session to keep"


def set_heartbeats(path, at_ms):
    """Of all sessions, as if the store had taken nothing since then."""
    connection = sqlite3.connect(path, timeout=5)
    with connection:
        connection.execute("UPDATE session SET heartbeat_ms = ?", (at_ms,))
    connection.close()


def heartbeats(path):
    connection = sqlite3.connect(path, timeout=5)
    found = dict(connection.execute("SELECT id, heartbeat_ms FROM session"))
    connection.close()
    return found


def test_a_store_that_stalled_ends_no_session(loop, path, begin):
    """All heartbeats are as late as the first that finds those of the others too old."""
    stores = [begin(session_timeout_ms=3000) for _ in range(4)]
    before = [each.session_id for each in stores]
    listeners = [Listener() for _ in stores]
    for store, listener in zip(stores, listeners, strict=True):
        loop.wait(store.create(f"/{store.session_id}", ephemeral=True))
        store.listen(listener)
    set_heartbeats(path, LONG_AGO_MS)
    loop.until(lambda: min(heartbeats(path).values()) > LONG_AGO_MS)

    assert loop.wait(stores[0].children("/")) == sorted(map(str, before))
    assert [each.session_id for each in stores] == before
    assert [each.renewals for each in listeners] == [0] * 4


def test_a_lock_that_is_held_for_longer_than_a_session_ends_none(loop, path, begin):
    """Who was the first to write went on at once with its next heartbeat, which it had missed too."""
    timeout_ms = 1500
    stores = [begin(session_timeout_ms=timeout_ms) for _ in range(4)]
    before = [each.session_id for each in stores]
    lock = sqlite3.connect(path, timeout=5, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    began_ms = shared_clock_ms()
    # Nobody can write; each has begun a heartbeat, and missed the one behind it.
    loop.until(lambda: shared_clock_ms() > began_ms + 1.5 * timeout_ms)
    lock.execute("ROLLBACK")
    lock.close()
    loop.until(lambda: min(heartbeats(path).values()) > began_ms)

    assert [each.session_id for each in stores] == before
    assert sorted(heartbeats(path)) == before


def test_a_change_is_kept_for_a_session_that_was_held_up(loop, path, begin):
    """One that did not hear of it would not fire its watches."""
    store = begin(session_timeout_ms=30)
    held_up = store.session_id + 1000
    lock = path.with_name("store.db.sessions") / f"{held_up}.lock"
    connection = sqlite3.connect(path, timeout=5)
    with lock.open("w") as held, contextlib.closing(connection):
        fcntl.flock(held, fcntl.LOCK_EX)
        with connection:
            row = (held_up, os.getpid(), LONG_AGO_MS, 1 << 60)
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?)", row)
        loop.wait(store.create("/changed"))
        for _ in range(3):
            last = heartbeats(path)[store.session_id]
            loop.until(lambda last=last: heartbeats(path)[store.session_id] > last)

        changes = "SELECT count(*) FROM change WHERE path = '/changed'"
        assert connection.execute(changes).fetchone() == (1,)
        with connection:
            connection.execute("UPDATE session SET heartbeat_ms = ? WHERE id = ?", (1 << 60, held_up))
        loop.wait(store.create("/later"))
        loop.until(lambda: connection.execute(changes).fetchone() == (0,))
