import errno
import os
import resource
import subprocess
import sys

import pytest

from barnabas.core import descriptors
from barnabas.core.descriptors import Descriptors


class Clock:
    def __init__(self):
        self.now_ms = 5000.0

    def monotonic_ms(self):
        return self.now_ms


class Table:
    """Open descriptors, and how often they were counted."""

    def __init__(self, count):
        self.open = count
        self.counts = 0

    def __call__(self):
        self.counts += 1
        return self.open


@pytest.fixture
def limit(monkeypatch):
    """A process that may have 1,024 descriptors."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))


def connect(room, table, at_most=10_000):
    """Opens connections until there is no room; how many there were."""
    for opened in range(at_most):
        if not room.has_room():
            return opened
        table.open += 1
    return at_most


@pytest.mark.usefixtures("limit")
def test_connections_leave_the_reserve_to_files():
    table = Table(24)
    room = Descriptors(Clock(), 256, table)

    assert connect(room, table) == 1024 - 256 - 24
    assert table.counts < 20, "counted when half of the room was gone, not each time"


@pytest.mark.usefixtures("limit")
def test_files_that_others_open_are_seen_within_a_second():
    table, clock = Table(24), Clock()
    room = Descriptors(clock, 256, table)
    assert room.has_room()
    table.open = 768

    clock.now_ms += 1000

    assert not room.has_room()


@pytest.mark.usefixtures("limit")
def test_while_there_is_no_room_it_is_not_counted_each_time():
    table, clock = Table(768), Clock()
    room = Descriptors(clock, 256, table)
    assert [room.has_room() for _ in range(50)] == [False] * 50
    assert table.counts == 1

    table.open -= 1
    clock.now_ms += 50

    assert connect(room, table) == 1


@pytest.mark.usefixtures("limit")
def test_a_reserve_is_a_quarter_of_a_small_limit_at_most():
    assert Descriptors(Clock(), 5000, Table(0)).reserve == 256
    assert Descriptors(Clock(), 100, Table(0)).reserve == 100


@pytest.mark.parametrize("folder", [descriptors._OPEN, "/no/such/folder"])
def test_what_is_open_is_counted(folder):
    # In a process of its own: in that of the tests, threads of other fixtures open and close files meanwhile.
    script = (
        "import os; from barnabas.core import descriptors;"
        f"descriptors._OPEN = {folder!r};"
        "before = descriptors.open_descriptors(); os.pipe();"
        "print(before, descriptors.open_descriptors() - before)"
    )

    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert done.stdout == "3 2\n"


def test_the_soft_limit_is_raised_to_the_hard_one():
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200));"
        "from barnabas.core.descriptors import raise_limit;"
        "print(raise_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )

    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert done.stdout == "200 (200, 200)\n"


def test_a_limit_that_the_system_does_not_raise_stays(monkeypatch):
    def refuse(*_):
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)

    assert descriptors.raise_limit() == 256


def test_when_none_is_left_to_count_with_all_are_open(monkeypatch):
    def no_more(_path):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(descriptors, "_OPEN", "/no/such/folder")
    monkeypatch.setattr(os, "listdir", no_more)

    assert descriptors.open_descriptors() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@pytest.mark.parametrize(
    ("code", "short"), [(errno.EMFILE, True), (errno.ENFILE, True), (errno.EIO, False), (errno.ENOSPC, False)]
)
def test_a_shortage_is_no_fault_of_the_disk(code, short):
    assert descriptors.is_shortage(OSError(code, os.strerror(code))) is short
