"""Records read: by offset, in sessions, and as a follower would."""

from collections.abc import Callable
from typing import Any

from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from parity.scenarios.batches import batch
from parity.world import World

VERSIONS = (4, 5, 7, 9, 11, 12, 13, 15, 16, 17)


def of(world: World, topic: str, **partition: Any) -> Callable[[int], FetchRequest]:
    """A request to read one partition, by name or by id as the version wants it."""
    given = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20} | partition

    def request(version: int) -> FetchRequest:
        wanted = FetchTopic(partitions=[FetchPartition(**given)])
        if version >= 13:
            wanted.topic_id = world.topic_id(topic)
        else:
            wanted.topic = topic
        return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[wanted])

    return request


def fetch(world: World) -> None:
    """Offsets that are there and that are not, sizes, epochs."""
    world.create("fetch", 2)
    world.append("fetch", batch(b"one", b"two"), batch(b"three"), batch(b"x" * 5000), batch(b"last"))
    world.create("fetch-empty")
    for version in VERSIONS:
        world.ask("from the start", of(world, "fetch"), version)
        world.ask("empty", of(world, "fetch-empty"), version)
    for what, given in {
        "inside a batch": {"fetch_offset": 1},
        "at the end": {"fetch_offset": 5},
        "beyond the end": {"fetch_offset": 6},
        "below the start": {"fetch_offset": -1},
        "greatest offset": {"fetch_offset": (1 << 63) - 1},
        "of no bytes": {"partition_max_bytes": 0},
        "of negative bytes": {"partition_max_bytes": -1},
        "of few bytes": {"partition_max_bytes": 100},
        "of one large batch": {"fetch_offset": 3, "partition_max_bytes": 100},
        "unknown partition": {"partition": 5},
        "negative partition": {"partition": -1},
    }.items():
        world.ask(what, of(world, "fetch", **given))
    for what, epoch in {"epoch": 0, "future epoch": 5}.items():
        world.ask(f"current {what}", of(world, "fetch", current_leader_epoch=epoch), 9, 12, 17)
        world.ask(
            f"last fetched {what}", of(world, "fetch", last_fetched_epoch=epoch, fetch_offset=2), 12, 17
        )
    world.ask("divergent", of(world, "fetch", last_fetched_epoch=0, fetch_offset=50), 12)
    _limits(world)
    _strangers(world)


def _limits(world: World) -> None:
    limits: dict[str, dict[str, Any]] = {
        "of few bytes in all": {"max_bytes": 10},
        "of no bytes in all": {"max_bytes": 0},
        "committed only": {"isolation_level": 1},
        "isolation of no kind": {"isolation_level": 2},
        "more than there is, with no time": {"min_bytes": 1 << 20},
        "negative time": {"max_wait_ms": -1, "min_bytes": 1 << 20},
        "of another rack": {"rack_id": "elsewhere"},
    }
    for what, given in limits.items():
        request = of(world, "fetch")(11)
        for name, value in given.items():
            setattr(request, name, value)
        world.ask(what, request, 11)
    for level in (2, -1):
        for version in (4, 12, 13, 17):
            request = of(world, "fetch")(version)
            request.isolation_level = level
            world.ask(f"isolation {level}", request, version)
    two = FetchRequest(
        max_wait_ms=0,
        topics=[FetchTopic(topic="fetch", partitions=[_partition(0), _partition(1), _partition(9)])],
    )
    world.ask("three partitions", two, 4, 12)
    world.ask("nothing", FetchRequest(max_wait_ms=0), 4, 17)


def _strangers(world: World) -> None:
    named = FetchRequest(
        max_wait_ms=0, topics=[FetchTopic(topic="fetch-nowhere", partitions=[_partition(0)])]
    )
    world.ask("unknown topic", named, 4, 12)
    bad = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="a b", partitions=[_partition(0)])])
    world.ask("bad topic", bad, 4, 12)
    by_id = FetchRequest(
        max_wait_ms=0, topics=[FetchTopic(topic_id=b"\x11" * 16, partitions=[_partition(0)])]
    )
    world.ask("unknown id", by_id, 13, 17)
    no_id = FetchRequest(max_wait_ms=0, topics=[FetchTopic(partitions=[_partition(0)])])
    world.ask("no id", no_id, 13, 17)


def _partition(number: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)


def sessions(world: World) -> None:
    """Fetch sessions (KIP-227): what changed, and sessions that nobody knows."""
    world.create("session", 2)
    world.append("session", batch(b"one"))
    both = FetchTopic(topic="session", partitions=[_partition(0), _partition(1)])
    opened = world.ask("opened", FetchRequest(max_wait_ms=0, session_epoch=0, topics=[both]), 7)
    session = opened.session_id

    def go_on(what: str, epoch: int, **fields: Any) -> None:
        world.ask(what, FetchRequest(max_wait_ms=0, session_id=session, session_epoch=epoch, **fields), 7)

    go_on("same again", 1)
    go_on("moved on", 2, topics=[FetchTopic(topic="session", partitions=[_partition(0, 1)])])
    go_on("no news", 3)
    world.append("session", batch(b"two"), partition=1)
    go_on("news", 4)
    go_on("old epoch", 3)
    go_on("epoch to come", 9)
    go_on("forgotten", 5, forgotten_topics_data=[ForgottenTopic(topic="session", partitions=[1])])
    go_on("unknown partition", 6, topics=[FetchTopic(topic="session", partitions=[_partition(8)])])
    go_on("closed", -1)
    go_on("closed already", 7)
    strange = FetchRequest(max_wait_ms=0, session_id=12345, session_epoch=1)
    world.ask("unknown session", strange, 7, 12)
    world.ask("unknown session of ids", strange, 13, 17)
    no_epoch = FetchRequest(max_wait_ms=0, session_id=0, session_epoch=5)
    world.ask("no session with an epoch", no_epoch, 7, 17)


def as_follower(world: World) -> None:
    """A broker that is no replica, and one that is not there."""
    world.create("follower")
    world.append("follower", batch(b"one"))
    for what, replica in {"itself": 0, "no replica": 5, "debugger": -2, "stranger": -3}.items():
        request = of(world, "follower")(12)
        request.replica_id = replica
        world.ask(what, request, 12)
        newer = of(world, "follower")(15)
        newer.replica_state = ReplicaState(replica_id=replica, replica_epoch=-1)
        world.ask(what, newer, 15, 17)
