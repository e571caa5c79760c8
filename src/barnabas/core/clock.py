"""The clock port: time and timers as constructor arguments.

Nothing below the edge reads the wall clock or starts a timer by itself; it is handed a `Clock`. The real
one stands on the event loop (`barnabas.node`), the virtual one in `barnabas.testing`.
"""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Forgets the callback; harmless when it has already run."""


class Clock(Protocol):
    """Time in milliseconds, and callbacks on the thread that owns the broker's state."""

    def time_ms(self) -> int:
        """Milliseconds since 1970 by the wall clock; may jump."""

    def monotonic_ms(self) -> float:
        """Milliseconds of a clock that never goes backwards; for durations and deadlines."""

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Runs the callback once, not earlier than after the delay."""

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Runs the callback in the next turn of the loop, after what is already waiting."""
