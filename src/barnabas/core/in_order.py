"""Work that waits for the store, one piece after the other."""

from collections.abc import Callable
from typing import TypeVar

from barnabas.core.pending import Pending

T = TypeVar("T")


class InOrder:
    """Begins each piece of work when all that was given before it has ended, well or badly."""

    def __init__(self) -> None:
        self._last: Pending[None] = Pending.of(None)

    def run(self, work: Callable[[], Pending[T]]) -> Pending[T]:
        """What the work comes to."""
        result: Pending[T] = Pending()
        ended: Pending[None] = Pending()
        before, self._last = self._last, ended

        def end(done: "Pending[T]") -> None:
            result.end_as(done)
            ended.complete(None)

        before.when_done(lambda _: work().when_done(end))
        return result
