"""What is counted of the requests of one API (``RequestChannel.Metrics``).

Only requests that came in frames count. What a broker asks itself, as the controller on it does, passes no socket.
"""

from collections import deque
from typing import TypeAlias

from barnabas.broker.registry import Api
from barnabas.core.metrics import RECENT

Answered: TypeAlias = tuple[float, float, float, int, int]
"""One request: when it arrived, when its handler had returned a Pending (else 0), when its answer was there, in milliseconds; its
bytes; the milliseconds of throttling. What follows from these is worked out by who reads them.
"""


def total_ms(request: Answered) -> float:
    """From a request to its answer (``TotalTimeMs``)."""
    return request[2] - request[0]


def local_ms(request: Answered) -> float:
    """Of that, until its handler had returned (``LocalTimeMs``)."""
    return (request[1] or request[2]) - request[0]


def remote_ms(request: Answered) -> float:
    """Of that, while the answer waited for something else (``RemoteTimeMs``)."""
    return request[2] - request[1] if request[1] else 0.0


class RequestMetrics:
    """The requests of one API; `broker.dispatch` adds to it."""

    __slots__ = ("name", "recent", "requests")

    def __init__(self, api: Api) -> None:
        self.name = api.request.__name__.removesuffix("Request")
        self.requests = [0] * (api.max_version + 1)
        """How many were answered, by version."""
        self.recent: deque[Answered] = deque(maxlen=RECENT)

    def __repr__(self) -> str:
        return f"<RequestMetrics {self.name} answered={sum(self.requests)}>"
