"""What every metadata store promises; run over each implementation."""

import pytest

from barnabas.cluster.controller.producer_ids import allocate_block
from barnabas.cluster.metadata.registration import ensure_persistent_paths
from barnabas.cluster.store.contract import (
    BadVersionError,
    Change,
    Check,
    Create,
    Delete,
    EphemeralParentError,
    InvalidPathError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SetData,
    WatchEvent,
)
from barnabas.core.pending import Pending


def wait(loop, pending):
    return loop.wait(pending)


def test_a_new_tree_has_only_its_root(loop, store):
    data, stat = loop.wait(store.get("/"))

    assert not data, "a server's own root has an empty value, the one of a chroot has none"
    assert stat.version == 0
    assert loop.wait(store.children("/")) == []


def test_a_znode_keeps_data_and_counts_versions(loop, store):
    assert loop.wait(store.create("/a", b"1")) == "/a"
    created = loop.wait(store.exists("/a"))
    written = loop.wait(store.set("/a", b"2", 0))
    data, stat = loop.wait(store.get("/a"))

    assert data == b"2"
    assert stat == written
    assert (created.version, stat.version) == (0, 1)
    assert stat.czxid == created.czxid == created.mzxid < stat.mzxid


def test_no_data_is_not_empty_data(loop, store):
    loop.wait(store.create("/none"))
    loop.wait(store.create("/empty", b""))

    assert loop.wait(store.get("/none"))[0] is None
    assert loop.wait(store.get("/empty"))[0] == b""


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda store: store.create("/a"), NodeExistsError),
        (lambda store: store.create("/missing/child"), NoNodeError),
        (lambda store: store.get("/missing"), NoNodeError),
        (lambda store: store.children("/missing"), NoNodeError),
        (lambda store: store.set("/missing", b""), NoNodeError),
        (lambda store: store.delete("/missing"), NoNodeError),
        (lambda store: store.set("/a", b"", 7), BadVersionError),
        (lambda store: store.delete("/a/b", 7), BadVersionError),
        (lambda store: store.delete("/a"), NotEmptyError),
        (lambda store: store.create("/e/child"), EphemeralParentError),
    ],
)
def test_refusals(loop, store, call, error):
    loop.wait(store.multi([Create("/a"), Create("/a/b"), Create("/e", ephemeral=True)]))

    with pytest.raises(error):
        loop.wait(call(store))
    assert loop.wait(store.children("/")) == ["a", "e"]


def test_exists_tells_of_absence(loop, store):
    assert loop.wait(store.exists("/a")) is None


@pytest.mark.parametrize("path", ["a", "/a/", "//a", "/a//b", "", "/..", "/a/../b", "/a/."])
def test_what_is_no_path_is_refused(loop, store, path):
    with pytest.raises(InvalidPathError, match="not the path of a znode"):
        loop.wait(store.exists(path))
    with pytest.raises(InvalidPathError, match="not the path of a znode"):
        loop.wait(store.create(path))


def test_children_are_sorted_names(loop, store):
    for path in ("/p", "/p/b", "/p/a", "/p/a/deep", "/pq"):
        loop.wait(store.create(path))

    assert loop.wait(store.children("/p")) == ["a", "b"]


def test_sequences_count_every_child_ever_made(loop, store):
    loop.wait(store.create("/q"))
    first = loop.wait(store.create("/q/n_", sequence=True))
    loop.wait(store.delete(first))
    loop.wait(store.create("/q/other"))

    assert first == "/q/n_0000000000"
    assert loop.wait(store.create("/q/n_", sequence=True)) == "/q/n_0000000002"


def test_a_multi_is_one_transaction(loop, store):
    results = loop.wait(
        store.multi(
            [Create("/a", b"x"), SetData("/a", b"y", 0), Create("/a/b"), Delete("/a/b"), Check("/a", 1)]
        )
    )
    _, stat = loop.wait(store.get("/a"))

    assert results[0] == "/a"
    assert results[1].version == 1
    assert results[1].czxid == results[1].mzxid == stat.czxid
    assert results[2:] == ["/a/b", None, None]


def test_a_multi_that_fails_changes_nothing_and_names_the_operation(loop, store):
    loop.wait(store.create("/a", b"x"))
    with pytest.raises(BadVersionError) as caught:
        loop.wait(store.multi([SetData("/a", b"y"), Create("/b"), Check("/a", 9)]))

    assert (caught.value.index, caught.value.path) == (2, "/a")
    assert loop.wait(store.get("/a"))[0] == b"x"
    assert loop.wait(store.exists("/b")) is None
    assert loop.wait(store.create("/c_", sequence=True)) == "/c_0000000001"


def test_a_check_guards_writes(loop, store):
    loop.wait(store.create("/epoch", b"1"))
    with pytest.raises(BadVersionError) as caught:
        loop.wait(store.multi([Check("/epoch", 1), Create("/guarded")]))
    assert caught.value.index == 0

    loop.wait(store.multi([Check("/epoch", 0), Create("/guarded")]))
    assert loop.wait(store.exists("/guarded")) is not None


def test_czxid_grows_from_creation_to_creation(loop, store):
    loop.wait(store.create("/a", ephemeral=True))
    first = loop.wait(store.exists("/a")).czxid
    loop.wait(store.delete("/a"))
    loop.wait(store.create("/a", ephemeral=True))

    assert loop.wait(store.exists("/a")).czxid > first


def test_calls_complete_in_order_whether_they_succeed_or_not(loop, store):
    order = []
    calls = {
        "create": store.create("/a"),
        "again": store.create("/a"),
        "get": store.get("/a"),
        "missing": store.get("/b"),
        "set": store.set("/a", b"1"),
        "children": store.children("/"),
    }
    for name, pending in calls.items():
        pending.when_done(lambda _, name=name: order.append(name))
    assert not any(pending.done for pending in calls.values())
    loop.until(lambda: len(order) == len(calls))

    assert order == list(calls)
    assert isinstance(calls["again"].error, NodeExistsError)
    assert calls["children"].result() == ["a"]


def test_ephemerals_go_with_their_session(loop, cluster, store):
    other = cluster.session()
    loop.wait(store.create("/mine", ephemeral=True))
    loop.wait(store.create("/kept"))

    assert loop.wait(other.exists("/mine")).ephemeral_owner == store.session_id
    assert loop.wait(other.exists("/kept")).ephemeral_owner == 0
    loop.wait(store.close())
    assert loop.wait(other.children("/")) == ["kept"]


def test_calls_after_the_end_fail(loop, store):
    loop.wait(store.close())

    with pytest.raises(SessionExpiredError):
        loop.wait(store.create("/late"))


# ------------------------------------------------------------------------------------------ watches


def watcher():
    seen: list[WatchEvent] = []
    return seen, seen.append


def test_a_watch_on_a_znode_fires_once(loop, cluster, store):
    other = cluster.session()
    loop.wait(store.create("/a", b"0"))
    seen, watch = watcher()
    loop.wait(store.get("/a", watch))
    loop.wait(other.set("/a", b"1"))
    loop.wait(other.set("/a", b"2"))
    loop.until(lambda: bool(seen))
    loop.wait(store.get("/a"))

    assert seen == [WatchEvent(Change.DATA, "/a")]


def test_exists_watches_for_what_is_not_there_yet(loop, cluster, store):
    other = cluster.session()
    seen, watch = watcher()
    assert loop.wait(store.exists("/later", watch)) is None
    loop.wait(other.create("/later"))
    loop.until(lambda: bool(seen))

    assert seen == [WatchEvent(Change.CREATED, "/later")]


def test_get_of_a_missing_znode_leaves_no_watch(loop, store):
    seen, watch = watcher()
    with pytest.raises(NoNodeError):
        loop.wait(store.get("/later", watch))
    loop.wait(store.create("/later"))
    loop.wait(store.exists("/later"))

    assert seen == []


def test_a_deletion_fires_both_kinds(loop, cluster, store):
    other = cluster.session()
    loop.wait(store.create("/a"))
    on_node, node_watch = watcher()
    on_children, children_watch = watcher()
    loop.wait(store.exists("/a", node_watch))
    loop.wait(store.children("/a", children_watch))
    loop.wait(other.delete("/a"))
    loop.until(lambda: bool(on_node and on_children))

    assert on_node == on_children == [WatchEvent(Change.DELETED, "/a")]


def test_a_watch_on_children_hears_of_coming_and_going_but_not_of_data(loop, cluster, store):
    other = cluster.session()
    loop.wait(store.create("/p"))
    seen, watch = watcher()
    loop.wait(store.children("/p", watch))
    loop.wait(other.set("/p", b"data"))
    assert loop.wait(store.children("/p")) == []
    assert seen == []
    loop.wait(other.create("/p/c"))
    loop.until(lambda: bool(seen))

    assert seen == [WatchEvent(Change.CHILDREN, "/p")]


def test_own_writes_fire_own_watches_before_they_complete(loop, store):
    order = []
    loop.wait(store.create("/a"))
    loop.wait(store.exists("/a", lambda event: order.append(event.change)))
    done = store.set("/a", b"1")
    done.when_done(lambda _: order.append("done"))
    loop.wait(done)

    assert order == [Change.DATA, "done"]


def test_no_result_shows_a_change_whose_watch_has_not_fired(loop, cluster, store):
    other = cluster.session()
    loop.wait(store.create("/a", b"0"))
    order = []
    for round_ in range(20):
        value = str(round_ + 1).encode()
        order.clear()
        loop.wait(store.get("/a", lambda _: order.append("watch")))
        loop.wait(other.set("/a", value))
        read = store.get("/a")
        read.when_done(lambda done: order.append(done.result()[0]))
        loop.wait(read)
        assert order == ["watch", value]


def test_the_same_watch_left_twice_fires_once(loop, store):
    seen, watch = watcher()
    loop.wait(store.create("/a"))
    loop.wait(store.exists("/a", watch))
    loop.wait(store.exists("/a", watch))
    loop.wait(store.set("/a", b""))
    loop.wait(store.set("/a", b""))

    assert len(seen) == 1


def test_a_refused_write_fires_nothing(loop, store):
    seen, watch = watcher()
    loop.wait(store.create("/a"))
    loop.wait(store.exists("/a", watch))
    with pytest.raises(BadVersionError):
        loop.wait(store.multi([SetData("/a", b"1"), Check("/a", 7)]))
    loop.wait(store.exists("/a"))
    assert seen == []

    loop.wait(store.set("/a", b"2"))
    assert seen == [WatchEvent(Change.DATA, "/a")]


def test_the_end_of_a_session_fires_the_watches_on_its_ephemerals(loop, cluster, store):
    other = cluster.session()
    loop.wait(store.create("/mine", ephemeral=True))
    seen, watch = watcher()
    loop.wait(other.exists("/mine", watch))
    loop.wait(store.close())
    loop.until(lambda: bool(seen))

    assert seen == [WatchEvent(Change.DELETED, "/mine")]


# ------------------------------------------------------------------------------------------ sessions


class Listener:
    def __init__(self) -> None:
        self.ready: Pending[None] = Pending()
        self.events = []

    def session_expired(self) -> Pending[None]:
        self.events.append("expired")
        return self.ready

    def session_renewed(self) -> None:
        self.events.append("renewed")


def test_an_expired_session_is_followed_by_another_when_its_listeners_are_ready(loop, cluster, store):
    listener = Listener()
    store.listen(listener)
    first = store.session_id
    loop.wait(store.create("/mine", ephemeral=True))
    seen, watch = watcher()
    loop.wait(store.exists("/mine", watch))

    cluster.expire(store)
    loop.until(lambda: bool(listener.events))
    with pytest.raises(SessionExpiredError):
        loop.wait(store.exists("/mine"))
    assert listener.events == ["expired"]

    listener.ready.complete(None)
    loop.until(lambda: listener.events == ["expired", "renewed"])
    assert store.session_id > first
    assert loop.wait(store.exists("/mine")) is None
    assert seen == []
    loop.wait(store.create("/mine", ephemeral=True))
    assert loop.wait(store.exists("/mine")).ephemeral_owner == store.session_id


def test_watches_end_with_their_session(loop, cluster, store):
    fired = []
    loop.wait(store.create("/a", b"1"))
    loop.wait(store.get("/a", fired.append))
    loop.wait(store.children("/", fired.append))
    before = store.session_id
    cluster.expire(store)
    loop.until(lambda: store.session_id != before)
    loop.wait(store.set("/a", b"2"))
    loop.wait(store.create("/b"))

    assert fired == []


def test_blocks_of_producer_ids_that_are_asked_for_at_once_are_not_the_same(loop, cluster, store):
    other = cluster.session()
    loop.wait(ensure_persistent_paths(store))
    one, two = allocate_block(store, 1, 0), allocate_block(other, 2, 0)
    blocks = {loop.wait(one), loop.wait(two)}

    assert blocks == {(0, 1000), (1000, 1000)}
