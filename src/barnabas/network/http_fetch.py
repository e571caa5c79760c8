"""One HTTP request and its answer, for a thread: bounded in time and in bytes, whatever the server does.

Redirects are not followed, and no proxy of the environment is used: a secret goes where it was meant to go.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from barnabas.network.errors import FetchError

_PORTS: Final = {"http": 80, "https": 443}


class Answer(NamedTuple):
    """What a server said."""

    status: int
    body: bytes


def fetch(
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    connect_timeout_s: float,
    timeout_s: float,
    bytes_max: int,
) -> Answer:
    """POSTs the body, or GETs without one. Blocks for `timeout_s` at most once it is connected.
    Raises FetchError.
    """
    parts = urlsplit(url)
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    try:
        return _fetch(parts, headers, body, tls, connect_timeout_s, timeout_s, bytes_max)
    except _TooLargeError:
        raise FetchError(f"the answer of {where} is larger than {bytes_max} bytes") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise FetchError(f"{where} did not answer: {reason}") from error


class _TooLargeError(Exception):
    pass


def _fetch(
    parts: SplitResult,
    headers: Mapping[str, str],
    body: bytes | None,
    tls: ssl.SSLContext | None,
    connect_timeout_s: float,
    timeout_s: float,
    bytes_max: int,
) -> Answer:
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    plain = socket.create_connection((host, port), connect_timeout_s)
    # A time-out of the socket is one of each read: this stops a server that sends a byte now and then.
    guard = plain.dup()
    alarm = threading.Timer(timeout_s, _shut, (guard,))
    alarm.daemon = True
    ends = time.monotonic() + timeout_s
    connection = http.client.HTTPConnection(host, port)
    try:
        alarm.start()
        plain.settimeout(timeout_s)
        connection.sock = plain
        if parts.scheme == "https":
            context = tls or ssl.create_default_context()
            connection.sock = context.wrap_socket(plain, server_hostname=host)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET" if body is None else "POST", target, body, dict(headers))
        with connection.getresponse() as response:
            answer = Answer(response.status, _body(response, bytes_max))
        if time.monotonic() >= ends:
            # A body without a length looks complete where the alarm has ended it.
            raise TimeoutError
        return answer
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() >= ends:
            raise TimeoutError(f"it took longer than {timeout_s:g} s") from error
        raise
    finally:
        alarm.cancel()
        if alarm.is_alive():
            # It may be going off just now. When `guard` is closed, its descriptor may be another socket's.
            alarm.join()
        guard.close()
        connection.close()
        plain.close()


def _shut(guard: socket.socket) -> None:
    with suppress(OSError):  # the server has reset it already
        guard.shutdown(socket.SHUT_RDWR)


def _body(response: http.client.HTTPResponse, bytes_max: int) -> bytes:
    """What the server sends. It is read into a buffer: a chunk of less than zero bytes would be read to the
    end, however large it is.
    """
    buffer = memoryview(bytearray(bytes_max + 1))
    size = 0
    while size <= bytes_max and (count := response.readinto(buffer[size:])):
        size += count
    if size > bytes_max:
        raise _TooLargeError
    if response.length:
        # `readinto` says nothing of a body that is shorter than its Content-Length.
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(buffer[:size])
