"""What is counted of the requests of one API (``RequestChannel.Metrics``).

Only requests that came in frames count. What a broker asks itself, as the controller on it does, passes no
socket.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final, TypeAlias

from barnabas.broker.registry import Api
from barnabas.core.metrics import RECENT
from barnabas.protocol.api import ApiKey

Answered: TypeAlias = tuple[float, float, float, int, int]
"""One request: when it arrived, when its handler had returned a Pending (else 0), when its answer was there,
in milliseconds; its bytes; the milliseconds of throttling. What follows from these is worked out by who reads
them.
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


FOLLOWER_FETCH: Final = -1
"""Fetches of followers are counted under this key, those of consumers under that of the API."""


class RequestMetrics:
    """The requests of one API, or of one kind; `broker.dispatch` adds to it."""

    __slots__ = ("name", "recent", "requests")

    def __init__(self, name: str, max_version: int) -> None:
        self.name = name
        self.requests = [0] * (max_version + 1)
        """How many were answered, by version."""
        self.recent: deque[Answered] = deque(maxlen=RECENT)

    def __repr__(self) -> str:
        return f"<RequestMetrics {self.name} answered={sum(self.requests)}>"


def request_metrics(apis: Mapping[int, Api]) -> dict[int, RequestMetrics]:
    """Where the requests of each API are counted, by its key, and those of followers under
    `FOLLOWER_FETCH`.
    """
    found = {
        key: RequestMetrics(api.request.__name__.removesuffix("Request"), api.max_version)
        for key, api in apis.items()
    }
    fetch = apis.get(ApiKey.FETCH)
    if fetch is not None:
        found[ApiKey.FETCH].name = "FetchConsumer"
        found[FOLLOWER_FETCH] = RequestMetrics("FetchFollower", fetch.max_version)
    return found


def by_name(counted: Mapping[int, RequestMetrics]) -> list[tuple[str, tuple[RequestMetrics, ...]]]:
    """Each name that Kafka's metrics have, and what is counted under it:
    ``Fetch`` is both kinds of fetches.
    """
    found: list[tuple[str, tuple[RequestMetrics, ...]]] = [(each.name, (each,)) for each in counted.values()]
    if FOLLOWER_FETCH in counted:
        found.append(("Fetch", (counted[ApiKey.FETCH], counted[FOLLOWER_FETCH])))
    return found
