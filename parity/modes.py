"""`Mode`: as whom the two sides are asked, and over what.

`plain` is a broker of anybody: no log-in, no rules. In `denied` both have an authorizer and not one rule,
and a user who may do nothing asks; what a scenario prepares is done by one who may do everything. In `secure`
the same broker is asked over TLS, by the one who may.
"""

import contextlib
import socket
import ssl
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.core.chunks import materialize
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from serving import free_port
from tls_certificates import PASSWORD, Authority

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SECRET: Final = "parity-secret"
ADMIN: Final = "admin"
NOBODY: Final = "nobody"
_PATIENCE_S: Final = 20
"""Of a wait for an answer: a Kafka 4.4 on a busy machine needs more than ten seconds for a topic."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How both brokers are set up, and who asks."""

    name: str
    protocol: str = "PLAINTEXT"
    user: str = ""
    """Who asks; ADMIN prepares, in modes in which anybody is known."""

    def settings(self, folder: Path, port: int) -> dict[str, object]:
        """What a broker is told beside the settings that all modes have."""
        if self.protocol == "PLAINTEXT":
            return {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        key = Authority().sign("localhost", "127.0.0.1")
        users = " ".join(f'user_{each}="{_SECRET}"' for each in (ADMIN, NOBODY))
        # Brokers, which is the controller of one here, have a listener of their own.
        return {
            "listeners": f"ASKED://127.0.0.1:{port},INNER://127.0.0.1:{free_port()}",
            "listener.security.protocol.map": f"ASKED:{self.protocol},INNER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.asked.plain.sasl.jaas.config": f"{_PLAIN} required {users};",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": key.p12(folder / "broker.p12"),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "delegation.token.secret.key": "parity-tokens",
        }

    def connect(self, port: int, *, prepares: bool = False) -> socket.socket:
        """A connection that frames of requests can be sent on.

        Another try follows where a broker has just slowed down its address.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self._connect(port, prepares=prepares)
            except ConnectionError:
                if not self.user or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _connect(self, port: int, *, prepares: bool) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
        with contextlib.ExitStack() as closed_on_failure:
            closed_on_failure.callback(sock.close)
            if self.protocol.endswith("SSL"):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                # Who the two sides are is no question here.
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                sock = context.wrap_socket(sock)
            if self.user:
                _log_in(sock, ADMIN if prepares else self.user)
            closed_on_failure.pop_all()
        return sock


def _log_in(sock: socket.socket, user: str) -> None:
    token = f"\0{user}\0{_SECRET}".encode()
    for request in (SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=token)):
        assert request.api is not None
        header = RequestHeader(request.api, 1, 1, "parity")
        sock.sendall(materialize(encode_request(header, request)))
        size = struct.unpack(">i", _exactly(sock, 4))[0]
        answer = _exactly(sock, size)
        if answer[4:6] != b"\0\0":
            raise RuntimeError(f"the log-in of {user} is refused: {answer!r}")


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError("the connection was closed during the log-in")
        data += piece
    return data


PLAIN: Final = Mode("plain")
MODES: Final[Mapping[str, Mode]] = {
    each.name: each
    for each in (PLAIN, Mode("denied", "SASL_PLAINTEXT", NOBODY), Mode("secure", "SASL_SSL", ADMIN))
}
