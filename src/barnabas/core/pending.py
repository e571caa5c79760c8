"""`Pending`: a value that will exist later, without an event loop.

Theory of operation
-------------------
Nothing below the edge suspends, yet a long poll, a write to ZooKeeper or an acks=all produce ends later
than it starts. Such a call returns a `Pending`; the code that finishes the work calls `complete` or `fail`
exactly once, and everything chained with `then` runs there and then, on the same thread, in order.

Work in several steps (the controller's transitions, creating a topic) reads best from top to bottom. It
is written as a generator that yields each Pending it needs and is sent the value::

    @steps
    def create(self, topic):
        children = yield self.store.children("/brokers/topics")
        ...
        return czxid                      # the value of the Pending that the call returns

An awaited failure is raised inside the generator at its ``yield``. There is no scheduler: a generator runs
when what it waits for completes, so the order of events is the order of completions and a seed replays it.
"""

import functools
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar

T = TypeVar("T")
U = TypeVar("U")
P = ParamSpec("P")

Steps: TypeAlias = Generator["Pending[Any]", Any, T]
"""What a function decorated with `steps` is written as."""

_WAITING: Final = object()


class Pending(Generic[T]):
    """A result that arrives once: a value or an exception."""

    __slots__ = ("_callbacks", "_error", "_value")

    def __init__(self) -> None:
        self._value: Any = _WAITING
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Pending[T]], object]] | None = None

    @classmethod
    def of(cls, value: T) -> "Pending[T]":
        """One that is already complete."""
        pending = cls()
        pending._value = value
        return pending

    @classmethod
    def failed(cls, error: BaseException) -> "Pending[T]":
        """One that has already failed."""
        pending = cls()
        pending._value = None
        pending._error = error
        return pending

    @property
    def done(self) -> bool:
        """Whether the value or the error is there."""
        return self._value is not _WAITING

    @property
    def error(self) -> BaseException | None:
        """The exception it failed with, if it did."""
        return self._error

    def result(self) -> T:
        """The value; raises what it failed with, or RuntimeError while it is not done."""
        if self._value is _WAITING:
            raise RuntimeError("the result of a Pending was asked for before it is there")
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def complete(self, value: T) -> bool:
        """Hands over the value and runs what waits for it; False if it was done before."""
        if self._value is not _WAITING:
            return False
        self._value = value
        self._run_callbacks()
        return True

    def fail(self, error: BaseException) -> bool:
        """Hands over an error instead of a value; False if it was done before."""
        if self._value is not _WAITING:
            return False
        self._value = None
        self._error = error
        self._run_callbacks()
        return True

    def end_as(self, other: "Pending[T]") -> None:
        """Completes or fails as another one that is done: ``other.when_done(this.end_as)``."""
        if other.error is not None:
            self.fail(other.error)
        else:
            self.complete(other.result())

    def when_done(self, callback: "Callable[[Pending[T]], object]") -> None:
        """Runs the callback with this Pending as soon as it is done (at once if it is)."""
        if self._value is not _WAITING:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def then(self, function: Callable[[T], U]) -> "Pending[U]":
        """A Pending of the function's value; errors, here or in the function, pass through."""
        following: Pending[U] = Pending()
        # No function inside this one: it would evaluate its annotations each time, 40 % of this call.
        self.when_done(functools.partial(Pending._proceed, function=function, following=following))
        return following

    def _proceed(self, function: Callable[[T], U], following: "Pending[U]") -> None:
        if self._error is not None:
            following.fail(self._error)
            return
        try:
            value = function(self._value)
        except Exception as error:
            following.fail(error)
        else:
            following.complete(value)

    def _run_callbacks(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(self)

    def __repr__(self) -> str:
        if self._value is _WAITING:
            return "<Pending waiting>"
        return f"<Pending failed {self._error!r}>" if self._error else f"<Pending {self._value!r}>"


def steps(function: Callable[P, Steps[T]]) -> Callable[P, Pending[T]]:
    """Turns a generator that yields Pendings into a function that returns the Pending of its value."""

    @functools.wraps(function)
    def start(*args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        outcome: Pending[T] = Pending()
        _advance(function(*args, **kwargs), None, outcome)
        return outcome

    return start


def _advance(generator: Steps[T], awaited: Pending[Any] | None, outcome: Pending[T]) -> None:
    """Runs the generator until it waits for something that is not there yet.

    What is already complete is sent in a loop, not by recursion: a thousand finished steps in a row must
    not use up the stack.
    """
    while True:
        try:
            if awaited is None:
                awaited = next(generator)
            elif awaited.error is not None:
                awaited = generator.throw(awaited.error)
            else:
                awaited = generator.send(awaited.result())
        except StopIteration as stop:
            value = stop.value
            break
        except Exception as error:
            # Without this frame in its traceback: the frame knows the outcome, and the outcome the error.
            # Such a cycle would keep what the generator worked on in memory until the garbage collector runs.
            outcome.fail(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
            return
        if not awaited.done:
            awaited.when_done(lambda done: _advance(generator, done, outcome))
            return
    # Not where StopIteration is handled: an error of what follows would have it, and the value, as its
    # context.
    outcome.complete(value)


def gather(pendings: Iterable[Pending[T]]) -> Pending[list[Pending[T]]]:
    """Completes with all of them once every one is done; look at each for its value or error."""
    waiting = list(pendings)
    outcome: Pending[list[Pending[T]]] = Pending()
    left = len(waiting)
    if not left:
        outcome.complete(waiting)

    def one_done(_: "Pending[T]") -> None:
        nonlocal left
        left -= 1
        if not left:
            outcome.complete(waiting)

    for pending in waiting:
        pending.when_done(one_done)
    return outcome
