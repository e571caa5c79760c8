"""Staying awake for a moment after a small request, because sleeping costs more than answering.

Theory of operation
-------------------
A client with one small request in flight sends the next one right after the answer. A loop that sleeps in
between is woken by the system, and on a virtual machine going to sleep and waking up takes longer than the
request itself. So after a small exchange the loop keeps turning for `window_ms`, without a timeout in its
selector; everything else it has to do is done in those turns as in any other.

It pays only if the next request comes in that time, so only a conversation counts: two requests in a row on one
connection. A vigil without a next one was in vain; after the n-th in a row the next 2^n occasions are slept through,
up to 64. A busy loop finds events without any of this, a silent one keeps no vigil, because nothing begins it, and a
crowd that speaks in turn (thousands of heartbeats a second) keeps the loop awake by itself.
"""

from typing import Final

from barnabas.core.clock import Clock

CONVERSATION_MS: Final = 1.0
"""Only a request that comes this soon after the one before begins a vigil."""
SKIPPED_MAX: Final = 64


class BusyPoll:
    """Keeps one event loop awake while small requests follow each other closely."""

    __slots__ = (
        "_clock",
        "_hit",
        "_last_ms",
        "_skip",
        "_skipped",
        "_speaker",
        "_until_ms",
        "_vigil",
        "_window_ms",
    )

    def __init__(self, clock: Clock, window_ms: float) -> None:
        """A window of 0 keeps no vigil at all."""
        self._clock = clock
        self._window_ms = window_ms
        self._vigil = False
        self._hit = False
        self._until_ms = 0.0
        self._last_ms = 0.0
        self._speaker = 0
        """Whose exchange was the last, by the identity of the connection."""
        self._skip = 0
        self._skipped = 0

    @property
    def awake(self) -> bool:
        """Whether the loop is being kept awake."""
        return self._vigil

    def small_exchange(self, connection: object) -> None:
        """A small request of this connection was answered at once."""
        if not self._window_ms:
            return
        before, self._speaker = self._speaker, id(connection)
        if before != self._speaker:
            return
        now = self._clock.monotonic_ms()
        since, self._last_ms = now - self._last_ms, now
        if self._vigil:
            self._hit = True
            self._until_ms = now + self._window_ms
        elif since <= CONVERSATION_MS:
            self._begin(now)

    def _begin(self, now: float) -> None:
        if self._skipped < self._skip:
            self._skipped += 1
            return
        self._skipped = 0
        self._vigil = True
        self._hit = False
        self._until_ms = now + self._window_ms
        self._clock.call_soon(self._turn)

    def _turn(self) -> None:
        if self._clock.monotonic_ms() < self._until_ms:
            self._clock.call_soon(self._turn)
            return
        self._vigil = False
        self._skip = 0 if self._hit else min(max(1, 2 * self._skip), SKIPPED_MAX)

    def __repr__(self) -> str:
        return (
            f"<BusyPoll {'awake' if self._vigil else 'asleep'} window={self._window_ms} ms skip={self._skip}>"
        )
