"""Strangers at a listener with SASL_SSL: each function is one way to harm a broker that knows nobody there.

    python tests/chaos/hostile_strangers.py WAY PORT SECONDS

As `hostile_clients`, in a process of its own. No way here ever logs in; a connection that the broker refuses
or closes is what a stranger has to expect.
"""

import base64
import contextlib
import itertools
import random
import socket
import ssl
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from hostile_clients import as_a_stranger, connect, frame_of, rounds, send, wait_until

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest

IDLE_CONNECTIONS = 2000
HALF_HANDSHAKES = 1500
HALF_TOKENS = 400
TOKEN_BYTES_MAX = 524_288
"""sasl.server.max.receive.size"""
TOKEN_SIZES = (TOKEN_BYTES_MAX, 80_000, 16_000)
"""The largest of a frame, of OAUTHBEARER and of SCRAM, nearly."""
WRONG_SECRET = "hunter2-that-no-log-may-show"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", "", "X" * 10_000)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


CONTEXT = _context()


class Tunnel:
    """A client's end of TLS whose bytes are in its own hands, so that it can spoil them."""

    def __init__(self) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._end = CONTEXT.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def hello(self) -> bytes:
        """The first bytes of a handshake."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._end.do_handshake()
        return self._outgoing.read()

    def shake_hands(self, peer: socket.socket) -> bool:
        """Whether the broker went through a whole handshake."""
        while True:
            try:
                self._end.do_handshake()
            except ssl.SSLWantReadError:
                peer.sendall(self._outgoing.read())
                answer = peer.recv(1 << 16)
                if not answer:
                    return False
                self._incoming.write(answer)
            else:
                peer.sendall(self._outgoing.read())
                return True

    def records(self, data: bytes) -> bytes:
        """The data as it would be sent."""
        self._end.write(data)
        return self._outgoing.read()


def _tunnel(port: int) -> tuple[socket.socket, Tunnel] | None:
    """A connection after its handshake; None if the broker lets nobody in."""
    if peer := connect(port):
        tunnel = Tunnel()
        with contextlib.suppress(OSError):
            if tunnel.shake_hands(peer):
                return peer, tunnel
        peer.close()
    return None


def _spoilt(data: bytes, rng: random.Random) -> bytes:
    """The data with one thing wrong."""
    spoilt = bytearray(data)
    way = rng.randrange(5)
    if way == 0:
        del spoilt[rng.randrange(len(spoilt)) :]
    elif way == 1:
        spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    elif way == 2:
        spoilt[3:5] = rng.choice((b"\0\0", b"\xff\xff", b"\x40\x01"))  # the length of the record
    elif way == 3:
        spoilt[0] = rng.randrange(256)  # its type
    else:
        place = rng.randrange(len(spoilt))
        spoilt[place:place] = rng.randbytes(rng.randrange(1, 64))
    return bytes(spoilt)


def idle_tls_connections(port: int, deadline: float) -> None:
    """More connections than the broker has descriptors, silent after their handshakes."""
    peers: list[tuple[socket.socket, Tunnel]] = []
    for _ in rounds(deadline):
        if len(peers) < IDLE_CONNECTIONS and (peer := _tunnel(port)):
            peers.append(peer)
        else:
            time.sleep(0.01)
    for peer, _ in peers:
        peer.close()


def half_handshakes(port: int, deadline: float) -> None:
    """Handshakes that stop in the middle of their first message."""
    peers: deque[socket.socket] = deque()
    hello = Tunnel().hello()
    for number in rounds(deadline):
        if peer := connect(port):
            send(peer, hello[: 1 + number % (len(hello) - 1)])
            peers.append(peer)
            if len(peers) > HALF_HANDSHAKES:
                peers.popleft().close()
    for peer in peers:
        peer.close()


def handshakes_one_by_one(port: int, deadline: float) -> None:
    """Two hundred handshakes, a byte at a time."""
    hello = Tunnel().hello()
    peers = [peer for _ in range(200) if (peer := connect(port))]
    for number in rounds(deadline):
        for peer in peers:
            send(peer, hello[number % len(hello) :][:1])
        time.sleep(0.01)


def spoilt_handshakes(port: int, deadline: float) -> None:
    """First messages with one thing wrong, and what is no TLS at all."""
    rng = random.Random(port)
    others = (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(32),  # a hello of SSL 2
        b"\x15\x03\x01\x00\x02\x02\x28" * 100,  # alerts
        b"\x17\x03\x03\x00\x00" * 1000,  # records without a byte
        b"\x16\x03\x01\x00\x00" * 1000,
        frame_of(ApiVersionsRequest()),
    )
    hello = Tunnel().hello()
    for number in rounds(deadline):
        if peer := connect(port):
            send(peer, others[number % len(others)] if number % 3 == 0 else _spoilt(hello, rng))
            peer.close()


def spoilt_records(port: int, deadline: float) -> None:
    """Whole handshakes, a request, and then a record with one thing wrong."""
    rng = random.Random(port)
    for _ in rounds(deadline):
        if found := _tunnel(port):
            peer, tunnel = found
            send(peer, tunnel.records(frame_of(ApiVersionsRequest())))
            send(peer, _spoilt(tunnel.records(_authenticate(rng.randbytes(300))), rng))
            peer.close()


def _authenticate(token: bytes, version: int = 2) -> bytes:
    return frame_of(SaslAuthenticateRequest(auth_bytes=token), version)


def _handshake(mechanism: str, version: int = 1) -> bytes:
    return frame_of(SaslHandshakeRequest(mechanism=mechanism), version)


def log_ins_out_of_order(port: int, deadline: float) -> None:
    """What belongs to a log-in and what does not, in any order, without waiting for an answer."""
    rng = random.Random(port)
    pieces: tuple[Callable[[], bytes], ...] = (
        lambda: frame_of(ApiVersionsRequest()),
        lambda: frame_of(ApiVersionsRequest(), 0)[:6] + b"\x7f\xff" + frame_of(ApiVersionsRequest(), 0)[8:],
        lambda: _handshake(rng.choice(MECHANISMS), rng.randrange(2)),
        lambda: _authenticate(rng.randbytes(rng.randrange(50)), rng.randrange(3)),
        lambda: _authenticate(f"\0alice\0{WRONG_SECRET}".encode()),
        lambda: _authenticate(b"n,,n=alice,r=nonce"),
        lambda: frame_of(MetadataRequest(topics=None)),
        lambda: struct.pack(">i", 0),
        lambda: struct.pack(">ihhih", 10, rng.randrange(100), rng.randrange(20), 1, -1),
        lambda: struct.pack(">i", 40) + rng.randbytes(40),
    )
    for _ in rounds(deadline):
        if found := _tunnel(port):
            peer, tunnel = found
            said = b"".join(rng.choice(pieces)() for _ in range(rng.randrange(1, 6)))
            send(peer, tunnel.records(said))
            with contextlib.suppress(OSError):
                peer.recv(1 << 16)
            peer.close()


def _huge_tokens(size: int) -> Iterator[bytes]:
    """Log-ins with the largest first message of each mechanism, right and wrong in form."""
    room = size - 1000
    deep = base64.urlsafe_b64encode(b'{"sub":' + b"[" * (room // 2)).rstrip(b"=")
    number = base64.urlsafe_b64encode(b'{"sub":"a","exp":' + b"9" * (room // 2) + b"}").rstrip(b"=")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=")
    for mechanism, token in (
        ("PLAIN", b"\0" + b"u" * room + b"\0" + WRONG_SECRET.encode()),
        ("PLAIN", b"\0alice\0" + b"p" * room),
        ("PLAIN", b"\0" * room),
        ("SCRAM-SHA-256", b"n,,n=" + b"u" * room + b",r=nonce"),
        ("SCRAM-SHA-256", b"n,,n=alice,r=" + b"n" * room),
        ("SCRAM-SHA-256", b"n,,n=alice,r=nonce" + b",a=b" * (room // 4)),
        ("SCRAM-SHA-256", b"n," + b"," * room),
        ("SCRAM-SHA-256", b"n,,n=" + b"=2C" * (room // 3) + b"\0"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer " + none + b"." + deep[: room - 100] + b".\x01\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer " + none + b"." + number[: room - 100] + b".\x01\x01"),
        ("OAUTHBEARER", b"n,,\x01" + b"a=b\x01" * (room // 4) + b"\x01"),
        ("OAUTHBEARER", b"n,a=" + b"u" * room + b",\x01auth=Bearer a.b.c\x01\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=" + b" " * room + b"\x01\x01"),
    ):
        yield _handshake(mechanism) + _authenticate(token)
    yield _handshake("PLAIN") + struct.pack(">i", TOKEN_BYTES_MAX + 1)
    yield _handshake("PLAIN") + struct.pack(">i", 0x7FFFFFFF)
    yield _handshake("PLAIN", 0) + struct.pack(">i", TOKEN_BYTES_MAX) + bytes(TOKEN_BYTES_MAX)


def huge_tokens(port: int, deadline: float) -> None:
    """Log-ins as large as they may be, and larger."""
    said = itertools.chain.from_iterable(map(_huge_tokens, itertools.cycle(TOKEN_SIZES)))
    for _ in rounds(deadline):
        if found := _tunnel(port):
            peer, tunnel = found
            send(peer, tunnel.records(next(said)))
            with contextlib.suppress(OSError):
                peer.recv(1 << 16)
            peer.close()


def half_tokens(port: int, deadline: float) -> None:
    """Hundreds of log-ins that send half of a large token, and wait."""
    peers: list[socket.socket] = []
    said = _handshake("PLAIN") + _authenticate(bytes(TOKEN_BYTES_MAX - 100))
    while len(peers) < HALF_TOKENS and time.monotonic() < deadline:
        if found := _tunnel(port):
            peer, tunnel = found
            send(peer, tunnel.records(said[: TOKEN_BYTES_MAX // 2]))
            peers.append(peer)
        else:
            time.sleep(0.01)
    wait_until(deadline)
    for peer in peers:
        peer.close()


WAYS = {
    way.__name__: way
    for way in (
        idle_tls_connections,
        half_handshakes,
        handshakes_one_by_one,
        spoilt_handshakes,
        spoilt_records,
        log_ins_out_of_order,
        huge_tokens,
        half_tokens,
    )
}

if __name__ == "__main__":
    as_a_stranger(WAYS)
