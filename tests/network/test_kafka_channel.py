import gc
import weakref
from concurrent.futures import Future

import pytest

from barnabas.core.chunks import FileSlice
from barnabas.network import kafka_channel, send_queue
from barnabas.network.kafka_channel import KafkaChannel
from barnabas.network.send_queue import SENDFILE_BYTES_MIN, Flush

MEGABYTES = b"m" * 8_000_000


class Loop:
    """Runs nothing by itself."""

    def __init__(self):
        self.writer = None
        self.soon = []

    def add_writer(self, _sock, callback):
        self.writer = callback

    def remove_writer(self, _sock):
        self.writer = None

    def is_closed(self):
        return False

    def call_soon_threadsafe(self, callback, *args):
        self.soon.append((callback, args))

    def submit(self, function, *args):
        """As the thread pool."""
        done = Future()
        try:
            done.set_result(function(*args))
        except OSError as error:
            done.set_exception(error)
        return done


class Owner:
    def __init__(self, sock):
        self.loop = Loop()
        self.heard = []
        self.channel = KafkaChannel(sock, self.loop, self.loop, self)

    def flushed(self, outcome):
        self.heard.append(outcome)

    def send_failed(self, error):
        self.heard.append(error)

    def send(self, chunks):
        self.channel.push(chunks)
        self.channel.wait(self.channel.flush())


def test_the_owner_hears_of_all_that_a_slow_peer_takes(free_socket_pair):
    one, other = free_socket_pair
    owner = Owner(one)
    owner.send([MEGABYTES])
    assert owner.channel.waits_for is Flush.BLOCKED

    taken = 0
    while owner.loop.writer is not None:
        taken += len(other.recv(1 << 20))
        owner.loop.writer()

    assert owner.heard[0] is Flush.BLOCKED, "it counts as alive before everything is sent"
    assert owner.heard[-1] is Flush.DRAINED
    assert owner.channel.waits_for is Flush.DRAINED


@pytest.fixture
def cold(tmp_path, monkeypatch):
    """A range of a file that is not in memory."""
    path = tmp_path / "segment"
    path.write_bytes(MEGABYTES[:SENDFILE_BYTES_MIN])
    monkeypatch.setattr(send_queue, "warm_until", lambda _descriptor, position, _end: position)
    with path.open("rb") as file:
        yield FileSlice(file, 0, SENDFILE_BYTES_MIN)


def test_a_cold_range_is_sent_when_a_thread_has_read_it(free_socket_pair, cold):
    one, other = free_socket_pair
    owner = Owner(one)
    owner.send([cold])
    assert owner.channel.waits_for is Flush.COLD
    ((callback, args),) = owner.loop.soon

    callback(*args)

    assert owner.heard == [Flush.DRAINED]
    assert len(other.recv(1 << 20)) == SENDFILE_BYTES_MIN


def test_a_range_that_cannot_be_read_is_the_end(free_socket_pair, cold, monkeypatch):
    broken = OSError("the disk")

    def read_ahead(*_):
        raise broken

    monkeypatch.setattr(kafka_channel, "read_ahead", read_ahead)
    owner = Owner(free_socket_pair[0])
    owner.send([cold])
    ((callback, args),) = owner.loop.soon

    callback(*args)

    assert owner.heard == [broken]


def test_what_was_read_for_a_closed_channel_is_not_sent(free_socket_pair, cold):
    owner = Owner(free_socket_pair[0])
    owner.send([cold])
    ((callback, args),) = owner.loop.soon

    owner.channel.close()
    callback(*args)

    assert owner.heard == []


def test_a_closed_channel_does_not_keep_its_owner(free_socket_pair):
    owner = Owner(free_socket_pair[0])
    owner.send([MEGABYTES])
    gone = weakref.ref(owner)
    gc.disable()
    try:
        owner.channel.close()
        assert owner.loop.writer is None
        del owner
        assert gone() is None
    finally:
        gc.enable()
