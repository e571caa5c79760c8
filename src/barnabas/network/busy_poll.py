"""Staying awake for a moment after a small request, because sleeping costs more than answering.

Theory of operation
-------------------
A client with one small request in flight sends the next one right after the answer. A loop that sleeps in
between is woken by the system, and on a virtual machine going to sleep and waking up takes longer than the
request itself. So after a small exchange the connection itself is read from again and again for `window_ms` (a
*vigil*), and its requests are answered on the spot, without a turn of the loop for each. Every `TURN_MS` the loop has
a turn with everything else.

It pays only if the next request comes in that time, so only a conversation counts: two requests in a row on one
connection. A vigil without a next one was in vain; after the n-th in a row the next 2^n occasions are slept through,
up to 64. A busy loop finds events without any of this, a silent one keeps no vigil, because nothing begins it, and a
crowd that speaks in turn (thousands of heartbeats a second) keeps the loop awake by itself.
"""

from collections.abc import Callable
from typing import Final

from barnabas.core.clock import Clock

CONVERSATION_MS: Final = 1.0
"""Only a request that comes this soon after the one before begins a vigil."""
TURN_MS: Final = 0.5
"""How long everybody else waits at most for the end of a vigil, beside the window."""
SKIPPED_MAX: Final = 64


class BusyPoll:
    """Decides when the connections of one event loop keep vigil."""

    __slots__ = ("_clock", "_last_ms", "_skip", "_skipped", "_speaker", "_window_ms")

    def __init__(self, clock: Clock, window_ms: float) -> None:
        """A window of 0 keeps no vigil at all."""
        self._clock = clock
        self._window_ms = window_ms
        self._last_ms = 0.0
        self._speaker = 0
        """Whose exchange was the last, by the identity of the connection."""
        self._skip = 0
        self._skipped = 0

    def begins(self, connection: object) -> bool:
        """A small request of this connection was answered at once: whether to keep vigil for its next one."""
        if not self._window_ms:
            return False
        before, self._speaker = self._speaker, id(connection)
        if before != self._speaker:
            return False
        now = self._clock.monotonic_ms()
        since, self._last_ms = now - self._last_ms, now
        if since > CONVERSATION_MS:
            return False
        if self._skipped < self._skip:
            self._skipped += 1
            return False
        self._skipped = 0
        return True

    def keep(self, connection: object, receive: Callable[[], bool | None]) -> bool:
        """Keeps vigil over a connection. `receive` reads from it: None if nothing has come, True after another
        small exchange, False after anything else. Whether to go on after the loop's turn.
        """
        if self._speaker != id(connection):
            return False
        monotonic_ms, window_ms = self._clock.monotonic_ms, self._window_ms
        now = monotonic_ms()
        turn_over, over = now + TURN_MS, now + window_ms
        vain = True
        while now < over:
            answered = receive()
            now = monotonic_ms()
            if answered:
                vain = False
                over = now + window_ms
                if now >= turn_over:
                    break
            elif answered is not None:
                break
        self._last_ms = now
        self._skip = min(max(1, 2 * self._skip), SKIPPED_MAX) if vain else 0
        return bool(answered)

    def __repr__(self) -> str:
        return f"<BusyPoll window={self._window_ms} ms skip={self._skip}>"
