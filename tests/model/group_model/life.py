"""`Life`: one run of a process that can be stopped, continued and killed at any moment."""

from collections.abc import Callable
from typing import TypeVar

from barnabas.core.pending import Pending
from barnabas.testing.clock import VirtualClock

T = TypeVar("T")


class Life:
    """Everything that reaches the process goes through `deliver`: at once, after a pause, or never.

    A generator that waits for something that is never delivered simply never goes on; so to kill a process
    means to forget it.
    """

    def __init__(self, name: str, clock: VirtualClock) -> None:
        self.name = name
        self.alive = True
        self._clock = clock
        self._paused = False
        self._backlog: list[Callable[[], object]] = []

    @property
    def runs(self) -> bool:
        """Whether it is alive and not stopped."""
        return self.alive and not self._paused

    def deliver(self, callback: Callable[[], object]) -> None:
        """Something arrives from outside."""
        if self.runs:
            callback()
        elif self.alive:
            self._backlog.append(callback)

    def sleep(self, delay_ms: float) -> Pending[None]:
        """Done after so many virtual milliseconds, if the process lives and runs then."""
        slept: Pending[None] = Pending()
        self._clock.call_later(delay_ms, lambda: self.deliver(lambda: slept.complete(None)))
        return slept

    def pause(self) -> None:
        """SIGSTOP."""
        self._paused = True

    def resume(self) -> None:
        """SIGCONT: what arrived meanwhile is there at once."""
        self._paused = False
        backlog, self._backlog = self._backlog, []
        for callback in backlog:
            self.deliver(callback)

    def die(self) -> None:
        """Kill -9."""
        self.alive = False
        self._backlog.clear()

    def __repr__(self) -> str:
        state = "dead" if not self.alive else "paused" if self._paused else "runs"
        return f"<Life {self.name} {state}>"
