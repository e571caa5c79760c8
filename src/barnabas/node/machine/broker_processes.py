"""`BrokerProcesses`: the brokers of one machine, each its own process, and the parent that looks after them.

Theory of operation
-------------------
One broker is one loop, and uses one core. A machine of many cores is a rack of brokers, and clients spread
their load over them by leaders, as over any cluster. The parent opens no port of Kafka's and reads no log. It

- starts all brokers, and says that they are ready once all of them are. It waits for as long as one of those
  that are not gets on: logs that are recovered after a crash take what they take, and would take it again. A
  broker gets on while it works; from the moment in which it accepts connections clients make it work too, and
  it says itself when it gets on (`node.start_progress`);
- starts a broker again that ended by itself, at its port, after a while that doubles each time up to
  `RESTART_MS_MAX`; one that ends `RESTARTS_MAX` times without having been ready in between, or that never was
  ready, ends them all, with its reason;
- ends them one after the other, the last first, so that each hands over what it leads. A second signal, or
  `STOP_S` without an end, kills what is left. What the system does not end within `KILL_S` of that, as a
  process that waits for a disk which does not answer, is left behind with a line.

A broker ends in order when its parent is gone (``barnabas serve --with-parent``): a machine of which a part
runs on, and nobody restarts it, is worse than none, and a service manager starts all of it anew.

What the brokers say on standard error comes out with the broker's id in front of each line.

The brokers are forks of the parent, which has imported what they need (`node.machine.forked_process`). So one
that comes back is of the same version as its siblings, whatever was installed meanwhile.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TextIO

from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.node.machine.forked_process import ForkedProcess, fork
from barnabas.node.start_progress import StartProgress

_log = EventLog("node.broker_processes")

PROGRESS_LOOK_S: Final = 120.0
"""How often it is looked whether brokers that are not ready yet get on; that none does ends them all."""
STOP_S: Final = 60.0
KILL_S: Final = 10.0
LAST_WORDS_S: Final = 2.0
"""How long an ended broker's pipes are read at most: a child of its own may hold them open."""
_LOOK_S: Final = 0.01
_ENDED_LOOK_S: Final = 5.0
"""How often it is looked whether a broker has ended whose pipes are open."""
RESTART_MS_MIN: Final = 500
RESTART_MS_MAX: Final = 30_000
RESTARTS_MAX: Final = 5
BROKERS_MAX: Final = 256
PARENT_LOOK_S: Final = 0.5
"""How often a broker looks whether its parent is there, where the system does not tell it."""
_LINE_BYTES_MAX: Final = 1 << 20


class MachineError(BarnabasError):
    """Brokers cannot be started, or one of them cannot go on; the text says which, and why."""


class BrokerLife(NamedTuple):
    """What the metrics of the machine say of a broker."""

    id: int
    metrics_url: str
    """Empty while it is not ready, or serves none."""
    restarts: int


class _Member:
    """One broker over all its lives."""

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.process: ForkedProcess | None = None
        self.fork: asyncio.Task[ForkedProcess] | None = None
        """The fork of its newest process: a few turns of the loop, in which nobody has its pid yet."""
        self.ready: asyncio.Event = asyncio.Event()
        self.was_ready = False
        """Whether its newest process has been."""
        self.progress = StartProgress()
        """That of its newest process."""
        self.address = ""
        """Its listener, as its own ready line has it."""
        self.bootstrap = ""
        """The address that it shares with the others, if it does."""
        self.metrics_url = ""
        """Where it serves its metrics, while it is ready and does."""
        self.starts = 0
        self.failures = 0
        """Ends without having been ready, one after the other."""
        self.last_words = ""

    @property
    def port(self) -> int | None:
        """Where it has listened; None before it was ready."""
        digits = self.address.rpartition(":")[2]
        return int(digits) if digits.isdecimal() else None

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def signal(self, number: int) -> None:
        """Sends a signal, if it runs."""
        if self.process is not None:
            self.process.send_signal(number)

    def __repr__(self) -> str:
        return f"<_Member {self.id} {'runs' if self.runs else 'is down'} failures={self.failures}>"


class BrokerProcesses:
    """The brokers of one machine. Belongs to the running event loop."""

    def __init__(
        self,
        ids: Sequence[int],
        live: Callable[[int, int | None], object],
        *,
        errors: TextIO = sys.stderr,
        restart_ms_min: int = RESTART_MS_MIN,
    ) -> None:
        """`live` is the whole life of a broker, in a process of its own, from its id and the port that it
        has had; it prints a line that begins with "ready" and names the listeners. What brokers say of errors
        goes to `errors`.
        """
        self._members = [_Member(broker_id) for broker_id in ids]
        self._live_as = live
        self._errors = errors
        self._restart_ms_min = restart_ms_min
        self._stopping = asyncio.Event()
        self._killed = False
        self._failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def addresses(self) -> dict[int, str]:
        """The listeners of each broker, by its id, as far as it has been ready."""
        return {each.id: each.address for each in self._members if each.address}

    @property
    def bootstrap(self) -> str:
        """The address that all of them share; empty where they share none."""
        return self._members[0].bootstrap

    @property
    def pids(self) -> dict[int, int]:
        """The processes that run, by the id of the broker."""
        return {each.id: each.process.pid for each in self._members if each.process is not None and each.runs}

    @property
    def states(self) -> list[BrokerLife]:
        """All brokers, in order."""
        return [BrokerLife(each.id, each.metrics_url, max(each.starts - 1, 0)) for each in self._members]

    async def start(self) -> None:
        """Starts all brokers; returns when all are ready. Raises MachineError, and then none runs."""
        # A collection in a child writes to each object that it looks at, and so would copy all of them.
        gc.collect()
        gc.freeze()
        for member in self._members:
            self._spawn(self._look_after(member))
        ready = asyncio.ensure_future(self._all_ready())
        failed = asyncio.ensure_future(self.failed())
        while not self._failure.done():
            await asyncio.wait({ready, failed}, timeout=PROGRESS_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                break
            self._look_for_progress()
        failed.cancel()
        if self._failure.done():
            ready.cancel()
            await self.stop()
            raise MachineError(self._failure.result())

    def _look_for_progress(self) -> None:
        """Fails where brokers are not ready, and none of them has got on since the last look."""
        late = [each for each in self._members if each.process and not each.ready.is_set()]
        # There is none where the last one has just said that it is ready, or is being forked.
        if not late or self._failure.done():
            return
        names = ", ".join(str(each.id) for each in late)
        # All are looked at, so that each look is of the time since the one before.
        got_on = [each.progress.got_on(each.process.pid) for each in late if each.process]
        if any(got_on):
            _log.warning("broker.not_ready_yet", brokers=names, reason="it works, as on logs after a crash")
        else:
            self._fail(f"not ready, and without work for {PROGRESS_LOOK_S:g} s: broker {names}")

    async def _all_ready(self) -> None:
        for member in self._members:
            await member.ready.wait()

    @property
    def failure(self) -> str | None:
        """Which broker could not go on, or did not end in order, and why; None where all did."""
        return self._failure.result() if self._failure.done() else None

    async def failed(self) -> str:
        """Waits until a broker cannot go on; returns which, and why."""
        return await asyncio.shield(self._failure)

    async def stop(self) -> None:
        """Ends the brokers in order, the last first. Harmless when repeated."""
        self._stopping.set()
        for member in self._members:
            # One that stands still (SIGSTOP) could not end, and may hold what the others need for their end:
            # the controller's part, the lock of the store. A service manager continues it, too.
            member.signal(signal.SIGCONT)
        for member in reversed(self._members):
            with suppress(OSError):
                await self._forked(member)
            if member.process is None:
                continue
            member.signal(signal.SIGTERM)
            if not await self._ends(member.process, STOP_S):
                _log.warning("broker.killed", broker=member.id, reason=f"it did not end within {STOP_S:g} s")
                member.signal(signal.SIGKILL)
                if not await self._ends(member.process, KILL_S):
                    self._leave_behind(member)
        if self._tasks:
            # Those of brokers that have ended are over once their last words are here.
            await asyncio.wait(self._tasks, timeout=LAST_WORDS_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ends(self, process: ForkedProcess, seconds: float) -> bool:
        """Whether a broker ends within this time; within `KILL_S` once all were killed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while process.returncode is None:
            if self._killed:
                until = min(until, loop.time() + KILL_S)
            if loop.time() >= until:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    def _leave_behind(self, member: _Member) -> None:
        assert member.process is not None, "it was told to end"
        words = f"broker {member.id}, process {member.process.pid}, has not ended {KILL_S:g} s after SIGKILL"
        _log.error("broker.left_behind", broker=member.id, pid=member.process.pid, reason=words)
        self._fail(f"{words}: it may wait for a disk that does not answer")

    def kill(self) -> None:
        """Ends all brokers at once, without a word to clients; `stop` returns then."""
        self._killed = True
        self._stopping.set()
        for member in self._members:
            member.signal(signal.SIGKILL)

    # -------------------------------------------------------------------------------------- one broker

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fail(self, reason: str) -> None:
        if not self._failure.done():
            self._failure.set_result(reason)

    async def _look_after(self, member: _Member) -> None:
        """Starts a broker, and starts it again for as long as that helps."""
        delay_ms = self._restart_ms_min
        while not self._stopping.is_set():
            try:
                await self._live(member)
            except OSError as error:  # no process, or no memory or descriptors for one
                member.last_words = f"it cannot be forked: {error.strerror}"
            code = member.process.returncode if member.process is not None else None
            if self._stopping.is_set():
                if code is not None and code > 0:
                    # It failed in the moment in which all were told to end, or in its end.
                    self._fail(self._end_of(member))
                return
            member.failures = 0 if member.was_ready else member.failures + 1
            if member.was_ready:
                delay_ms = self._restart_ms_min
            if member.failures >= RESTARTS_MAX or (member.failures and not member.address):
                # It never was ready: what is wrong is wrong for good, as a port that is taken.
                self._fail(self._end_of(member))
                return
            _log.warning("broker.ended", broker=member.id, exit_code=code, again_in_ms=delay_ms)
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_ms / 1000):
                    await self._stopping.wait()
            delay_ms = min(2 * delay_ms, RESTART_MS_MAX)

    async def _live(self, member: _Member) -> None:
        """One life of a broker, from its start to its end. Raises OSError."""
        member.starts += 1
        member.progress, member.was_ready = StartProgress(), False
        life = partial(self._live_as, member.id, member.port)
        forking = fork(f"barnabas-{member.id}", life, line_bytes_max=_LINE_BYTES_MAX)
        member.fork = asyncio.ensure_future(forking)
        process = await self._forked(member)
        assert process is not None, "it was just forked"
        try:
            reading = asyncio.ensure_future(self._read_words(member, process))
            copying = asyncio.ensure_future(self._copy_errors(member, process))
            while not reading.done() and process.returncode is None:
                await asyncio.wait({reading}, timeout=_ENDED_LOOK_S)
            await process.wait()
            await asyncio.wait({reading, copying}, timeout=LAST_WORDS_S)
        finally:
            for each in (reading, copying):
                each.cancel()
            process.close()
            member.metrics_url = ""

    def _end_of(self, member: _Member) -> str:
        code = member.process.returncode if member.process is not None else None
        return f"broker {member.id} ended with exit code {code}: {member.last_words or 'it said nothing'}"

    async def _read_words(self, member: _Member, process: ForkedProcess) -> None:
        """Takes what a broker says of its start (`node.start_progress`), and that it is ready."""
        with suppress(ValueError):  # a line that is too long: it is none of a broker
            async for line in process.stdout:
                what, *words = line.decode(errors="replace").split() or [""]
                member.progress.take(what)
                if what == "ready":
                    member.was_ready = True
                    member.address, *words = words
                    said = dict(word.partition("=")[::2] for word in words)
                    member.bootstrap, member.metrics_url = said.get("bootstrap", ""), said.get("metrics", "")
                    member.ready.set()
                    if member.failures:
                        _log.info("broker.back", broker=member.id)

    async def _forked(self, member: _Member) -> ForkedProcess | None:
        """The process of a broker, once its fork is over; whoever cancels this leaves no process that nobody
        knows. Raises OSError.
        """
        if member.fork is not None:
            member.process = await asyncio.shield(member.fork)
            if self._killed:
                member.signal(signal.SIGKILL)
        return member.process

    async def _copy_errors(self, member: _Member, process: ForkedProcess) -> None:
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:
                # A line that is too long is left out. What follows is read: a broker whose pipe is full
                # stands still.
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip("\n")
            member.last_words = text.removeprefix("Error: ") or member.last_words
            print(f"[{member.id}] {text}", file=self._errors, flush=True)

    def __repr__(self) -> str:
        return f"<BrokerProcesses {self._members}>"


async def parent_is_gone(parent: int) -> None:
    """Returns when this process is no child of its parent any more."""
    try:
        descriptor = os.pidfd_open(parent)
    except (OSError, AttributeError):  # it is gone, or there is no such call, as on macOS
        while os.getppid() == parent:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(PARENT_LOOK_S)
        return
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(descriptor, gone.set)
    try:
        # A parent that was gone before the descriptor was opened: its pid may be another's by now.
        if os.getppid() == parent:
            await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
