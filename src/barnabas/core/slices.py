"""Long work in slices, so that the loop serves others in between.

Whatever may take long is written as `steps` and asks its `Slices` between two pieces of work::

    slices = Slices(clock)
    for piece in pieces:
        ...
        if slices.over():
            yield slices.next_turn()
"""

from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.pending import Pending

SLICE_MS: Final = 5.0
"""How long one slice may hold the loop: about as long as the garbage collector does."""


class Slices:
    """Measures the current slice of one piece of long work."""

    __slots__ = ("_clock", "_slice_ms", "_until_ms")

    def __init__(self, clock: Clock, slice_ms: float = SLICE_MS) -> None:
        self._clock = clock
        self._slice_ms = slice_ms
        self._until_ms = clock.monotonic_ms() + slice_ms

    def over(self) -> bool:
        """Whether the slice has taken its time."""
        return self._clock.monotonic_ms() >= self._until_ms

    def next_turn(self) -> Pending[None]:
        """Done when the loop has served the others; the next slice begins then."""
        turn: Pending[None] = Pending()
        self._clock.call_soon(lambda: self._begin(turn))
        return turn

    def _begin(self, turn: Pending[None]) -> None:
        self._until_ms = self._clock.monotonic_ms() + self._slice_ms
        turn.complete(None)
