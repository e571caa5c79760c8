"""What is kept of a topic's Metadata answer never outlives what it was made of."""

import random

import pytest

from barnabas.broker import described_topics
from barnabas.broker.described_topics import DescribedTopics
from barnabas.network.peer import ListenerId, Peer
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.update_metadata import UpdateMetadataPartitionState
from broker_world import World

VERSIONS = range(13)
NAMES = ["a", "b", "c"]


def everything(world, version):
    return world.send(MetadataRequest(topics=[] if version == 0 else None), version)


def afresh(world, version):
    """The answer of a broker that keeps nothing."""
    kept, world.services.described_topics = world.services.described_topics, DescribedTopics()
    try:
        return everything(world, version)
    finally:
        world.services.described_topics = kept


def change(world, rng):
    """One update of the controller: topics that come, change, go and come back; brokers that come and go."""
    name = rng.choice(NAMES)
    brokers = tuple(broker for broker in (1, 2) if broker == 1 or rng.random() < 0.8)
    states = []
    if rng.random() < 0.2:
        states = [
            UpdateMetadataPartitionState(partition_index=n, leader=-2) for n in world.cache.partitions(name)
        ]
    else:
        for index in range(rng.randint(1, 3)):
            isr = rng.sample((1, 2), rng.randint(1, 2))
            one = UpdateMetadataPartitionState(
                partition_index=index,
                leader=rng.choice((-1, *isr)),
                leader_epoch=rng.randint(0, 2),
                isr=isr,
                replicas=[1, 2],
            )
            states.append(one)
    topic_id = bytes([NAMES.index(name) + 1, rng.randint(0, 1)] * 8)
    if name in world.cache and rng.random() < 0.2:
        states = []  # the topic's id alone
    world.update_metadata({name: states}, topic_id=topic_id, brokers=brokers)


@pytest.mark.parametrize("seed", range(20))
def test_an_answer_is_that_of_a_broker_that_keeps_nothing(seed):
    rng, world = random.Random(seed), World()
    for _ in range(15):
        change(world, rng)
        for version in rng.sample(VERSIONS, 4):
            assert everything(world, version) == afresh(world, version)
            assert everything(world, version) == afresh(world, version)


def test_only_what_changed_is_described_again(monkeypatch):
    described = []
    encode = MetadataResponse.encode_element
    monkeypatch.setattr(
        MetadataResponse,
        "encode_element",
        lambda field, topic, version: described.append(topic.name) or encode(field, topic, version),
    )
    world = World()
    for name in NAMES:
        world.create(name)
    for expected in (["a", "b", "c"], []):
        everything(world, 9)
        assert described == expected
        described.clear()
    world.create("b", epoch=1)
    everything(world, 9)
    assert described == ["b"]
    described.clear()
    world.update_metadata({}, brokers=(1,))
    everything(world, 9)
    assert described == ["a", "b", "c"]


def test_little_is_kept(monkeypatch):
    monkeypatch.setattr(described_topics, "BYTES_MAX", 200)
    world = World()
    for name in "abcdefgh":
        world.create(name, partitions=3)
        for version in VERSIONS:
            assert everything(world, version) == afresh(world, version)
    assert int(repr(world.services.described_topics).split()[-2]) <= 200


def test_two_listeners_hear_of_their_own(world):
    world.create(isr=(1,))
    assert everything(world, 9).topics[0].partitions[0].leader_id == 1
    world.peer = Peer(ListenerId("OTHER", "PLAINTEXT"), ("127.0.0.1", 0))
    assert everything(world, 9).topics[0].partitions[0].leader_id == -1
