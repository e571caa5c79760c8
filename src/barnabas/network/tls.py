"""A connection on a listener that speaks TLS: a handshake, and then a plaintext connection's ways.

The handshake goes on whenever the socket is ready for it, for at most `HANDSHAKE_MS_MAX`; of all connections
of a listener `HANDSHAKES_MAX` may be in one. Where one more comes the oldest gives way: a peer that goes on
needs little time, and those that stopped must not keep it out. One that fails is one line of the log and the
end. Then the peer has the principal of its certificate, unless its listener asks for a log-in as well.
"""

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.network.connection import Connection
from barnabas.network.errors import AuthenticationError
from barnabas.network.peer import ANONYMOUS, ListenerId
from barnabas.network.plain_connection import PlainConnection
from barnabas.network.processor import Processor
from barnabas.network.tls_socket import TlsSocket, handshake_words, wrap

if TYPE_CHECKING:
    from barnabas.core.clock import Timer

HANDSHAKE_MS_MAX: Final = 10_000
HANDSHAKES_MAX: Final = 1000


@dataclass(slots=True)
class TlsListener:
    """How the peers of one listener are met. `context` may be replaced: it is for the connections to come."""

    context: ssl.SSLContext
    principal_of: Callable[[bytes], str] = field(default=lambda _certificate: ANONYMOUS)
    """The principal of a certificate in DER. Raises AuthenticationError."""
    handshake_ms_max: int = HANDSHAKE_MS_MAX
    handshakes_max: int = HANDSHAKES_MAX
    shaking: dict["TlsConnection", None] = field(default_factory=dict, repr=False)
    """Whose handshakes are under way, the oldest first."""


class TlsConnection(PlainConnection):
    """A connection on a listener whose security protocol is SSL or SASL_SSL."""

    __slots__ = ("_shaking", "_timer", "_tls", "_waits_to_write")

    def __init__(
        self,
        processor: Processor,
        listener: ListenerId,
        address: tuple[str, int],
        on_closed: Callable[[Connection], None],
        sock: socket.socket,
        tls: TlsListener,
    ) -> None:
        """Raises OSError for a peer that is gone."""
        if len(tls.shaking) >= tls.handshakes_max:
            next(iter(tls.shaking)).give_way()
        self._tls = tls
        self._shaking = True
        self._waits_to_write = False
        super().__init__(processor, listener, address, on_closed, wrap(sock, tls.context, server_side=True))
        tls.shaking[self] = None
        self._timer: Timer | None = processor.clock.call_later(tls.handshake_ms_max, self._too_slow)

    def _on_readable(self) -> None:
        if self._shaking:
            self._shake_hands()
            return
        super()._on_readable()
        self._read_what_is_decrypted()

    def _read_on(self) -> None:
        was_reading = self._reading
        super()._read_on()
        if not was_reading:
            self._read_what_is_decrypted()

    def _read_what_is_decrypted(self) -> None:
        """OpenSSL has taken more from the socket than was read: the poller will not say so."""
        sock = self._socket
        if self._reading and self.open and isinstance(sock, TlsSocket) and sock.pending():
            self._processor.schedule(self._on_decrypted)

    def _on_decrypted(self) -> None:
        if self.open and self._reading:
            self._on_readable()

    def _shake_hands(self) -> None:
        sock = self._socket
        assert isinstance(sock, TlsSocket)
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            self._wait_to_write(False)
        except ssl.SSLWantWriteError:
            self._wait_to_write(True)
        except OSError as error:
            self._refuse(handshake_words(error))
        else:
            self._wait_to_write(False)
            self._shaken(sock)

    def _wait_to_write(self, wanted: bool) -> None:
        if wanted is not self._waits_to_write:
            self._waits_to_write = wanted
            if wanted:
                self._processor.loop.add_writer(self._socket, self._shake_hands)
            else:
                self._processor.loop.remove_writer(self._socket)

    def _shaken(self, sock: TlsSocket) -> None:
        certificate = sock.getpeercert(True)
        if certificate and self.listener.security_protocol == "SSL":
            try:
                self.conversation.peer.principal = self._tls.principal_of(certificate)
            except AuthenticationError as error:
                self._refuse(str(error))
                return
        self._end_handshake()
        self.active = True
        self._read_what_is_decrypted()

    def _end_handshake(self) -> None:
        if self._shaking:
            self._shaking = False
            del self._tls.shaking[self]
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self._shaking and self.open:
            self._refuse(f"the handshake took longer than {self._tls.handshake_ms_max} ms")

    def abort(self, error: BaseException) -> None:
        # A record that cannot be decrypted: the peer's fault, and anybody who shakes hands can send one. To
        # Kafka (``Selector.pollSelectionKey``), too, it is a connection that was lost.
        super().abort(ConnectionError(handshake_words(error)) if isinstance(error, ssl.SSLError) else error)

    def give_way(self) -> None:
        """Others begin a handshake, and there are too many."""
        self._refuse(f"{self._tls.handshakes_max} handshakes began after it")

    def _refuse(self, reason: str) -> None:
        host, port = self.address
        self._processor.faults.info(
            "network.tls_handshake_failed", peer=f"{host}:{port}", listener=self.listener.name, reason=reason
        )
        self.close()

    def _close_transport(self) -> None:
        self._wait_to_write(False)
        self._end_handshake()
        super()._close_transport()
