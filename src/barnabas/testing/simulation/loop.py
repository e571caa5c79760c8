"""`SimulatedLoop`: an asyncio event loop whose time jumps, and `Process`, what can be killed on it.

Theory of operation
-------------------
A turn runs what is ready, in the order in which it became so: callbacks, then sockets, then timers. When
nothing is ready the clock is set to the next timer; when there is none either, the world is stuck, which is
an error. A turn takes 10 us of virtual time, so that waiting in turns comes to an end too.

A process is a context: everything that is started while its main task runs (tasks, timers, watched sockets)
inherits the context variable that names it. So a process can be killed from outside: its callbacks never run
again, and its coroutines are closed where they stand. Nothing that their clean-up does reaches the world,
because the dead have no disk, no sockets and no callbacks.
"""

import asyncio
import contextlib
import contextvars
import heapq
import inspect
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any, Final, Protocol, TypeAlias, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TURN_S: Final = 1e-5
_EPOCH_S: Final = 1_700_000_000
"""Where the wall clock of every world begins."""
_CLEANUP_STEPS_MAX: Final = 1000


class StuckError(RuntimeError):
    """Nothing is ready and no timer is left: what is waited for can never come."""


class Watchable(Protocol):
    """A simulated socket, as the loop sees it."""

    @property
    def readable(self) -> bool:
        """Whether a read would give something."""

    @property
    def writable(self) -> bool:
        """Whether a write would be taken."""


class Process:
    """A process of the world. `on_death` is called when it ends, in every way."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.alive = True
        self.on_death: list[Callable[[], object]] = []
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.context = contextvars.copy_context()
        self.context.run(_current.set, self)

    def die(self) -> None:
        """Nothing of it runs from now on."""
        if self.alive:
            self.alive = False
            for tell in self.on_death:
                tell()

    def bury(self) -> None:
        """Closes the coroutines of a dead process, wherever they stand."""
        for task in list(self.tasks):
            if not task.done():
                # "Task was destroyed but it is pending" is meant here, and no mistake.
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
                coroutine = task.get_coro()
                assert isinstance(coroutine, CoroutineType)
                self.context.copy().run(_close, coroutine)

    def __repr__(self) -> str:
        return f"<Process {self.name} on {self.host} {'alive' if self.alive else 'dead'}>"


def _close(coroutine: "CoroutineType[Any, Any, Any]") -> None:
    """Closes a coroutine although its clean-up awaits: nothing will ever come for it.

    From the innermost on: a coroutine that is closed from outside leaves what it awaits behind, half closed.
    """
    for _ in range(_CLEANUP_STEPS_MAX):
        innermost = coroutine
        while isinstance(awaited := innermost.cr_await, CoroutineType) and not _is_closed(awaited):
            innermost = awaited
        # What its clean-up raises does not matter: the process is dead.
        with contextlib.suppress(Exception):
            innermost.close()
        if _is_closed(coroutine):
            return


def _is_closed(coroutine: "CoroutineType[Any, Any, Any]") -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


_current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current_process() -> Process:
    """The process that runs now."""
    process = _current.get()
    assert process is not None, "this runs outside of every simulated process"
    return process


_Ready: TypeAlias = tuple[asyncio.Handle, Process | None]


def _removed(table: "dict[Watchable, _Ready]", fd: Watchable) -> bool:
    """Forgets a callback; one that is due in this turn is not called, as in asyncio."""
    ready = table.pop(fd, None)
    if ready is None:
        return False
    ready[0].cancel()
    return True


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The event loop of a world. Only what asyncio and Barnabas use is there."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        """Exceptions that were not caught in a process that lives."""
        self._now = 0.0
        self._ready: deque[_Ready] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Process | None]] = []
        self._numbers = itertools.count()
        self._readers: dict[Watchable, _Ready] = {}
        self._writers: dict[Watchable, _Ready] = {}
        self._changed: dict[Watchable, None] = {}
        self._closed = False
        self._dead: set[str] = set()
        self._running = ""

    # Time.

    def time(self) -> float:
        """Virtual seconds since the world began."""
        return self._now

    def wall_ns(self) -> int:
        """Virtual nanoseconds since 1970."""
        return (_EPOCH_S * 1_000_000 + round(self._now * 1_000_000)) * 1000

    @property
    def runs_the_dead(self) -> bool:
        """Whether what runs now belongs to a process that has died, and is about to be unwound."""
        return self._running in self._dead

    # Callbacks.

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Runs the callback in the next turn, after what is already waiting."""
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((handle, context.get(_current)))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """There is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Runs the callback after a number of virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Runs the callback at this virtual time."""
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle, context.get(_current)))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """As every loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        """As every loop; the task belongs to the process that makes it."""
        process = _current.get() if context is None else context.get(_current)
        name = name or (process.name if process is not None else None)
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        if process is not None:
            process.tasks.add(task)
        return task

    def spawn(self, process: Process, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts the main task of a process, whose name must be its own."""
        process.on_death.append(lambda: self._dead.add(process.name))
        return self.create_task(main, name=process.name, context=process.context)

    # Sockets.

    def add_reader(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        """Calls back in every turn in which the socket is readable."""
        self._watch(self._readers, fd, callback, args)

    def add_writer(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        """Calls back in every turn in which the socket is writable."""
        self._watch(self._writers, fd, callback, args)

    def _watch(
        self, table: dict[Watchable, _Ready], fd: Watchable, callback: Callable[..., Any], args: Any
    ) -> None:
        context = contextvars.copy_context()
        table[fd] = asyncio.Handle(callback, args, self, context), context.get(_current)
        self.changed(fd)

    def remove_reader(self, fd: Any) -> bool:
        """Stops calling back, in this turn already."""
        return _removed(self._readers, fd)

    def remove_writer(self, fd: Any) -> bool:
        """Stops calling back, in this turn already."""
        return _removed(self._writers, fd)

    def changed(self, socket: Watchable) -> None:
        """The socket may have become readable or writable."""
        self._changed[socket] = None

    def _poll(self) -> None:
        for socket in list(self._changed):
            reader = self._readers.get(socket) if socket.readable else None
            writer = self._writers.get(socket) if socket.writable else None
            self._ready.extend(ready for ready in (reader, writer) if ready is not None)
            if reader is None and writer is None:
                del self._changed[socket]

    # Running.

    def run_until_complete(self, future: Any) -> Any:
        """Runs turns until the future is done; its result. Raises StuckError."""
        done = asyncio.ensure_future(future, loop=self)
        asyncio._set_running_loop(self)  # noqa: SLF001 - what the makers of loops are given
        try:
            while not done.done():
                self._turn()
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001
        return done.result()

    def _turn(self) -> None:
        if self._changed:
            self._poll()
        if not self._ready:
            self._jump()
        while self._timers and self._timers[0][0] <= self._now:
            _, _, timer, process = heapq.heappop(self._timers)
            self._ready.append((timer, process))
        ready = self._ready
        for _ in range(len(ready)):
            handle, process = ready.popleft()
            if not handle.cancelled() and (process is None or process.alive):
                self._running = process.name if process is not None else "the world"
                handle._run()  # noqa: SLF001 - what loops call
        self._now += TURN_S

    def _jump(self) -> None:
        timers = self._timers
        while timers and (timers[0][2].cancelled() or not (timers[0][3] is None or timers[0][3].alive)):
            heapq.heappop(timers)
        if not timers:
            raise StuckError(f"nothing can happen any more after {self._now:.3f} s")
        self._now = max(self._now, timers[0][0])

    def is_running(self) -> bool:
        """Whether this loop runs now."""
        return asyncio._get_running_loop() is self  # noqa: SLF001

    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def close(self) -> None:
        """Forgets everything that waits."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self._readers.clear()
        self._writers.clear()
        self._changed.clear()

    def get_debug(self) -> bool:
        """Never: asyncio's debug mode looks at the real clock."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Notes an exception that was not caught, unless its process is dead."""
        task = context.get("task") or context.get("future")
        name = task.get_name() if isinstance(task, asyncio.Task) else self._running
        if name not in self._dead:
            self.problems.append(f"{name}: {context.get('message')}: {context.get('exception')!r}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by handles; the heap drops them when their time comes."""

    def __repr__(self) -> str:
        return f"<SimulatedLoop at {self._now:.3f} s ready={len(self._ready)} timers={len(self._timers)}>"
