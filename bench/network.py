"""What a connection costs the server, without the broker behind it.

    python bench/network.py [--uvloop] [--seconds 2]

A service that answers every frame with a constant runs in this process, a bare-socket client in another.
Printed are requests per second and the server's CPU time: beside it, the same with an asyncio Protocol that
does the least a Protocol can do, and the share of the system calls (a loop that only receives and sends).
"""

import argparse
import asyncio
import multiprocessing
import os
import select
import socket
import struct
import tempfile
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from barnabas.core.chunks import FileSlice
from barnabas.network.clock import LoopClock
from barnabas.network.endpoints import Endpoint
from barnabas.network.socket_server import SocketServer

REQUEST = struct.pack(">i", 120) + b"r" * 120
RESPONSE = struct.pack(">i", 60) + b"a" * 60
FETCH_BYTES = 1 << 20


class Constant:
    """Answers with the same few bytes."""

    def handle(self, _peer, _frame):
        return [RESPONSE]


class SegmentFile:
    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)

    def fileno(self) -> int:
        return self.descriptor

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self.descriptor, size, position)


class Fetches:
    """Answers with a megabyte of a file, another one each time."""

    def __init__(self, path: Path) -> None:
        self.file = SegmentFile(path)
        self.pieces = path.stat().st_size // FETCH_BYTES
        self.turn = 0

    def handle(self, _peer, _frame):
        self.turn = (self.turn + 1) % self.pieces
        head = struct.pack(">i", FETCH_BYTES + 60) + b"h" * 60
        return [head, FileSlice(self.file, self.turn * FETCH_BYTES, FETCH_BYTES)]


class LeastProtocol(asyncio.Protocol):
    """The least an asyncio Protocol has to do for the same answers."""

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while len(self.buffer) >= 4:
            (size,) = struct.unpack_from(">i", self.buffer)
            if len(self.buffer) < 4 + size:
                return
            self.buffer = self.buffer[4 + size :]
            self.transport.write(RESPONSE)


def ask(port: int, in_flight: int, response_size: int, seconds: float, pipe: Pipe) -> None:
    """The client: sends `in_flight` requests, waits for all their responses, again until time is up."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data, wanted = REQUEST * in_flight, response_size * in_flight
    landing = bytearray(1 << 21)
    rounds = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        sock.sendall(data)
        left = wanted
        while left:
            left -= sock.recv_into(landing, min(left, len(landing)))
        rounds += 1
    pipe.send((rounds * in_flight, time.perf_counter() - started))
    sock.close()


async def measure(port: int, in_flight: int, response_size: int, seconds: float) -> tuple[float, float]:
    """Requests per second, and microseconds of this process's CPU for each."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    client = context.Process(target=ask, args=(port, in_flight, response_size, seconds, there))
    loop = asyncio.get_running_loop()
    finished = loop.create_future()
    loop.add_reader(here.fileno(), lambda: finished.done() or finished.set_result(None))
    client.start()
    await asyncio.sleep(0.5)  # the client's interpreter starts; its CPU is not ours, its start is
    cpu = time.process_time()
    await finished
    cpu = time.process_time() - cpu
    loop.remove_reader(here.fileno())
    count, elapsed = here.recv()
    client.join()
    return count / elapsed, cpu / count * 1e6


def system_calls_only(sock: socket.socket) -> None:
    """Receives and sends as often as the server has to, with nothing in between."""
    landing = bytearray(1 << 17)
    poll = select.epoll()
    poll.register(sock, select.EPOLLIN)
    while True:
        poll.poll()
        count = sock.recv_into(landing)
        if not count:
            return
        sock.send(RESPONSE * (count // len(REQUEST)))


def measure_floor(in_flight: int, seconds: float) -> float:
    """Microseconds of CPU that the system calls alone take for a request."""
    listening = socket.create_server(("127.0.0.1", 0))
    here, there = multiprocessing.Pipe()
    client = multiprocessing.get_context("spawn").Process(
        target=ask, args=(listening.getsockname()[1], in_flight, len(RESPONSE), seconds, there)
    )
    client.start()
    sock, _ = listening.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    cpu = time.process_time()
    system_calls_only(sock)
    cpu = time.process_time() - cpu
    count, _ = here.recv()
    client.join()
    return cpu / count * 1e6


async def requests(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = SocketServer(LoopClock(loop))
    port = server.bind(Endpoint("PLAINTEXT", "127.0.0.1", 0)).port
    server.start(Constant())
    plain = await loop.create_server(LeastProtocol, "127.0.0.1", 0)
    plain_port = plain.sockets[0].getsockname()[1]
    for in_flight in (1, 50):
        rate, cpu = await measure(port, in_flight, len(RESPONSE), seconds)
        other_rate, other_cpu = await measure(plain_port, in_flight, len(RESPONSE), seconds)
        floor = measure_floor(in_flight, seconds)
        print(
            f"{in_flight:3} in flight: {rate:9,.0f} requests/s, {cpu:6.2f} us CPU each ({cpu - floor:5.2f} "
            f"above the system calls' {floor:5.2f}); asyncio Protocol {other_rate:9,.0f}/s, "
            f"{other_cpu:6.2f} us"
        )
    plain.close()
    await server.stop()


async def files(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "segment"
        path.write_bytes(os.urandom(1 << 20) * 256)
        server = SocketServer(LoopClock(asyncio.get_running_loop()))
        port = server.bind(Endpoint("PLAINTEXT", "127.0.0.1", 0)).port
        server.start(Fetches(path))
        for in_flight in (1, 5):
            rate, cpu = await measure(port, in_flight, FETCH_BYTES + 64, seconds)
            gigabytes = rate * FETCH_BYTES / 1e9
            print(
                f"1 MB fetches, {in_flight} in flight: {gigabytes:5.2f} GB/s, "
                f"{cpu / 1e6 / FETCH_BYTES * 1e9:5.3f} s CPU a GB"
            )
        await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uvloop", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    run = asyncio.run
    if options.uvloop:
        import uvloop

        run = uvloop.run
    print(f"event loop: {'uvloop' if options.uvloop else 'asyncio'}")
    run(requests(options.seconds))
    run(files(options.seconds))


if __name__ == "__main__":
    main()
