"""What is at an address where a broker was expected: nothing, another protocol, or silence.

A broker that is asked in another protocol closes the connection (the first four bytes are no length that it
takes), so what answers in that protocol is none.
"""

import asyncio
import contextlib
import socket
from enum import Enum
from typing import TYPE_CHECKING, Final

from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    import ssl

_WAIT_S: Final = 1.0
_HTTP: Final = b"GET / HTTP/1.0\r\n\r\n"
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake begin, in every version of TLS."""


class AddressFinding(Enum):
    """What is at an address, in words that follow its name."""

    NOTHING = "nothing listens there"
    NO_HOST = "there is no host of this name"
    UNREACHABLE = "the host does not answer"
    HTTP = "that is an HTTP server"
    TLS = "that port speaks TLS, and this client was not told to (security.protocol)"
    SASL = "a broker that asks for a log-in (SASL), and this client was not told to (security.protocol)"
    SILENT = "something listens there that does not answer like a broker"

    @property
    def is_final(self) -> bool:
        """Whether waiting does not help."""
        return self in {AddressFinding.HTTP, AddressFinding.TLS, AddressFinding.SASL}


async def probe(host: str, port: int) -> AddressFinding | None:
    """Looks at an address, for at most three seconds: one each for its name, the connection and the first
    bytes of an answer. None where the event loop opens no connections itself,
    as that of the simulation.
    """
    try:
        beginnings = await asyncio.gather(_ask(host, port, _HTTP), _ask(host, port, _client_hello()))
    except NotImplementedError:
        return None
    except socket.gaierror:
        return AddressFinding.NO_HOST
    except ConnectionRefusedError:
        return AddressFinding.NOTHING
    except OSError:  # a TimeoutError among them
        return AddressFinding.UNREACHABLE
    if any(beginning.startswith(_TLS_RECORDS) for beginning in beginnings):
        return AddressFinding.TLS
    if any(beginning.startswith(b"HTTP/") for beginning in beginnings):
        return AddressFinding.HTTP
    return AddressFinding.SILENT


async def asks_for_log_in(host: str, port: int, tls: "ssl.SSLContext | None") -> bool:
    """Whether a broker is there that lets nobody in without a log-in (SASL), in three seconds at most.

    It is asked to log in with a mechanism that there is none of: a listener with SASL names those that it
    has, any other answers that nobody logs in there. Until then both say the same.
    """
    question = encode_request(
        RequestHeader(ApiKey.SASL_HANDSHAKE, 1, 0, None), SaslHandshakeRequest(mechanism="")
    )
    writer = None
    try:
        async with asyncio.timeout(3 * _WAIT_S):
            name = None if tls is None else host
            reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
            writer.write(materialize(question))
            # Its length, what it is the answer to, and the error.
            answer = await reader.readexactly(10)
    except (NotImplementedError, EOFError, OSError, ValueError):
        return False  # TimeoutError and errors of TLS are OSErrors
    finally:
        if writer is not None:
            writer.transport.abort()
    return int.from_bytes(answer[8:]) == ErrorCode.UNSUPPORTED_SASL_MECHANISM


async def answers(host: str, port: int) -> bool:
    """Whether a broker is there that answers, in three seconds at most. It is asked for its versions, which
    needs no log-in; a listener that speaks TLS does not answer that.
    """
    question = encode_request(RequestHeader(ApiKey.API_VERSIONS, 0, 0, None), ApiVersionsRequest())
    try:
        return bool(await _ask(host, port, materialize(question)))
    except (NotImplementedError, OSError, ValueError):
        return False


async def _ask(host: str, port: int, question: bytes) -> bytes:
    """How the answer begins; nothing where there is none. Raises OSError where there is no connection."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_WAIT_S):
        family, kind, _, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
    with socket.socket(family, kind) as sock:
        sock.setblocking(False)
        async with asyncio.timeout(_WAIT_S):
            await loop.sock_connect(sock, address)
        # What is closed or silent from here on has no beginning.
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_WAIT_S):
                await loop.sock_sendall(sock, question)
                return await loop.sock_recv(sock, len(b"HTTP/"))
    return b""


def _client_hello() -> bytes:
    """The first bytes of a handshake."""
    import ssl  # noqa: PLC0415 - loads a library that few clients need

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()
