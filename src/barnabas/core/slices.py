"""Long work in slices, so that the loop serves others in between.

Work that may take long is written as `steps` and asks its `Slices` between two pieces of work::

    slices = Slices(clock)
    for piece in pieces:
        ...
        if slices.over():
            yield slices.next_turn()

Most long work is short most of the time: a request names one topic, and may name a million. Such work is
written as `Sliced`: it yields after each entry, and `in_slices` runs it. A few entries are worked off at
once, like a plain function, without a clock, a timer or a Pending; the rest goes in slices::

    def describe(names) -> Sliced[list[Topic]]:
        found = []
        for name in names:
            found.append(lookup(name))
            yield  # others may be served here
        return found

    topics = in_slices(describe(names), clock)      # list[Topic] | Pending[list[Topic]]

A generator costs 0.6 us, which is much for the requests that a broker lives on. Their work is a `Work`: an
object whose `step` does a given number of its entries. The handler that made it calls `step` once, and
`further_steps` if that was not all (docs/decisions/0029-requests-of-every-size.md)::

    work = _Produce(context, request)
    awaited = work.step(AT_ONCE_MAX)
    return work.value if work.done else further_steps(work, awaited, clock, PORTION, holder)

What a client asks after such work must not be done in the middle of it, so its connection is held between two
slices (`Holder`), though not while the work waits for something else.
"""

from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast

from barnabas.core.clock import Clock
from barnabas.core.pending import Pending, Steps, steps

T = TypeVar("T")

Sliced: TypeAlias = Generator[Any, Any, T]
"""Work that yields None wherever others may be served, and each Pending that it needs, as `steps` do."""

SLICE_MS: Final = 5.0
"""How long one slice may hold the loop: about as long as the garbage collector does."""

AT_ONCE: Final = 32
"""How many entries of `Sliced` work are worked off before the clock is looked at; none takes 1 ms."""

AFTER_WAIT: Final = 5
"""Portions of `Work` in the first step after a wait: nothing of its slice is used up then."""

ALL: Final = 1 << 30
"""As many entries as there are."""


class Holder(Protocol):
    """Where the work comes from: a connection, whose further requests can be deferred."""

    def hold(self) -> None:
        """No further request is handled until `release`."""

    def release(self) -> None:
        """Takes back one `hold`."""


class Slices:
    """Measures the current slice of one piece of long work; holds back what comes behind it in between."""

    __slots__ = ("_clock", "_holder", "_slice_ms", "_until_ms")

    def __init__(self, clock: Clock, slice_ms: float = SLICE_MS, *, holder: Holder | None = None) -> None:
        self._clock = clock
        self._holder = holder
        self._slice_ms = slice_ms
        self.begin()

    def over(self) -> bool:
        """Whether the slice has taken its time."""
        return self._clock.monotonic_ms() >= self._until_ms

    def begin(self) -> None:
        """The next slice begins now: the loop has served others."""
        self._until_ms = self._clock.monotonic_ms() + self._slice_ms

    def next_turn(self) -> Pending[None]:
        """Done when the loop has served the others; the next slice begins then."""
        turn: Pending[None] = Pending()
        if self._holder is not None:
            self._holder.hold()
        self._clock.call_soon(lambda: self._begin(turn))
        return turn

    def _begin(self, turn: Pending[None]) -> None:
        if self._holder is not None:
            self._holder.release()
        self.begin()
        turn.complete(None)


def in_one_piece(work: Sliced[T]) -> T:
    """The value of work that waits for nothing, without a pause; for callers that have no loop to hold."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        return cast("T", end.value)


def in_slices(
    work: Sliced[T], clock: Clock, *, holder: Holder | None = None, at_once: int = AT_ONCE
) -> T | Pending[T]:
    """The value of the work; a Pending of it where it has many entries, or waits for something.

    The `holder` is held between two slices. The first `at_once` entries go without a look at the clock. What
    the work raises among them is raised; later errors are those of the Pending.
    """
    try:
        for _ in range(at_once):
            awaited = next(work)
            if awaited is not None:
                return _rest(work, awaited, clock, holder)
    except StopIteration as end:
        return cast("T", end.value)
    return _rest(work, None, clock, holder)


def sliced_pending(work: Sliced[T], clock: Clock) -> Pending[T]:
    """As `in_slices`, for callers that wait for the store in any case: always a Pending."""
    return _rest(work, None, clock, None)


@steps
def _rest(work: Sliced[T], awaited: Pending[Any] | None, clock: Clock, holder: Holder | None) -> Steps[T]:
    slices = Slices(clock, holder=holder)
    try:
        while True:
            if awaited is None:
                if slices.over():
                    yield slices.next_turn()
                awaited = next(work)
                continue
            waits = not awaited.done
            try:
                value = yield awaited
            except Exception as error:
                resume = partial(work.throw, error)
            else:
                resume = partial(work.send, value)
            if waits:
                slices.begin()  # waiting does not hold the loop
            awaited = resume()
    except StopIteration as end:
        return cast("T", end.value)


class Work(Generic[T]):
    """Work on many entries, most often on one, that pauses between two steps."""

    __slots__ = ("done", "value")

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        """What has come of it, once it is done."""

    def step(self, entries: int) -> Pending[Any] | None:
        """Handles about this number of `entries`; a Pending if it has to wait for that before the next step.

        How the Pending ended is the work's business: it looks at it in its next step.
        """
        raise NotImplementedError


class TurnEnd(Pending[Any]):
    """Done when all requests that arrived together were handled, before the first of their answers leaves.

    A handler whose work waits for nothing else returns the work: its last step, of `ALL`, comes then.
    """


def further_steps(
    work: Work[T], awaited: Pending[Any] | None, clock: Clock, portion: int, holder: Holder | None
) -> Pending[T]:
    """What comes of work whose first step was not all of it, and has returned `awaited`.

    Its further steps are of a `portion` of entries, and the `holder` is held where a slice ends between them.
    """
    if awaited is None or awaited.done:
        return _further_steps(work, awaited, clock, portion, holder)
    value: Pending[T] = Pending()

    # Nearly always one step after the wait is all: it needs no slices either.
    def go_on(_ended: object) -> None:
        try:
            awaited = work.step(AFTER_WAIT * portion)
        except Exception as error:
            # Without this frame, as in `Pending`: it knows the value, and the value the error.
            value.fail(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
            return
        if work.done:
            value.complete(cast("T", work.value))
        else:
            _further_steps(work, awaited, clock, portion, holder).when_done(value.end_as)

    awaited.when_done(go_on)
    return value


@steps
def _further_steps(
    work: Work[T], awaited: Pending[Any] | None, clock: Clock, portion: int, holder: Holder | None
) -> Steps[T]:
    slices = Slices(clock, holder=holder)
    while not work.done:
        if awaited is None:
            if slices.over():
                yield slices.next_turn()
        elif not awaited.done:
            with suppress(Exception):
                yield awaited
            slices.begin()  # waiting does not hold the loop
        awaited = work.step(portion)
    return cast("T", work.value)
