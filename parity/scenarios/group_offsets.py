"""Positions of groups: committed, read back, deleted."""

from collections.abc import Callable
from typing import Any

from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from parity.scenarios.coordinators import coordinator_is_ready
from parity.world import World

COMMITS = range(2, 10)
FETCHES = range(1, 10)


def commit(
    group: str, *positions: tuple[str, int, int], metadata: str | None = "", epoch: int = -1, **fields: Any
) -> Callable[[int], OffsetCommitRequest]:
    """Positions as (topic, partition, offset), each a topic of its own in the request."""

    def request(version: int) -> OffsetCommitRequest:
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=epoch if version >= 6 else -1,
                        committed_metadata=metadata,
                    )
                ],
            )
            for topic, partition, offset in positions
        ]
        return OffsetCommitRequest(group_id=group, topics=topics, **fields)

    return request


def fetch(
    group: str, *partitions: tuple[str, int], stable: bool = False, **fields: Any
) -> Callable[[int], OffsetFetchRequest]:
    """Positions of partitions; all that there are when none is named."""

    def request(version: int) -> OffsetFetchRequest:
        if version >= 8:
            batch = OffsetFetchRequestGroup(group_id=group, topics=None, **(fields if version >= 9 else {}))
            if partitions:
                batch.topics = [
                    OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
                    for topic, partition in partitions
                ]
            return OffsetFetchRequest(groups=[batch], require_stable=stable)
        made = OffsetFetchRequest(group_id=group, topics=None, require_stable=stable and version >= 7)
        if partitions or version < 2:
            made.topics = [
                OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])
                for topic, partition in partitions
            ]
        return made

    return request


def offset_commit(world: World) -> None:
    """Commits from outside a group, good ones and bad ones, each read back."""
    coordinator_is_ready(world)
    world.create("committed", 3)
    for version in COMMITS:
        group = f"commit-{version}"
        world.ask("simple", commit(group, ("committed", 0, 5), ("committed", 1, 0)), version)
        world.ask(f"simple read back {version}", fetch(group), 9)
        world.ask("words", commit(group, ("committed", 0, 6), metadata="слово", epoch=3), version)
        world.ask("null words", commit(group, ("committed", 1, 7), metadata=None), version)
        world.ask("the longest words", commit(group, ("committed", 2, 7), metadata="x" * 4096), version)
        world.ask("too many words", commit(group, ("committed", 2, 8), metadata="x" * 4097), version)
        world.ask(f"words read back {version}", fetch(group), 9)
    for version in (2, 5, 9):
        group = f"commit-odd-{version}"
        odd = [
            ("committed", 9, 1),
            ("committed-nowhere", 0, 1),
            ("", 0, 1),
            ("a b", 0, 1),
            ("committed", -1, 1),
        ]
        world.ask("only unknown", commit(group, *odd), version)
        world.ask("known and unknown", commit(group, ("committed", 0, 1), *odd), version)
        world.ask("negative", commit(group, ("committed", 0, -5), ("committed", 1, -1)), version)
        world.ask("twice", commit(group, ("committed", 2, 4), ("committed", 2, 3)), version)
        world.ask("none", commit(group), version)
        world.ask("no group", commit("", ("committed", 0, 1)), version)
        world.ask("no group and unknown", commit("", ("committed", 9, 1)), version)
        stranger: dict[str, Any] = {"generation_id_or_member_epoch": 3, "member_id": "nobody"}
        world.ask("unknown group", commit(f"{group}-no", ("committed", 0, 1), **stranger), version)
        world.ask("stranger", commit(group, ("committed", 0, 1), **stranger), version)
        nameless: dict[str, Any] = {"generation_id_or_member_epoch": 0, "member_id": ""}
        world.ask("generation alone", commit(group, ("committed", 0, 1), **nameless), version)
        named: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": "nobody"}
        world.ask("name alone", commit(group, ("committed", 0, 2), **named), version)
        world.ask(f"odd read back {version}", fetch(group), 9)
    for version in range(2, 5):
        kept = commit(f"commit-kept-{version}", ("committed", 0, 1), retention_time_ms=3_600_000)
        world.ask("kept for an hour", kept, version)
        world.ask(f"kept {version}", fetch(f"commit-kept-{version}"), 9)
    for version in (7, 9):
        static = commit("commit-static", ("committed", 0, 1), group_instance_id="me")
        world.ask("static without a group", static, version)


def offset_fetch(world: World) -> None:
    """Positions of groups that have some, and of those that have none."""
    coordinator_is_ready(world)
    world.create("fetched", 2)
    world.ask("there", commit("fetch", ("fetched", 0, 5), metadata="word", epoch=2), 9)
    odd = [("fetched", 0), ("fetched", 1), ("fetched", 9), ("fetched-nowhere", 0), ("", 0), ("fetched", -1)]
    for version in FETCHES:
        world.ask("several", fetch("fetch", *odd), version)
        world.ask("the same twice", fetch("fetch", ("fetched", 0), ("fetched", 0)), version)
        world.ask("unknown group", fetch("fetch-nowhere", *odd), version)
        world.ask("no group", fetch("", *odd), version)
        world.ask("all", fetch("fetch"), version)
        world.ask("all of an unknown group", fetch("fetch-nowhere"), version)
        world.ask("no topics", _no_topics, version)
    for version in (7, 8, 9):
        world.ask("stable", fetch("fetch", *odd, stable=True), version)
        world.ask("all stable", fetch("fetch", stable=True), version)
    for version in (8, 9):
        world.ask("several groups", _several, version)
    world.ask("no groups", OffsetFetchRequest(), 9)
    members: dict[str, dict[str, Any]] = {
        "a member": {"member_id": "nobody", "member_epoch": 3},
        "an epoch": {"member_epoch": 0},
        "a name": {"member_id": "", "member_epoch": -1},
    }
    for what, fields in members.items():
        world.ask(f"as {what}", fetch("fetch", ("fetched", 0), **fields), 9)
        world.ask(f"all as {what}", fetch("fetch", **fields), 9)


def _no_topics(version: int) -> OffsetFetchRequest:
    if version >= 8:
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="fetch", topics=[])])
    return OffsetFetchRequest(group_id="fetch", topics=[])


def _several(version: int) -> OffsetFetchRequest:
    asked = [
        fetch("fetch", ("fetched", 0), ("fetched", 1)),
        fetch("fetch-nowhere"),
        fetch("fetch-elsewhere", ("fetched", 0)),
        fetch(""),
    ]
    groups = [group for made in asked for group in made(version).groups]
    return OffsetFetchRequest(groups=groups)


def delete_positions(group: str, *partitions: tuple[str, int]) -> OffsetDeleteRequest:
    """A request to forget positions."""
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    topics = [OffsetDeleteRequestTopic(name=name, partitions=wanted) for name, wanted in by_topic.items()]
    return OffsetDeleteRequest(group_id=group, topics=topics)
