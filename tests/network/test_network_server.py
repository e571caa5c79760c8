import asyncio
import contextlib
import gc
import logging
import os
import socket
import struct

import pytest
from network_harness import DiskFile, MemoryFile, framed

from barnabas.core.chunks import FileSlice
from barnabas.core.pending import Pending
from barnabas.network import pagecache, send_queue
from barnabas.network.clock import LoopClock
from barnabas.network.endpoints import Endpoint
from barnabas.network.errors import CloseConnection
from barnabas.network.settings import SocketSettings
from barnabas.network.socket_server import SocketServer


def test_a_request_is_answered(serve):
    async def scenario(harness):
        client = await harness.client()
        assert await client.ask(b"hello") == b"hello"
        assert harness.service.peers[0].address[0] == "127.0.0.1"

    serve(scenario)


def test_pipelined_requests_in_pieces_of_any_size(serve):
    async def scenario(harness):
        client = await harness.client()
        bodies = [bytes([n % 256]) * (n * 37 % 3000) for n in range(400)]
        data = b"".join(map(framed, bodies))
        for position in range(0, len(data), 7919):
            client.send(data[position : position + 7919])
            await asyncio.sleep(0)
        for body in bodies:
            assert await client.response() == body

    serve(scenario)


def test_a_request_of_megabytes(serve):
    async def scenario(harness):
        client = await harness.client()
        body = os.urandom(5_000_000)
        assert await client.ask(body) == body
        assert await client.ask(b"small") == b"small"

    serve(scenario)


def test_order_though_the_first_answer_comes_last(serve):
    waiting = {}

    def service(_peer, frame):
        return waiting.setdefault(bytes(frame), Pending())

    async def scenario(harness):
        client = await harness.client()
        client.send(framed(b"1") + framed(b"2") + framed(b"3"))
        await harness.until(lambda: len(waiting) == 3)
        for name in (b"3", b"2", b"1"):
            waiting[name].complete([framed(name)])
        assert [await client.response() for _ in range(3)] == [b"1", b"2", b"3"]

    serve(scenario, service=service)


def test_one_connection_completes_what_waits_on_another(serve):
    waiting = []

    def service(_peer, frame):
        if frame == b"wait":
            waiting.append(Pending())
            return waiting[-1]
        for pending in waiting:
            pending.complete([framed(b"woken")])
        return [framed(b"done")]

    async def scenario(harness):
        sleeper, waker = await harness.client(), await harness.client()
        sleeper.send(framed(b"wait"))
        await harness.until(lambda: waiting)
        assert await waker.ask(b"go") == b"done"
        assert await sleeper.response() == b"woken"

    serve(scenario, service=service)


def test_a_peer_that_never_reads_is_not_read_from(serve):
    answer = framed(b"x" * 100_000)

    async def scenario(harness):
        client = await harness.client()
        rude = await harness.client()
        rude.writer.transport.pause_reading()
        for _ in range(50):
            rude.send(framed(b"?") * 100)
            assert await client.ask(b"!") == answer[4:]
        handled = len(harness.service.requests)
        # What the system buffers (a few MB) and what one conversation may hold; not 5000 * 100 kB.
        assert handled < 50 + 300
        rude.writer.transport.resume_reading()
        for _ in range(5000):
            await rude.response()

    serve(scenario, service=lambda *_: [answer])


def test_responses_from_files(serve, tmp_path):
    data = os.urandom(3_000_000)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    file = DiskFile(path)

    def service(_peer, frame):
        position, size = struct.unpack(">ii", frame)
        head = b"head of it"
        return [struct.pack(">i", len(head) + size), head, file.slice(position, size), b""]

    async def scenario(harness):
        client = await harness.client()
        ranges = [(0, 3_000_000), (17, 100), (5, 0), (1_000_001, 1_500_000), (0, 65_535), (1, 65_536)]
        for wanted in ranges:
            client.send(framed(struct.pack(">ii", *wanted)))
        for position, size in ranges:
            assert await client.response() == b"head of it" + data[position : position + size]

    serve(scenario, service=service)


def test_several_files_in_one_response(serve, tmp_path):
    (tmp_path / "a").write_bytes(b"a" * 200_000)
    (tmp_path / "b").write_bytes(b"b" * 100_000)
    one, other = DiskFile(tmp_path / "a"), DiskFile(tmp_path / "b")

    def service(*_):
        return [
            struct.pack(">i", 300_006),
            b"<",
            one.slice(0, 200_000),
            b"|",
            b"",
            other.slice(0, 100_000),
            b"tail",
        ]

    async def scenario(harness):
        client = await harness.client()
        client.send(framed(b"?") * 3)
        for _ in range(3):
            assert await client.response() == b"<" + b"a" * 200_000 + b"|" + b"b" * 100_000 + b"tail"

    serve(scenario, service=service)


def test_a_file_that_is_deleted_meanwhile(serve, tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(b"d" * 4_000_000)

    def service(*_):
        piece = DiskFile(path).slice(0, 4_000_000)
        path.unlink()
        return [struct.pack(">i", 4_000_000), piece]

    async def scenario(harness):
        client = await harness.client()
        assert await client.ask(b"?") == b"d" * 4_000_000
        gc.collect()

    serve(scenario, service=service)


@pytest.mark.parametrize("size", [1000, 1_000_000])
def test_a_file_that_was_truncated_closes_the_connection(serve, tmp_path, size, caplog):
    path = tmp_path / "segment"
    path.write_bytes(b"d" * (size // 2))

    def service(_peer, frame):
        if frame == b"file":
            return [struct.pack(">i", size), DiskFile(path).slice(0, size)]
        return [framed(b"fine")]

    async def scenario(harness):
        client, other = await harness.client(), await harness.client()
        client.send(framed(b"file"))
        with pytest.raises(asyncio.IncompleteReadError):
            await client.response()
        assert await other.ask(b"?") == b"fine"

    serve(scenario, service=service)
    assert "inside a range" in caplog.text


def test_a_simulated_file(serve):
    data = os.urandom(900_000)

    def service(*_):
        return [struct.pack(">i", 800_000), FileSlice(MemoryFile(data), 50_000, 800_000)]

    async def scenario(harness):
        client = await harness.client()
        assert await client.ask(b"?") == data[50_000:850_000]

    serve(scenario, service=service)


def test_a_cold_range_is_read_by_a_thread_first(serve, tmp_path, monkeypatch):
    data = os.urandom(2_500_000)
    path = tmp_path / "segment"
    path.write_bytes(data)
    file = DiskFile(path)
    read = []

    def warm_until(_descriptor, position, _end):
        return position

    def read_ahead(descriptor, position, end):
        read.append((position, end))
        pagecache.read_ahead(descriptor, position, end)

    monkeypatch.setattr(send_queue, "warm_until", warm_until)
    monkeypatch.setattr("barnabas.network.kafka_channel.read_ahead", read_ahead)

    def service(_peer, frame):
        if frame == b"file":
            return [struct.pack(">i", len(data)), file.slice(0, len(data))]
        return [framed(b"memory")]

    async def scenario(harness):
        client = await harness.client()
        client.send(framed(b"file") + framed(b"?"))
        assert await client.response() == data
        assert await client.response() == b"memory"

    serve(scenario, service=service)
    assert read == [(0, 1 << 20), (1 << 20, 2 << 20), (2 << 20, len(data))]


def test_a_disk_error_while_reading_ahead_closes_only_that_connection(serve, tmp_path, monkeypatch):
    path = tmp_path / "segment"
    path.write_bytes(b"d" * 100_000)

    def read_ahead(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(send_queue, "warm_until", lambda _descriptor, position, _end: position)
    monkeypatch.setattr("barnabas.network.kafka_channel.read_ahead", read_ahead)

    def service(_peer, frame):
        if frame == b"file":
            return [struct.pack(">i", 100_000), DiskFile(path).slice(0, 100_000)]
        return [framed(b"fine")]

    async def scenario(harness):
        client, other = await harness.client(), await harness.client()
        client.send(framed(b"file"))
        with pytest.raises(asyncio.IncompleteReadError):
            await client.response()
        assert await other.ask(b"?") == b"fine"

    serve(scenario, service=service)


def closing_lines(caplog):
    return [record for record in caplog.records if record.name == "barnabas.network"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", 1001) + b"x" * 100, "size = 1001 larger than 1000"),
        (struct.pack(">i", -5), "size = -5"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "size = 1195725856 larger"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "size = 369295618 larger"),
    ],
)
def test_garbage_closes_with_one_line_and_harms_nobody(serve, caplog, data, reason):
    async def scenario(harness):
        client, other = await harness.client(), await harness.client()
        client.send(data)
        assert await client.is_closed()
        assert await other.ask(b"still here") == b"still here"

    serve(scenario, request_bytes_max=1000)
    [line] = closing_lines(caplog)
    assert reason in line.getMessage()
    assert line.levelno == logging.WARNING


def test_a_service_closes_with_one_line(serve, caplog):
    def service(_peer, _frame):
        raise CloseConnection("unknown API key 999")

    async def scenario(harness):
        client = await harness.client()
        client.send(framed(b"?"))
        assert await client.is_closed()

    serve(scenario, service=service)
    [line] = closing_lines(caplog)
    assert 'reason="unknown API key 999"' in line.getMessage()


@pytest.mark.parametrize("last", [framed(b"bad"), struct.pack(">i", -1)])
def test_what_was_asked_before_nonsense_is_answered(serve, last):
    def service(_peer, frame):
        if frame == b"bad":
            raise CloseConnection("nonsense")
        return [framed(bytes(frame))]

    async def scenario(harness):
        client = await harness.client()
        client.send(framed(b"1") + framed(b"2") + last)
        assert [await client.response() for _ in range(2)] == [b"1", b"2"]
        assert await client.is_closed()

    serve(scenario, service=service)


def test_a_bug_in_the_service_closes_only_that_connection(serve, caplog):
    def service(_peer, frame):
        if frame == b"bug":
            raise ZeroDivisionError
        return [framed(b"fine")]

    async def scenario(harness):
        client, other = await harness.client(), await harness.client()
        client.send(framed(b"bug"))
        assert await client.is_closed()
        assert await other.ask(b"?") == b"fine"

    serve(scenario, service=service)
    [line] = closing_lines(caplog)
    assert line.exc_info is not None


def test_a_truncated_request_is_never_handled(serve):
    async def scenario(harness):
        client = await harness.client()
        client.send(framed(b"a whole one") + struct.pack(">i", 100) + b"half of")
        assert await client.response() == b"a whole one"
        client.writer.write_eof()
        assert await client.is_closed()
        assert harness.service.requests == [b"a whole one"]

    serve(scenario)


def test_who_goes_away_while_it_waits_is_forgotten(serve):
    waiting = []

    def service(*_):
        waiting.append(Pending())
        return waiting[-1]

    async def scenario(harness):
        client = await harness.client()
        client.send(framed(b"?"))
        await harness.until(lambda: waiting)
        await client.close()
        await harness.until(lambda: not harness.server.connections)
        waiting[0].complete([framed(b"nobody listens")])
        other = await harness.client()
        other.send(framed(b"?"))
        await harness.until(lambda: len(waiting) == 2)

    serve(scenario, service=service)


def test_a_reset_connection_is_forgotten(serve):
    async def scenario(harness):
        client = await harness.client()
        await client.ask(b"x")
        sock = client.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.writer.transport.abort()
        await harness.until(lambda: not harness.server.connections)

    serve(scenario)


def test_idle_connections_are_closed_and_busy_ones_not(serve):
    async def scenario(harness):
        busy, idle = await harness.client(), await harness.client()
        await idle.ask(b"once")
        closed = asyncio.ensure_future(idle.is_closed())
        while not closed.done():
            await busy.ask(b"again")
            await asyncio.sleep(0.005)
        assert await busy.ask(b"still") == b"still"

    serve(scenario, idle_ms_max=60)


def test_who_sends_a_large_request_slowly_is_not_idle(serve):
    async def scenario(harness):
        slow = await harness.client()
        body = os.urandom(300_000)
        data = framed(body)
        for position in range(0, len(data), 20_000):
            slow.send(data[position : position + 20_000])
            await asyncio.sleep(0.08)  # all of it takes longer than a connection may be idle
        assert await slow.response() == body
        slow.send(data[:200_000])
        assert await slow.is_closed()

    serve(scenario, idle_ms_max=1000)


def test_who_waits_for_an_answer_is_not_idle(serve):
    waiting = []

    def service(_peer, frame):
        if frame == b"poll":
            waiting.append(Pending())
            return waiting[-1]
        return [framed(b"")]

    async def scenario(harness):
        poller, idle = await harness.client(), await harness.client()
        poller.send(framed(b"poll"))
        await idle.ask(b"")
        assert await idle.is_closed()
        waiting[0].complete([framed(b"records")])
        assert await poller.response() == b"records"

    serve(scenario, service=service, idle_ms_max=50)


def test_a_muted_peer_waits(serve):
    def service(peer, frame):
        if frame == b"much":
            peer.mute_until(asyncio.get_running_loop().time() * 1000 + 50)
        return [framed(bytes(frame))]

    async def scenario(harness):
        client, other = await harness.client(), await harness.client()
        assert await client.ask(b"much") == b"much"
        loop = asyncio.get_running_loop()
        started = loop.time()
        client.send(framed(b"more"))
        assert await other.ask(b"?") == b"?"
        assert len(harness.service.requests) == 2
        assert await client.response() == b"more"
        assert loop.time() - started > 0.03

    serve(scenario, service=service)


def test_connections_beyond_the_limit_of_an_address_are_closed(serve):
    async def scenario(harness):
        first, second = await harness.client(), await harness.client()
        await first.ask(b"1")
        await second.ask(b"2")
        third = await harness.client()
        assert await third.is_closed()
        await first.close()
        await harness.until(lambda: len(harness.server.connections) == 1)
        fourth = await harness.client()
        assert await fourth.ask(b"4") == b"4"

    serve(scenario, connections_per_ip_max=2)


def test_an_override_for_an_address(serve):
    async def scenario(harness):
        client = await harness.client()
        assert await client.is_closed()

    serve(scenario, connections_per_ip_overrides={"127.0.0.1": 0})


def test_connections_beyond_the_limit_of_the_broker_wait(serve):
    async def scenario(harness):
        first = await harness.client()
        await first.ask(b"1")
        second = await harness.client()
        second.send(framed(b"2"))
        third = await harness.client()
        third.send(framed(b"3"))
        await asyncio.sleep(0.01)
        assert harness.service.requests == [b"1"]
        await first.close()
        assert await second.response() == b"2"
        await second.close()
        assert await third.response() == b"3"

    serve(scenario, connections_max=1)


def test_the_inter_broker_listener_displaces_an_idle_client():
    async def main():
        server = SocketServer(
            LoopClock(asyncio.get_running_loop()),
            SocketSettings(connections_max=1),
            inter_broker_listener="INTERNAL",
        )
        clients = server.bind(Endpoint("CLIENTS", "127.0.0.1", 0))
        brokers = server.bind(Endpoint("INTERNAL", "127.0.0.1", 0))
        server.start(EchoService())
        reader, writer = await asyncio.open_connection("127.0.0.1", clients.port)
        writer.write(framed(b"client"))
        assert await reader.readexactly(10) == framed(b"client")
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", brokers.port)
        broker_writer.write(framed(b"broker"))
        assert await broker_reader.readexactly(10) == framed(b"broker")
        assert await reader.read() == b""
        for each in (writer, broker_writer):
            each.close()
            await each.wait_closed()
        await server.stop(grace_ms=0)

    asyncio.run(main())


class EchoService:
    def handle(self, _peer, frame):
        return [framed(bytes(frame))]


def test_many_connections(serve):
    async def scenario(harness):
        clients = [await harness.client() for _ in range(200)]
        for round_ in range(3):
            body = b"round %d" % round_
            assert await asyncio.gather(*(client.ask(body) for client in clients)) == [body] * 200

    serve(scenario)


def test_stopping_sends_what_is_owed_and_takes_nothing_more():
    waiting = []

    class Service:
        def handle(self, _peer, _frame):
            waiting.append(Pending())
            return waiting[-1]

    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()))
        port = server.bind(Endpoint("PLAINTEXT", "127.0.0.1", 0)).port
        server.start(Service())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(framed(b"?"))
        while not waiting:  # noqa: ASYNC110 - the service runs in this loop
            await asyncio.sleep(0.001)
        stopping = asyncio.ensure_future(server.stop(grace_ms=5000))
        assert await idle_reader.read() == b""
        writer.write(framed(b"too late"))
        await asyncio.sleep(0.01)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
        assert not stopping.done()
        waiting[0].complete([framed(b"the last word")])
        await stopping
        with contextlib.suppress(ConnectionResetError):
            assert await reader.readexactly(17) == framed(b"the last word")
        assert len(waiting) == 1
        for each in (writer, idle_writer):
            each.close()
            with contextlib.suppress(ConnectionError):
                await each.wait_closed()

    asyncio.run(main())


def test_stopping_does_not_wait_for_ever():
    class Service:
        def handle(self, _peer, _frame):
            return Pending()

    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()))
        port = server.bind(Endpoint("PLAINTEXT", "127.0.0.1", 0)).port
        server.start(Service())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(framed(b"?"))
        await asyncio.sleep(0.01)
        await asyncio.wait_for(server.stop(grace_ms=20), 5)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

    asyncio.run(main())


def test_a_bound_listener_does_not_answer_before_the_start():
    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()))
        port = server.bind(Endpoint("PLAINTEXT", "127.0.0.1", 0)).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(framed(b"early"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.02)
        server.start(EchoService())
        assert await reader.readexactly(9) == framed(b"early")
        writer.close()
        await writer.wait_closed()
        await server.stop()

    asyncio.run(main())


def test_a_port_that_is_taken_is_named():
    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()))
        port = server.bind(Endpoint("PLAINTEXT", "127.0.0.1", 0)).port
        with pytest.raises(OSError, match=f"Socket server failed to bind to 127.0.0.1:{port}: Address"):
            server.bind(Endpoint("OTHER", "127.0.0.1", port))
        await server.stop()

    asyncio.run(main())


def test_on_uvloop():
    uvloop = pytest.importorskip("uvloop")

    async def main():
        server = SocketServer(LoopClock(asyncio.get_running_loop()))
        port = server.bind(Endpoint("PLAINTEXT", "127.0.0.1", 0)).port
        server.start(EchoService())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = os.urandom(3_000_000)
        writer.write(framed(b"small") + framed(body))
        assert await reader.readexactly(9) == framed(b"small")
        assert await reader.readexactly(len(body) + 4) == framed(body)
        writer.close()
        await writer.wait_closed()
        await server.stop()

    uvloop.run(main())
