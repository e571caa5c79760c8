"""Topics as the controller's UpdateMetadata tells them."""

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.coordinator.consumer.topics import CachedTopics
from barnabas.core.ids import ZERO_UUID
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from metadata_updates import apply

ID = bytes(range(16))


def broker(number, rack):
    endpoint = UpdateMetadataEndpoint(port=9092 + number, host="h", listener="PLAINTEXT", security_protocol=0)
    return UpdateMetadataBroker(id=number, rack=rack, endpoints=[endpoint])


def topic(name, topic_id, *replicas):
    states = [
        UpdateMetadataPartitionState(
            topic_name=name, partition_index=number, leader=ids[0], replicas=list(ids), isr=list(ids)
        )
        for number, ids in enumerate(replicas)
    ]
    return UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)


def test_a_topic_has_its_partitions_and_the_racks_of_its_replicas():
    cache = MetadataCache(1)
    topics = CachedTopics(cache)
    assert (topics.describe("a"), topics.name_of(ID), list(topics.names())) == (None, None, [])
    apply(
        cache,
        UpdateMetadataRequest(
            live_brokers=[broker(1, "r1"), broker(2, "r2"), broker(3, None)],
            topic_states=[topic("a", ID, (1, 2), (3,), (3, 9, 1)), topic("old", ZERO_UUID, (1,))],
        ),
    )
    described = topics.describe("a")
    assert (described.id, described.name, described.partition_count) == (ID, "a", 3)
    assert described.racks == {0: {"r1", "r2"}, 2: {"r1"}}
    assert topics.describe("old") is None
    assert topics.name_of(ID) == "a"
    assert set(topics.names()) == {"a", "old"}
