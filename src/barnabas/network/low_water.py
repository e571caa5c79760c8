"""Being woken once for much of a large frame, not once for each of its segments.

Theory of operation
-------------------
A socket is readable as soon as it has a byte, so a frame of a megabyte wakes the loop a dozen times, and a
turn of the loop costs more than the copy that it is for. While it is known that more bytes of a frame must
come, the socket's low-water mark (``SO_RCVLOWAT``) is raised to them, up to `MARK_BYTES_MAX`; the system
makes room for twice as much in its buffer, and wakes anyway when that is full or the peer has closed the
connection. Between large frames the mark is one byte, which costs nothing.

Under TLS up to a record of the frame may be inside OpenSSL already, taken from the socket: what is certain to
come is less by `RECORD_SLACK_BYTES`. A mark beyond that would never be reached.
"""

import socket
from typing import Final

MARK_BYTES_MAX: Final = 256 * 1024
_MARK_BYTES_MIN: Final = 64 * 1024
"""Below this, the bytes are likely there before the mark could be set."""
RECORD_SLACK_BYTES: Final = 32 * 1024
"""More than the largest record of TLS, with what is around it."""


class LowWater:
    """The low-water mark of one socket."""

    __slots__ = ("_slack", "_socket", "mark")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._slack = RECORD_SLACK_BYTES if getattr(sock, "encrypts", False) else 0
        self.mark = 1
        """Bytes that must have come before the socket counts as readable."""

    def expect(self, missing: int) -> None:
        """How many bytes will come for certain; 0 when nothing is known."""
        certain = missing - self._slack
        mark = 1 if certain < _MARK_BYTES_MIN else min(certain, MARK_BYTES_MAX)
        if mark != self.mark:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
            self.mark = mark

    def __repr__(self) -> str:
        return f"<LowWater {self.mark}>"
