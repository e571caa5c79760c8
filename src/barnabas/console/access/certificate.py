"""`Certificate`: what the console shows of itself in a handshake, read again when its files are others."""

import ssl
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.core.eventlog import EventLog

_log = EventLog("console")


class TlsFiles(NamedTuple):
    """A certificate with its chain, and its key, as PEM."""

    cert: Path
    key: Path


class Certificate:
    """The certificate of a server that is renewed under it.

    Each handshake looks whether one of the two files is another: two calls of the system. Who renews writes
    one file after the other, so a pair that does not fit is no reason to serve nobody: the one before is
    shown, and the files are looked at again when they change once more.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Raises OSError (ssl.SSLError too) for files that are no certificate and its key."""
        self._files = files
        self._stamp = self._stamp_now()
        self._shown = context_of(files)
        self.context: Final = self._shown
        """For the listener; connections that are open stay with what they were shown."""
        # OpenSSL asks it for clients that name no server, too.
        self.context.sni_callback = self._show

    def _show(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._shown = context_of(self._files)
            except (OSError, ValueError) as error:
                _log.warning("console.certificate_not_renewed", file=self._files.cert, reason=error)
            else:
                _log.info("console.certificate_renewed", file=self._files.cert)
        connection.context = self._shown

    def _stamp_now(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(path) for path in self._files)


def context_of(files: TlsFiles) -> ssl.SSLContext:
    """Raises OSError (ssl.SSLError too)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # An empty password: a key that has one is refused, and nobody is asked at the terminal.
    context.load_cert_chain(files.cert, files.key, password="")
    return context


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
