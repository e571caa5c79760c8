"""A run of the tests ends, says why, and leaves nothing behind, whatever a test or the system does to its
processes.

Theory of operation
-------------------
pytest's process has workers (xdist), these have brokers, JVMs and child processes.

- *Memory.* Each process that runs tests looks at its memory after each quarter of a second of work. A test
  that takes more than BARNABAS_TEST_MEMORY_MB gets a MemoryError; if that frees nothing, its process ends. A
  limit of the system (``setrlimit``) would be inherited by JVMs, which reserve far more than they use.
- *Time.* A run of more than BARNABAS_TEST_RUN_MINUTES ends with the tests that were running.
- *Processes.* A worker dies with pytest. What a worker leaves behind when it is killed becomes pytest's own
  child (``PR_SET_CHILD_SUBREAPER``) and is killed when the run ends. A worker that died is not replaced
  (``--max-worker-restart=0``): what killed it would kill the next one.

`conftest` registers this module as a plugin. Without Linux's ``/proc`` and ``prctl`` only the time is
watched.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

MEMORY_MB = float(os.environ.get("BARNABAS_TEST_MEMORY_MB", "4096"))
RUN_MINUTES = float(os.environ.get("BARNABAS_TEST_RUN_MINUTES", "60"))
LOOK_S = 0.25
FREED_S = 10
"""So long a test has to end after its MemoryError."""
OVER_MEMORY, OVER_TIME = 71, 70
"""Exit codes."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_IS_LINUX = sys.platform == "linux"


class TooMuchMemoryError(MemoryError):
    """A test takes more than BARNABAS_TEST_MEMORY_MB."""


class Guard:
    """What runs in this process, and the terminal."""

    def __init__(self):
        self.terminal = os.dup(2)  # before anything is captured
        self.running = {}
        """When each test began that runs now; in pytest's own process, of all workers."""
        self.workers = set()
        """Their processes."""
        self.deadline = time.monotonic() + RUN_MINUTES * 60
        self._told = None
        """Which test got a MemoryError, and when."""

    def say(self, text):
        os.write(self.terminal, f"\n{text}\n".encode())

    def end(self, why, code):
        """Ends this process and all below it, now."""
        self.say(why)
        kill_descendants()
        os._exit(code)

    # --- time

    def watch_workers(self):
        """In pytest's own process, beside its workers:
        ends the run when its time is over, and buries orphans.
        """
        while time.monotonic() < self.deadline:
            time.sleep(LOOK_S)
            if _IS_LINUX:
                bury_orphans(self.workers)
        self.end_for_time()

    def end_for_time(self):
        now = time.monotonic()
        running = [f"  {test} for {now - since:.0f} s" for test, since in list(self.running.items())]
        why = (
            f"The tests took more than {RUN_MINUTES:g} minutes (BARNABAS_TEST_RUN_MINUTES), so the run is "
            f"ended. What was running: {'' if running else 'nothing'}"
        )
        self.end("\n".join([why, *running]), OVER_TIME)

    # --- memory

    def look_at_memory(self, *_signal):
        """Runs in the main thread, where an exception ends the test."""
        found_mb = memory_mb()
        if found_mb < MEMORY_MB:
            return
        test, now = next(iter(self.running), "no test"), time.monotonic()
        line = f"{test} takes {found_mb:.0f} MB, more than {MEMORY_MB:.0f} (BARNABAS_TEST_MEMORY_MB)"
        if self._told is None or self._told[0] != test:
            self._told = (test, now)
            self.say(line)
            raise TooMuchMemoryError(line)
        if now - self._told[1] > FREED_S or found_mb > 2 * MEMORY_MB:
            self.end(f"{line}, and frees nothing: its process ends", OVER_MEMORY)


class _Workers:
    """Hooks that only exist beside workers."""

    def __init__(self, guard):
        self._guard = guard

    def pytest_testnodeready(self):
        # No test runs before all are ready: these are the workers and nothing else.
        self._guard.workers.update(_children(os.getpid()).get(os.getpid(), ()))


_guards = []


def pytest_configure(config):
    guard = Guard()
    _guards.append(guard)
    is_worker = hasattr(config, "workerinput")
    has_workers = bool(getattr(config.option, "numprocesses", None)) and not is_worker
    if is_worker and _IS_LINUX:
        die_with(os.getppid())
    if has_workers:
        if _IS_LINUX:
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        config.pluginmanager.register(_Workers(guard))
        threading.Thread(target=guard.watch_workers, name="worker-watch", daemon=True).start()
    elif _IS_LINUX:
        # By a timer of the processor's time and not by a thread: who has threads must not fork.
        signal.signal(signal.SIGPROF, guard.look_at_memory)
        signal.setitimer(signal.ITIMER_PROF, LOOK_S, LOOK_S)


def pytest_unconfigure(config):
    """Not while a test runs pytest in its own process: its children are not the inner run's."""
    guard = _guards.pop()
    os.close(guard.terminal)
    if _IS_LINUX and not _guards:
        signal.setitimer(signal.ITIMER_PROF, 0)
        kill_descendants()


# In pytest's own process these are called for the tests of all workers, too.


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid):
    guard = _guards[-1]
    if time.monotonic() > guard.deadline:
        guard.end_for_time()
    guard.running[nodeid] = time.monotonic()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid):
    _guards[-1].running.pop(nodeid, None)


# --- processes


def _prctl(what, value):
    ctypes.CDLL(None).prctl(what, value)


def die_with(parent):
    """Has this process killed when the thread ends that started it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before


def memory_mb():
    """What only this process has in memory; files that are mapped do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


def bury_orphans(workers):
    """Lets those processes go that have ended and whose parent was a worker:
    a test may wait until they are gone.
    """
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in workers:
                return  # xdist asks for it itself
            os.waitpid(ended.si_pid, os.WNOHANG)


def kill_descendants():
    """Ends every process below this one, and those that come while it does so."""
    while found := _descendants(os.getpid()):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children(root):
    """All processes by their parent; those that have ended only below the root, which is to ask for them."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of the program, in parentheses, may have anything in it.
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state != "Z" or int(parent) == root:
                children.setdefault(int(parent), []).append(int(path.parent.name))
    return children


def _descendants(root):
    children = _children(root)
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
