"""A member's session: silence for too long ends it (``DelayedHeartbeat``).

One timer a member, as Kafka has one delayed operation a member. A heartbeat only moves the deadline; the timer
finds out when it fires and goes on from there. So twenty thousand members that say so every three seconds cost
one assignment each, and one timer per member and session time-out.
"""

from collections.abc import Callable

from barnabas.core.clock import Clock, Timer


class Session:
    """Calls back once when nothing was heard for the time-out; held, it never does."""

    __slots__ = ("_clock", "_deadline_ms", "_expired", "_timer")

    def __init__(self, clock: Clock, expired: Callable[[], object]) -> None:
        self._clock = clock
        self._expired = expired
        self._deadline_ms = 0.0
        self._timer: Timer | None = None

    def extend(self, timeout_ms: float) -> None:
        """The member is alive: counts anew from now, with this time-out."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        sooner = deadline_ms < self._deadline_ms
        self._deadline_ms = deadline_ms
        if sooner and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._clock.call_later(timeout_ms, self._check)

    def end(self) -> None:
        """Nothing is expected of the member any more; `extend` begins again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def running(self) -> bool:
        """Whether the member must speak before a deadline."""
        return self._timer is not None

    def _check(self) -> None:
        left_ms = self._deadline_ms - self._clock.monotonic_ms()
        if left_ms > 0:
            self._timer = self._clock.call_later(left_ms, self._check)
            return
        self._timer = None
        self._expired()
