"""`BrokerProcesses`: the brokers of one machine, each its own process, and the parent that looks after them.

Theory of operation
-------------------
One broker is one loop, and uses one core. A machine of many cores is a rack of brokers, and clients spread
their load over them by leaders, as over any cluster. The parent opens no port of Kafka's and reads no log. It

- starts all brokers, and says that they are ready once all of them are. It waits for as long as one of those
  that are not works (`PROGRESS_S` of a processor in `READY_S`): logs that are recovered after a crash take
  what they take, and would take it again;
- starts a broker again that ended by itself, at its port, after a while that doubles each time up to
  `RESTART_MS_MAX`; one that ends `RESTARTS_MAX` times without having been ready in between, or that never was
  ready, ends them all, with its reason;
- ends them one after the other, the last first, so that each hands over what it leads. A second signal, or
  `STOP_S` without an end, kills what is left.

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
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.node.machine.forked_process import ForkedProcess, fork

_log = EventLog("node.broker_processes")

READY_S: Final = 120.0
"""How often it is looked whether brokers that are not ready yet get on; that none does ends them all."""
PROGRESS_S: Final = 1.0
"""Processor time of a broker that gets on, in that time. One that only waits uses a tenth of it."""
STOP_S: Final = 60.0
RESTART_MS_MIN: Final = 500
RESTART_MS_MAX: Final = 30_000
RESTARTS_MAX: Final = 5
BROKERS_MAX: Final = 256
PARENT_LOOK_S: Final = 0.5
_LINE_BYTES_MAX: Final = 1 << 20


class RackError(BarnabasError):
    """Brokers cannot be started, or one of them cannot go on; the text says which, and why."""


class BrokerLife(NamedTuple):
    """What the metrics of the machine say of a broker."""

    id: int
    metrics_url: str
    """Empty while it is not ready, or serves none."""
    restarts: int


class _RackMember:
    """One broker over all its lives."""

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.process: ForkedProcess | None = None
        self.fork: asyncio.Task[ForkedProcess] | None = None
        """The fork of its newest process: a few turns of the loop, in which nobody has its pid yet."""
        self.ready: asyncio.Event = asyncio.Event()
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
        return f"<_RackMember {self.id} {'runs' if self.runs else 'is down'} failures={self.failures}>"


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
        self._members = [_RackMember(broker_id) for broker_id in ids]
        self._live_as = live
        self._errors = errors
        self._restart_ms_min = restart_ms_min
        self._stopping = self._killed = False
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
        """Starts all brokers; returns when all are ready. Raises RackError, and then none runs."""
        # A collection in a child writes to each object that it looks at, and so would copy all of them.
        gc.collect()
        gc.freeze()
        for member in self._members:
            self._spawn(self._look_after(member))
        ready = asyncio.ensure_future(self._all_ready())
        failed = asyncio.ensure_future(self.failed())
        worked: dict[int, float] = {}
        while not (await asyncio.wait({ready, failed}, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED))[
            0
        ]:
            late = {
                each.process.pid: each.id
                for each in self._members
                if each.process and not each.ready.is_set()
            }
            # The last one has just said that it is ready, or is being forked.
            if not late:
                continue
            names = ", ".join(map(str, late.values()))
            before, worked = worked, {pid: processor_s(pid) for pid in late}
            if not any(worked[pid] - before.get(pid, 0) >= PROGRESS_S for pid in late):
                self._fail(f"not ready, and without work for {READY_S:g} s: broker {names}")
                break
            _log.warning("broker.not_ready_yet", brokers=names, reason="it works, as on logs after a crash")
        failed.cancel()
        if self._failure.done():
            ready.cancel()
            await self.stop()
            raise RackError(self._failure.result())

    async def _all_ready(self) -> None:
        for member in self._members:
            await member.ready.wait()

    async def failed(self) -> str:
        """Waits until a broker cannot go on; returns which, and why."""
        return await asyncio.shield(self._failure)

    async def stop(self) -> None:
        """Ends the brokers in order, the last first. Harmless when repeated."""
        self._stopping = True
        for member in reversed(self._members):
            with suppress(OSError):
                await self._forked(member)
            if member.process is None:
                continue
            member.signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_S):
                    await member.process.wait()
            except TimeoutError:
                _log.warning("broker.killed", broker=member.id, reason=f"it did not end within {STOP_S:g} s")
                member.signal(signal.SIGKILL)
                await member.process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def kill(self) -> None:
        """Ends all brokers at once, without a word to clients; `stop` returns then."""
        self._stopping = self._killed = True
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

    async def _look_after(self, member: _RackMember) -> None:
        """Starts a broker, and starts it again for as long as that helps."""
        delay_ms = self._restart_ms_min
        while not self._stopping:
            try:
                was_ready = await self._live(member)
            except OSError as error:  # no process, or no memory or descriptors for one
                was_ready, member.last_words = False, f"it cannot be forked: {error.strerror}"
            if self._stopping:
                return
            code = member.process.returncode if member.process is not None else None
            member.failures = 0 if was_ready else member.failures + 1
            if was_ready:
                delay_ms = self._restart_ms_min
            if member.failures >= RESTARTS_MAX or (member.failures and not member.address):
                # It never was ready: what is wrong is wrong for good, as a port that is taken.
                words = member.last_words or "it said nothing"
                self._fail(f"broker {member.id} ended with exit code {code}: {words}")
                return
            _log.warning("broker.ended", broker=member.id, exit_code=code, again_in_ms=delay_ms)
            await asyncio.sleep(delay_ms / 1000)
            delay_ms = min(2 * delay_ms, RESTART_MS_MAX)

    async def _live(self, member: _RackMember) -> bool:
        """One life of a broker, from its start to its end; whether it was ready."""
        member.starts += 1
        life = partial(self._live_as, member.id, member.port)
        forking = fork(f"barnabas-{member.id}", life, line_bytes_max=_LINE_BYTES_MAX)
        member.fork = asyncio.ensure_future(forking)
        process = await self._forked(member)
        assert process is not None, "it was just forked"
        was_ready = False
        copying = asyncio.ensure_future(self._copy_errors(member, process))
        with suppress(ValueError):  # a line that is too long: it is none of a broker
            async for line in process.stdout:
                if line.startswith(b"ready "):
                    was_ready = True
                    _, member.address, *words = line.decode(errors="replace").split()
                    said = dict(word.partition("=")[::2] for word in words)
                    member.bootstrap, member.metrics_url = said.get("bootstrap", ""), said.get("metrics", "")
                    member.ready.set()
                    if member.failures:
                        _log.info("broker.back", broker=member.id)
        await process.wait()
        member.metrics_url = ""
        await copying
        return was_ready

    async def _forked(self, member: _RackMember) -> ForkedProcess | None:
        """The process of a broker, once its fork is over; whoever cancels this leaves no process that nobody
        knows. Raises OSError.
        """
        if member.fork is not None:
            member.process = await asyncio.shield(member.fork)
            if self._killed:
                member.signal(signal.SIGKILL)
        return member.process

    async def _copy_errors(self, member: _RackMember, process: ForkedProcess) -> None:
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


def processor_s(session: int) -> float:
    """Processor time of a child that leads a session, and of all that it has started; 0 where the system does
    not say it.
    """
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # Behind the name: state, parent, group, session; utime, stime and those of ended children.
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


async def parent_is_gone(parent: int) -> None:
    """Returns when this process is no child of its parent any more."""
    while os.getppid() == parent:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(PARENT_LOOK_S)
