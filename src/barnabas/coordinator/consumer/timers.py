"""`MemberTimers`: the deadlines of a member, after which it is fenced."""

from collections.abc import Callable
from typing import TypeAlias

from barnabas.coordinator.runtime.session import Due, Session
from barnabas.core.clock import Clock, Timer

Fence: TypeAlias = Callable[[str, Callable[[float], object]], object]
"""Removes the member, for a reason;
where the log refuses that, sets the deadline again, a number of ms from now.
"""


class Alarm:
    """One deadline; a member that misses it is fenced."""

    __slots__ = ("_clock", "_fence", "_reason", "_timer")

    def __init__(self, clock: Clock, fence: Fence, reason: str) -> None:
        self._clock = clock
        self._fence = fence
        self._reason = reason
        self._timer: Timer | None = None

    def set(self, delay_ms: float, still_due: Callable[[], bool] | None = None) -> None:
        """Counts from now; an earlier deadline is forgotten. `still_due` is asked when it is over."""
        self.clear()

        def ring() -> None:
            self._timer = None
            if still_due is None or still_due():
                self._fence(self._reason, lambda retry_ms: self.set(retry_ms, still_due))

        self._timer = self._clock.call_later(delay_ms, ring)

    def set_if_absent(self, delay_ms: float) -> None:
        if self._timer is None:
            self.set(delay_ms)

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class MemberTimers:
    """The deadlines of one member."""

    __slots__ = ("join", "rebalance", "session", "sync")

    def __init__(self, clock: Clock, fence: Fence, due: Due) -> None:
        self.session = Session(clock, lambda: fence("its session ended", self.session.extend), due)
        self.rebalance = Alarm(clock, fence, "it did not give up its partitions in time")
        """To confirm that it gave partitions up (consumer protocol)."""
        self.join = Alarm(clock, fence, "it did not join again in time")
        """To join again after a Heartbeat was answered REBALANCE_IN_PROGRESS (classic protocol)."""
        self.sync = Alarm(clock, fence, "it did not fetch its assignment in time")
        """To fetch its assignment after it joined (classic protocol)."""

    def close(self) -> None:
        self.session.end()
        for alarm in (self.rebalance, self.join, self.sync):
            alarm.clear()
