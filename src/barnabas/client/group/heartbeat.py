"""`Heartbeat`: when a member has to speak up, and when silence means that something is wrong.

Three clocks run: the interval until the next heartbeat, the session (since the coordinator last answered one),
and the poll interval (since the caller last polled). All times are milliseconds of the monotonic clock and are
arguments. (``org.apache.kafka.clients.consumer.internals.Heartbeat``.)
"""

from barnabas.client.group.settings import GroupSettings
from barnabas.network.backoff import ExponentialBackoff


class Heartbeat:
    """The timing of one member."""

    def __init__(self, settings: GroupSettings, backoff: ExponentialBackoff, now_ms: float) -> None:
        self.in_flight = False
        self._settings = settings
        self._backoff = backoff
        self._failures = 0
        self._next_ms = now_ms
        self._session_until_ms = now_ms
        self._poll_until_ms = now_ms
        self.reset(now_ms)

    def reset(self, now_ms: float) -> None:
        """All clocks begin anew: the member has joined, which the coordinator heard."""
        self._next_ms = now_ms + self._settings.heartbeat_interval_ms
        self._failures = 0
        self.reset_session(now_ms)
        self.polled(now_ms)

    def reset_session(self, now_ms: float) -> None:
        """The session begins anew, as with a coordinator that was just found."""
        self._session_until_ms = now_ms + self._settings.session_timeout_ms

    def polled(self, now_ms: float) -> None:
        """The caller is alive."""
        self._poll_until_ms = now_ms + self._settings.rebalance_timeout_ms

    def sent(self, now_ms: float) -> None:
        """A heartbeat is under way."""
        self.in_flight = True
        self._next_ms = now_ms + self._settings.heartbeat_interval_ms

    def received(self, now_ms: float) -> None:
        """The coordinator answered."""
        self.in_flight = False
        self._failures = 0
        self.reset_session(now_ms)

    def failed(self, now_ms: float) -> None:
        """The heartbeat did not count; the next one comes after a pause that grows."""
        self.in_flight = False
        self._next_ms = now_ms + self._backoff.after(self._failures)
        self._failures += 1

    def session_expired(self, now_ms: float) -> bool:
        """Whether the coordinator was silent for too long."""
        return now_ms >= self._session_until_ms

    def poll_expired(self, now_ms: float) -> bool:
        """Whether the caller was silent for too long."""
        return now_ms >= self._poll_until_ms

    def is_due(self, now_ms: float) -> bool:
        """Whether a heartbeat should be sent."""
        return not self.in_flight and now_ms >= self._next_ms

    def wait_ms(self, now_ms: float) -> float:
        """How long nothing has to be done."""
        first = min(self._session_until_ms, self._poll_until_ms)
        if not self.in_flight:
            first = min(first, self._next_ms)
        return max(0.0, first - now_ms)

    def __repr__(self) -> str:
        return f"<Heartbeat {'in flight' if self.in_flight else 'idle'} failures={self._failures}>"
