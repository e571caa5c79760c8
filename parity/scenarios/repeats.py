"""Requests that name one thing twice: a client's slip, which may not write twice what it says twice."""

from typing import TYPE_CHECKING, Final

from barnabas.protocol.messages import alter_configs as legacy
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
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
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from parity.scenarios.batches import batch, change
from parity.scenarios.offsets import offsets_at
from parity.scenarios.produce import read_back
from parity.scenarios.topics import wanted
from parity.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.message import Request

TOPIC, BROKER = 2, 4

FIRST: Final = batch(b"first")
SECOND: Final = batch(b"second", b"and more")
THIRD: Final = batch(b"third")
BROKEN: Final = change(FIRST, 17, ">I", 1)

_Data = tuple[int, bytes]


def _produce(*topics: tuple[str, list[_Data]], acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[PartitionProduceData(index=index, records=data) for index, data in entries],
            )
            for name, entries in topics
        ],
    )


def produce(world: World) -> None:
    """Partitions and topics that a produce names twice: one append, one answer, the last records win."""
    ways: dict[str, Callable[[str], list[tuple[str, list[_Data]]]]] = {
        "partition twice": lambda topic: [(topic, [(0, FIRST), (0, SECOND)])],
        "partition twice, the long one first": lambda topic: [(topic, [(0, SECOND), (0, FIRST)])],
        "partition thrice": lambda topic: [(topic, [(0, FIRST), (0, SECOND), (0, THIRD)])],
        "topic twice": lambda topic: [(topic, [(0, FIRST)]), (topic, [(0, SECOND)])],
        "topic in two parts": lambda topic: [(topic, [(0, FIRST)]), (topic, [(1, SECOND)])],
        "both": lambda topic: [(topic, [(0, FIRST), (1, FIRST)]), (topic, [(1, SECOND), (0, THIRD)])],
        "unknown partition twice": lambda topic: [(topic, [(0, FIRST), (9, FIRST), (9, SECOND)])],
        "broken and good": lambda topic: [(topic, [(0, BROKEN), (0, SECOND)])],
        "good and broken": lambda topic: [(topic, [(0, SECOND), (0, BROKEN)])],
        "nothing and good": lambda topic: [(topic, [(0, b""), (0, SECOND)])],
        "good and nothing": lambda topic: [(topic, [(0, SECOND), (0, b"")])],
    }
    for number, (what, way) in enumerate(ways.items()):
        topic = f"repeated-{number}"
        world.create(topic, 2)
        for acks in (-1, 1):
            for version in (3, 8, 9, 11):
                world.ask(f"{what}, acks {acks}", _produce(*way(topic), acks=acks), version)
        world.tell(f"{what}, acks 0", _produce(*way(topic), acks=0), 9)
        for partition in (0, 1):
            read_back(world, topic, f"{what}, read back {partition}", partition)
    world.ask("unknown topic twice", _produce(*[("repeated-nowhere", [(0, FIRST)])] * 2), 3, 11)
    many = [(index % 2, FIRST) for index in range(300)]
    world.create("repeated-often", 2)
    world.ask("three hundred entries", _produce(("repeated-often", many)), 9)
    read_back(world, "repeated-often")


def fetch(world: World) -> None:
    """Partitions and topics that a fetch names twice."""
    world.create("fetched-twice", 2)
    world.append("fetched-twice", FIRST, SECOND, THIRD)
    for what, offsets in {"same offset": (1, 1), "two offsets": (1, 3), "backwards": (3, 1)}.items():
        for version in (4, 7, 12, 13, 17):
            world.ask(f"partition twice, {what}", _fetch(world, version, offsets), version)
            world.ask(f"topic twice, {what}", _fetch(world, version, *[(each,) for each in offsets]), version)
    session = world.prepare(_fetch(world, 12, (0, 0), session_epoch=0), 12).session_id
    for epoch, offsets in enumerate(((0, 1), (3, 1), (1, 3)), 1):
        going_on = _fetch(world, 12, offsets, session_id=session, session_epoch=epoch)
        world.ask(f"session {epoch}", going_on, 12)
    closed = FetchRequest(max_wait_ms=0, session_id=session, session_epoch=-1)
    world.ask("session closed", closed, 12)


def _fetch(world: World, version: int, *topics: tuple[int, ...], **fields: int) -> FetchRequest:
    """A topic for each tuple, with an entry of partition 0 for each offset in it."""
    request = FetchRequest(max_wait_ms=0, min_bytes=0, **fields)
    for offsets in topics:
        entries = [
            FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            for offset in offsets
        ]
        named = FetchTopic(partitions=entries)
        if version >= 13:
            named.topic_id = world.topic_id("fetched-twice")
        else:
            named.topic = "fetched-twice"
        request.topics.append(named)
    return request


def offsets(world: World) -> None:
    """Offsets asked for, committed, fetched and deleted twice in one request."""
    world.create("twice", 2)
    world.append("twice", FIRST, SECOND, THIRD)
    times = offsets_at("twice", -1)
    times.topics[0].partitions += offsets_at("twice", -2).topics[0].partitions
    world.ask("two times", times)
    _leader_epochs(world)
    _delete_records(world)
    _group_offsets(world)


def _leader_epochs(world: World) -> None:
    for what, epochs in {"one epoch": (0, 0), "two epochs": (0, -1)}.items():
        entries = [OffsetForLeaderPartition(partition=0, leader_epoch=epoch) for epoch in epochs]
        in_one = [OffsetForLeaderTopic(topic="twice", partitions=entries)]
        apart = [OffsetForLeaderTopic(topic="twice", partitions=[entry]) for entry in entries]
        world.ask(f"{what}, partition twice", OffsetForLeaderEpochRequest(topics=in_one))
        world.ask(f"{what}, topic twice", OffsetForLeaderEpochRequest(topics=apart))


def _delete_records(world: World) -> None:
    for what, offsets in {"up": (0, 1), "down": (3, 2)}.items():
        entries = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in offsets]
        in_one = [DeleteRecordsTopic(name="twice", partitions=entries)]
        apart = [DeleteRecordsTopic(name="twice", partitions=[entry]) for entry in entries]
        world.ask(f"delete {what}, topic twice", DeleteRecordsRequest(topics=apart, timeout_ms=5000))
        world.ask(f"delete {what}, partition twice", DeleteRecordsRequest(topics=in_one, timeout_ms=5000))
        world.ask(f"start after {what}", offsets_at("twice", -2), 7)


def _group_offsets(world: World) -> None:
    entries = [OffsetCommitRequestPartition(partition_index=0, committed_offset=each) for each in (5, 3)]
    apart = [OffsetCommitRequestTopic(name="twice", partitions=[entry]) for entry in entries]
    fetched = OffsetFetchRequestTopics(name="twice", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="repeats", topics=[fetched, fetched])
    by_one = OffsetFetchRequestTopic(name="twice", partition_indexes=[0])
    for version in (2, 9):
        world.ask("commit", OffsetCommitRequest(group_id="repeats", topics=apart), version)
        one = OffsetFetchRequest(group_id="repeats", topics=[by_one, by_one])
        world.ask(f"committed by v{version}", one, 5)
    world.ask("committed, group twice", OffsetFetchRequest(groups=[group, group]), 8, 9)
    gone = OffsetDeleteRequestTopic(
        name="twice", partitions=[OffsetDeleteRequestPartition(partition_index=0)] * 2
    )
    world.ask("delete offsets, partition twice", OffsetDeleteRequest(group_id="repeats", topics=[gone]), 0)
    world.ask("delete offsets, topic twice", OffsetDeleteRequest(group_id="repeats", topics=[gone, gone]), 0)


def administration(world: World) -> None:
    """Topics, resources and partitions that an administrator names twice."""
    world.create("managed", 2)
    topic = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="managed", configuration_keys=["retention.ms"]
    )
    broker = DescribeConfigsResource(
        resource_type=BROKER, resource_name="0", configuration_keys=["num.partitions"]
    )
    other = DescribeConfigsResource(resource_type=TOPIC, resource_name="nowhere")
    world.ask("describe topic", DescribeConfigsRequest(resources=[topic, topic]))
    world.ask("describe broker", DescribeConfigsRequest(resources=[broker, broker]))
    world.ask("describe unknown topic", DescribeConfigsRequest(resources=[other, other]))
    altered = [
        legacy.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="managed",
            configs=[legacy.AlterableConfig(name="retention.ms", value=value)],
        )
        for value in ("1000", "2000")
    ]
    world.ask("alter", legacy.AlterConfigsRequest(resources=altered))
    twice = CreateTopicsRequest(topics=[wanted("made"), wanted("made", 3)], timeout_ms=20_000)
    world.ask("create", twice)
    _partitions_twice(world)


def _partitions_twice(world: World) -> None:
    asked: dict[str, Request] = {
        "log dirs": DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic="managed", partitions=[0])] * 2
        ),
        "elect": ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="managed", partitions=[0])] * 2),
        "producers": DescribeProducersRequest(
            topics=[TopicRequest(name="managed", partition_indexes=[0, 0])] * 2
        ),
        "reassign": AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="managed",
                    partitions=[
                        ReassignablePartition(partition_index=0, replicas=[0]),
                        ReassignablePartition(partition_index=0, replicas=[7]),
                    ],
                )
            ]
        ),
        "reassignments": ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name="managed", partition_indexes=[0, 0])] * 2
        ),
    }
    for what, request in asked.items():
        world.ask(what, request)
