"""Hostile clients: each function is one way to harm a broker from outside, without any right beyond a
connection.

    python tests/chaos/hostile_clients.py WAY PORT SECONDS

Runs in a process of its own, so that what it costs is not counted as the broker's. Every load is bounded by
its seconds and by the counts below. A connection that the broker refuses or closes is what a hostile client
has to expect: it goes on with the next.
"""

import contextlib
import os
import random
import resource
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "fuzz"))
sys.path.insert(0, str(Path(__file__).parent.parent / "protocol"))

from message_tools import message_layout
from wire_peer import WirePeer, fetch, frame_of

from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.layout import Layout
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.registry import REQUESTS
from barnabas.protocol.schema import Struct
from barnabas.protocol.wire import Wire

IDLE_CONNECTIONS = 1500
HALF_FRAMES = 100
HALF_FRAME_BYTES = 2_000_000
CLAIMED_BYTES = 100_000_000
ABSURD_ENTRIES = 20_000
PIPELINE_REQUESTS = 2_000
SLOW_READERS = 20


def as_a_stranger(ways: Mapping[str, Callable[[int, float], None]]) -> None:
    """Carries out one way for some seconds, as the command line says."""
    way, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    # A real one sits on another machine: it takes no processor from those that are measured.
    os.nice(15)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * IDLE_CONNECTIONS
    resource.setrlimit(
        resource.RLIMIT_NOFILE,
        (wanted if hard == resource.RLIM_INFINITY else min(hard, max(soft, wanted)), hard),
    )
    ways[way](port, time.monotonic() + seconds)


def connect(port: int) -> socket.socket | None:
    """A connection that waits for nothing longer than a second; None if the broker lets nobody in."""
    try:
        return socket.create_connection(("127.0.0.1", port), timeout=1)
    except OSError:
        return None


def send(peer: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        peer.sendall(data)


def rounds(deadline: float) -> Iterator[int]:
    """Rounds until the time is over."""
    number = 0
    while time.monotonic() < deadline:
        yield number
        number += 1


def wait_until(deadline: float) -> None:
    """Does nothing more."""
    time.sleep(max(0.0, deadline - time.monotonic()))


def idle_connections(port: int, deadline: float) -> None:
    """More connections than the broker has descriptors, all silent until the end."""
    peers: list[socket.socket] = []
    for _ in rounds(deadline):
        if len(peers) < IDLE_CONNECTIONS and (peer := connect(port)):
            peers.append(peer)
        else:
            time.sleep(0.05)
    for peer in peers:
        peer.close()


def half_frames(port: int, deadline: float) -> None:
    """Connections that claim 100 MB, send two, and end there."""
    peers: list[socket.socket] = []
    data = struct.pack(">i", CLAIMED_BYTES) + bytes(HALF_FRAME_BYTES)
    for number in rounds(deadline):
        if number < HALF_FRAMES and (peer := connect(port)):
            peers.append(peer)
            send(peer, data)
        else:
            time.sleep(0.05)
    for peer in peers:
        peer.close()


def flood_of_connections(port: int, deadline: float) -> None:
    """Connects and closes as fast as it can, every other time with a reset."""
    for number in rounds(deadline):
        if peer := connect(port):
            if number % 2:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()


def no_frames(port: int, deadline: float) -> None:
    """Sizes and headers that no client sends, and noise."""
    rng = random.Random(port)
    for number in rounds(deadline):
        peer = connect(port)
        if peer is None:
            continue
        kinds = (
            struct.pack(">i", -1),
            struct.pack(">i", 0x7FFFFFFF),
            struct.pack(">i", 0) * 1000,
            b"GET / HTTP/1.1\r\n\r\n",
            struct.pack(">ihhih", 10, rng.randrange(100), rng.randrange(20), number, -1),
            struct.pack(">i", 300) + rng.randbytes(300),
        )
        send(peer, kinds[number % len(kinds)])
        peer.close()


def bytes_one_by_one(port: int, deadline: float) -> None:
    """Two hundred connections that send a request a byte at a time."""
    frame = frame_of(MetadataRequest(topics=None))
    peers = [peer for _ in range(200) if (peer := connect(port))]
    for number in rounds(deadline):
        for peer in peers:
            send(peer, frame[number % len(frame) : number % len(frame) + 1])
        time.sleep(0.01)


def tiny_frames(port: int, deadline: float) -> None:
    """Some ten thousand of the smallest requests in one write, answers read and thrown away."""
    _pipeline(port, deadline, frame_of(ApiVersionsRequest()) * 10_000, connections=2, reads=True)


def pipelines(port: int, deadline: float) -> None:
    """Four clients that ask for everything there is, thousands of times, without waiting for an answer."""
    _pipeline(
        port, deadline, frame_of(MetadataRequest(topics=None)) * PIPELINE_REQUESTS, connections=4, reads=True
    )


def slow_readers(port: int, deadline: float) -> None:
    """Clients that ask for much and read nothing of it."""
    much = frame_of(MetadataRequest(topics=None)) * 200 + frame_of(fetch("bulk", max_bytes=50 << 20)) * 200
    _pipeline(port, deadline, much, connections=SLOW_READERS, reads=False)


def _pipeline(port: int, deadline: float, data: bytes, *, connections: int, reads: bool) -> None:
    """Each connection sends the data again and again as far as the broker takes it."""
    selector = selectors.DefaultSelector()
    wanted = selectors.EVENT_WRITE | (selectors.EVENT_READ if reads else 0)
    for _ in range(connections):
        if peer := connect(port):
            peer.setblocking(False)
            selector.register(peer, wanted, [0])
    for _ in rounds(deadline):
        for key, events in selector.select(0.05):
            peer, sent = key.fileobj, key.data
            try:
                if events & selectors.EVENT_READ and not peer.recv(1 << 20):
                    selector.unregister(peer)
                    continue
                if events & selectors.EVENT_WRITE:
                    sent[0] += peer.send(memoryview(data)[sent[0] : sent[0] + (1 << 16)])
                    sent[0] %= len(data)
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(peer)
        if not selector.get_map():
            time.sleep(0.05)


def absurd_requests(port: int, deadline: float) -> None:
    """Every API with very many entries wherever its request has a list, one after the other."""
    versions = _advertised(port)
    frames = [_absurd(key, version) for key, version in versions.items()]
    for number in rounds(deadline):
        if peer := connect(port):
            peer.settimeout(2)
            send(peer, frames[number % len(frames)])
            with contextlib.suppress(OSError):
                peer.recv(1 << 16)
            peer.close()


def _advertised(port: int) -> dict[ApiKey, int]:
    with WirePeer(port) as peer:
        return {ApiKey(each.api_key): each.max_version for each in peer.ask(ApiVersionsRequest()).api_keys}


def _absurd(key: ApiKey, version: int) -> bytes:
    cls = REQUESTS[key]
    request = _many(message_layout(cls, version), ABSURD_ENTRIES)
    # The controller's requests are those of a controller of the past: refused, however long they are.
    for name in ("controller_epoch", "acks", "group_instance_id"):
        if hasattr(request, name):
            setattr(request, name, {"controller_epoch": 0, "acks": 1}.get(name))
    try:
        return frame_of(request, version)
    except ProtocolError as error:
        raise RuntimeError(f"{key.name} v{version}: {error}") from error


def _many(layout: Layout, entries: int) -> Struct:
    """A request whose outer lists have many entries and whose inner ones have one each."""
    values: dict[str, object] = {}
    for field in layout.fields:
        if isinstance(field.kind, Wire):
            value: object = _PLAIN.get(field.kind.name, 0)
        else:
            value = _many(layout.of(field), 1)
        values[field.name] = [value] * entries if field.is_array else value
    return layout.cls(**values)


_PLAIN = {
    "bool": False,
    "float64": 0.0,
    "uuid": bytes(16),
    "string": "hostile",
    "bytes": b"bytes",
    "records": b"records",
}

WAYS = {
    way.__name__: way
    for way in (
        idle_connections,
        half_frames,
        flood_of_connections,
        no_frames,
        bytes_one_by_one,
        tiny_frames,
        pipelines,
        slow_readers,
        absurd_requests,
    )
}

if __name__ == "__main__":
    as_a_stranger(WAYS)
