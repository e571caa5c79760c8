"""The controller's requests, one at a time (``replicaStateChangeLock``).

Theory of operation
-------------------
LeaderAndIsr, StopReplica and UpdateMetadata may name every partition of the cluster, so they are worked off
in slices. Two of them must not cross: the connection of a controller that was replaced may still hold a
request when the new controller sends its first. A request that comes while one is worked off waits here, and
looks at the epochs when its turn comes. A request that finds the queue empty and is small is done when `run`
returns.
"""

from collections import deque
from typing import Any, TypeVar

from barnabas.core.clock import Clock
from barnabas.core.pending import Pending
from barnabas.core.slices import AT_ONCE, Holder, Sliced, in_slices

T = TypeVar("T")


class ControlQueue:
    """Works off one request after the other, in the order of their arrival."""

    __slots__ = ("_busy", "_clock", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._busy = False
        self._waiting: deque[tuple[Sliced[Any], Holder | None, int, Pending[Any]]] = deque()

    def run(self, work: Sliced[T], *, holder: Holder | None = None, at_once: int = AT_ONCE) -> T | Pending[T]:
        """The value of the work, whose first entry is not begun before all earlier work has ended.

        The `holder` is held while the work waits for its turn, and between two slices. `at_once` is that of
        `in_slices`.
        """
        if not self._busy:
            return self._begin(work, holder, at_once)
        answer: Pending[T] = Pending()
        if holder is not None:
            holder.hold()
        self._waiting.append((work, holder, at_once, answer))
        return answer

    def _begin(self, work: Sliced[T], holder: Holder | None, at_once: int) -> T | Pending[T]:
        self._busy = True
        try:
            outcome = in_slices(work, self._clock, holder=holder, at_once=at_once)
        except Exception:
            self._ended()
            raise
        if isinstance(outcome, Pending) and not outcome.done:
            outcome.when_done(self._ended)
            return outcome
        self._ended()
        return outcome.result() if isinstance(outcome, Pending) else outcome

    def _ended(self, _: object = None) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            # In a turn of its own: many small requests that waited must not make one long piece together.
            self._clock.call_soon(self._begin_next)

    def _begin_next(self) -> None:
        work, holder, at_once, answer = self._waiting.popleft()
        try:
            outcome = self._begin(work, holder, at_once)
        except Exception as error:
            answer.fail(error)
        else:
            if isinstance(outcome, Pending):
                outcome.when_done(answer.end_as)
            else:
                answer.complete(outcome)
        finally:
            # Only now: what the same client asked later is not to be done before this was begun.
            if holder is not None:
                holder.release()

    def __repr__(self) -> str:
        return f"<ControlQueue {'busy' if self._busy else 'idle'} waiting={len(self._waiting)}>"
