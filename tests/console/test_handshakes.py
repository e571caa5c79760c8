"""Connections over TLS whose handshake is not over: they are counted and timed, and keep nobody out."""

import contextlib
import errno
import socket
import ssl
import time

import httpx
import pytest

from barnabas.console.access.certificate import TlsFiles
from barnabas.console.web import handshakes
from barnabas.console.web.handshakes import HANDSHAKES_EACH, HANDSHAKES_MAX
from console_walk import served
from tls_certificates import Authority
from waiting import until

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The begin of a handshake."""


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def address(standing_site, authority, tmp_path):
    """The console's, over TLS."""
    signed = authority.sign("localhost", "127.0.0.1")
    files = TlsFiles(tmp_path / "cert.pem", tmp_path / "key.pem")
    files.cert.write_text(signed.chain_pem)
    files.key.write_text(signed.key_pem())
    with served(standing_site.console, files) as url:
        host, _, port = url.removeprefix("https://").partition(":")
        yield host, int(port)


@pytest.fixture
def half(address):
    """Begins handshakes from an address of this machine, and leaves them there."""
    with contextlib.ExitStack() as held:

        def begin(number, source):
            found = []
            for _ in range(number):
                one = socket.create_connection(address, timeout=60, source_address=(source, 0))
                held.enter_context(one)
                one.sendall(HELLO)
                found.append(one)
            return found

        yield begin


def gone(connections):
    """How many have ended."""
    found = 0
    for one in connections:
        one.setblocking(False)
        try:
            found += one.recv(1) == b""
        except BlockingIOError:
            pass
        except ConnectionError:
            found += 1
    return found


def answers(address, authority):
    trust = ssl.create_default_context(cadata=authority.pem_text)
    host, port = address
    answer = httpx.get(f"https://{host}:{port}/api/v1/healthz", verify=trust, timeout=60)
    return answer.status_code == 200


def test_of_one_address_so_many_handshakes_are_under_way(address, half, authority):
    begun = half(200, "127.0.0.1")
    until(lambda: gone(begun) >= 200 - HANDSHAKES_EACH, "the oldest to end")
    # Who asks from the same address takes the place of one more.
    assert answers(address, authority)
    assert gone(begun) == 200 - HANDSHAKES_EACH + 1
    assert gone(begun[-1:]) == 0


def test_the_address_that_has_the_most_makes_room_for_others(address, half, authority):
    few = half(2, "127.0.0.2")
    many = [half(HANDSHAKES_EACH, source) for source in ("127.0.0.3", "127.0.0.4")]
    until(lambda: sum(map(gone, many)) == 2 * HANDSHAKES_EACH + 2 - HANDSHAKES_MAX, "the oldest to end")
    assert answers(address, authority)
    assert gone(few) == 0


def test_a_handshake_that_never_ends_is_ended(monkeypatch, address, half):
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 0.3)
    [one] = half(1, "127.0.0.1")
    with contextlib.suppress(ConnectionError):
        assert one.recv(1) == b""


def test_handshakes_under_way_hold_up_no_end(standing_site, address, half):
    """The console's own end is what the fixture waits for; here they are still open."""
    assert gone(half(3, "127.0.0.1")) == 0


class FullTable(socket.socket):
    """A listener of a process that has no file descriptor left for half a second."""

    calls = 0
    free_at_s = 0.0

    def accept(self):
        self.calls += 1
        self.free_at_s = self.free_at_s or time.monotonic() + 0.5
        if time.monotonic() < self.free_at_s:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_without_a_file_descriptor_nothing_is_accepted_for_a_moment(standing_site):
    listener = FullTable(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with served(standing_site.console, listener=listener) as url:
        assert httpx.get(f"{url}/api/v1/healthz", timeout=60).status_code == 200
        assert listener.calls == 2
