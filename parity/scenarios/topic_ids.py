"""Topics by id (KIP-516): Produce 13, OffsetCommit 10 and OffsetFetch 10, asked of brokers that serve them;
Kafka 3.9 does not.
"""

import time
from typing import Final

from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from parity.scenarios.batches import batch, from_producer
from parity.scenarios.coordinators import coordinator_is_ready
from parity.world import CREATE_VERSION, METADATA_VERSION, World

PRODUCE, COMMIT, FETCH = 13, 10, 10
NOBODYS: Final = b"u" * 16
NONE: Final = bytes(16)
PATIENCE_S: Final = 20


def _produce(*topics: tuple[bytes, int], acks: int = 1, records: bytes | None = None) -> ProduceRequest:
    """Pairs of an id and a partition, each an entry of its own."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=index, records=records or batch(b"v"))],
            )
            for topic_id, index in topics
        ],
    )


def _commit(group: str, *topics: tuple[bytes, int], member: str = "", epoch: int = -1) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[OffsetCommitRequestPartition(partition_index=index, committed_offset=3)],
            )
            for topic_id, index in topics
        ],
    )


def _fetch(group: str, *topics: tuple[bytes, int]) -> OffsetFetchRequest:
    """All topics of the group where none is named."""
    named = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[index]) for each, index in topics]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=named or None)])


def _delete(world: World, topic: str) -> None:
    """Deletes a topic and waits until another may have its name."""
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
    assert world.prepare(gone, 6).responses[0].error_code == 0
    wanted = CreatableTopic(name=topic, num_partitions=2, replication_factor=1)
    deadline = time.monotonic() + PATIENCE_S
    again = CreateTopicsRequest(topics=[wanted], validate_only=True)
    while world.prepare(again, CREATE_VERSION).topics[0].error_code:
        assert time.monotonic() < deadline, f"{world.side!r} keeps {topic}"
        time.sleep(0.05)


def _made(world: World, topic: str) -> bytes:
    """The id of a new topic of two partitions, once it takes records."""
    world.create(topic, 2)
    ask = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    deadline = time.monotonic() + PATIENCE_S
    # A node of KRaft answers CreateTopics before its broker knows the topic.
    while world.prepare(ask, METADATA_VERSION).topics[0].error_code:
        assert time.monotonic() < deadline, f"{world.side!r} does not make {topic}"
        time.sleep(0.05)
    topic_id = world.topic_id(topic)
    for index in range(2):
        nothing = _produce((topic_id, index), records=batch(b"first"))
        while world.prepare(nothing, PRODUCE).responses[0].partition_responses[0].error_code:
            assert time.monotonic() < deadline, f"{world.side!r} does not take records for {topic}"
            time.sleep(0.05)
    return topic_id


def topic_ids(world: World) -> None:
    """A topic that was made anew, one that was never there, and what is wrong besides."""
    old = _made(world, "by-id")
    _delete(world, "by-id")
    new = _made(world, "by-id")
    other = _made(world, "by-id-too")
    for name, topic_id in (("new", new), ("old", old), ("nobody's", NOBODYS), ("none", NONE)):
        world.ask(f"produce {name}", _produce((topic_id, 0)), PRODUCE)
        world.ask(f"produce {name}, torn", _produce((topic_id, 0), records=batch(b"v")[:-1]), PRODUCE)
        world.ask(f"produce {name}, acks 7", _produce((topic_id, 0), acks=7), PRODUCE)
        world.ask(f"produce {name}, partition 9", _produce((topic_id, 9)), PRODUCE)
    world.ask("produce several", _produce((new, 0), (other, 1), (old, 0), (NOBODYS, 1), (new, 1)), PRODUCE)
    world.ask("produce twice", _produce((new, 0), (new, 0), (NOBODYS, 0), (NOBODYS, 0)), PRODUCE)
    transactional = from_producer(77, 0, 0, b"v", transactional=True)
    world.ask("produce nobody's transaction", _produce((NOBODYS, 0), records=transactional), PRODUCE)

    coordinator_is_ready(world)
    for name, topic_id in (("new", new), ("old", old), ("nobody's", NOBODYS), ("none", NONE)):
        world.ask(f"commit {name}", _commit("by-id", (topic_id, 0)), COMMIT)
        world.ask(f"fetch {name}", _fetch("by-id", (topic_id, 0)), FETCH)
        world.ask(f"fetch {name} of nobody", _fetch("by-id-nobody", (topic_id, 0)), FETCH)
    world.ask("commit several", _commit("by-id", (new, 1), (new, 9), (old, 0), (NOBODYS, 1)), COMMIT)
    world.ask("commit of a stranger", _commit("by-id", (new, 1), (old, 0), member="m", epoch=3), COMMIT)
    world.ask("fetch a partition that is not there", _fetch("by-id", (new, 9)), FETCH)
    world.ask("commit the other", _commit("by-id", (other, 0)), COMMIT)
    world.ask("fetch all", _fetch("by-id"), FETCH)
