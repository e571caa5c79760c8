import os
import socket
import time

import pytest
from network_harness import DiskFile, MemoryFile

from barnabas.core.chunks import FileSlice
from barnabas.network import send_queue as module
from barnabas.network.pagecache import read_ahead, warm_until
from barnabas.network.send_queue import Flush, SendQueue


def drain(sock):
    data = b""
    while True:
        try:
            data += sock.recv(1 << 20)
        except BlockingIOError:
            return data


def send_all(sender, other):
    """Flushes and reads until all is sent; what came, and what the flushes said."""
    data, outcomes = b"", []
    for _ in range(10_000):
        outcomes.append(sender.flush())
        data += drain(other)
        if outcomes[-1] is Flush.DRAINED:
            return data, outcomes
    raise AssertionError("never drained")


def test_memory_of_all_kinds_in_order(free_socket_pair):
    one, other = free_socket_pair
    sender = SendQueue(one)
    sender.push([b"bytes", bytearray(b"array"), memoryview(b"view"), b""])
    sender.push([b"more"])

    assert send_all(sender, other) == (b"bytesarrayviewmore", [Flush.DRAINED])
    assert sender.sent_bytes == 18


def test_more_than_the_socket_takes(free_socket_pair):
    one, other = free_socket_pair
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    sender = SendQueue(one)
    pieces = [os.urandom(1000 + n * 7) for n in range(700)]
    sender.push(list(pieces))
    sender.push([b"z" * 1_000_000])

    data, outcomes = send_all(sender, other)

    assert data == b"".join(pieces) + b"z" * 1_000_000
    assert Flush.BLOCKED in outcomes


def test_small_ranges_become_memory(free_socket_pair):
    one, other = free_socket_pair
    sender = SendQueue(one)
    sender.push([b"<", FileSlice(MemoryFile(b"0123456789"), 2, 5), b">"])

    assert send_all(sender, other)[0] == b"<23456>"


def test_files_and_memory_through_a_narrow_socket(free_socket_pair, tmp_path):
    one, other = free_socket_pair
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    data = os.urandom(700_000)
    (tmp_path / "file").write_bytes(data)
    file = DiskFile(tmp_path / "file")
    sender = SendQueue(one)
    sender.push(
        [b"head", file.slice(3, 600_000), b"between", FileSlice(MemoryFile(data), 9, 300_000), b"tail"]
    )

    sent, outcomes = send_all(sender, other)

    assert sent == b"head" + data[3:600_003] + b"between" + data[9:300_009] + b"tail"
    assert Flush.BLOCKED in outcomes


def test_a_cold_range_is_named_and_sent_once_read(free_socket_pair, tmp_path, monkeypatch):
    one, other = free_socket_pair
    data = os.urandom(1_500_000)
    (tmp_path / "file").write_bytes(data)
    file = DiskFile(tmp_path / "file")
    # The first 100 kB are in memory, nothing else is.
    monkeypatch.setattr(module, "warm_until", lambda _fd, position, end: max(position, min(end, 100_000)))
    sender = SendQueue(one)
    sender.push([file.slice(0, 1_500_000)])
    sent, cold = b"", []
    while (outcome := sender.flush()) is not Flush.DRAINED:
        sent += drain(other)
        if outcome is Flush.COLD:
            piece, position, end = sender.cold_range()
            assert piece.file is file
            cold.append((position, end))
            sender.warmed(end)
    sent += drain(other)

    assert sent == data
    assert cold == [(100_000, 100_000 + module.WINDOW_BYTES), (100_000 + module.WINDOW_BYTES, 1_500_000)]


def test_a_range_beyond_the_end_of_the_file_is_an_error(free_socket_pair, tmp_path):
    one, other = free_socket_pair
    (tmp_path / "file").write_bytes(b"d" * 100_000)
    sender = SendQueue(one)
    sender.push([DiskFile(tmp_path / "file").slice(0, 200_000)])

    with pytest.raises(OSError, match="file ends at 100000, inside a range up to 200000"):
        send_all(sender, other)


def test_forgetting_lets_go_of_files(free_socket_pair, tmp_path):
    one, _ = free_socket_pair
    (tmp_path / "file").write_bytes(b"d" * 100_000)
    file = DiskFile(tmp_path / "file")
    descriptor = file.fileno()
    sender = SendQueue(one)
    sender.push([file.slice(0, 100_000)])
    del file
    os.fstat(descriptor)

    sender.clear()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_what_was_just_written_is_in_memory(tmp_path):
    (tmp_path / "file").write_bytes(b"w" * 300_000)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)

    assert warm_until(descriptor, 10, 300_000) == 300_000
    assert warm_until(descriptor, 300_000, 300_000) == 300_000
    os.close(descriptor)


def test_what_was_dropped_from_memory_is_cold_until_it_is_read(tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(4_000_000))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    deadline = time.monotonic() + 10
    while warm_until(descriptor, 0, 4_000_000) == 4_000_000:
        if time.monotonic() > deadline:
            os.close(descriptor)
            pytest.skip("this file system keeps everything in memory, or cannot tell")
        # Once is not always enough: the system keeps what somebody else just looks at.
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    read_ahead(descriptor, 0, 4_000_000)

    assert warm_until(descriptor, 0, 4_000_000) == 4_000_000
    os.close(descriptor)


def test_a_descriptor_that_cannot_be_read_is_left_to_the_reader_to_complain():
    assert warm_until(-1, 5, 10) == 5
    with pytest.raises(OSError, match="Bad file descriptor"):
        read_ahead(-1, 5, 10)


class CountedFile(MemoryFile):
    """How much was read of it."""

    read_bytes = 0

    def pread(self, size, position):
        self.read_bytes += size
        return super().pread(size, position)


def test_small_ranges_are_read_when_they_are_sent(free_socket_pair):
    """A fetch of thousands of partitions has thousands of them, and its peer may never read."""
    one, other = free_socket_pair
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    file = CountedFile(os.urandom(60_000))
    sender = SendQueue(one)
    sender.push([each for _ in range(60) for each in (b"head", FileSlice(file, 0, 60_000))])
    assert file.read_bytes == 0

    assert sender.flush() is Flush.BLOCKED
    for _ in range(5):
        assert sender.flush() is Flush.BLOCKED
    assert file.read_bytes <= module._GATHER_BYTES_MAX + 60_000

    data, _ = send_all(sender, other)
    assert data == (b"head" + file.data) * 60
    assert file.read_bytes == 60 * 60_000


def test_a_small_range_that_cannot_be_read_is_an_error_of_the_flush(free_socket_pair):
    one, _ = free_socket_pair
    sender = SendQueue(one)
    sender.push([b"head", FileSlice(MemoryFile(b"short"), 0, 100)])

    with pytest.raises(OSError, match="inside a range of 100 bytes"):
        sender.flush()
