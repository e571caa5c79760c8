import asyncio
import contextlib
import gc
import itertools
import logging
import os
import random
import shutil
import socket
import ssl
import struct
import subprocess

import pytest
from network_harness import DiskFile, FunctionService, echo, framed

from barnabas.network.clock import LoopClock
from barnabas.network.endpoints import Endpoint
from barnabas.network.frames import FrameReader
from barnabas.network.settings import SocketSettings
from barnabas.network.socket_server import SocketServer
from barnabas.network.tls import TlsListener

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="makes its certificate with openssl")
SPOILT = 150


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


@pytest.fixture
def serve_tls(certificate):
    def run(scenario, service=echo, **settings):
        async def main():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server = SocketServer(LoopClock(asyncio.get_running_loop()), SocketSettings(**settings))
            server.secure("SECURE", tls=TlsListener(context))
            port = server.bind(Endpoint("SECURE", "127.0.0.1", 0, "SSL")).port
            server.start(FunctionService(service))
            trust = ssl.create_default_context(cafile=certificate[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, limit=1 << 26)
            try:
                async with asyncio.timeout(15):
                    await scenario(server, port, reader, writer)
            finally:
                writer.transport.abort()
                await server.stop(grace_ms=0)

        asyncio.run(main())

    return run


async def response(reader):
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def test_requests_of_all_sizes_in_order(serve_tls):
    async def scenario(_server, _port, reader, writer):
        bodies = [b"", b"small", os.urandom(3_000_000), b"x" * 70_000, b"end"]
        writer.writelines(map(framed, bodies))
        for body in bodies:
            assert await response(reader) == body

    serve_tls(scenario)


def test_files(serve_tls, tmp_path):
    data = os.urandom(2_000_000)
    (tmp_path / "segment").write_bytes(data)
    file = DiskFile(tmp_path / "segment")

    def service(*_):
        return [struct.pack(">i", 1_900_004), b"head", file.slice(50_000, 1_900_000)]

    async def scenario(_server, _port, reader, writer):
        writer.write(framed(b"?") * 3)
        for _ in range(3):
            assert await response(reader) == b"head" + data[50_000:1_950_000]

    serve_tls(scenario, service=service)


def test_a_peer_that_does_not_read_holds_little_memory(serve_tls):
    handled = []

    def service(_peer, frame):
        handled.append(bytes(frame))
        return [framed(b"x" * 100_000)]

    async def scenario(_server, _port, reader, writer):
        writer.transport.pause_reading()
        writer.write(framed(b"?") * 1000)
        await asyncio.sleep(0.1)
        assert len(handled) < 300
        writer.transport.resume_reading()
        for _ in range(1000):
            await response(reader)
        assert len(handled) == 1000

    serve_tls(scenario, service=service)


def test_plaintext_on_a_tls_port_is_closed_and_harms_nobody(serve_tls):
    async def scenario(server, port, reader, writer):
        plain_reader, plain_writer = await asyncio.open_connection("127.0.0.1", port)
        plain_writer.write(framed(b"plain"))
        with contextlib.suppress(ConnectionError):
            await plain_reader.read()
        plain_writer.close()
        writer.write(framed(b"fine"))
        assert await response(reader) == b"fine"
        assert len(server.connections) == 1

    serve_tls(scenario)


def test_who_goes_away_is_forgotten(serve_tls):
    async def scenario(server, _port, reader, writer):
        writer.write(framed(b"fine"))
        assert await response(reader) == b"fine"
        writer.transport.abort()
        while server.connections:  # noqa: ASYNC110 - until the server has noticed
            await asyncio.sleep(0.001)

    serve_tls(scenario)


def test_a_request_that_is_too_large(serve_tls):
    async def scenario(_server, _port, reader, writer):
        writer.write(struct.pack(">i", 1001) + b"x" * 100)
        assert await reader.read() == b""

    serve_tls(scenario, request_bytes_max=1000)


def test_the_limit_of_a_request_holds_for_many_in_one_read(serve_tls):
    handled = []

    def service(_peer, frame):
        handled.append(bytes(frame))
        return [framed(b"fine")]

    async def scenario(_server, _port, reader, writer):
        writer.write(framed(b"a" * 1000) + framed(b"b" * 1001) + framed(b"c"))
        assert await response(reader) == b"fine"
        assert await reader.read() == b""

    serve_tls(scenario, service=service, request_bytes_max=1000)
    assert handled == [b"a" * 1000]


def test_a_peer_that_goes_inside_a_frame_leaves_no_memory(serve_tls):
    """Without the collector: a frame of 100 MB was begun, and reference counting alone frees it."""

    async def scenario(server, port, _reader, _writer):
        def readers():
            return sum(type(each) is FrameReader for each in gc.get_objects())

        before = readers()
        [mine] = server.connections
        for _ in range(3):
            plain = ssl.create_default_context()
            plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
            _, other = await asyncio.open_connection("127.0.0.1", port, ssl=plain)
            other.write(struct.pack(">i", 100 << 20) + bytes(2_000_000))
            await other.drain()
            while not any(each.conversation.missing for each in server.connections):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            [connection] = [each for each in server.connections if each is not mine]
            conversation = connection.conversation
            del connection
            other.transport.abort()
            while len(server.connections) > 1:  # noqa: ASYNC110 - until the server has noticed
                await asyncio.sleep(0.001)
            assert conversation.missing == 0
            del conversation
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert readers() == before

    gc.collect()
    gc.disable()
    try:
        serve_tls(scenario)
    finally:
        gc.enable()


def test_a_drain_waits_until_a_slow_peer_has_read_what_is_owed(serve_tls):
    answer = framed(b"x" * 5_000_000)
    handled = []

    def service(*_):
        handled.append(True)
        return [answer]

    async def scenario(server, _port, reader, writer):
        writer.transport.pause_reading()
        [connection] = server.connections
        while not connection.sending:
            asked = len(handled)
            writer.write(framed(b"?"))
            while len(handled) == asked:  # noqa: ASYNC110 - the service runs in this loop
                await asyncio.sleep(0.001)
        stopping = asyncio.ensure_future(server.stop(grace_ms=10_000))
        await asyncio.sleep(0.01)
        writer.transport.resume_reading()
        assert len(await reader.read()) == len(handled) * len(answer)
        await stopping

    serve_tls(scenario, service=service)


def test_a_peer_that_stops_in_the_handshake_is_closed_in_time(serve_tls):
    async def scenario(server, port, reader, writer):
        [connection] = server.connections
        connection._tls.handshake_ms_max = 50
        hello = b"\x16\x03\x01\x02\x00\x01"
        for count in range(len(hello)):
            slow, other = await asyncio.open_connection("127.0.0.1", port)
            other.write(hello[:count])
            with contextlib.suppress(ConnectionError):
                assert await slow.read() == b""
            other.close()
        writer.write(framed(b"fine"))
        assert await response(reader) == b"fine"
        assert len(server.connections) == 1

    serve_tls(scenario)


def test_so_many_handshakes_and_no_more(serve_tls):
    """Peers that stop must not keep out those that go on: the one that began first gives way."""

    async def scenario(server, port, reader, writer):
        [connection] = server.connections
        tls = connection._tls
        tls.handshakes_max = 3
        tls.handshake_ms_max = 3_600_000
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        async with asyncio.timeout(20):
            for first, _ in idle[:2]:
                assert await first.read() == b""
        while len(tls.shaking) < 3:  # noqa: ASYNC110 - until the server has accepted
            await asyncio.sleep(0.001)
        assert len(server.connections) == 4
        for _, each in idle:
            each.close()
        while len(server.connections) > 1:  # noqa: ASYNC110 - until the server has noticed
            await asyncio.sleep(0.001)
        writer.write(framed(b"fine"))
        assert await response(reader) == b"fine"
        assert not tls.shaking

    serve_tls(scenario)


def test_many_small_requests_in_one_record_are_all_answered(serve_tls):
    """OpenSSL takes a whole record from the socket: what was not read of it comes without a word of epoll."""

    async def scenario(_server, _port, reader, writer):
        bodies = [b"%d" % number * 50 for number in range(5000)]
        writer.write(b"".join(map(framed, bodies)))
        for body in bodies:
            assert await response(reader) == body

    serve_tls(scenario, parked_max=1)


class DrippingClient:
    """A TLS client that decides which bytes of its records go out."""

    def __init__(self, reader, writer, trust):
        self.reader, self.writer = reader, writer
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.end = trust.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")

    async def shake_hands(self):
        while True:
            try:
                self.end.do_handshake()
            except ssl.SSLWantReadError:
                self.writer.write(self.outgoing.read())
                self.incoming.write(await self.reader.read(65_536))
            else:
                self.writer.write(self.outgoing.read())
                return

    def encrypted(self, data):
        self.end.write(data)
        return self.outgoing.read()


def test_the_rest_of_a_large_request_arrives_though_a_record_was_begun(serve_tls, certificate):
    """The low-water mark once waited for bytes that OpenSSL had taken from the socket already."""
    whole = asyncio.Event()

    def service(_peer, frame):
        assert len(frame) == 100_000
        whole.set()
        return [framed(b"fine")]

    async def scenario(server, port, _reader, _writer):
        before = set(server.connections)
        trust = ssl.create_default_context(cafile=certificate[0])
        client = DrippingClient(*await asyncio.open_connection("127.0.0.1", port), trust)
        await client.shake_hands()
        records = client.encrypted(framed(bytes(100_000)))
        while len(records) < 100_004:
            records += client.outgoing.read()
        # One record and most of the second one.
        client.writer.write(records[:31_000])
        [connection] = set(server.connections) - before
        while not connection.conversation.missing:  # noqa: ASYNC110 - until the server has read it
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        client.writer.write(records[31_000:])
        async with asyncio.timeout(5):
            await whole.wait()
        client.writer.transport.abort()

    serve_tls(scenario, service=service)


def test_the_end_of_a_record_beyond_the_buffer_is_read_though_the_socket_is_empty(serve_tls, certificate):
    body = bytes(1020)

    async def scenario(_server, port, _reader, _writer):
        trust = ssl.create_default_context(cafile=certificate[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        client = DrippingClient(reader, writer, trust)
        await client.shake_hands()
        # One small record: those of 16 KB behind it do not end where the buffer of 128 KB does.
        records = client.encrypted(framed(bytes(996)))
        for _ in range(8):
            records += client.encrypted(framed(body) * 16)
        writer.write(records)
        answered = b""
        async with asyncio.timeout(5):
            while len(answered) < 1000 + 8 * 16 * 1024:
                try:
                    answered += client.end.read(65_536)
                except ssl.SSLWantReadError:
                    client.incoming.write(await reader.read(65_536))
        writer.transport.abort()

    serve_tls(scenario, receive_buffer_bytes=1 << 20)


# --- handshakes that stop, and bytes that are wrong -------------------------------------------------------


def records_of(data):
    """The TLS records in what an end has to send."""
    found = []
    while data:
        size = 5 + int.from_bytes(data[3:5])
        found.append(data[:size])
        data = data[size:]
    return found


async def stopped_handshake(port, trust, count, part):
    """Sends so many records of a handshake, and a part of the next one; the client, and whether the handshake
    went through before that.
    """
    client = DrippingClient(*await asyncio.open_connection("127.0.0.1", port), trust)
    while True:
        try:
            client.end.do_handshake()
            done = True
        except ssl.SSLWantReadError:
            done = False
        for record in records_of(client.outgoing.read()):
            if not count:
                client.writer.write(record[: max(1, int(len(record) * part))])
                return client, False
            client.writer.write(record)
            count -= 1
        if done:
            return client, True
        client.incoming.write(await client.reader.read(65_536))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("goes", [False, True], ids=["stays", "goes"])
def test_a_handshake_that_stops_at_each_of_its_messages(serve_tls, certificate, version, goes):
    """With a certificate of the client, so that all messages there are are sent."""

    async def scenario(server, port, reader, writer):
        [connection] = server.connections
        tls = connection._tls
        tls.context.load_verify_locations(certificate[0])
        tls.context.verify_mode = ssl.CERT_REQUIRED
        tls.handshake_ms_max = 3_600_000 if goes else 50
        trust = ssl.create_default_context(cafile=certificate[0])
        trust.load_cert_chain(*certificate)
        trust.minimum_version = trust.maximum_version = version
        stopped = 0
        for count in itertools.count():
            for part in (0, 0.5, 0.99):
                client, whole = await stopped_handshake(port, trust, count, part)
                if whole:
                    break
                stopped += 1
                if not goes:
                    with contextlib.suppress(ConnectionError):
                        while await client.reader.read(65_536):
                            pass
                client.writer.transport.abort()
            if whole:
                break
        client.writer.transport.abort()
        while len(server.connections) > 1:  # noqa: ASYNC110 - until the server has noticed
            await asyncio.sleep(0.001)
        assert stopped >= 4 * 3  # the hello, certificate, its proof and the end, in one record each at least
        assert not tls.shaking
        writer.write(framed(b"fine"))
        assert await response(reader) == b"fine"

    serve_tls(scenario)


def spoilt(records, rng):
    """The records with one thing wrong."""
    place = rng.randrange(len(records))
    one = bytearray(records[place])
    match rng.randrange(8):
        case 0:  # a bit of what is encrypted, or of the header
            one[rng.randrange(len(one))] ^= 1 << rng.randrange(8)
        case 1:
            one[rng.randrange(5)] = rng.randrange(256)
        case 2:  # a length that is not its own
            one[3:5] = rng.choice([0, 1, 0x3FFF, 0x4000, 0x4101, 0xFFFF]).to_bytes(2)
        case 3:
            del one[rng.randrange(5, len(one)) :]
        case 4:
            one[5:5] = rng.randbytes(rng.randrange(1, 40))
        case 5:  # another's, or the same once more
            one = bytearray(one + rng.choice(records))
        case 6:
            one = bytearray(rng.randbytes(rng.randrange(1, 200)))
        case 7:  # in clear, in the middle of what is encrypted: alerts, a change of ciphers, data, a hello
            kind, body = rng.choice(
                [(21, b"\1\0"), (21, b"\2\x28"), (20, b"\1"), (23, b"x"), (22, b"\1\0\0\0")]
            )
            one[:0] = bytes([kind, 3, 3]) + len(body).to_bytes(2) + body
    return [*records[:place], bytes(one), *records[place + 1 :]]


async def spoilt_client(port, trust, rng):
    """A client whose handshake or whose requests are spoilt, until it is let go or has said everything."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = DrippingClient(reader, writer, trust)
    in_handshake = rng.random() < 0.5
    try:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.end.do_handshake()
        first = records_of(client.outgoing.read())
        if in_handshake and rng.random() < 0.5:
            writer.writelines(spoilt(first, rng))
        else:
            writer.writelines(first)
            client.incoming.write(await reader.read(65_536))
            with contextlib.suppress(ssl.SSLWantReadError):
                client.end.do_handshake()
            last = records_of(client.outgoing.read())
            if last and in_handshake:
                last = spoilt(last, rng)
            writer.writelines(last)
            if not in_handshake:
                requests = [client.encrypted(framed(b"request %d" % number)) for number in range(5)]
                writer.writelines(spoilt(requests, rng))
        writer.write_eof()
        while await reader.read(65_536):
            pass
    except (ssl.SSLError, OSError):
        pass  # it is let go, or hears so in an alert
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_spoilt_records_reach_no_service_and_harm_nobody(serve_tls, certificate, version, caplog):
    # pytest-randomly seeds this and prints the seed.
    rng = random.Random(random.getrandbits(32))
    heard = set()

    def service(_peer, frame):
        heard.add(bytes(frame))
        return [framed(bytes(frame))]

    async def scenario(server, port, reader, writer):
        trust = ssl.create_default_context(cafile=certificate[0])
        trust.minimum_version = trust.maximum_version = version
        for _ in range(SPOILT):
            await spoilt_client(port, trust, rng)
            writer.write(framed(b"fine"))
            assert await response(reader) == b"fine"
        while len(server.connections) > 1:  # noqa: ASYNC110 - until the server has noticed
            await asyncio.sleep(0.001)
        [connection] = server.connections
        assert not connection._tls.shaking

    serve_tls(scenario, service=service)
    assert heard <= {b"fine", *(b"request %d" % number for number in range(5))}
    assert not [line for line in caplog.records if line.levelno >= logging.ERROR]
