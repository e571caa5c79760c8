"""`Questions`: what somebody who opens a page waits for is bounded; the question to the cluster goes on.

Theory of operation
-------------------
Most pages are made from the snapshot. The others ask brokers, or the metadata store, when they are opened; a
broker that is frozen answers after 30 seconds or never. `ask` gives the answer, if it comes within
`patience_s`. Else it gives what was answered the last time, with its age, or nothing, and says who has not
answered yet; the question goes on:

- One question is under way at a time for each key. Who asks the same meanwhile, as who loads the page again,
  waits for the same answer.
- An answer that comes when nobody waits any more is kept for the next who asks: for a minute it is as good as
  one that has just come. That is how a page fills when it is loaded again, also where each answer takes
  longer than anybody waits.
- What has failed without an answer is not handed over: the next who asks may have more luck. It is said
  beside the answer that is missing again.
- The questions under way, and the answers that are kept, are bounded in number for each cluster.

A question changes nothing in a cluster. What changes something is not asked here: it has to be told to who
waits for it (`WatchedCluster.use`).

Questions run on the loop of their cluster, those who ask on other loops, in other threads: the lock is held
for a few lines, and nobody waits within it.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from barnabas.client.errors import ClientTimeoutError
from barnabas.console.reading import FRESH_MS, Observation, read
from barnabas.core.errors import BarnabasError
from barnabas.network.errors import DisconnectedError
from barnabas.operations.clock import now_ms

T = TypeVar("T")

PATIENCE_S: Final = 0.7
"""How long a page waits: all pages answer within a second."""
RUNNING_MAX: Final = 16
"""Questions under way to one cluster: each has a connection of its own."""
KEPT_MAX: Final = 32
"""Answers that are kept of one cluster."""
ONCE_MAX: Final = 6
"""Of these, answers that are handed over once: records may be large."""
_NOTED_EVERY_S: Final = 0.3
SILENT_MS: Final = 250.0
"""Who has owed an answer for so long is said not to have answered."""
_UNANSWERED: Final = (ClientTimeoutError, DisconnectedError, TimeoutError)
"""No answer, which is something else than an answer that refuses."""


class NotAnsweredError(BarnabasError):
    """What was asked for is not answered yet, or not at all: who asks again may get it (HTTP 503)."""


class LiveAnswer(NamedTuple, Generic[T]):
    """What is known of what was asked."""

    reading: Observation[T]
    """Fresh, or what was answered the last time and why nothing newer, or only why nothing."""
    is_pending: bool
    """Whether the question goes on: who asks again may get the answer."""


@dataclass(slots=True, eq=False)
class Question:
    """A question under way. What runs it says whom it waits for."""

    who: str
    """Whom it is for, as long as nothing better is known: the cluster, the metadata store."""
    silent: Callable[[], list[str]] | None = None
    """Who has owed an answer for some time, once there is a client that knows."""
    noted: list[str] = field(default_factory=list)
    is_seen: bool = False
    """Whether its answer was given to somebody."""

    async def note(self) -> None:
        """Writes down whom it waits for, until it is cancelled: only the loop of a client may ask it."""
        while True:
            await asyncio.sleep(_NOTED_EVERY_S)
            self.noted = [] if self.silent is None else self.silent()

    def __str__(self) -> str:
        names = self.noted or [self.who]
        return f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'} not answered yet"


Run: TypeAlias = Callable[[Question], Coroutine[Any, Any, T]]
_Running: TypeAlias = "tuple[Question, concurrent.futures.Future[Any]]"
Submit: TypeAlias = Callable[[Coroutine[Any, Any, Any]], "concurrent.futures.Future[Any]"]


@dataclass(frozen=True, slots=True)
class _Kept:
    reading: Observation[Any]
    is_new: bool
    """Whether nobody has seen it."""
    is_once: bool
    """Whether it goes when somebody has seen it, or it is old."""


class Questions:
    """Those of one cluster."""

    def __init__(self, submit: Submit) -> None:
        """`submit` begins a question on the loop of its cluster, and raises BarnabasError where there is
        none.
        """
        self.patience_s = PATIENCE_S
        self._submit = submit
        self._lock = threading.RLock()
        self._running: dict[Hashable, _Running] = {}
        self._kept: dict[Hashable, _Kept] = {}
        """The newest last."""

    async def ask(
        self, key: Hashable, run: Run[T], *, who: str = "the cluster", once: bool = False
    ) -> LiveAnswer[T]:
        """What `run` comes to, or what is known instead. `key` stands for all that the answer depends on.
        With `once` an answer is given to one who asks, and never as what was answered the last time.
        Raises BarnabasError where the answer is a refusal.
        """
        with self._lock:
            running = self._running.get(key)
            if running is None:
                if (late := self._late(key)) is not None:
                    return LiveAnswer(late, is_pending=False)
                if len(self._running) >= RUNNING_MAX:
                    return LiveAnswer(
                        self._last(key, f"{RUNNING_MAX} questions wait for their answers"), True
                    )
                running = self._begin(key, run, Question(who), once=once)
            question, future = running
        await _done(future, self.patience_s)
        with self._lock:
            if not future.done():
                return LiveAnswer(self._last(key, str(question)), is_pending=True)
            question.is_seen = True
            kept = self._kept.get(key)
            try:
                found: T = future.result()
            except _UNANSWERED as error:
                return LiveAnswer(self._last(key).failed(_words(error)), is_pending=False)
            except concurrent.futures.CancelledError:
                raise BarnabasError("the cluster is not looked at any more") from None
            if kept is not None and kept.is_new:
                self._keep(key, replace(kept, is_new=False))
            return LiveAnswer(read(found, now_ms()), is_pending=False)

    def _begin(self, key: Hashable, run: Run[T], question: Question, *, once: bool) -> _Running:
        async def asked() -> T:
            noting = asyncio.ensure_future(question.note())
            try:
                return await run(question)
            finally:
                noting.cancel()

        coroutine = asked()
        try:
            future = self._submit(coroutine)
        except BarnabasError:
            coroutine.close()
            raise
        running = self._running[key] = question, future
        # It may have ended by now: then this is done at once.
        future.add_done_callback(lambda done: self._ended(key, question, done, once=once))
        return running

    def _ended(
        self, key: Hashable, question: Question, future: "concurrent.futures.Future[Any]", *, once: bool
    ) -> None:
        """Keeps what came of a question; on the thread of its cluster."""
        with self._lock:
            self._running.pop(key, None)
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                reading = read(future.result(), now_ms())
                self._keep(key, _Kept(reading, is_new=not question.is_seen, is_once=once))
            elif not once:
                self._keep(key, _Kept(self._last(key).failed(_words(error)), is_new=False, is_once=False))

    def _late(self, key: Hashable) -> Observation[Any] | None:
        """An answer that nobody has seen, for the first who asks."""
        kept = self._kept.get(key)
        if kept is None or not kept.is_new or now_ms() - kept.reading.at_ms > FRESH_MS:
            return None
        self._keep(key, replace(kept, is_new=False))
        return kept.reading

    def _last(self, key: Hashable, why: str | None = None) -> Observation[Any]:
        """What was answered the last time, and why there is nothing newer."""
        kept = self._kept.get(key)
        reading: Observation[Any] = kept.reading if kept is not None else Observation(error=None)
        if why is None:
            return reading
        return reading.failed(why if reading.error is None else f"{why} (the last time: {reading.error})")

    def _keep(self, key: Hashable, one: _Kept) -> None:
        """Keeps what is known of a question, as the newest; what is too old or too much goes."""
        self._kept.pop(key, None)
        self._kept[key] = one
        old_ms = now_ms() - FRESH_MS
        once = [(name, each) for name, each in self._kept.items() if each.is_once]
        for place, (name, each) in enumerate(once):
            if not each.is_new or each.reading.at_ms < old_ms or place < len(once) - ONCE_MAX:
                del self._kept[name]
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]

    def __repr__(self) -> str:
        return f"<Questions running={len(self._running)} kept={len(self._kept)}>"


def _words(error: BaseException) -> str:
    """Why there is no answer: a timeout by itself says nothing."""
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer came in time"
    return str(error) or type(error).__name__


async def _done(future: "concurrent.futures.Future[Any]", seconds: float) -> None:
    """Waits for a future of another thread, and leaves it alone where it takes longer: `wrap_future` would
    end it with who waits.
    """
    loop, came = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # whoever waited is gone, and the loop too
            loop.call_soon_threadsafe(came.set)

    future.add_done_callback(wake)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await came.wait()
