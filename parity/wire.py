"""One connection to a broker:
a frame out, and what comes back, which may be a closed connection or nothing.
"""

import select
import socket
import ssl
import struct
from collections.abc import Sequence
from typing import Final, Self

from barnabas.core.chunks import materialize
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.message import Request

CLOSED: Final = "the connection was closed"
SILENCE: Final = "no answer"
CLIENT_ID: Final = "parity"


def frame_of(request: Request, version: int, correlation_id: int = 7) -> bytes:
    """A request without the length in front.
    Raises ProtocolError where the version has no place for a value.
    """
    assert request.api is not None
    header = RequestHeader(request.api, version, correlation_id, CLIENT_ID)
    return materialize(encode_request(header, request))[4:]


class Wire:
    """A bare socket that speaks in frames."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def ask(self, frame: bytes) -> bytes | str:
        """The answer to a frame: bytes without their length, `CLOSED` or `SILENCE`."""
        return self.ask_all([frame])

    def ask_all(self, frames: Sequence[bytes]) -> bytes | str:
        """The first answer to frames that are sent together."""
        return self.send_bytes(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))

    def send_bytes(self, data: bytes) -> bytes | str:
        """The answer to bytes that need not be a frame."""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            return CLOSED
        return self.receive()

    def send(self, frame: bytes) -> None:
        """Sends a frame whose answer is received later."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def answers_within(self, seconds: float) -> bool:
        """Whether something comes back in this time."""
        decrypted = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
        return bool(decrypted or select.select([self._socket], [], [], seconds)[0])

    def receive(self) -> bytes | str:
        """What comes next."""
        try:
            head = self._exactly(4)
            return (head and self._exactly(struct.unpack(">i", head)[0])) or CLOSED
        except TimeoutError:
            return SILENCE
        except (ConnectionError, ssl.SSLError):
            return CLOSED

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                return None
            data += piece
        return bytes(data)

    def be_patient(self, seconds: float) -> None:
        """How long an answer may take from now on."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
