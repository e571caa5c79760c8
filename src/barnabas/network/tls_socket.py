"""A TLS end of a connection that is used as a plaintext socket is (docs/decisions/0039).

Theory of operation
-------------------
`TlsSocket` is `ssl.SSLSocket` with the calls that connections and channels make of a non-blocking socket, and
their rules: what cannot go on raises BlockingIOError, a read fills what it is given as far as something has
come, several buffers are one. OpenSSL takes whole records (16 KB) off the socket. So something may wait in
it of which the poller knows nothing; `pending` says how much, and the connection reads on by itself.

A write that could not go on has to be repeated with the same bytes in front. The senders do: what was not
sent stays at the head of their queues. `encrypts` has them read files into memory instead of `sendfile`.
"""

import contextlib
import ssl
from collections.abc import Sequence
from typing import Any, Final

WRITE_BYTES: Final = 256 * 1024
"""How much is given to OpenSSL at a time."""


class TlsSocket(ssl.SSLSocket):
    """Made by a context whose ``sslsocket_class`` it is (`wrap`)."""

    encrypts = True

    def recv_into(self, buffer: Any, _nbytes: int | None = None, _flags: int = 0) -> int:
        view = memoryview(buffer)
        size, count = len(view), 0
        try:
            while count < size:
                received: Any = self.read(size - count, view[count:])  # their number
                if not received:
                    break
                count += received
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not count:
                raise BlockingIOError from None
        return count

    def recvmsg_into(  # type: ignore[override]
        self, buffers: Sequence[Any], _ancbufsize: int = 0, _flags: int = 0
    ) -> tuple[int, list[Any], int, None]:
        """Fills the buffers one after the other."""
        total = 0
        for buffer in buffers:
            try:
                count = self.recv_into(buffer)
            except BlockingIOError:
                if not total:
                    raise
                break
            total += count
            if count < len(buffer):
                break
        return total, [], 0, None

    def send(self, data: Any, _flags: int = 0) -> int:
        """Sends what the socket takes of the data."""
        view = memoryview(data)
        sent = 0
        try:
            while sent < len(view):
                sent += super().send(view[sent : sent + WRITE_BYTES])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not sent:
                raise BlockingIOError from None
        return sent

    def sendmsg(self, buffers: Sequence[Any], _ancdata: Any = (), _flags: int = 0) -> int:  # type: ignore[override]
        """Sends what the socket takes of the buffers, as one: records are not cut where they are."""
        return self.send(b"".join(buffers))

    def close(self) -> None:
        """Says that nothing follows, as far as that can be said at once, and closes."""
        if self._sslobj is not None and self.version() is not None:  # type: ignore[attr-defined]
            with contextlib.suppress(OSError, ValueError):
                self._sslobj.shutdown()  # type: ignore[attr-defined]
        super().close()


def wrap(
    sock: Any, context: ssl.SSLContext, *, server_side: bool, server_hostname: str | None = None
) -> TlsSocket:
    """A TLS end on a connected, non-blocking socket, before its handshake. Raises OSError."""
    context.sslsocket_class = TlsSocket
    wrapped = context.wrap_socket(
        sock,
        server_side=server_side,
        server_hostname=server_hostname,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=True,
    )
    assert isinstance(wrapped, TlsSocket)
    return wrapped


def handshake_words(error: Exception) -> str:
    """What is wrong with a handshake, in words that say what to look at."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    reason = getattr(error, "reason", None)
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"}:
        return "the other side does not speak TLS"
    return str(reason).lower().replace("_", " ") if reason else str(error) or type(error).__name__
