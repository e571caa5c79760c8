"""Addresses where no broker is: what is wrong is said in words, at once, and within the given time."""

import asyncio
import contextlib
import ssl

import pytest

from barnabas.admin import AsyncAdmin
from barnabas.client import AsyncConsumer, AsyncProducer, ClientTimeoutError, NoBrokerError
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from fake_cluster import hangup
from tls_certificates import Authority

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
CLIENTS = [AsyncProducer, AsyncConsumer, AsyncAdmin]


async def http_error(reader, writer):
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    writer.close()


async def waits_for_a_line(reader, writer):
    with contextlib.suppress(asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
    writer.close()


async def silent(reader, writer):
    await reader.read()
    writer.close()


@contextlib.asynccontextmanager
async def listening(serve, context=None):
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def lines(caplog):
    return [each.getMessage() for each in caplog.records if "client.waiting" in each.getMessage()]


@pytest.mark.parametrize("serve", [http_error, waits_for_a_line])
@pytest.mark.parametrize("client", CLIENTS)
def test_an_http_server_is_named_and_not_waited_for(run, client, serve, monkeypatch):
    monkeypatch.setattr("barnabas.client.cluster._SILENCE_S", 0.1)
    monkeypatch.setattr("barnabas.network.probe._WAIT_S", 0.2)

    async def scenario():
        async with listening(serve) as address:
            with pytest.raises(NoBrokerError, match=rf"^No broker at {address}: that is an HTTP server$"):
                async with client(address, **FAST):
                    pass

    run(scenario())


def test_a_broker_with_tls_that_is_slow_is_waited_for(run, tmp_path, monkeypatch):
    """As while it starts: it was said that the client had not been told to speak TLS."""
    monkeypatch.setattr("barnabas.client.cluster._SILENCE_S", 0.1)
    monkeypatch.setattr("barnabas.network.probe._WAIT_S", 0.2)
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("127.0.0.1").pem(tmp_path / "broker.pem"))
    options = {"default_api_timeout_ms": 1000, "request_timeout_ms": 900}

    async def scenario():
        async with listening(silent, context) as address:
            words = "something listens there that does not answer like a broker"
            trusted = authority.pem(tmp_path / "ca.pem")
            tls = {"security_protocol": "SSL", "ssl_truststore_location": trusted}
            with pytest.raises(ClientTimeoutError, match=words):
                async with AsyncAdmin(address, **tls, **FAST, **options):
                    pass
            with pytest.raises(NoBrokerError, match="that port speaks TLS, and this client was not told to"):
                async with AsyncAdmin(address, **FAST, **options):
                    pass

    run(scenario())


def asked_to_log_in(code):
    """A broker, as far as it says to SaslHandshake that it has that error; whatever else it closes."""

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError):
            size = int.from_bytes(await reader.readexactly(4))
            if (await reader.readexactly(size)).startswith(int(ApiKey.SASL_HANDSHAKE).to_bytes(2)):
                writer.write(bytes([0, 0, 0, 10, 0, 0, 0, 0, 0, code, 0, 0, 0, 0]))
        writer.close()

    return serve


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("encrypts", [False, True])
def test_a_listener_that_asks_for_a_log_in_is_named_and_not_waited_for(
    run, tmp_path, monkeypatch, client, encrypts
):
    monkeypatch.setattr("barnabas.network.probe._WAIT_S", 0.2)
    authority, context, options = Authority(), None, {}
    if encrypts:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.sign("127.0.0.1").pem(tmp_path / "broker.pem"))
        trusted = authority.pem(tmp_path / "ca.pem")
        options = {"security_protocol": "SSL", "ssl_truststore_location": trusted}

    async def scenario():
        async with listening(asked_to_log_in(ErrorCode.UNSUPPORTED_SASL_MECHANISM), context) as address:
            with pytest.raises(NoBrokerError, match=r"asks for a log-in \(SASL\).*security\.protocol"):
                async with client(address, **FAST, **options):
                    pass

    run(scenario())


def test_a_listener_where_nobody_logs_in_is_waited_for(run, monkeypatch):
    monkeypatch.setattr("barnabas.network.probe._WAIT_S", 0.1)

    async def scenario():
        async with listening(asked_to_log_in(ErrorCode.ILLEGAL_SASL_STATE)) as address:
            with pytest.raises(ClientTimeoutError, match="does not answer like a broker"):
                async with AsyncAdmin(address, **FAST, default_api_timeout_ms=1000, request_timeout_ms=900):
                    pass

    run(scenario())


@pytest.mark.parametrize("client", CLIENTS)
def test_where_nothing_listens_it_is_said_once_and_in_the_error(run, client, caplog):
    options = {AsyncProducer: {"max_block_ms": 300}}.get(
        client, {"default_api_timeout_ms": 300, "request_timeout_ms": 300}
    )

    async def scenario():
        words = r"No broker of 127.0.0.1:1 answered in 300 ms: 127.0.0.1:1: nothing listens there$"
        with pytest.raises(ClientTimeoutError, match=words):
            async with client("127.0.0.1:1", **FAST, **options):
                pass

    run(scenario())
    assert lines(caplog) == [
        'client.waiting problem="No broker answers yet" error="127.0.0.1:1: nothing listens there"'
    ]


def test_a_consumer_that_was_not_started_says_it_too(run, caplog):
    async def scenario():
        consumer = AsyncConsumer("127.0.0.1:1", group_id="g", **FAST)
        consumer.subscribe(["t"])
        while not lines(caplog):
            await consumer.poll(timeout_ms=10)
        await consumer.close()

    run(scenario())


@pytest.mark.parametrize("wrong", [None, http_error])
def test_one_wrong_address_of_two_is_passed_over_in_silence(run, fake, caplog, wrong):
    async def scenario():
        async with contextlib.AsyncExitStack() as ending:
            cluster = await ending.enter_async_context(fake())
            other = await ending.enter_async_context(listening(wrong)) if wrong else "127.0.0.1:1"
            for _ in range(5):  # the first to be asked is chosen by chance
                async with AsyncAdmin(f"{other},{cluster.bootstrap}", **FAST) as admin:
                    await admin.cluster.describe()

    run(scenario())
    assert lines(caplog) == []


def test_a_broker_that_closes_once_is_asked_again(run, fake, caplog):
    async def scenario():
        async with fake() as cluster:
            cluster.faults[ApiKey.METADATA].append(hangup)
            async with AsyncAdmin(cluster.bootstrap, **FAST) as admin:
                await admin.cluster.describe()
            async with AsyncProducer(cluster.bootstrap, **FAST) as producer:
                await producer.send_and_wait("t", b"x")

    run(scenario())
