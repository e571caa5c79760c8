"""What only the embedded store has: a file, several processes, sudden deaths."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from barnabas.cluster.store.contract import Change, NodeExistsError, StoreUnavailableError
from barnabas.cluster.store.sqlite import SqliteStore
from barnabas.cluster.store.sqlite_table import UnknownSchemaError

CHILD = """
import sys, queue
from pathlib import Path
from barnabas.cluster.store.sqlite import SqliteStore

calls = queue.SimpleQueue()
def wait(pending):
    while not pending.done:
        calls.get()()
    return pending.result()

store = SqliteStore(Path(sys.argv[1]), calls.put, synchronous="OFF", session_timeout_ms=int(sys.argv[2]))
wait(store.start())
print("ready", store.session_id, flush=True)
for line in sys.stdin:
    exec(line)
"""


class Process:
    """A process with a session, which runs the lines it is given."""

    def __init__(self, path, timeout_ms=18_000):
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(timeout_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.session_id = int(self.read().split()[1])

    def run(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline().strip()
        assert line, "the process ended"
        return line

    def kill(self, how=signal.SIGKILL):
        os.kill(self.process.pid, how)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / ("a-long-name-" * 12) / "store.db"  # longer than a unix socket's address may be


@pytest.fixture
def spawn(path):
    processes = []

    def make(**options):
        processes.append(Process(path, **options))
        return processes[-1]

    yield make
    for process in processes:
        process.end()


@pytest.fixture
def store(loop, path):
    made = SqliteStore(path, loop.call_soon, synchronous="OFF")
    loop.wait(made.start())
    yield made
    loop.wait(made.close())


def test_the_tree_survives_the_last_session(loop, path, store):
    loop.wait(store.create("/kept", b"data"))
    loop.wait(store.create("/gone", ephemeral=True))
    before = loop.wait(store.exists("/kept"))
    loop.wait(store.close())
    again = SqliteStore(path, loop.call_soon)
    loop.wait(again.start())

    assert loop.wait(again.get("/kept")) == (b"data", before)
    assert loop.wait(again.children("/")) == ["kept"]
    loop.wait(again.create("/next"))
    assert loop.wait(again.exists("/next")).czxid > before.czxid
    loop.wait(again.close())
    assert list((path.parent / "store.db.sessions").iterdir()) == []


def test_a_watch_fires_in_another_process(loop, store, spawn):
    other = spawn()
    seen = []
    loop.wait(store.exists("/a", seen.append))
    other.run("wait(store.create('/a', b'x')); print('done', flush=True)")
    other.read()
    loop.until(lambda: bool(seen))

    assert seen[0].change is Change.CREATED


def test_a_killed_process_loses_its_ephemerals_at_once(loop, store, spawn):
    other = spawn()
    other.run("wait(store.create('/alive', ephemeral=True)); print('done', flush=True)")
    other.read()
    seen = []
    loop.wait(store.exists("/alive", seen.append))
    killed = time.monotonic()
    other.kill()
    loop.until(lambda: bool(seen))

    assert seen[0].change is Change.DELETED
    assert time.monotonic() - killed < 5, "far below the session timeout of 18 s"
    assert loop.wait(store.exists("/alive")) is None


def test_a_process_killed_while_alone_is_found_dead_by_the_next(loop, path, spawn):
    other = spawn()
    other.run("wait(store.create('/alive', ephemeral=True)); print('done', flush=True)")
    other.read()
    other.kill()
    other.process.wait()
    store = SqliteStore(path, loop.call_soon)
    loop.wait(store.start())

    assert loop.wait(store.exists("/alive")) is None
    loop.wait(store.close())


def test_a_process_that_hangs_loses_its_session_and_gets_another(loop, path, spawn):
    hung = spawn(timeout_ms=300)
    hung.run("wait(store.create('/alive', ephemeral=True)); print('done', flush=True)")
    hung.read()
    hung.kill(signal.SIGSTOP)
    store = SqliteStore(path, loop.call_soon, synchronous="OFF", session_timeout_ms=300)
    loop.wait(store.start())
    seen = []
    if loop.wait(store.exists("/alive", seen.append)) is not None:
        loop.until(lambda: bool(seen))
    hung.kill(signal.SIGCONT)
    hung.run("first = store.session_id")
    hung.run("import time")
    hung.run("exec('while store.session_id == first:\\n calls.get()()')")
    hung.run("print('renewed', store.session_id, flush=True)")

    assert int(hung.read().split()[1]) > hung.session_id
    assert loop.wait(store.exists("/alive")) is None
    loop.wait(store.close())


def test_processes_that_contend_lose_no_update(loop, store, spawn):
    loop.wait(store.create("/n", b"0"))
    others = [spawn() for _ in range(2)]
    program = (
        "import barnabas.cluster.store.contract as s\\n"
        "left = 40\\n"
        "while left:\\n"
        "    data, stat = wait(store.get('/n'))\\n"
        "    try:\\n"
        "        wait(store.set('/n', str(int(data) + 1).encode(), stat.version))\\n"
        "        left -= 1\\n"
        "    except s.BadVersionError:\\n"
        "        pass\\n"
    )
    for other in others:
        other.run(f'exec("{program}"); print("done", flush=True)')
    for other in others:
        other.read()

    assert loop.wait(store.get("/n"))[0] == b"80"


def test_one_of_several_processes_wins(loop, store, spawn):
    others = [spawn() for _ in range(2)]
    for number, other in enumerate(others):
        other.run(f"p = store.create('/controller', b'{number}', ephemeral=True)")
        other.run("exec('while not p.done:\\n calls.get()()'); print(p.error is None, flush=True)")

    assert sorted(other.read() for other in others) == ["False", "True"]
    with pytest.raises(NodeExistsError):
        loop.wait(store.create("/controller"))


def test_another_programs_file_is_refused_in_one_line(loop, path):
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    store = SqliteStore(path, loop.call_soon)

    with pytest.raises(UnknownSchemaError, match="has schema 99; this version reads 1"):
        loop.wait(store.start())
    loop.wait(store.close())


def test_brokers_that_start_together_wait_for_the_one_that_makes_the_file(loop, path):
    """Of four that started at once on a new file one in thirty ended: "locked by another program"."""
    path.parent.mkdir(parents=True)
    maker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    maker.execute("BEGIN IMMEDIATE")
    done = threading.Timer(0.3, maker.execute, ["COMMIT"])
    done.start()
    store = SqliteStore(path, loop.call_soon, synchronous="OFF")

    loop.wait(store.start())
    assert loop.wait(store.exists("/", None)) is not None
    done.join()
    maker.close()
    loop.wait(store.close())


@pytest.mark.parametrize("another_in_its_place", [False, True])
def test_a_store_whose_file_is_removed_acknowledges_nothing_more(loop, path, store, another_in_its_place):
    """Topics went on being created in the removed file; the next start knew nothing of any topic."""
    loop.wait(store.create("/a"))
    kept = path.read_bytes()
    path.unlink()
    if another_in_its_place:
        path.write_bytes(kept)

    with pytest.raises(StoreUnavailableError, match="removed or replaced while it was open"):
        loop.wait(store.create("/b"))
    assert loop.wait(store.exists("/a", None)) is not None


def test_a_store_that_cannot_be_written_says_so_and_recovers(loop, path, store):
    loop.wait(store.create("/a"))
    seen = []
    loop.wait(store.exists("/a", seen.append))
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TRIGGER full BEFORE UPDATE ON counter BEGIN SELECT RAISE(FAIL, 'disk full'); END"
    )
    connection.commit()
    with pytest.raises(StoreUnavailableError):
        loop.wait(store.set("/a", b"1"))
    assert seen == []
    connection.execute("DROP TRIGGER full")
    connection.commit()
    connection.close()
    loop.wait(store.set("/a", b"2"))

    assert loop.wait(store.get("/a"))[0] == b"2"
    assert [event.change for event in seen] == [Change.DATA]


def test_many_calls_at_once_complete_in_order(loop, store):
    loop.wait(store.create("/q"))
    made = [store.create("/q/n_", sequence=True) for _ in range(2000)]
    loop.until(lambda: made[-1].done)

    assert [each.result() for each in made] == [f"/q/n_{number:010d}" for number in range(2000)]


def test_the_thread_ends_with_the_store(loop, path):
    before = set(threading.enumerate())  # those of other tests may end meanwhile
    store = SqliteStore(path, loop.call_soon)
    loop.wait(store.start())
    started = set(threading.enumerate()) - before
    loop.wait(store.close())
    for thread in started:
        thread.join(10)

    assert started
    assert not any(thread.is_alive() for thread in started)
