"""What is particular to ZooKeeper:
a path to live below, connections that are lost.
"""

import contextlib
import socket
import threading
import time

import pytest

from barnabas.cluster.store.contract import (
    BadVersionError,
    Change,
    Check,
    Create,
    NodeExistsError,
    SetData,
    WatchEvent,
)
from barnabas.cluster.store.zookeeper import ZookeeperStore
from barnabas.core.pending import Pending

pytestmark = pytest.mark.jvm


class Cable:
    """The way to a server, which can be cut: connections break, and none are taken until it is mended."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._mended = threading.Event()
        self._mended.set()
        self._answers = True
        self._sockets: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._mended.clear()
        while self._sockets:
            _end(self._sockets.pop())

    def swallow_answers(self) -> None:
        """What is asked still reaches the server."""
        self._answers = False

    def mend(self) -> None:
        self._answers = True
        self._mended.set()

    def close(self) -> None:
        _end(self._listener)
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if not self._mended.is_set():
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._server_port))
                self._sockets += [near, far]
                for source, target, answers in ((near, far, False), (far, near, True)):
                    pump = threading.Thread(target=self._pump, args=(source, target, answers), daemon=True)
                    pump.start()

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._answers or not answers:
                    target.sendall(data)
        _end(source)
        _end(target)


def _end(broken: socket.socket) -> None:
    with contextlib.suppress(OSError):
        broken.shutdown(socket.SHUT_RDWR)
    broken.close()


@pytest.fixture
def cable(zookeeper_server):
    made = Cable(zookeeper_server.port)
    yield made
    made.close()


@pytest.fixture
def far_store(loop, cable, zookeeper_cluster):
    """A session whose connection a test may cut; `zookeeper_cluster` has others that stay connected."""
    chroot = zookeeper_cluster.connect.partition("/")[2]
    store = ZookeeperStore(f"127.0.0.1:{cable.port}/{chroot}", loop.call_soon, session_timeout_ms=6000)
    loop.wait(store.start())
    yield store
    cable.mend()
    loop.wait(store.close())


def disconnect(loop, cable, store) -> None:
    cable.cut()
    loop.until(lambda: "no connection" in repr(store))


def test_everything_lives_below_the_path_of_the_address(loop, zookeeper_cluster):
    inside = zookeeper_cluster.session()
    server, _, chroot = zookeeper_cluster.connect.partition("/")
    outside = ZookeeperStore(server, loop.call_soon)
    zookeeper_cluster.stores.append(outside)
    loop.wait(outside.start())

    loop.wait(inside.create("/a", b"data"))
    assert loop.wait(outside.get(f"/{chroot}/a"))[0] == b"data"
    assert loop.wait(inside.create("/a/n-", sequence=True)) == "/a/n-0000000000"
    seen = []
    loop.wait(inside.get("/a", seen.append))
    loop.wait(outside.set(f"/{chroot}/a", b""))
    loop.until(lambda: bool(seen))
    assert seen == [WatchEvent(Change.DATA, "/a")]


def test_calls_outlive_a_lost_connection_in_order(loop, cable, far_store, zookeeper_cluster):
    other = zookeeper_cluster.session()
    session = far_store.session_id
    loop.wait(far_store.create("/mine", b"0", ephemeral=True))
    cable.swallow_answers()
    order = []
    calls = [far_store.get("/mine"), far_store.set("/mine", b"1", 0)]
    while loop.wait(other.get("/mine"))[1].version < 1:
        pass  # our write is on its way
    disconnect(loop, cable, far_store)
    calls += [far_store.get("/mine"), far_store.create("/later"), far_store.children("/")]
    for number, call in enumerate(calls):
        call.when_done(lambda _, number=number: order.append(number))
    cable.mend()
    loop.until(lambda: len(order) == len(calls))

    assert order == [0, 1, 2, 3, 4]
    assert far_store.session_id == session
    assert calls[0].result()[0] == b"1"  # asked again, so it tells what is true now
    assert isinstance(calls[1].error, BadVersionError)  # written once, though sent twice
    assert calls[2].result()[1].version == 1
    assert calls[4].result() == ["later", "mine"]


def test_a_write_whose_answer_was_lost_finds_what_it_made(loop, cable, far_store, zookeeper_cluster):
    other = zookeeper_cluster.session()
    cable.swallow_answers()
    made = far_store.multi([Create("/mine", b"", ephemeral=True), SetData("/mine", b"1", 0)])
    while loop.wait(other.exists("/mine")) is None:
        pass  # our write is on its way
    disconnect(loop, cable, far_store)
    cable.mend()

    with pytest.raises(NodeExistsError):
        loop.wait(made)
    assert loop.wait(far_store.exists("/mine")).ephemeral_owner == far_store.session_id


def test_watches_fire_for_what_changed_without_a_connection(loop, cable, far_store, zookeeper_cluster):
    other = zookeeper_cluster.session()
    loop.wait(other.multi([Create(path, b"") for path in ("/set", "/gone", "/same", "/p", "/p/c", "/q")]))
    seen = []
    loop.wait(far_store.get("/set", seen.append))
    loop.wait(far_store.get("/gone", seen.append))
    loop.wait(far_store.get("/same", seen.append))
    loop.wait(far_store.exists("/new", seen.append))
    loop.wait(far_store.children("/p", seen.append))
    loop.wait(far_store.children("/q", seen.append))
    loop.wait(far_store.children("/", seen.append))

    disconnect(loop, cable, far_store)
    loop.wait(other.set("/set", b"1"))
    loop.wait(other.delete("/gone"))
    loop.wait(other.create("/new"))
    loop.wait(other.delete("/p/c"))
    loop.wait(other.delete("/q"))
    read = far_store.get("/set")
    read.when_done(lambda _: seen.append("read"))
    cable.mend()
    loop.wait(read)

    assert seen[-1] == "read"  # not before the watches
    assert set(seen[:-1]) == {
        WatchEvent(Change.DATA, "/set"),
        WatchEvent(Change.DELETED, "/gone"),
        WatchEvent(Change.CREATED, "/new"),
        WatchEvent(Change.CHILDREN, "/p"),
        WatchEvent(Change.DELETED, "/q"),
        WatchEvent(Change.CHILDREN, "/"),
    }
    loop.wait(other.set("/same", b"1"))
    loop.until(lambda: seen[-1] == WatchEvent(Change.DATA, "/same"))


def test_a_refused_check_names_itself_and_not_what_was_rolled_back(loop, far_store):
    loop.wait(far_store.create("/epoch", b"1"))
    with pytest.raises(Exception, match="BadVersionError for /epoch") as caught:
        loop.wait(far_store.multi([Create("/a"), Create("/b"), Check("/epoch", 3), Create("/c")]))
    assert caught.value.index == 2


def test_no_session_begins_before_the_listeners_are_ready(loop, zookeeper_cluster):
    class Listener:
        def __init__(self) -> None:
            self.ready: Pending[None] = Pending()
            self.events: list[str] = []

        def session_expired(self) -> Pending[None]:
            self.events.append("expired")
            return self.ready

        def session_renewed(self) -> None:
            self.events.append("renewed")

    store, listener = zookeeper_cluster.session(), Listener()
    store.listen(listener)
    zookeeper_cluster.expire(store)
    with pytest.raises(TimeoutError):  # a connection to this server takes a tenth of that
        loop.until(lambda: "renewed" in listener.events, timeout_s=0.5)
    assert listener.events == ["expired"]

    listener.ready.complete(None)
    loop.until(lambda: "renewed" in listener.events)


def test_close_does_not_wait_for_a_server_that_is_away(loop, cable, far_store):
    disconnect(loop, cable, far_store)
    waiting = far_store.get("/")
    began = time.monotonic()
    loop.wait(far_store.close())

    assert time.monotonic() - began < 5
    assert waiting.error is not None
