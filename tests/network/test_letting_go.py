"""Connections that end inside a frame give its memory back at once, without the garbage collector."""

import asyncio
import contextlib
import ctypes
import gc
import logging
import socket
import struct
import subprocess
import sys
import tracemalloc

import pytest
from network_harness import framed

from barnabas.core.pending import Pending
from barnabas.network.clock import LoopClock
from barnabas.network.connection import Connection
from barnabas.network.conversation import Conversation
from barnabas.network.endpoints import Endpoint
from barnabas.network.errors import CloseConnection
from barnabas.network.frames import FrameReader
from barnabas.network.peer import Peer
from barnabas.network.settings import SocketSettings
from barnabas.network.socket_server import SocketServer

HALF = struct.pack(">i", 100 << 20) + bytes(1_500_000)
"""The beginning of a frame of 100 MB."""
COUNT = 12
KEPT_BYTES_MAX = 1_000_000


@pytest.fixture
def uncollected(monkeypatch):
    """Without the collector: what is freed is freed by reference counting. Memory is traced."""
    # pytest keeps the records of its log, and with them tracebacks.
    monkeypatch.setattr(logging.getLogger("barnabas.network"), "disabled", True)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def parts_alive():
    """What there is of connections, in the whole process."""
    kinds = (Connection, Conversation, FrameReader, Peer)
    return sum(issubclass(type(each), kinds) for each in gc.get_objects())


async def half_frames(harness, settle=True):
    """Clients that have sent the beginning of a frame, and what was in memory before."""
    before = parts_alive(), tracemalloc.get_traced_memory()[0]
    clients = [await harness.client() for _ in range(COUNT)]
    for client in clients:
        client.send(HALF)
        await client.writer.drain()
    if settle:
        received = [each.conversation for each in harness.server.connections]
        await harness.until(lambda: all(each.missing == (100 << 20) - 1_500_000 for each in received))
    return clients, before


async def nothing_is_left(harness, before):
    """All connections are closed, and nothing of them is in memory."""
    await harness.until(lambda: not harness.server.connections)
    parts, traced = before
    await harness.until(lambda: parts_alive() == parts)
    assert tracemalloc.get_traced_memory()[0] - traced < KEPT_BYTES_MAX


def reset(client):
    sock = client.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("end", [lambda client: client.writer.close(), reset], ids=["closed", "reset"])
def test_a_peer_that_goes_inside_a_frame(serve, end):
    async def scenario(harness):
        clients, before = await half_frames(harness)
        harness.clients.clear()
        while clients:
            end(clients.pop())
        await nothing_is_left(harness, before)

    serve(scenario)


@pytest.mark.usefixtures("uncollected")
def test_an_idle_peer_inside_a_frame(serve):
    async def scenario(harness):
        clients, before = await half_frames(harness)
        for client in clients:
            assert await client.is_closed()
        await nothing_is_left(harness, before)

    serve(scenario, idle_ms_max=400)


@pytest.mark.usefixtures("uncollected")
def test_a_displaced_peer_inside_a_frame():
    async def main():
        server = SocketServer(
            LoopClock(asyncio.get_running_loop()),
            SocketSettings(connections_max=1),
            inter_broker_listener="INTERNAL",
        )
        ports = [server.bind(Endpoint(name, "127.0.0.1", 0)).port for name in ("CLIENTS", "INTERNAL")]
        server.start(Echo())
        before, traced = parts_alive(), tracemalloc.get_traced_memory()[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
        writer.write(HALF)
        await writer.drain()
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", ports[1])
        other_writer.write(framed(b"broker"))
        assert await other_reader.readexactly(10) == framed(b"broker")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        for each in (writer, other_writer):
            each.close()
        while server.connections:  # noqa: ASYNC110 - until the server has noticed
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        assert parts_alive() == before
        assert tracemalloc.get_traced_memory()[0] - traced < KEPT_BYTES_MAX
        await server.stop(grace_ms=0)

    asyncio.run(main())


class Echo:
    def handle(self, _peer, frame):
        return [framed(bytes(frame))]


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "kind", ["refused", "bug", "failed at once", "failed later", "closed by the service"]
)
def test_a_large_request_that_ends_its_connection(serve, kind):
    later = []

    def service(peer, _frame):
        if kind == "refused":
            raise CloseConnection("nonsense")
        if kind == "bug":
            raise ZeroDivisionError
        if kind == "failed at once":
            return Pending.failed(ValueError("a bug"))
        if kind == "failed later":
            later.append(Pending())
            return later[-1]
        peer.close("enough")
        return None

    async def scenario(harness):
        before = parts_alive(), tracemalloc.get_traced_memory()[0]
        harness.service.remember = False
        for _ in range(COUNT):
            client = await harness.client()
            client.send(framed(bytes(100_000)) + framed(bytes(30_000)) + b"half")
            await harness.until(lambda: later or not harness.server.connections)
            while later:
                later.pop().fail(ValueError("a bug"))
            assert await client.is_closed()
        await nothing_is_left(harness, before)

    serve(scenario, service=service)


@pytest.mark.usefixtures("uncollected")
def test_a_peer_that_goes_while_it_waits_for_an_answer(serve):
    waiting = []

    def service(*_):
        waiting.append(Pending())
        return waiting[-1]

    async def scenario(harness):
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(COUNT):
            client = await harness.client()
            client.send(framed(b"wait") + HALF)
            await client.writer.drain()
            await client.close()
        await harness.until(lambda: not harness.server.connections)
        # What waits knows its conversation still, but that holds nothing any more.
        assert len(waiting) == COUNT
        harness.clients.clear()
        assert tracemalloc.get_traced_memory()[0] - before < KEPT_BYTES_MAX

    serve(scenario, service=service)


def test_memory_goes_back_to_the_system_after_frames_were_dropped(serve, monkeypatch):
    """Once for a crowd, and again only a while later."""
    trims = []
    monkeypatch.setattr("barnabas.core.memory.trim", lambda: trims.append(True))

    class Hurried(LoopClock):
        def call_later(self, delay_ms, callback):
            return super().call_later(delay_ms / 50, callback)

    async def scenario(harness):
        for round_ in (1, 2):
            clients = [await harness.client() for _ in range(5)]
            for client in clients:
                client.send(framed(b"whole") + struct.pack(">i", 1000) + b"half")
                await client.response()
                await client.close()
            await harness.until(lambda round_=round_: len(trims) == round_)
        whole = await harness.client()
        await whole.ask(b"whole")
        await whole.close()
        await harness.until(lambda: not harness.server.connections)
        assert harness.server.processor._trim_timer is None

    serve(scenario, clock=Hurried)
    assert trims == [True, True]


def test_what_was_freed_goes_back_to_the_system():
    """Blocks below one that stays, which the C library's heap does not give back by itself."""
    script = (
        "import os; from barnabas.core.memory import trim\n"
        "def resident(): return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGESIZE')\n"
        "both = [(bytearray(100_000), bytearray(600)) for _ in range(300)]; stays = [each[1] for each in "
        "both]; del both\n"
        "before = resident(); trim(); print(before - resident())"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library has no malloc_trim")
    assert int(done.stdout) > 20_000_000
