"""A connection to ZooKeeper that is lost, and a session that ends, in the order that a test chooses."""

import gc
import socket
import weakref

import pytest
from kazoo.exceptions import APIError

from barnabas.cluster.store.contract import (
    Change,
    NodeExistsError,
    SessionExpiredError,
    StoreError,
    StoreUnavailableError,
    WatchEvent,
)
from barnabas.cluster.store.memory import MemoryStore
from barnabas.cluster.store.zookeeper import ZookeeperStore
from barnabas.core.errors import ConfigError
from barnabas.core.pending import Pending


@pytest.fixture
def store(fake_zookeeper):
    return fake_zookeeper.session()


@pytest.fixture
def kazoo(fake_zookeeper, store):
    return fake_zookeeper.clients[store]


@pytest.fixture
def other(fake_zookeeper, loop):
    """Another session, which sees the tree from its root."""
    other = MemoryStore(fake_zookeeper.ensemble, loop.call_soon)
    loop.wait(other.start())
    return other


class Listener:
    """Resigns at once, or when a test says so."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.ready: Pending[None] = Pending.of(None)

    def session_expired(self) -> Pending[None]:
        self.events.append("expired")
        return self.ready

    def session_renewed(self) -> None:
        self.events.append("renewed")


def finished(calls):
    """The names of calls in the order in which they end."""
    order = []
    for name, call in calls.items():
        call.when_done(lambda _, name=name: order.append(name))
    return order


def test_a_call_that_was_made_before_the_loss_was_known_does_not_overtake_those_that_were_lost(
    loop, store, kazoo
):
    kazoo.hold_answers()
    first = store.create("/a")
    kazoo.break_connection()
    second = store.create("/a/b")  # the loop has not heard of the loss
    kazoo.suspend()
    order = finished({"first": first, "second": second})
    loop.run()
    assert not order
    kazoo.mend()
    loop.until(lambda: len(order) == 2)

    assert order == ["first", "second"]
    assert [first.result(), second.result()] == ["/a", "/a/b"]


def test_calls_without_a_connection_go_out_once_each_when_there_is_one(loop, store, kazoo):
    kazoo.cut()
    loop.run()
    asked = kazoo.asked
    calls = [store.create(f"/{name}") for name in "abc"]
    assert kazoo.asked == asked
    kazoo.mend()
    assert [loop.wait(call) for call in calls] == ["/a", "/b", "/c"]
    assert kazoo.asked == asked + 3


def test_what_was_answered_is_not_asked_again(loop, store, kazoo):
    loop.wait(store.create("/a"))
    with pytest.raises(NodeExistsError):
        loop.wait(store.create("/a"))
    for _ in range(2):
        kazoo.cut()
        loop.run()
        asked = kazoo.asked
        kazoo.mend()
        loop.run()
        assert kazoo.asked == asked
    assert loop.wait(store.children("/")) == ["a"]


def test_two_connections_are_lost_before_an_answer_comes(loop, store, kazoo):
    kazoo.hold_answers()
    made = store.create("/a")
    for _ in range(2):
        kazoo.cut()
        loop.run()
        kazoo.mend()
        kazoo.hold_answers()
        loop.run()
    kazoo.mend()

    assert loop.wait(made) == "/a"


@pytest.mark.parametrize("answered_before", [False, True])
def test_an_end_of_the_session_fails_what_waits_and_only_that(
    loop, fake_zookeeper, store, kazoo, answered_before
):
    listener = Listener()
    store.listen(listener)
    done = store.create("/a") if answered_before else None
    loop.run()
    kazoo.hold_answers()
    lost = store.create("/b")
    before = store.session_id
    fake_zookeeper.expire(store)
    loop.until(lambda: store.session_id != before)  # kazoo answers the calls of the old one in between
    loop.run()

    assert listener.events == ["expired", "renewed"]
    with pytest.raises(SessionExpiredError, match="/b"):
        lost.result()
    assert done is None or done.result() == "/a"
    assert loop.wait(store.children("/")) == (["a"] if answered_before else [])


def test_watches_that_fire_after_a_loss_do_so_once_and_before_any_answer(loop, store, kazoo, other, caplog):
    for path in ("/set", "/gone", "/same", "/p", "/p/c", "/q"):
        loop.wait(store.create(path, b""))
    seen = []
    for path in ("/set", "/gone", "/same"):
        loop.wait(store.get(path, seen.append))
    for path in ("/new", "/never"):
        loop.wait(store.exists(path, seen.append))
    for path in ("/p", "/q"):
        loop.wait(store.children(path, seen.append))
    kazoo.cut()
    loop.run()
    assert "connection_lost" in caplog.text
    loop.wait(other.set("/kafka/set", b"1"))
    loop.wait(other.delete("/kafka/gone"))
    loop.wait(other.create("/kafka/new"))
    loop.wait(other.delete("/kafka/p/c"))
    loop.wait(other.delete("/kafka/q"))
    read = store.get("/set")
    read.when_done(lambda _: seen.append("read"))
    kazoo.mend()
    loop.wait(read)

    changed = [
        WatchEvent(Change.DATA, "/set"),
        WatchEvent(Change.DELETED, "/gone"),
        WatchEvent(Change.CREATED, "/new"),
        WatchEvent(Change.CHILDREN, "/p"),
        WatchEvent(Change.DELETED, "/q"),
    ]
    assert seen == [*changed, "read"]
    kazoo.cut()
    loop.run()
    kazoo.mend()  # what has fired waits no longer
    loop.run()
    assert seen == [*changed, "read"]
    loop.wait(other.create("/kafka/never"))
    loop.run()
    assert seen == [*changed, "read", WatchEvent(Change.CREATED, "/never")]


def test_watches_that_fired_with_a_connection_are_not_read_again(loop, store, kazoo):
    seen = []
    for path in ("/a", "/b"):
        loop.wait(store.create(path))
    loop.wait(store.get("/a", seen.append))
    loop.wait(store.exists("/b", seen.append))
    loop.wait(store.children("/a", seen.append))
    loop.wait(store.children("/b", seen.append))
    loop.wait(store.set("/a", b"1"))
    loop.wait(store.create("/a/c"))
    loop.wait(store.delete("/b"))
    assert len(seen) == 4
    kazoo.cut()
    loop.run()
    asked = kazoo.asked
    kazoo.mend()
    loop.run()

    assert kazoo.asked == asked


def test_a_watch_that_fails_does_not_keep_the_next_ones_from_firing(loop, store, caplog):
    def broken(_):
        raise ZeroDivisionError

    seen = []
    loop.wait(store.create("/a"))
    loop.wait(store.exists("/a", broken))
    loop.wait(store.exists("/a", seen.append))
    loop.wait(store.set("/a", b"1"))

    assert seen == [WatchEvent(Change.DATA, "/a")]
    assert "watch_failed" in caplog.text


def test_the_path_that_everything_lives_below_is_made_once(loop, fake_zookeeper, store, other):
    fake_zookeeper.session()
    assert loop.wait(other.children("/")) == ["kafka"]
    loop.wait(store.create("/a", b"data"))
    assert loop.wait(other.get("/kafka/a"))[0] == b"data"


def test_a_path_that_cannot_be_made_fails_the_start(loop, fake_zookeeper, other):
    loop.wait(other.create("/kafka", ephemeral=True))
    store = fake_zookeeper.make("played:1/kafka/below")
    with pytest.raises(StoreError, match="EphemeralParentError"):
        loop.wait(store.start())


def test_a_session_that_is_closed_fails_what_waits(loop, store, kazoo):
    kazoo.cut()
    loop.run()
    waiting = store.get("/")
    closed = store.close()
    loop.wait(closed)
    for call in (waiting, store.get("/")):
        with pytest.raises(SessionExpiredError):
            loop.wait(call)


def test_an_answer_with_an_error_that_the_contract_does_not_name(loop, store, kazoo):
    kazoo.refuse_next = APIError()
    with pytest.raises(StoreUnavailableError) as caught:
        loop.wait(store.get("/"))
    assert isinstance(caught.value.__cause__, APIError)
    assert loop.wait(store.children("/")) == []


def test_a_server_that_does_not_answer_is_one_clear_line(loop):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        store = ZookeeperStore(f"{address}/x", loop.call_soon, connection_timeout_ms=200)
        with pytest.raises(TimeoutError, match=f"no ZooKeeper server of {address} .* within 200 ms"):
            loop.wait(store.start())
        loop.wait(store.close())


@pytest.mark.parametrize("address", ["localhost:many", "localhost:2181/a//b"])
def test_an_address_that_is_none_is_a_configuration_error(loop, address):
    with pytest.raises(ConfigError, match=f"Invalid value {address} for configuration zookeeper"):
        ZookeeperStore(address, loop.call_soon)


def test_an_address_without_a_path(loop, fake_zookeeper):
    store = fake_zookeeper.make("played:1")
    fake_zookeeper.stores.append(store)
    loop.wait(store.start())
    seen = []
    assert loop.wait(store.children("/", seen.append)) == []
    loop.wait(store.create("/a"))
    assert loop.wait(store.children("/")) == ["a"]
    assert seen == [WatchEvent(Change.CHILDREN, "/")]


def test_a_watch_on_the_path_that_everything_lives_below_is_one_on_the_root(loop, store):
    seen = []
    loop.wait(store.children("/", seen.append))
    loop.wait(store.create("/a"))
    assert seen == [WatchEvent(Change.CHILDREN, "/")]


def test_calls_before_the_start_wait_for_it(loop, fake_zookeeper):
    store = fake_zookeeper.make("played:1")
    fake_zookeeper.stores.append(store)
    assert repr(store) == "<ZookeeperStore played:1 session=0x0 no connection>"
    made = store.create("/a")
    loop.run()
    assert not made.done
    loop.wait(store.start())
    assert loop.wait(made) == "/a"


def test_a_read_without_a_watch_leaves_none_at_the_server(loop, store, kazoo):
    loop.wait(store.get("/"))
    loop.wait(store.exists("/"))
    loop.wait(store.children("/"))
    assert kazoo.watches_left == 0


def test_no_watch_fires_after_the_close(loop, store, kazoo, other):
    seen = []
    loop.wait(store.exists("/a", seen.append))
    made = other.create("/kafka/a")  # the loop has not heard of it yet
    closed = store.close()
    loop.wait(made)
    loop.wait(closed)
    assert seen == []
    assert kazoo.is_closed


def test_a_close_does_not_wait_for_listeners_that_never_resign(loop, fake_zookeeper, store, kazoo):
    class Stuck:
        def session_expired(self) -> Pending[None]:
            return Pending()

    store.listen(Stuck())
    fake_zookeeper.expire(store)
    loop.until(lambda: "expired" in repr(store))
    loop.wait(store.close())
    assert kazoo.is_closed


def test_a_client_that_cannot_be_stopped_is_a_line_and_the_store_is_closed(loop, store, kazoo, caplog):
    kazoo.refuse_stop = RuntimeError("its thread is gone")
    loop.wait(store.close())
    assert "close_failed" in caplog.text
    with pytest.raises(SessionExpiredError):
        loop.wait(store.get("/"))
    kazoo.refuse_stop = None


def test_what_waits_for_a_connection_is_not_done_by_the_next_session(loop, fake_zookeeper, store, kazoo):
    """Else a controller that was replaced would write with its successor's session."""
    before = store.session_id
    kazoo.cut()
    loop.run()
    lost = store.create("/mine", ephemeral=True)
    fake_zookeeper.expire(store)
    loop.until(lambda: store.session_id != before)

    with pytest.raises(SessionExpiredError):
        loop.wait(lost)
    assert loop.wait(store.children("/")) == []


def test_each_end_of_a_session_waits_for_the_listeners(loop, fake_zookeeper, store, caplog):
    listener = Listener()
    store.listen(listener)
    for number in (1, 2):
        before = store.session_id
        listener.ready = Pending()
        fake_zookeeper.expire(store)
        loop.until(lambda number=number: listener.events.count("expired") == number)
        with pytest.raises(TimeoutError):
            loop.until(lambda number=number: listener.events.count("renewed") == number, timeout_s=0.1)
        with pytest.raises(SessionExpiredError):
            loop.wait(store.exists("/"))
        listener.ready.complete(None)
        loop.until(lambda number=number: listener.events.count("renewed") == number)
        assert f"session_expired session={before:#x}" in caplog.text


def test_what_the_last_session_watched_is_not_read_in_the_next(loop, fake_zookeeper, store, kazoo):
    loop.wait(store.create("/a"))
    loop.wait(store.get("/a", print))
    loop.wait(store.children("/", print))
    before = store.session_id
    fake_zookeeper.expire(store)
    loop.until(lambda: store.session_id != before)
    asked = kazoo.asked
    kazoo.cut()
    loop.run()
    kazoo.mend()
    loop.run()

    assert kazoo.asked == asked


def test_a_read_that_is_refused_leaves_no_watch(loop, store, kazoo):
    seen = []
    kazoo.refuse_next = APIError()
    with pytest.raises(StoreUnavailableError):
        loop.wait(store.exists("/a", seen.append))
    loop.wait(store.exists("/a", seen.clear))  # another's, so that the server has one
    loop.wait(store.create("/a"))

    assert seen == []


def test_nothing_is_kept_of_what_was_answered(loop, store):
    class Watch:
        def __call__(self, event):
            pass

    watch = Watch()
    kept = weakref.ref(watch)
    loop.wait(store.exists("/a", watch))
    loop.wait(store.create("/a"))
    del watch
    gc.collect()

    assert kept() is None
