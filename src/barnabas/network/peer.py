"""Who is at the other end of a connection, as a service sees it."""

from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from barnabas.core.chunks import Chunks
from barnabas.core.pending import Pending

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection without authentication (``KafkaPrincipal.ANONYMOUS``)."""

THIS_BROKER: Final = "Process:this"
"""The principal of requests that a broker sends itself in its process; no connection has it."""

UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")
"""Of a client that has not said what it is (``ClientInformation.EMPTY``)."""


class ListenerId(NamedTuple):
    """The name of a listener and the security protocol that it speaks."""

    name: str
    security_protocol: str


class ConnectionControl(Protocol):
    """What a service may do to the connection of a peer; `Peer` says what."""

    def mute_until(self, monotonic_ms: float) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def serve(self, service: "Service", request_bytes_max: int) -> None: ...

    def drain(self) -> None: ...

    def close(self, reason: str) -> None: ...


class Peer:
    """One connected client or broker."""

    __slots__ = (
        "_control",
        "address",
        "held_to",
        "listener",
        "principal",
        "software",
        "token_authenticated",
    )

    def __init__(
        self,
        listener: ListenerId,
        address: tuple[str, int],
        control: ConnectionControl | None = None,
        principal: Any = ANONYMOUS,
    ) -> None:
        self.listener = listener
        self.address = address
        self.principal = principal
        self.held_to: Any = None
        """What the service held the last request to: the next one is mostly of the same client."""
        self.token_authenticated = False
        """Whether the peer has logged in with a delegation token (KIP-48)."""
        self.software = UNKNOWN_SOFTWARE
        """Name and version of the client's library, once it has said them (KIP-511)."""
        self._control = control
        """None where there is no connection: it is closed, or the peer lives in this process."""

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, and it is not closed."""
        return self._control is not None

    def mute_until(self, monotonic_ms: float) -> None:
        """Handles no request of this peer before this time (throttling); responses still go out."""
        if self._control is not None:
            self._control.mute_until(monotonic_ms)

    def hold(self) -> None:
        """Handles no further request of this peer until `release`: the one that is being handled continues in
        later turns of the loop, and what the peer asked after it must not be done before it. Holds add up.
        """
        if self._control is not None:
            self._control.hold()

    def release(self) -> None:
        """Takes back one `hold`, in a later turn than it;
        never while a request of this connection is handled.
        """
        if self._control is not None:
            self._control.release()

    def serve(self, service: "Service", request_bytes_max: int) -> None:
        """The peer has logged in: `service` answers it from the next turn on, to frames as large as this."""
        if self._control is not None:
            self._control.serve(service, request_bytes_max)

    def drain(self) -> None:
        """Takes no further request of this peer, and ends the connection when it has what it is owed."""
        if self._control is not None:
            self._control.drain()

    def close(self, reason: str) -> None:
        """Ends the connection with one log line; what was not sent yet is dropped."""
        if self._control is not None:
            self._control.close(reason)

    def gone(self) -> None:
        """The connection is closed: lets go of it, so that what still knows the peer does not keep it in
        memory.
        """
        self._control = None

    def __repr__(self) -> str:
        return f"<Peer {self.address[0]}:{self.address[1]} on {self.listener.name}>"


Outcome: TypeAlias = Chunks | Pending[Chunks | None] | None
"""What handling a frame comes to: the response (its length included), a later one, or none at all."""


class Service(Protocol):
    """Answers requests; the broker's dispatcher is one."""

    def handle(self, peer: Peer, frame: memoryview) -> Outcome:
        """The response to one request. The frame is writable and belongs to the service.

        Raises CloseConnection where Kafka closes the connection without an answer.
        """

    def begin_turn(self) -> None:
        """Several requests of one peer follow that have arrived together;
        nothing else is handled until `end_turn`.
        """

    def end_turn(self) -> None:
        """The last of them was handled: after this the responses leave. The chunks of a response may be
        changed, in place, until this returns. Raises CloseConnection.
        """
