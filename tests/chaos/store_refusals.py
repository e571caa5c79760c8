"""The embedded metadata store on a disk that refuses one call: every call, at each of its occurrences.

    python tests/chaos/store_refusals.py [--of 20 --part 3] [--kinds open,sync]

A life (`store_life.py`) opens a store, makes transactions, and closes it or is killed. Its calls are counted
first, in each of three places: where there is no file yet, where a process that was killed left a write-ahead
log, and beside another process with a session. Then it is lived again for each of these calls, which is
refused with each code that a disk has for it. It ends in three ways: the store is closed, the process goes on
and is killed later, or it is killed at once. There are about 6,000 lives; `--of 20 --part 3` takes one in
twenty.

What was acknowledged, or seen after a refusal, stays so; of a transaction all is seen, or nothing. A refused
call, or start, succeeds when it is made once more. The next process begins a session at once, on a file that
is whole. Each error is one line that names the store.
"""

import argparse
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))

import refusing
import rounds_report
from plain_loop import Loop
from store_life import MINE, brief

from barnabas.cluster.store.sqlite import SqliteStore

ENDS = ("closed", "killed", "at once")
CODES = {
    "open": (errno.ENOSPC, errno.EIO, errno.EMFILE),
    "folder": (errno.ENOSPC, errno.EIO),
    "write": (errno.ENOSPC, errno.EIO),
    "sync": (errno.ENOSPC, errno.EIO),
    "truncate": (errno.ENOSPC, errno.EIO),
    "map": (errno.ENOMEM, errno.EIO),
    "unlink": (errno.EIO,),
    "rename": (errno.EIO,),
    "read": (errno.EIO,),
    "look": (errno.EIO,),
}
LINE_MAX = 500


class Place:
    """Where a life begins: the files that are there before, what they hold, and who else has a session."""

    def __init__(self, sweep, path):
        self.path = path
        self.known, self.dead = {}, {}
        self.loop = Loop()
        self.stores = []

    def session(self):
        self.stores.append(SqliteStore(self.path, self.loop.call_soon))
        self.loop.wait(self.stores[-1].start())
        return self.stores[-1]

    def judge(self, state):
        """What is wrong afterwards, for the next session and for those that were there all the time."""
        store = self.session()
        left = without_ephemerals(state)
        for each in self.stores:
            if (seen := self.tree(each, "/")) != left:
                yield f"afterwards there is {brief(seen)}, not {brief(left)}"
        expected = sorted(f"{each.session_id}.{kind}" for each in self.stores for kind in ("lock", "sock"))
        if (files := sorted(each.name for each in Path(f"{self.path}.sessions").iterdir())) != expected:
            yield f"the files of sessions are {files}, not {expected}"
        self.loop.wait(store.create("/after", b""))
        connection = sqlite3.connect(self.path)
        (found,) = connection.execute("PRAGMA integrity_check").fetchone()
        connection.close()
        if found != "ok":
            yield f"the file is not whole: {found}"

    def tree(self, store, path):
        found = {}
        for name in self.loop.wait(store.children(path)):
            each = f"{path.rstrip('/')}/{name}"
            found[each] = (self.loop.wait(store.get(each))[0] or b"").decode()
            found |= self.tree(store, each)
        return found

    def close(self):
        for store in self.stores:
            self.loop.wait(store.close())


class AfterAKill(Place):
    """The session and the write-ahead log of a process that was killed are there."""

    def __init__(self, sweep, path):
        super().__init__(sweep, path)
        if sweep.left is None:
            sweep.left = sweep.folder / "left"
            sweep.known = sweep.lives(sweep.left / path.name, "/old", {}, "killed")["state"]
        shutil.copytree(sweep.left, path.parent, ignore=shutil.ignore_patterns("*.sock"))
        self.known = without_ephemerals(sweep.known)
        self.dead = {path: data for path, data in sweep.known.items() if path not in self.known}


class BesideAnother(Place):
    """Another process has a session."""

    def __init__(self, sweep, path):
        super().__init__(sweep, path)
        self.loop.wait(self.session().create("/old", b"old"))
        self.known = {"/old": "old"}


PLACES = {"no file": Place, "after a kill": AfterAKill, "beside another": BesideAnother}


class Sweep:
    """The process that forks lives, and what it is refused."""

    def __init__(self, folder, library):
        self.folder = folder
        self.left = self.known = None
        self.refusal = refusing.Refusal(folder / "refusal", library, f"{folder}/")
        with (folder / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("store_life.py"))],
                env=os.environ | self.refusal.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def lives(self, path, base, known, end, dead=()):
        """What came of one life."""
        order = {"path": str(path), "base": base, "known": known, "end": end, "dead": dict(dead)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        came = json.loads(self._process.stdout.readline())
        assert self._process.stdout.readline() == "over\n"
        return came

    def round(self, place, end, refused=()):
        """One life and its judgement: how many calls it made, what it was told, what is wrong."""
        folder = self.folder / "life"
        here = PLACES[place](self, folder / "store.db")
        self.refusal.choose(*refused)
        came = self.lives(here.path, "/new", here.known, end, here.dead)
        calls = self.refusal.calls
        self.refusal.choose()
        problems = [*came["problems"], *bad_lines(came, here.path)]
        try:
            problems += here.judge(came["state"])
        except Exception as error:
            problems.append(f"afterwards: {error!r}")
        here.close()
        shutil.rmtree(folder)
        return calls, came["errors"], problems

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def without_ephemerals(state):
    return {path: data for path, data in state.items() if not path.endswith(f"/{MINE}")}


def bad_lines(came, path):
    """Errors and log lines that do not help."""
    for line in came["errors"]:
        if "\n" in line or str(path) not in line or len(line) > LINE_MAX:
            yield f"this is no clear line: {line}"
    for line in came["lines"]:
        if "Traceback" in line or "\n" in line:
            yield f"logged: {line}"


def run(folder, *, of, part, kinds=refusing.KINDS, say=lambda _: None):
    """One call in `of`; what went wrong, and figures. None without a compiler."""
    library = refusing.build(folder)
    if library is None:
        return None
    sweep = Sweep(folder, library)
    problems, figures = [], Counter()
    turn = 0
    for place in PLACES:
        counted, errors, wrong = sweep.round(place, "closed")
        assert not errors + wrong, (errors, wrong)
        say(f"{place}: {counted}")
        for kind in kinds:
            for number in range(counted[kind]):
                for code in CODES[kind]:
                    for end in ENDS:
                        turn += 1
                        if turn % of != part:
                            continue
                        calls, errors, wrong = sweep.round(place, end, (kind, number, code))
                        figures["refused"] += calls[kind] > number
                        figures["told"] += bool(errors)
                        name = f"{place}, {errno.errorcode[code]} at {kind} {number}, {end}"
                        problems += [f"{name}: {each}" for each in wrong]
                        for each in wrong:
                            say(f"{name}: {each}")
    sweep.close()
    return problems, figures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--of", type=int, default=1)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(refusing.KINDS))
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        done = run(Path(temporary), of=given.of, part=given.part, kinds=kinds, say=rounds_report.say)
    if done is None:
        sys.exit("there is no C compiler (cc, gcc)")
    problems, figures = done
    rounds_report.end(problems, figures)


if __name__ == "__main__":
    main()
