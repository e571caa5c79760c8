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
- A refusal is an answer, and handed over in the same way. What has failed without an answer is not: the next
  who asks may have more luck, and it is said beside the answer that is missing again. Only of what is given
  once, as a preview, the next who asks is told the failure: else they would ask for it for ever.
- Once something was changed (`changed`), nobody is given as new what was asked before that: who has made an
  access rule sees it in the list.
- What fails in another way than Kafka's errors say (a connection that breaks within an answer, a bug of ours)
  is no answer either: it is said where the answer would be, and a bug is written to the console's log.
- The questions under way, and the answers that are kept, are bounded in number for each cluster, and no user
  takes the places of all others.

A question changes nothing in a cluster. What changes something is not asked here: it has to be told to who
waits for it (`WatchedCluster.use`).

Questions run on the loop of their cluster, those who ask on other loops, in other threads: the lock is held
for a few lines, and nobody waits within it.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from barnabas.client.errors import ClientTimeoutError
from barnabas.console.fair_shares import FairPlaces
from barnabas.console.reading import FRESH_MS, Observation, read
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.network.errors import DisconnectedError
from barnabas.operations.clock import now_ms

T = TypeVar("T")

_log = EventLog("console")

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
_WORDS_MAX: Final = 500
_UNANSWERED: Final = (ClientTimeoutError, DisconnectedError, TimeoutError)
"""No answer, which is something else than an answer that refuses."""


class NotAnsweredError(BarnabasError):
    """What was asked for is not answered yet, or not at all: who asks again may get it (HTTP 503)."""


class UnexpectedError(BarnabasError):
    """What failed in another way than Kafka's errors say (HTTP 500)."""


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
    asker: str = ""
    """Who asked first; empty where users are not told apart."""
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
    asker: str
    came_ms: int
    refusal: BarnabasError | None = None
    """In the place of a value that is new."""

    @property
    def is_fresh(self) -> bool:
        """Whether it came within the last minute; a clock that was set back makes nothing younger."""
        return 0 <= now_ms() - self.came_ms <= FRESH_MS


class Questions:
    """Those of one cluster."""

    def __init__(self, submit: Submit) -> None:
        """`submit` begins a question on the loop of its cluster, and raises BarnabasError where there is
        none.
        """
        self.patience_s = PATIENCE_S
        self._submit = submit
        self._lock = threading.RLock()
        self._places = FairPlaces(RUNNING_MAX)
        """Of the questions under way, the outdated ones among them."""
        self._running: dict[Hashable, _Running] = {}
        self._outdated: set[Question] = set()
        """Those under way from before a change: nobody else waits for them."""
        self._kept: dict[Hashable, _Kept] = {}
        """The newest last."""

    async def ask(
        self,
        key: Hashable,
        run: Run[T],
        *,
        who: str = "the cluster",
        once: bool = False,
        asker: str = "",
    ) -> LiveAnswer[T]:
        """What `run` comes to, or what is known instead. `key` stands for all that the answer depends on.
        With `once` an answer is given to one who asks, and never as what was answered the last time.
        `asker` is the user, where there are several. Raises BarnabasError where the answer is a refusal.
        """
        with self._lock:
            running = self._running.get(key)
            if running is None:
                if (late := self._late(key)) is not None:
                    return LiveAnswer(late, is_pending=False)
                if not self._places.take(asker):
                    return LiveAnswer(self._last(key, self._full(asker)), is_pending=True)
                running = self._begin(key, run, Question(who, asker=asker), once=once)
            question, future = running
        await _done(future, self.patience_s)
        with self._lock:
            if not future.done():
                return LiveAnswer(self._last(key, str(question)), is_pending=True)
            question.is_seen = True
            if (kept := self._kept.get(key)) is not None and kept.is_new:
                self._keep(key, replace(kept, is_new=False))
            try:
                found: T = future.result()
            except concurrent.futures.CancelledError:
                raise BarnabasError("the cluster is not looked at any more") from None
            except Exception as error:
                if _is_refusal(error):
                    raise
                return LiveAnswer(self._last(key).failed(words_of(error)), is_pending=False)
            return LiveAnswer(read(found, now_ms()), is_pending=False)

    def changed(self) -> None:
        """Something was changed, or may have been: what was asked before says how it was before. It is shown
        as what was answered the last time, and a preview that nobody has seen is made again.
        """
        with self._lock:
            self._outdated.update(question for question, _ in self._running.values())
            self._running.clear()
            self._kept = {
                key: replace(each, is_new=False) for key, each in self._kept.items() if not each.is_once
            }

    def forget_old(self) -> None:
        """Lets go what is given once and nobody came for: it may be large, or have a secret."""
        with self._lock:
            self._kept = {
                key: each
                for key, each in self._kept.items()
                if not each.is_once or (each.is_new and each.is_fresh)
            }

    def _full(self, asker: str) -> str:
        """Why no question of this user may begin now."""
        if self._places.left == 0:
            return f"{RUNNING_MAX} questions wait for their answers"
        return f"{self._places.of(asker)} questions of {asker} wait for their answers"

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
            self._places.leave(question.asker)
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
            self._places.leave(question.asker)
            if question in self._outdated:
                self._outdated.discard(question)
                return
            self._running.pop(key, None)
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                reading = read(future.result(), now_ms())
                is_new, refusal = not question.is_seen, None
            else:
                reading = self._last(key).failed(words_of(error))
                refusal = error if isinstance(error, BarnabasError) and _is_refusal(error) else None
                if not isinstance(error, (BarnabasError, OSError)):
                    # Of a key the first part alone: what a preview is asked for may have a password.
                    subject = key[0] if isinstance(key, tuple) else key
                    _log.error("console.question", question=subject, error=repr(error), exc_info=error)
                # What is asked for once is waited for: who comes back for it reads why it does not come.
                is_new = (once or refusal is not None) and not question.is_seen
            self._keep(key, _Kept(reading, is_new, once, question.asker, now_ms(), refusal))

    def _late(self, key: Hashable) -> Observation[Any] | None:
        """An answer that nobody has seen, for the first who asks. Raises BarnabasError where it refuses."""
        kept = self._kept.get(key)
        if kept is None or not kept.is_new or not kept.is_fresh:
            return None
        self._keep(key, replace(kept, is_new=False))
        if kept.refusal is not None:
            raise kept.refusal.with_traceback(None)
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
        self.forget_old()
        self._make_room([name for name, each in self._kept.items() if each.is_once], ONCE_MAX)
        self._make_room(list(self._kept), KEPT_MAX)

    def _make_room(self, names: list[Hashable], most: int) -> None:
        """Lets go what somebody has seen, then the oldest of whoever has the most."""
        while len(names) > most:
            loser = next((name for name in names if not self._kept[name].is_new), None)
            if loser is None:
                counts = Counter(self._kept[name].asker for name in names)
                asker = counts.most_common(1)[0][0]
                loser = next(name for name in names if self._kept[name].asker == asker)
            names.remove(loser)
            del self._kept[loser]

    def __repr__(self) -> str:
        running = len(self._running) + len(self._outdated)
        return f"<Questions running={running} kept={len(self._kept)}>"


def _is_refusal(error: BaseException) -> bool:
    """Whether somebody has answered, and said no."""
    return isinstance(error, BarnabasError) and not isinstance(error, _UNANSWERED)


def words_of(error: BaseException) -> str:
    """Why there is no answer, in one line: a timeout by itself says nothing, and a bug of ours little."""
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer came in time"
    said, kind = " ".join(str(error).split())[:_WORDS_MAX], type(error).__name__
    if isinstance(error, BarnabasError) or (said and isinstance(error, OSError)):
        return said or kind
    return f"{kind}: {said}" if said else kind


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
