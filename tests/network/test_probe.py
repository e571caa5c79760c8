"""What is found at an address where no broker is."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess

import pytest

from barnabas.network.probe import AddressFinding, probe


async def asked(serve, tls=None):
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        return await probe("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def http(reader, writer):
    with contextlib.suppress(asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n")
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
    writer.close()


async def silent(reader, writer):
    await reader.read()
    writer.close()


async def curt(reader, writer):
    writer.close()


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """What is silent is silent at once; nothing on this machine takes so long to answer."""
    monkeypatch.setattr("barnabas.network.probe._WAIT_S", 0.5)


@pytest.mark.parametrize(
    ("serve", "finding"),
    [(http, AddressFinding.HTTP), (silent, AddressFinding.SILENT), (curt, AddressFinding.SILENT)],
)
def test_what_answers_is_named(run, serve, finding):
    assert run(asked(serve)) is finding


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes its certificate with openssl")
def test_a_port_that_speaks_tls_is_recognised(run, tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    assert run(asked(http, context)) is AddressFinding.TLS


def test_nothing_and_no_host_are_told_apart(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert run(probe("127.0.0.1", port)) is AddressFinding.NOTHING
    assert run(probe("no-such-host.invalid", 9092)) is AddressFinding.NO_HOST


def test_a_broker_is_none_of_the_other_protocols(run, fake):
    async def scenario():
        async with fake() as cluster:
            return await probe("127.0.0.1", cluster.ports[1])

    assert run(scenario()) is AddressFinding.SILENT
