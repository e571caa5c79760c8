import select
import socket

import pytest

from barnabas.network.low_water import MARK_BYTES_MAX, LowWater


@pytest.fixture
def ends():
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sender = socket.create_connection(listening.getsockname())
        receiver, _ = listening.accept()
    with sender, receiver:
        receiver.setblocking(False)
        yield sender, receiver


def is_readable(sock, seconds=0.0):
    return bool(select.select([sock], [], [], seconds)[0])


def test_less_than_is_expected_wakes_nobody(ends):
    sender, receiver = ends
    low_water = LowWater(receiver)
    low_water.expect(100_000)
    sender.sendall(b"x" * 99_999)
    assert not is_readable(receiver)
    assert len(receiver.recv(1 << 20, socket.MSG_PEEK)) == 99_999, "it has come, and can be read"

    sender.sendall(b"y")
    assert is_readable(receiver, 10)


def test_much_more_than_the_largest_mark_is_expected_in_parts(ends):
    sender, receiver = ends
    low_water = LowWater(receiver)
    low_water.expect(100 * MARK_BYTES_MAX)
    sender.sendall(b"x" * MARK_BYTES_MAX)
    assert is_readable(receiver, 10)


@pytest.mark.parametrize("missing", [0, 1, 1000])
def test_when_little_or_nothing_is_missing_a_byte_is_enough(ends, missing):
    sender, receiver = ends
    low_water = LowWater(receiver)
    low_water.expect(1 << 20)
    low_water.expect(missing)
    sender.sendall(b"x")
    assert is_readable(receiver, 10)


def test_the_end_is_noticed_whatever_was_expected(ends):
    sender, receiver = ends
    LowWater(receiver).expect(1 << 20)
    sender.shutdown(socket.SHUT_WR)
    assert is_readable(receiver, 10)
