"""Requests that cannot be answered yet, and what wakes them (``DelayedOperationPurgatory``).

Theory of operation
-------------------
A `DelayedOperation` waits for something to become true: a high watermark, enough bytes, a leader. It is
watched under keys; what changes the state behind a key calls `check_and_complete(key)`, and every
operation under it is asked again. An operation ends exactly once: by `try_complete`, by its time running
out, or by `force_complete`; then it leaves every watch list at once, so that the purgatory holds only what
waits. An operation that can complete at once is never watched and costs no timer.

The purgatory refuses to know what an operation waits for, and knows no time but its `Clock`'s.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Final

from barnabas.core.clock import Clock, Timer
from barnabas.core.compiled import mypyc_attr

_UNWATCHED: Final = ()


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(ABC):
    """Something that ends later, once. A subclass says when it may end and what happens then."""

    __slots__ = ("completed", "keys", "purgatory", "timer")

    def __init__(self) -> None:
        self.completed = False
        self.purgatory: Purgatory | None = None
        self.timer: Timer | None = None
        self.keys: tuple[Hashable, ...] = _UNWATCHED

    @abstractmethod
    def try_complete(self, key: Hashable = None) -> bool:
        """Calls `force_complete` if what it waits for is true; whether it is completed.

        The key says what has changed, None where anything may have: an operation that waits
        for thousands of keys looks only at that one.
        """

    @abstractmethod
    def on_complete(self) -> None:
        """Answers with what there is; runs exactly once."""

    def expire(self) -> None:
        """Its time is over."""
        self.force_complete()

    def force_complete(self) -> bool:
        """Ends the operation now; False if it had ended before."""
        if self.completed:
            return False
        self.completed = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.purgatory is not None:
            self.purgatory.forget(self)
        # Last, when nothing watches it: the answer may bring the next request of the client at once.
        self.on_complete()
        return True


class Purgatory:
    """The waiting operations of one kind, by what they wait for."""

    __slots__ = ("_clock", "_name", "_watchers", "size")

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        # The inner dict is an ordered set: the operation that waited first is asked first.
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self.size = 0

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: float
    ) -> bool:
        """Whether the operation completed at once; else it waits under the keys, at most `timeout_ms`."""
        if operation.try_complete():
            return True
        self.watch(operation, keys, timeout_ms)
        return False

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: float) -> None:
        """Lets an operation wait that cannot complete now."""
        assert operation.purgatory is None, "an operation waits in one purgatory, once"
        operation.purgatory = self
        operation.keys = tuple(dict.fromkeys(keys))
        for key in operation.keys:
            self._watchers.setdefault(key, {})[operation] = None
        self.size += 1
        operation.timer = self._clock.call_later(timeout_ms, operation.expire)

    def check_and_complete(self, key: Hashable) -> int:
        """Asks every operation under the key again; how many completed."""
        watchers = self._watchers.get(key)
        if not watchers:
            return 0
        # A completion may append, and so come back here: walk a copy, and trust `completed`.
        return sum(not each.completed and each.try_complete(key) for each in list(watchers))

    def complete_all(self) -> None:
        """Ends everything that waits, also what cannot complete; for shutdown."""
        for watchers in list(self._watchers.values()):
            for operation in list(watchers):
                operation.force_complete()

    def watches(self, key: Hashable) -> int:
        return len(self._watchers.get(key, ()))

    def forget(self, operation: DelayedOperation) -> None:
        """Takes a completed operation off every watch list."""
        for key in operation.keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
        operation.keys = _UNWATCHED
        operation.purgatory = None
        self.size -= 1

    def __repr__(self) -> str:
        return f"<Purgatory {self._name} waiting={self.size} keys={len(self._watchers)}>"
