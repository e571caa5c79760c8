"""`MemberTimers`: what may happen to a member when it stays silent or does not do as it was told."""

from collections.abc import Callable

from barnabas.coordinator.runtime.session import Due, Session
from barnabas.core.clock import Clock, Timer


class Alarm:
    """One deadline that can be set, set again and put off."""

    __slots__ = ("_timer",)

    def __init__(self) -> None:
        self._timer: Timer | None = None

    def set(self, clock: Clock, delay_ms: float, callback: Callable[[], object]) -> None:
        """Counts from now; an earlier deadline is forgotten."""
        self.clear()

        def ring() -> None:
            self._timer = None
            callback()

        self._timer = clock.call_later(delay_ms, ring)

    def set_unless_running(self, clock: Clock, delay_ms: float, callback: Callable[[], object]) -> None:
        """Counts from now unless it already counts."""
        if self._timer is None:
            self.set(clock, delay_ms, callback)

    def clear(self) -> None:
        """Nothing is expected any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class MemberTimers:
    """The deadlines of one member."""

    __slots__ = ("join", "rebalance", "session", "sync")

    def __init__(self, clock: Clock, expired: Callable[[], object], due: Due) -> None:
        self.session = Session(clock, expired, due)
        self.rebalance = Alarm()
        """To confirm that it gave partitions up (consumer protocol)."""
        self.join = Alarm()
        """To join again after it was told that the group rebalances (classic protocol)."""
        self.sync = Alarm()
        """To fetch its assignment after it joined (classic protocol)."""

    def close(self) -> None:
        """Stops them all."""
        self.session.end()
        for alarm in (self.rebalance, self.join, self.sync):
            alarm.clear()
