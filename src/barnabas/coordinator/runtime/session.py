"""A member's session: silence for too long ends it (``DelayedHeartbeat``).

One timer a member, as Kafka has one delayed operation a member. A heartbeat only moves the deadline. The
timer compares when it fires, and is set again for what is left. So a heartbeat costs one assignment, and a
member one timer in each session time-out.

An event loop runs its timers a few milliseconds late, and after the requests that came meanwhile. A client
that deletes a group at the moment when a session is over must not find the member: `Due.end_overdue` ends
what is over before a request looks at a group. `Due` knows the earliest possible deadline, so that the
members of a large group are looked through about once in a session time-out and not for each request.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final

from barnabas.core.clock import Clock, Timer

LATE_MS_MAX: Final = 100
"""How late the loop may be for a request to end a session. If it was held for longer, the member's heartbeat
may lie unread in another connection: then the timer decides, which runs after the requests that have come.
"""


class Due:
    """When the first session of a group can be over, in monotonic milliseconds.

    A lower bound: signs of life only move deadlines away, and what is not walked is not known.
    """

    __slots__ = ("at_ms",)

    def __init__(self) -> None:
        self.at_ms = math.inf

    def end_overdue(self, sessions: Iterable["Session"], now_ms: float) -> None:
        """Ends those of the group's sessions that are over, as their timers would in a moment."""
        over = []
        self.at_ms = math.inf
        for session in sessions:
            if session.running:
                # Over, and the loop is not far behind: `LATE_MS_MAX` says why a later one is left to its
                # timer.
                if 0 <= now_ms - session.deadline_ms <= LATE_MS_MAX:
                    over.append(session)
                else:
                    self.at_ms = min(self.at_ms, session.deadline_ms)
        # After the walk: the end of a session removes the member from what is walked.
        for session in over:
            session.expire()


class Session:
    """Calls back once when the member was silent for the time-out."""

    __slots__ = ("_clock", "_due", "_expired", "_timer", "deadline_ms")

    def __init__(self, clock: Clock, expired: Callable[[], object], due: Due) -> None:
        self._clock = clock
        self._expired = expired
        self._due = due
        self.deadline_ms = 0.0
        self._timer: Timer | None = None

    def extend(self, timeout_ms: float) -> None:
        """The member is alive: the time-out counts from now."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        # A shorter time-out than before (a new JoinGroup may change it): the running timer would be late.
        sooner = deadline_ms < self.deadline_ms
        self.deadline_ms = deadline_ms
        if sooner and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # The running timer looks at the new deadline when it fires; only without one a new one is set.
        if self._timer is None:
            self._due.at_ms = min(self._due.at_ms, deadline_ms)
            self._timer = self._clock.call_later(timeout_ms, self._check)

    def end(self) -> None:
        """The member may be silent from now on; `extend` starts the time-out again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def running(self) -> bool:
        """Whether the member must speak before a deadline."""
        return self._timer is not None

    def expire(self) -> None:
        """Ends the session as its timer would."""
        self.end()
        self._expired()

    def _check(self) -> None:
        left_ms = self.deadline_ms - self._clock.monotonic_ms()
        # Heartbeats have moved the deadline since the timer was set.
        if left_ms > 0:
            self._timer = self._clock.call_later(left_ms, self._check)
            return
        self._timer = None
        self._expired()
