"""`Wire`: requests from members to brokers and answers back, which may come late, twice delayed, or not at
all.

Objects travel, not bytes: the codecs have judges of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending
from barnabas.protocol.message import Request
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas.testing.clock import VirtualClock
from group_model.life import Life

Asked: TypeAlias = Request | OffsetFetchRequestGroup
"""What a member asks; a fetch of offsets goes to the coordinator by group."""

LATENCY_MS: Final = (0.2, 3.0)
_NOTICED_MS: Final = 20.0
"""After which a client sees that its connection is gone."""


class Reply(NamedTuple):
    """What a request came to: an error for the whole of it, or a response."""

    code: ErrorCode
    body: Any = None

    @property
    def ok(self) -> bool:
        """Whether it did what was asked."""
        return self.code is ErrorCode.NONE


DISCONNECTED: Final = Reply(ErrorCode.NETWORK_EXCEPTION)
"""It is not known whether the request was carried out."""


@dataclass(slots=True, eq=False)
class Call:
    """One request, from the moment in which it reached its broker."""

    sender: str
    client_id: str
    broker: int
    request: Asked
    version: int
    group_id: str
    leadership: tuple[int, int] = (-1, -1)
    """The partition of the group and the leader epoch as the broker knew it then."""
    invoked_ms: float = 0.0
    answered_ms: float = 0.0
    floor: int = -1
    """The newest generation that was known to stand when the call reached its broker."""
    barred: tuple[str, str] | None = None
    """Why the call must not succeed, if that was known then: kind of the anomaly, and words."""

    def __repr__(self) -> str:
        return (
            f"<Call {type(self.request).__name__} v{self.version} of {self.sender} to broker {self.broker}>"
        )


class Server(Protocol):
    """A broker, as the wire sees it."""

    def serve(self, call: Call, respond: Callable[[Reply], object]) -> None:
        """Carries the call out; responds once, now, later, or with `DISCONNECTED` when it dies."""

    def find_coordinator(self, group_id: str) -> int | None:
        """The broker that leads the group's partition, as this one believes; None when it cannot say."""


class Wire:
    """The network between all members and all brokers."""

    def __init__(self, clock: VirtualClock, rng: Random, servers: Sequence[Server]) -> None:
        self.servers = servers
        self.loss = 0.0
        """Which share of the requests, and of the answers, is lost."""
        self._clock = clock
        self._rng = rng

    def call(
        self,
        life: Life,
        broker: int,
        group_id: str,
        request: Asked,
        version: int,
        *,
        client_id: str = "",
        timeout_ms: float = 10_000.0,
    ) -> Pending[Reply]:
        """Sends a request; its reply never fails, and is never there before the call returns."""
        call = Call(life.name, client_id or life.name, broker, request, version, group_id)
        reply: Pending[Reply] = Pending()
        timer = self._clock.call_later(timeout_ms, lambda: arrive(DISCONNECTED))

        def arrive(answer: Reply) -> None:
            timer.cancel()
            life.deliver(lambda: reply.complete(answer))

        def respond(answer: Reply) -> None:
            self._transmit(lambda: arrive(answer), lambda: arrive(DISCONNECTED))

        self._transmit(lambda: self.servers[broker].serve(call, respond), lambda: arrive(DISCONNECTED))
        return reply

    def find_coordinator(self, life: Life, group_id: str) -> Pending[int | None]:
        """Asks any broker for the coordinator of a group."""
        found: Pending[int | None] = Pending()
        asked = self._rng.choice(self.servers)

        def arrive() -> None:
            broker = asked.find_coordinator(group_id)
            life.deliver(lambda: found.complete(broker))

        self._transmit(arrive, lambda: life.deliver(lambda: found.complete(None)))
        return found

    def _transmit(self, arrive: Callable[[], object], lose: Callable[[], object]) -> None:
        if self.loss and self._rng.random() < self.loss:
            self._clock.call_later(_NOTICED_MS, lose)
        else:
            self._clock.call_later(self._rng.uniform(*LATENCY_MS), arrive)

    def __repr__(self) -> str:
        return f"<Wire {len(self.servers)} brokers loss={self.loss:.2f}>"
