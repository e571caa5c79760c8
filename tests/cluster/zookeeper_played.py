"""A ZooKeeper server, played on a socket as far as a log-in goes: sessions, SASL, the order of requests."""

import hashlib
import re
import socket
import struct
import threading
from contextlib import suppress

from kazoo.protocol import serialization

_CLOSE, _CREATE, _EXISTS, _SASL, _PING = -11, 1, 3, 102, 11
_AUTH_FAILED = -115


class PlayedZookeeper:
    """Takes connections until `close`. `context` speaks TLS."""

    def __init__(self, password="k-secret", *, sasl=True, context=None) -> None:
        self.password = password
        self.sasl = sasl
        self.asked = []
        """What each connection asked for, in order: ["connect", "sasl", "sasl", 3, ...]."""
        self.users = []
        self.forgets_session = False
        """Whether the next connection's session has ended."""
        self.session_id = 7
        self.drops_first = False
        """Whether the next connection is lost as soon as it is made."""
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        while self._sockets:
            with suppress(OSError):
                self._sockets.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock) -> None:
        with suppress(OSError, ValueError), sock:
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
            self._sockets.append(sock)
            with sock, sock.makefile("rb") as frames:
                self._converse(sock, frames)

    def _converse(self, sock, frames) -> None:
        said = ["connect"]
        self.asked.append(said)
        _frame(frames)
        ended, self.forgets_session = self.forgets_session, False
        _send(sock, struct.pack(">iiqi16s?", 0, 0 if ended else 6000, self.session_id, 16, b"p" * 16, False))
        self.session_id += ended
        dropped, self.drops_first = self.drops_first, False
        if ended or dropped:
            return
        tokens = 0
        while True:
            frame = _frame(frames)
            xid, kind = struct.unpack_from(">ii", frame)
            if kind == _SASL:
                said.append("sasl")
                tokens += 1
                answer = self._token(tokens, serialization.read_buffer(frame, 8)[0])
                error = _AUTH_FAILED if answer is False else 0
                _send(sock, struct.pack(">iqi", xid, 1, error) + serialization.write_buffer(answer or None))
                if error:
                    return
            elif kind == _PING:
                _send(sock, struct.pack(">iqi", -2, 1, 0))
            else:
                said.append(kind)
                _send(sock, struct.pack(">iqi", xid, 1, -101))
                if kind == _CLOSE:
                    return

    def _token(self, number, token):
        if not self.sasl:
            return None
        if number == 1:
            return b'realm="zk-sasl-md5",nonce="n0nce",charset=utf-8,algorithm=md5-sess,qop="auth"'
        said = dict(re.findall(r'([\w-]+)="?([^",]*)"?', token.decode()))
        if said["response"] != self._digest(said, "AUTHENTICATE:"):
            return False
        self.users.append(said["username"])
        return f"rspauth={self._digest(said, ':')}".encode()

    def _digest(self, said, method) -> str:
        secret = _md5(f"{said['username']}:{said['realm']}:{self.password}".encode()).digest()
        first = _md5(secret + f":{said['nonce']}:{said['cnonce']}".encode()).hexdigest()
        second = _md5(f"{method}{said['digest-uri']}".encode()).hexdigest()
        between = f"{said['nonce']}:{said['nc']}:{said['cnonce']}:{said['qop']}"
        return _md5(f"{first}:{between}:{second}".encode()).hexdigest()


def _md5(data):
    return hashlib.md5(data, usedforsecurity=False)


def _frame(frames) -> bytes:
    size = frames.read(4)
    if len(size) < 4:
        raise ValueError("the client is gone")
    return frames.read(int.from_bytes(size))


def _send(sock, frame) -> None:
    sock.sendall(len(frame).to_bytes(4) + frame)
