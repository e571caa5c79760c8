"""Sessions of the embedded store in processes whose disk may refuse a call; see store_refusals.py.

Reads lines of JSON from its input. For each one it forks a process that opens the store, makes the
transactions of `steps`, and says in a line what it saw, what was refused and what was logged. A call that was
refused is made once more.
"""

import json
import logging
import os
import queue
import signal
import sqlite3
import sys
import threading
from pathlib import Path

from barnabas.cluster.store.contract import Create, Delete, SetData, StoreUnavailableError, StoreUnusableError
from barnabas.cluster.store.sqlite import SqliteStore

SECONDS = 20
TRIES = 3
PAGES = 12
"""The write-ahead log is put into the file after so many pages, not after 1,000: a short life does it too."""
SOME, MORE, MUCH = "some " * 300, "more " * 500, "much " * 9000
MINE = "mine"
"""The name of the ephemeral znode."""


def steps(base):
    """Transactions below a path, and what they change."""
    return [
        ([Create(base, b""), Create(f"{base}/a", SOME.encode())], {base: "", f"{base}/a": SOME}),
        (
            [Create(f"{base}/m", b""), Create(f"{base}/m/x", b"x"), SetData(f"{base}/a", MORE.encode())],
            {f"{base}/m": "", f"{base}/m/x": "x", f"{base}/a": MORE},
        ),
        ([Create(f"{base}/{MINE}", b"", ephemeral=True)], {f"{base}/{MINE}": ""}),
        ([Create(f"{base}/m/s_", b"s", sequence=True)], {f"{base}/m/s_0000000001": "s"}),
        ([Create(f"{base}/large", MUCH.encode())], {f"{base}/large": MUCH}),
        (
            [Delete(f"{base}/m/x"), SetData(f"{base}/m", SOME.encode()), Create(f"{base}/b", b"b")],
            {f"{base}/m/x": None, f"{base}/m": SOME, f"{base}/b": "b"},
        ),
        ([Delete(f"{base}/large")], {f"{base}/large": None}),
        ([SetData(f"{base}/a", b"last")], {f"{base}/a": "last"}),
    ]


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage() + (" Traceback" if record.exc_info else ""))


class Life:
    """One session, or two where the beginning of the first is refused."""

    def __init__(self, order):
        self._path = Path(order["path"])
        self._base = order["base"]
        self._end = order["end"]
        self._ends_at_once = self._end == "at once"
        """The process is killed as soon as it has seen what came of a refusal."""
        self._dead = order["dead"]
        """Ephemeral znodes of a session whose process was killed."""
        self._calls = queue.SimpleQueue()
        self.state = order["known"]
        """What was acknowledged, or seen after a call that was refused."""
        self.errors, self.problems = [], []
        self.refused = False

    def live(self):
        """All of it."""
        for _ in range(TRIES):
            self._store = SqliteStore(self._path, self._calls.put)
            try:
                self._wait(self._store.start())
            except StoreUnusableError as error:
                self._meets(error)
                if self._ends_at_once:
                    return
            else:
                break
        else:
            self.problems.append("the store cannot be opened any more")
            return
        # Where the lock of a dead session cannot be opened, only the next heartbeat ends that session.
        self._look(self.state, self.state | self._dead)
        for operations, changes in steps(self._base):
            self._make(operations, changes)
            if self.refused and self._ends_at_once:
                return
        if self._end == "closed":
            self._wait(self._store.close())

    def _make(self, operations, changes):
        """One transaction, again where it was refused and is not there."""
        after = {path: data for path, data in (self.state | changes).items() if data is not None}
        for _ in range(TRIES):
            try:
                self._wait(self._store.multi(operations))
            except StoreUnavailableError as error:
                self._meets(error)
                if self._look(self.state, after) == after or self._ends_at_once:
                    return
            else:
                self._look(after)
                return
        self.problems.append(f"{operations[0]!r:.60} is refused again and again")

    def _look(self, *allowed):
        """What is there now; it stays so, whatever comes."""
        for _ in range(TRIES):
            try:
                seen = self._tree("/")
            except StoreUnavailableError as error:
                self._meets(error)
            else:
                if seen not in allowed:
                    self.problems.append(f"saw {brief(seen)}, not one of {[brief(each) for each in allowed]}")
                self.state = seen
                return seen
        self.problems.append("reads are refused again and again")
        return None

    def _tree(self, path):
        found = {}
        for name in self._wait(self._store.children(path)):
            each = f"{path.rstrip('/')}/{name}"
            found[each] = (self._wait(self._store.get(each))[0] or b"").decode()
            found |= self._tree(each)
        return found

    def _meets(self, error):
        self.refused = True
        self.errors.append(str(error))

    def _wait(self, pending):
        while not pending.done:
            self._calls.get(timeout=SECONDS)()
        return pending.result()


def brief(state):
    """The state with the beginnings of its data."""
    return {path: data[:6] for path, data in state.items()}


def checkpoint_often():
    connect = sqlite3.connect

    def connect_and_say(*args, **kwargs):
        connection = connect(*args, **kwargs)
        connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES}")
        return connection

    sqlite3.connect = connect_and_say


def live(order):
    """What came of one life."""
    lines, died = Lines(), []
    logging.getLogger().addHandler(lines)
    threading.excepthook = lambda thrown: died.append(f"the store's thread died of {thrown.exc_value!r}")
    life = Life(order)
    try:
        life.live()
    except Exception as error:
        life.problems.append(f"{error!r}")
    return {
        "state": life.state,
        "errors": life.errors,
        "problems": life.problems + died,
        "lines": lines.lines,
    }


def main():
    checkpoint_often()
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            order = json.loads(line)
            os.write(1, json.dumps(live(order)).encode() + b"\n")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        os.write(1, b"over\n")


if __name__ == "__main__":
    main()
