"""Requests that no browser makes, at the port itself: each is refused or its connection ends, what they cost
is bounded, and nobody else waits for them.
"""

import contextlib
import http.client
import json
import socket
import threading
import time
from pathlib import Path

import pytest

from barnabas.console.web import connections
from barnabas.console.web.guard import BODY_BYTES_MAX, HEADERS_MAX
from console_walk import served
from waiting import until

HOST = b"Host: 127.0.0.1\r\n"
JSON = HOST + b"Content-Type: application/json\r\n"
LIMITS = b"POST /api/v1/clusters/demo/health/limits HTTP/1.1\r\n" + JSON
GROWN_MAX = 40 << 20
"""Bytes that a process may be larger after all this; what is sent is several times as much."""


@pytest.fixture
def address(standing_site, monkeypatch):
    monkeypatch.setattr(connections, "WHOLE_S", 1.0)
    monkeypatch.setattr(connections, "STALLED_S", 1.0)
    with served(standing_site.console) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


def status(address, *parts):
    """The status of the answer to these bytes; None where the connection ended without one."""
    with socket.create_connection(address, timeout=20) as connection:
        with contextlib.suppress(OSError):  # it may end before all is sent
            for part in parts:
                connection.sendall(part)
        with contextlib.suppress(OSError, http.client.HTTPException):
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            return answer.status
    return None


def whole(address, sent):
    """All that comes until the connection ends."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(sent)
        found = b""
        with contextlib.suppress(ConnectionError):
            while data := connection.recv(4096):
                found += data
    return found


def get(address, path="/api/v1/clusters"):
    client = http.client.HTTPConnection(*address, timeout=20)
    client.request("GET", path)
    answer = client.getresponse()
    found = answer.status, answer.read()
    client.close()
    return found


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


REFUSED = {
    "a header of 1 MB": [b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"x" * (1 << 20)],
    "10,000 headers": [b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n" * 10_000 + b"\r\n"],
    "more headers than anybody has": [
        b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n" * HEADERS_MAX + b"\r\n"
    ],
    "a cookie of 64 KB": [b"GET / HTTP/1.1\r\n" + HOST + b"Cookie: " + b"c" * (1 << 16) + b"\r\n\r\n"],
    "a path of 1 MB": [b"GET /" + b"p" * (1 << 20) + b" HTTP/1.1\r\n" + HOST + b"\r\n"],
    "no HTTP at all": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"],
    "no host": [b"GET / HTTP/1.1\r\n\r\n"],
    "no host in HTTP/1.0": [b"GET / HTTP/1.0\r\n\r\n"],
    "a host of somebody else": [b"GET / HTTP/1.1\r\nHost: evil.example:8989\r\n\r\n"],
    "a host that begins like ours": [b"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n"],
    "two hosts": [b"GET / HTTP/1.1\r\n" + HOST + b"Host: evil.example\r\n\r\n"],
    "a user before the host": [b"GET / HTTP/1.1\r\nHost: 127.0.0.1@evil.example\r\n\r\n"],
    "an absolute address": [b"GET http://evil.example/ HTTP/1.1\r\n" + HOST + b"\r\n"],
    "CONNECT": [b"CONNECT evil.example:443 HTTP/1.1\r\n" + HOST + b"\r\n"],
    "OPTIONS *": [b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n"],
    "a method that nobody knows": [b"BREW /c/demo HTTP/1.1\r\n" + HOST + b"\r\n"],
    "TRACE": [b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n"],
    "HTTP/2 without TLS": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    "HTTP/9.9": [b"GET / HTTP/9.9\r\n" + HOST + b"\r\n"],
    "%00 in a file's name": [b"GET /static/console.css%00.html HTTP/1.1\r\n" + HOST + b"\r\n"],
    "a step upwards": [b"GET /static/..%2f..%2f..%2fetc/passwd HTTP/1.1\r\n" + HOST + b"\r\n"],
    "%00 in a topic's name": [b"GET /api/v1/clusters/demo/topics/a%00b HTTP/1.1\r\n" + HOST + b"\r\n"],
    "%00 in a cluster's name": [b"GET /c/%00%ff HTTP/1.1\r\n" + HOST + b"\r\n"],
    "a length that is none": [b"POST /api/v1/clusters HTTP/1.1\r\n" + JSON + b"Content-Length: -1\r\n\r\n"],
    "two lengths": [b"POST / HTTP/1.1\r\n" + JSON + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}"],
    "a length that is too large": [
        b"POST /api/v1/clusters HTTP/1.1\r\n" + JSON + b"Content-Length: 99999999999999999999\r\n\r\n"
    ],
    "chunks without an end": [
        LIMITS + b"Transfer-Encoding: chunked\r\n\r\n",
        *[b"10000\r\n" + b"x" * 0x10000 + b"\r\n"] * (BODY_BYTES_MAX // 0x10000 + 2),
    ],
    "chunks without an end in a form": [
        b"POST /c/demo/health/limits HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n",
        *[b"10000\r\n" + b"x" * 0x10000 + b"\r\n"] * (BODY_BYTES_MAX // 0x10000 + 2),
    ],
    "chunks that are none": [
        LIMITS + b"Transfer-Encoding: chunked\r\n\r\n",
        b"zz\r\nnonsense\r\n",
    ],
    "a chunk's size without an end": [
        LIMITS + b"Transfer-Encoding: chunked\r\n\r\n",
        b"0" * (1 << 20),
    ],
    "a body in a coding that nobody knows": [
        b"POST /api/v1/clusters HTTP/1.1\r\n" + JSON + b"Transfer-Encoding: gzip\r\n\r\nx"
    ],
    "lists within lists": [
        LIMITS + b"Content-Length: 100000\r\n\r\n",
        b"[" * 100_000,
    ],
    "half a letter": [
        LIMITS + b"Content-Length: 35\r\n\r\n",
        rb'{"check": "\ud800", "limit": "1.0"}',
    ],
}  # fmt: skip

STATUSES = {
    "more headers than anybody has": 431,
    "a host of somebody else": 421,
    "an absolute address": 400,
    "CONNECT": 400,
    "HTTP/9.9": 505,
    "a length that is too large": 413,
}
"""Of those whose connection is there to be answered."""


def test_what_no_browser_asks_is_refused_and_costs_nothing(address, caplog):
    assert get(address)[0] == 200
    before = resident_bytes()
    for what, parts in REFUSED.items():
        found = status(address, *parts)
        assert found in {None, 505} or 400 <= found < 500, (what, found)
        assert found == STATUSES.get(what, found), what
        assert get(address)[0] == 200, what
    assert resident_bytes() - before < GROWN_MAX
    assert "Traceback" not in caplog.text


def test_pipelined_requests_are_answered_in_order_and_their_number_harms_nobody(address):
    one = b"GET /api/v1/healthz HTTP/1.1\r\n" + HOST + b"\r\n"
    last = b"GET /not/there HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    answers = whole(address, one * 1000 + last).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200"] * 1000 + [b"404"]
    # Garbage behind a request is refused by itself.
    assert [
        answer[:3] for answer in whole(address, one + b"\x00garbage\r\n\r\n").split(b"HTTP/1.1 ")[1:]
    ] == [
        b"200",
        b"400",
    ]


def test_http_1_0_is_answered_once(address):
    answer = whole(address, b"GET /api/v1/healthz HTTP/1.0\r\n" + HOST + b"\r\n")
    assert answer.split(b"\r\n")[0].endswith(b" 200 OK")
    assert answer.endswith(b"ok\n")


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nX: ",
        LIMITS + b"Content-Length: 10\r\n\r\n{",
        b"POST /c/demo/health/limits HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\na",
        b"POST /api/v1/clusters HTTP/1.1\r\n" + HOST + b"Content-Length: 9999999\r\n\r\n",
    ],
    ids=["nothing", "a head", "a body", "a form", "a body that was refused"],
)
def test_a_request_that_never_gets_whole_ends(address, begun, caplog):
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(begun)
        ended = threading.Event()

        def drip():
            with contextlib.suppress(OSError):
                while not ended.wait(0.1):
                    connection.sendall(b"x")

        dripping = threading.Thread(target=drip)
        if begun:
            dripping.start()
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while connection.recv(4096):
                pass
        took = time.monotonic() - started
        ended.set()
        if begun:
            dripping.join()
    assert took < 15
    assert "Traceback" not in caplog.text


def test_whoever_holds_connections_open_keeps_nobody_out(address, monkeypatch):
    monkeypatch.setattr(connections, "WHOLE_S", 60.0)
    with contextlib.ExitStack() as held:
        for _ in range(connections.CONNECTIONS_MAX + 50):
            one = held.enter_context(socket.create_connection(address, timeout=20))
            with contextlib.suppress(OSError):
                one.sendall(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(5):
            assert get(address)[0] == 200


def test_whoever_reads_no_answers_keeps_nobody_out(address, monkeypatch):
    monkeypatch.setattr(connections, "STALLED_S", 600.0)
    monkeypatch.setattr(connections, "SCARCE", 5)
    request = b"GET /api/v1/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
    with contextlib.ExitStack() as held:
        for _ in range(connections.SCARCE):
            one = held.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(address)
            one.sendall(request * 100)

        def is_answered():
            with contextlib.suppress(ConnectionError):
                return get(address)[0] == 200
            return False

        until(is_answered, "an answer")


def test_whoever_reads_no_answer_loses_the_connection(address):
    request = b"GET /api/v1/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
    before = resident_bytes()
    with socket.create_connection(address, timeout=0.3) as connection:

        def has_ended():
            try:
                connection.sendall(request * 1000)
            except TimeoutError:  # nothing more is read of it
                return False
            except ConnectionError:
                return True
            return False

        until(has_ended, "the connection to end")
    assert resident_bytes() - before < GROWN_MAX
    assert json.loads(get(address)[1])
