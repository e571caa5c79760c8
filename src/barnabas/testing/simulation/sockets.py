"""`SimulatedSocket`: what `socket.socket` is while a world runs, as far as the edge of Barnabas uses it."""

import errno
import os
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.testing.simulation.loop import current_process

if TYPE_CHECKING:
    from barnabas.testing.simulation.network import Pipe, SimulatedNetwork

_FIRST_DESCRIPTOR: Final = 1_000_000
_SHORT: Final = 0.1
"""How often a call takes or gives less than it could."""


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
