"""Offsets by time, and ends of leader epochs."""

from typing import Any

from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from parity.scenarios.batches import START_MS, batch
from parity.world import World


def offsets_at(
    topic: str, time: int, *, partition: int = 0, replica: int = -1, **fields: Any
) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=time, **fields)
    return ListOffsetsRequest(replica_id=replica, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])


def list_offsets(world: World) -> None:
    """Every special time, times before, between and after records, and partitions that are not there."""
    world.create("offsets", 2)
    world.append("offsets", batch(b"a", b"b"), batch(b"c", b"d", start_ms=START_MS + 100), batch(b"e"))
    for version in range(1, 10):
        world.ask("latest", offsets_at("offsets", -1), version)
    for time in (-2, -3, -4, -5, -6, -100, 0, START_MS, START_MS + 1, START_MS + 50, START_MS + 101, 1 << 50):
        world.ask(f"time {time}", offsets_at("offsets", time), 1, 7, 8, 9)
        world.ask(f"time {time} of an empty partition", offsets_at("offsets", time, partition=1), 1, 9)
    world.ask("unknown topic", offsets_at("offsets-nowhere", -1))
    world.ask("bad topic", offsets_at("a b", -1))
    world.ask("unknown partition", offsets_at("offsets", -1, partition=5))
    world.ask("negative partition", offsets_at("offsets", -1, partition=-1))
    world.ask("committed only", lambda _: _isolated(1), 2, 9)
    for level in (2, 5, -1):
        world.ask(f"isolation {level}", lambda _, level=level: _isolated(level), 2, 9)
        for replica in (0, -2):
            world.ask(f"isolation {level}, replica {replica}", _isolated(level, replica), 2, 9)
        nowhere = _isolated(level)
        nowhere.topics += offsets_at("offsets-nowhere", -1).topics
        world.ask(f"isolation {level} of an unknown topic too", nowhere, 9)
    for epoch in (0, 5):
        world.ask(f"epoch {epoch}", offsets_at("offsets", -1, current_leader_epoch=epoch), 4, 9)
    for replica in (0, 5, -2, -3):
        world.ask(f"replica {replica}", offsets_at("offsets", -1, replica=replica))
    twice = offsets_at("offsets", -1)
    twice.topics *= 2
    world.ask("twice", twice)
    world.ask("none", ListOffsetsRequest(replica_id=-1))


def _isolated(level: int, replica: int = -1) -> ListOffsetsRequest:
    request = offsets_at("offsets", -1, replica=replica)
    request.isolation_level = level
    return request


def leader_epochs(world: World) -> None:
    """Where epochs ended."""
    world.create("epochs")
    world.create("epochs-empty")
    world.append("epochs", batch(b"a", b"b"))
    for topic in ("epochs", "epochs-empty", "epochs-nowhere", "a b"):
        for epoch in (-1, 0, 1, 5):
            world.ask(f"{topic} {epoch}", _epochs(topic, epoch), 2, 3, 4)
    for current in (0, 5):
        world.ask(f"current {current}", _epochs("epochs", 0, current_leader_epoch=current))
    world.ask("unknown partition", _epochs("epochs", 0, partition=9))
    world.ask("none", OffsetForLeaderEpochRequest())


def _epochs(topic: str, epoch: int, partition: int = 0, **fields: Any) -> OffsetForLeaderEpochRequest:
    wanted = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, **fields)
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
