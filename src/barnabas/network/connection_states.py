"""The state of a client's connection to one node (``ClusterConnectionStates``).

Theory of operation
-------------------
`TRANSITIONS` is the machine; an event that a state has no row for is a bug of the caller and raises.

    DISCONNECTED --connect--> CONNECTING --check--> CHECKING_API_VERSIONS --ready--> READY
         ^                        |                          |                        |
         +-------disconnect-------+--------------------------+------------------------+

Two waits grow with failure. The *reconnect backoff* grows with every loss of a connection that had not
become READY since, and starts over at READY. The *set-up time-out*, the longest that CONNECTING may last,
grows only when the connection is lost while CONNECTING, and starts over at any later state.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas.core.errors import IllegalTransitionError
from barnabas.network.backoff import ExponentialBackoff


class ConnectionState(Enum):
    """Where the connection to a node stands."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking_api_versions"
    READY = "ready"
    AUTHENTICATION_FAILED = "authentication_failed"

    @property
    def disconnected(self) -> bool:
        """Whether a new attempt is needed."""
        return self in {ConnectionState.DISCONNECTED, ConnectionState.AUTHENTICATION_FAILED}


class ConnectionEvent(Enum):
    """What happens to a connection."""

    CONNECT = "connect"
    CHECK = "check"
    READY = "ready"
    DISCONNECT = "disconnect"
    FAIL_AUTHENTICATION = "fail_authentication"


TRANSITIONS: Final[dict[ConnectionState, dict[ConnectionEvent, ConnectionState]]] = {
    ConnectionState.DISCONNECTED: {
        ConnectionEvent.CONNECT: ConnectionState.CONNECTING,
        # The selector reports the loss first, and that authentication was its reason second.
        ConnectionEvent.FAIL_AUTHENTICATION: ConnectionState.AUTHENTICATION_FAILED,
    },
    ConnectionState.CONNECTING: {
        ConnectionEvent.CHECK: ConnectionState.CHECKING_API_VERSIONS,
        ConnectionEvent.READY: ConnectionState.READY,
        ConnectionEvent.DISCONNECT: ConnectionState.DISCONNECTED,
    },
    ConnectionState.CHECKING_API_VERSIONS: {
        # Asked again with a lower version (UNSUPPORTED_VERSION).
        ConnectionEvent.CHECK: ConnectionState.CHECKING_API_VERSIONS,
        ConnectionEvent.READY: ConnectionState.READY,
        ConnectionEvent.DISCONNECT: ConnectionState.DISCONNECTED,
    },
    ConnectionState.READY: {
        ConnectionEvent.DISCONNECT: ConnectionState.DISCONNECTED,
    },
    ConnectionState.AUTHENTICATION_FAILED: {
        ConnectionEvent.CONNECT: ConnectionState.CONNECTING,
    },
}


@dataclass(frozen=True, slots=True)
class ConnectionTimings:
    """The two growing waits, shared by all nodes of a client."""

    reconnect: ExponentialBackoff
    setup: ExponentialBackoff


class NodeConnectionState:
    """One node's state with its waits. Times are in milliseconds of a monotonic clock."""

    __slots__ = (
        "_timings",
        "error",
        "failed_attempts",
        "failed_connect_attempts",
        "last_attempt_ms",
        "reconnect_backoff_ms",
        "setup_timeout_ms",
        "state",
        "throttled_until_ms",
    )

    def __init__(self, timings: ConnectionTimings) -> None:
        self._timings = timings
        self.state = ConnectionState.DISCONNECTED
        self.error: Exception | None = None
        """Why authentication failed, in AUTHENTICATION_FAILED."""
        self.last_attempt_ms: float | None = None
        """When the connection was last begun or lost; None before the first attempt."""
        self.throttled_until_ms = 0.0
        self.failed_attempts = 0
        self.failed_connect_attempts = 0
        self.reconnect_backoff_ms = timings.reconnect.after(0)
        self.setup_timeout_ms = timings.setup.after(0)

    def connecting(self, now_ms: float) -> None:
        self._move(ConnectionEvent.CONNECT)
        self.last_attempt_ms = now_ms

    def checking_api_versions(self) -> None:
        """The connection stands; the node is asked for its versions."""
        self._move(ConnectionEvent.CHECK)
        self._reset_setup_timeout()

    def ready(self) -> None:
        self._move(ConnectionEvent.READY)
        self.error = None
        self.failed_attempts = 0
        self.reconnect_backoff_ms = self._timings.reconnect.after(0)
        self._reset_setup_timeout()

    def disconnected(self, now_ms: float) -> None:
        while_connecting = self.state is ConnectionState.CONNECTING
        self._move(ConnectionEvent.DISCONNECT)
        self.last_attempt_ms = now_ms
        self._grow_backoff()
        if while_connecting:
            self.failed_connect_attempts += 1
            self.setup_timeout_ms = self._timings.setup.after(self.failed_connect_attempts)
        else:
            self._reset_setup_timeout()

    def authentication_failed(self, now_ms: float, error: Exception) -> None:
        """The connection that was just lost had failed to authenticate."""
        self._move(ConnectionEvent.FAIL_AUTHENTICATION)
        self.error = error
        self.last_attempt_ms = now_ms
        self._grow_backoff()

    def throttle(self, until_ms: float) -> None:
        """Nothing is sent before this time; the latest time counts."""
        self.throttled_until_ms = max(self.throttled_until_ms, until_ms)

    def is_ready(self, now_ms: float) -> bool:
        return self.state is ConnectionState.READY and self.throttled_until_ms <= now_ms

    def can_connect(self, now_ms: float) -> bool:
        """Whether an attempt may begin: not connected, and the backoff is over."""
        return self.state.disconnected and not self.backoff_left_ms(now_ms)

    def backoff_left_ms(self, now_ms: float) -> float:
        if self.last_attempt_ms is None:
            return 0.0
        return max(self.last_attempt_ms + self.reconnect_backoff_ms - now_ms, 0.0)

    def setup_timed_out(self, now_ms: float) -> bool:
        started = self.last_attempt_ms
        return (
            self.state is ConnectionState.CONNECTING
            and started is not None
            and now_ms - started > self.setup_timeout_ms
        )

    def _grow_backoff(self) -> None:
        self.reconnect_backoff_ms = self._timings.reconnect.after(self.failed_attempts)
        self.failed_attempts += 1

    def _reset_setup_timeout(self) -> None:
        self.failed_connect_attempts = 0
        self.setup_timeout_ms = self._timings.setup.after(0)

    def _move(self, event: ConnectionEvent) -> None:
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            raise IllegalTransitionError(f"{event.name} while {self.state.name}")
        self.state = following

    def __repr__(self) -> str:
        return f"<NodeConnectionState {self.state.name} failed_attempts={self.failed_attempts}>"
