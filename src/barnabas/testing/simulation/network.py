"""`SimulatedNetwork`: hosts, and TCP between them as it may behave.

Theory of operation
-------------------
A connection is two pipes. What is put into a pipe arrives later, in order, in pieces of any size; pipes know nothing
of each other, so what travels on two connections overtakes. There are four kinds of faults:

- a *cut* resets connections at once, on both ends, and what was under way is lost;
- a *partition* between two hosts holds everything back until it heals, as retransmission would;
- a *half-open* connection swallows what is sent without an error;
- a host *without power* takes its ends of connections with it. Who sends to it hears nothing until it is back, and
  then that there is no such connection. A process that dies closes its connections.

A pipe holds at most `WINDOW_BYTES`, on the way and not yet read: more is refused until the reader reads.
"""

import contextvars
import errno
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final
from zlib import crc32

from barnabas.testing.simulation.loop import SimulatedLoop
from barnabas.testing.simulation.trace import Trace

if TYPE_CHECKING:
    from barnabas.testing.simulation.sockets import SimulatedSocket

WINDOW_BYTES: Final = 256 * 1024
CONNECT_TIMEOUT_S: Final = 20.0
"""How long a connection to a host that is away is tried."""
_RETRY_S: Final = 1.0
_USUAL_DELAY_S: Final = 0.0005
_SPIKE_DELAY_S: Final = 0.3


class Pipe:
    """One direction of a connection."""

    __slots__ = ("_held", "_last_arrival_s", "_network", "source", "swallows", "target", "under_way")

    def __init__(
        self, network: "SimulatedNetwork", source: "SimulatedSocket", target: "SimulatedSocket"
    ) -> None:
        self.source = source
        self.target = target
        self.under_way = 0
        """Bytes that were sent and have not arrived."""
        self.swallows = False
        """Whether it is half-open: nothing arrives any more."""
        self._network = network
        self._last_arrival_s = 0.0
        self._held: deque[bytes | None] = deque()

    @property
    def room(self) -> int:
        """Bytes that it takes now."""
        return WINDOW_BYTES - self.under_way - len(self.target.received)

    def send(self, data: bytes) -> None:
        """Puts bytes on the way."""
        self.under_way += len(data)
        rng = self._network.rng
        middle = rng.randrange(1, len(data)) if len(data) > 1 and rng.random() < 0.1 else 0
        if middle:
            self._depart(data[:middle])
        self._depart(data[middle:])

    def finish(self) -> None:
        """Puts the end of the stream on the way."""
        self._depart(None)

    def release(self) -> None:
        """Nothing holds it back any more."""
        held, self._held = self._held, deque()
        for data in held:
            self._depart(data)

    def _depart(self, data: bytes | None) -> None:
        if self.swallows:
            return
        if self._held or self._network.is_cut_off(self.source.host, self.target.host):
            self._held.append(data)
            return
        loop = self._network.loop
        self._last_arrival_s = max(self._last_arrival_s, loop.time() + self._network.delay_s())
        loop.call_at(self._last_arrival_s, self._arrive, data, context=self._network.context)

    def _arrive(self, data: bytes | None) -> None:
        if self.swallows:
            return
        if self._held or self._network.is_cut_off(self.source.host, self.target.host):
            self._held.append(data)
            return
        target = self.target
        if data is None:
            self._network.trace(f"net {self} end")
        else:
            self.under_way -= len(data)
            self._network.trace(f"net {self} {len(data)} {crc32(data):08x}")
        if target.closed:
            # There is no such connection (any more): so says the answer.
            if data is not None and not self.source.closed:
                self.source.fail(errno.ECONNRESET)
        else:
            target.take(data)

    def __repr__(self) -> str:
        return f"{self.source}>{self.target}"


class SimulatedNetwork:
    """All hosts of a world and the connections between them."""

    def __init__(self, loop: SimulatedLoop, rng: Random, trace: Trace) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.context = contextvars.Context()
        """What the network does belongs to no process."""
        self.slow = False
        """While set, everything takes long now and then."""
        self.listening: dict[tuple[str, int], SimulatedSocket] = {}
        self.pipes: list[Pipe] = []
        self._down: set[str] = set()
        self._partitions: set[frozenset[str]] = set()
        self._sockets = 0
        self._ports = 32_768

    def number_socket(self) -> int:
        """A number for a new socket."""
        self._sockets += 1
        return self._sockets

    def free_port(self) -> int:
        """A port that is free."""
        self._ports += 1
        return self._ports

    def delay_s(self) -> float:
        """How long the next bytes take."""
        delay = self.rng.expovariate(1 / _USUAL_DELAY_S)
        if self.slow and self.rng.random() < 0.2:
            delay += self.rng.random() * _SPIKE_DELAY_S
        return delay

    def is_cut_off(self, one: str, other: str) -> bool:
        """Whether nothing gets through between two hosts."""
        return other in self._down or frozenset((one, other)) in self._partitions

    # Connecting.

    def connect(self, client: "SimulatedSocket", address: tuple[str, int]) -> None:
        """Begins to connect; the socket hears of it later."""
        deadline_s = self.loop.time() + CONNECT_TIMEOUT_S
        self._later(lambda: self._knock(client, address, deadline_s))

    def _knock(self, client: "SimulatedSocket", address: tuple[str, int], deadline_s: float) -> None:
        if client.closed:
            return
        if self.is_cut_off(client.host, address[0]):
            if self.loop.time() >= deadline_s:
                client.fail(errno.ETIMEDOUT)
            else:
                self.loop.call_later(_RETRY_S, self._knock, client, address, deadline_s, context=self.context)
            return
        listener = self.listening.get(address)
        server = listener.knocked(client) if listener is not None else None
        self.trace(f"net {client} connects to {address[0]}:{address[1]} {server}")
        if server is None:
            self._later(lambda: client.fail(errno.ECONNREFUSED))
        else:
            there, back = Pipe(self, client, server), Pipe(self, server, client)
            self.pipes += [there, back]
            server.pipe = back
            self._later(lambda: client.established(there))

    def _later(self, callback: Callable[[], object]) -> None:
        self.loop.call_later(self.delay_s(), callback, context=self.context)

    def forget(self, socket: "SimulatedSocket") -> None:
        """Both ends are closed: the connection need not be looked at any more."""
        self.pipes = [
            pipe
            for pipe in self.pipes
            if not (pipe.source.closed and pipe.target.closed) or (pipe.under_way and not pipe.swallows)
        ]
        for address, listener in list(self.listening.items()):
            if listener is socket:
                del self.listening[address]

    # Faults.

    def cut_connections(self, host: str) -> None:
        """Resets every connection of a host."""
        self.trace(f"net cut {host}")
        for pipe in list(self.pipes):
            if host in {pipe.source.host, pipe.target.host} and not pipe.source.closed:
                pipe.swallows = True
                pipe.source.fail(errno.ECONNRESET)

    def open_half(self, host: str) -> None:
        """Every connection of a host goes silent, in both directions."""
        self.trace(f"net half-open {host}")
        for pipe in self.pipes:
            if host in {pipe.source.host, pipe.target.host}:
                pipe.swallows = True

    def partition(self, one: str, other: str) -> None:
        """Nothing gets through between two hosts until `heal`."""
        self.trace(f"net partition {one} {other}")
        self._partitions.add(frozenset((one, other)))

    def power_off(self, host: str) -> None:
        """The host and its ends of connections are gone, without a word."""
        self._down.add(host)
        for pipe in self.pipes:
            if pipe.source.host == host:
                pipe.swallows = True

    def power_on(self, host: str) -> None:
        """The host answers again; what was sent to it meanwhile is lost."""
        self._down.discard(host)
        self._release()

    def heal(self) -> None:
        """Ends all partitions; connections that are broken stay so."""
        self._partitions.clear()
        self.slow = False
        self._release()

    def _release(self) -> None:
        for pipe in list(self.pipes):
            pipe.release()

    def __repr__(self) -> str:
        return f"<SimulatedNetwork pipes={len(self.pipes)} down={sorted(self._down)}>"
