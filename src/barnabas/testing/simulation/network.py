"""`SimulatedNetwork` and `SimulatedSocket`: hosts, and TCP between them as it may behave.

Theory of operation
-------------------
A connection is two pipes. What is put into a pipe arrives later, in order, in pieces of any size; pipes know
nothing of each other, so what travels on two connections overtakes. There are four kinds of faults:

- a *cut* resets connections at once, on both ends, and what was under way is lost;
- a *partition* between two hosts holds everything back until it heals, as retransmission would;
- a *half-open* connection swallows what is sent without an error;
- a host *without power* takes its ends of connections with it. Who sends to it hears nothing until it is
  back, and then that there is no such connection. A process that dies closes its connections.

A pipe holds at most `WINDOW_BYTES`, on the way and not yet read: more is refused until the reader reads.
"""

import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final
from zlib import crc32

from barnabas.testing.simulation.loop import SimulatedLoop, current_process
from barnabas.testing.simulation.trace import Trace

WINDOW_BYTES: Final = 256 * 1024
CONNECT_TIMEOUT_S: Final = 20.0
"""How long a connection to a host that is away is tried."""
_RETRY_S: Final = 1.0
_USUAL_DELAY_S: Final = 0.0005
_SPIKE_DELAY_S: Final = 0.3
_FIRST_DESCRIPTOR: Final = 1_000_000
_SHORT: Final = 0.1
"""How often a call takes or gives less than it could."""


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
        """Whether it is half-open: nothing arrives from now on."""
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
        """Nothing holds it back from now on."""
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
            # The other end does not know the connection, or no longer does: the answer is a reset.
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
        """Both ends are closed: the connection need not be looked at from now on."""
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
        """The host fails, with its ends of connections, without a word."""
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


class SimulatedSocket:
    """One end of a connection, or a listening socket. Never blocks."""

    def __init__(self, network: "SimulatedNetwork", host: str) -> None:
        self.network = network
        self.host = host
        self.number = network.number_socket()
        self.closed = False
        self.received = bytearray()
        self.pipe: Pipe | None = None
        """The way out, once connected."""
        self._address: tuple[str, int] = (host, 0)
        self._error = 0
        self._ended = False
        self._backlog: deque[tuple[SimulatedSocket, tuple[str, int]]] | None = None

    @classmethod
    def of_current_process(cls, network: "SimulatedNetwork") -> "SimulatedSocket":
        """A socket of the process that runs now, which dies with it."""
        process = current_process()
        made = cls(network, process.host)
        process.on_death.append(made.close)
        return made

    # What the loop and the network see.

    @property
    def readable(self) -> bool:
        """Whether there are bytes, an end, an error or a connection to accept."""
        return bool(self.received or self._ended or self._error or self._backlog)

    @property
    def writable(self) -> bool:
        """Whether it takes bytes, or has an error to tell."""
        return bool(self._error) or (self.pipe is not None and self.pipe.room > 0)

    def established(self, pipe: "Pipe") -> None:
        """The connection is there."""
        if self.closed:
            pipe.finish()
        else:
            self.pipe = pipe
            self._changed()

    def take(self, data: bytes | None) -> None:
        """Bytes have arrived, or the end."""
        if data is None:
            self._ended = True
        else:
            self.received += data
        self._changed()

    def fail(self, code: int) -> None:
        """The connection is broken, or could not be made."""
        if not self.closed and not self._error:
            self._error = code
            self.network.trace(f"net {self} {errno.errorcode[code]}")
            self._changed()

    def knocked(self, client: "SimulatedSocket") -> "SimulatedSocket | None":
        """A connection comes in; its new end, or None without a listener."""
        if self.closed or self._backlog is None:
            return None
        server = SimulatedSocket(self.network, self.host)
        self._backlog.append((server, client.getsockname()))
        self._changed()
        return server

    def _changed(self) -> None:
        self.network.loop.changed(self)

    # What programs call.

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""
        assert not flag, "a simulated socket cannot block"

    def setsockopt(self, *_: Any) -> None:
        """Options change nothing here."""

    def getsockopt(self, *_: Any) -> int:
        """SO_ERROR: the error code, which is forgotten."""
        code, self._error = self._error, 0
        return code

    def fileno(self) -> int:
        """A number that is no descriptor; -1 when it is closed."""
        return -1 if self.closed else _FIRST_DESCRIPTOR + self.number

    def bind(self, address: tuple[str, int]) -> None:
        """Takes the address. Raises OSError when it is taken."""
        host, port = address
        address = (self.host if host == "0.0.0.0" else host, port or self.network.free_port())
        if address in self.network.listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._address = address

    def listen(self, _backlog: int = 0) -> None:
        """Lets others connect."""
        self._backlog = deque()
        self.network.listening[self._address] = self

    def getsockname(self) -> tuple[str, int]:
        """The own address."""
        return self._address

    def accept(self) -> "tuple[SimulatedSocket, tuple[str, int]]":
        """The next who connected. Raises BlockingIOError."""
        if not self._backlog:
            raise BlockingIOError
        accepted, address = self._backlog.popleft()
        current_process().on_death.append(accepted.close)
        return accepted, address

    def connect_ex(self, address: tuple[str, int]) -> int:
        """Begins to connect."""
        self._address = (self.host, self.network.free_port())
        self.network.connect(self, address)
        return errno.EINPROGRESS

    def recv_into(self, buffer: memoryview) -> int:
        """Up to as many bytes as fit; 0 at the end. Raises BlockingIOError, OSError."""
        self._raise_error()
        if not self.received:
            if self._ended:
                return 0
            raise BlockingIOError
        count = self._some(min(len(buffer), len(self.received)))
        buffer[:count] = self.received[:count]
        del self.received[:count]
        self._tell_sender()
        return count

    def recvmsg_into(self, buffers: Sequence[memoryview]) -> tuple[int, list[Any], int, Any]:
        """Fills one buffer after the other."""
        total = 0
        for buffer in buffers:
            if total and not self.received:
                break
            count = self.recv_into(buffer)
            total += count
            if count < len(buffer):
                break
        return total, [], 0, None

    def send(self, data: Any, _flags: int = 0) -> int:
        """Takes what there is room for. Raises BlockingIOError, OSError."""
        self._raise_error()
        if self.closed or self.pipe is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        count = self._some(min(len(data), self.pipe.room))
        if count <= 0:
            raise BlockingIOError
        self.pipe.send(bytes(data[:count]))
        return count

    def sendmsg(self, parts: Sequence[Any], _ancillary: Any = (), flags: int = 0) -> int:
        """As `send`, of all parts."""
        return self.send(b"".join(parts), flags)

    def close(self) -> None:
        """Ends it; what was sent still arrives. Harmless when repeated."""
        if self.closed:
            return
        self.closed = True
        if self.pipe is not None:
            self.pipe.finish()
            self._tell_sender()
        for waiting, _ in self._backlog or ():
            waiting.close()
        self.network.forget(self)

    def _some(self, count: int) -> int:
        rng = self.network.rng
        return rng.randint(1, count) if count > 1 and rng.random() < _SHORT else count

    def _tell_sender(self) -> None:
        if self.pipe is not None:
            self.network.loop.changed(self.pipe.target)

    def _raise_error(self) -> None:
        if self._error:
            raise OSError(self._error, os.strerror(self._error))

    def __repr__(self) -> str:
        return f"{self.host}#{self.number}"
