"""Requests that were sent and wait for their responses (``InFlightRequests``), one queue a node."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from barnabas.core.pending import Pending
from barnabas.protocol.message import Request


class ClientRequest(Pending[Any]):
    """A request to one node, from the moment it is asked for (``ClientRequest``).

    It completes with the response of the request's class, or with None when none is expected; it fails
    with DisconnectedError (or a kind of it), UnsupportedVersionError or ProtocolError.
    """

    __slots__ = (
        "api",
        "correlation_id",
        "deadline_ms",
        "expects_response",
        "internal",
        "request",
        "timeout_ms",
        "version",
        "versions",
    )

    def __init__(
        self,
        request: Request,
        *,
        timeout_ms: float,
        deadline_ms: float,
        versions: tuple[int, int] | None = None,
        expects_response: bool = True,
        internal: bool = False,
    ) -> None:
        super().__init__()
        assert request.api is not None, "only requests can be sent"
        self.api = request.api
        self.request = request
        self.versions = versions
        """The lowest and the highest version that it may be sent in; None for all that there are."""
        self.version = -1
        """The version it was sent in."""
        self.timeout_ms = timeout_ms
        self.deadline_ms = deadline_ms
        """Until when it may wait to be sent; from then on, until when its response may take."""
        self.expects_response = expects_response
        """False for Produce with acks=0, which no broker answers."""
        self.internal = internal
        """Whether the client asks for itself (ApiVersions)."""
        self.correlation_id = -1

    def __repr__(self) -> str:
        state = "done" if self.done else "waiting"
        return f"<ClientRequest {self.api.name} v{self.version} #{self.correlation_id} {state}>"


class InFlightRequests:
    """The calls on the way to one node, oldest first. Responses come in the order of the requests."""

    __slots__ = ("_calls", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """max.in.flight.requests.per.connection"""
        self._calls: deque[ClientRequest] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[ClientRequest]:
        return iter(self._calls)

    @property
    def full(self) -> bool:
        return len(self._calls) >= self.limit

    def add(self, call: ClientRequest) -> None:
        self._calls.append(call)

    def complete_next(self) -> ClientRequest | None:
        """The call that the next response belongs to; None if nothing was asked."""
        return self._calls.popleft() if self._calls else None

    def postpone(self, throttle_ms: float) -> None:
        """Time in which the node is throttled does not count against the request time-out."""
        for call in self._calls:
            call.deadline_ms += throttle_ms

    def timed_out(self, now_ms: float) -> bool:
        return any(now_ms > call.deadline_ms for call in self._calls)

    @property
    def next_deadline_ms(self) -> float | None:
        return min((call.deadline_ms for call in self._calls), default=None)

    def take_all(self) -> list[ClientRequest]:
        """All calls, oldest first; the connection is lost."""
        calls = list(self._calls)
        self._calls.clear()
        return calls

    def __repr__(self) -> str:
        return f"<InFlightRequests {len(self._calls)} of {self.limit}>"
