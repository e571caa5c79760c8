"""The TLS handshake of a client on a connected socket of the loop."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

from barnabas.network.errors import DisconnectedError, SslAuthenticationError
from barnabas.network.tls_socket import handshake_words, wrap


class TlsHandshake:
    """One handshake; `on_end` hears None, or why it failed: SslAuthenticationError, DisconnectedError."""

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        host: str,
        loop: asyncio.AbstractEventLoop,
        on_end: Callable[[Exception | None], None],
    ) -> None:
        """Raises OSError and ValueError for a host that no certificate can name."""
        self.socket = wrap(sock, context, server_side=False, server_hostname=host)
        self._loop = loop
        self._on_end = on_end
        self._waits: Callable[[], object] | None = None

    def go_on(self) -> None:
        """Does what can be done now, and waits for the socket or ends."""
        self.cancel()
        loop, sock = self._loop, self.socket
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            loop.add_reader(sock, self.go_on)
            self._waits = lambda: loop.remove_reader(sock)
        except ssl.SSLWantWriteError:
            loop.add_writer(sock, self.go_on)
            self._waits = lambda: loop.remove_writer(sock)
        except ssl.SSLEOFError:
            self._on_end(DisconnectedError("the node closed the connection in the TLS handshake"))
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._on_end(SslAuthenticationError(f"SSL handshake failed: {handshake_words(error)}"))
        except OSError as error:
            self._on_end(DisconnectedError(f"the connection was lost in the TLS handshake: {error}"))
        else:
            self._on_end(None)

    def cancel(self) -> None:
        """Waits for the socket no longer."""
        waits, self._waits = self._waits, None
        if waits is not None:
            with contextlib.suppress(ValueError):
                waits()
