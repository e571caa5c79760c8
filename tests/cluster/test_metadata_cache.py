"""What UpdateMetadata requests make of the cache, and what clients of each listener are told."""

import logging

import pytest

from barnabas.cluster.metadata.cache import MetadataCache, PartitionAnswer
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.network.endpoints import Endpoint
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from metadata_updates import apply, delta

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID_T, ID_U = b"t" * 16, b"u" * 16


def broker(broker_id, *listeners, rack=None):
    endpoints = [
        UpdateMetadataEndpoint(port=number, host=f"h{broker_id}", listener=name, security_protocol=number % 4)
        for number, name in enumerate(listeners or ("A", "B"))
    ]
    return UpdateMetadataBroker(id=broker_id, endpoints=endpoints, rack=rack)


def partition(number, leader, *, replicas=(1, 2), isr=None, offline=(), epoch=3):
    return UpdateMetadataPartitionState(
        partition_index=number,
        leader=leader,
        leader_epoch=epoch,
        isr=list(replicas if isr is None else isr),
        replicas=list(replicas),
        offline_replicas=list(offline),
        zk_version=4,
        controller_epoch=1,
    )


def update(*partitions, brokers=None, topic="t", topic_id=ID_T, controller=1):
    topics = [
        UpdateMetadataTopicState(topic_name=topic, topic_id=topic_id, partition_states=list(partitions))
    ]
    return UpdateMetadataRequest(
        controller_id=controller,
        topic_states=topics if partitions else [],
        live_brokers=[broker(1), broker(2)] if brokers is None else brokers,
    )


@pytest.fixture
def cache():
    made = MetadataCache(1)
    apply(made, update(partition(0, 1), partition(1, 2)))
    return made


def test_an_empty_cache_knows_nothing():
    cache = MetadataCache(1)

    assert (cache.controller_id, cache.topics(), cache.alive_brokers()) == (-1, [], [])
    assert cache.partition(T0) is None
    assert cache.leader_endpoint(T0, "A") is None
    assert cache.topic_id("t") == ZERO_UUID
    described = cache.snapshot.describe("t", "A", endpoints_as_errors=False, listeners_as_errors=True)
    assert list(described) == []


def test_it_answers_what_it_was_told(cache):
    assert cache.controller_id == 1
    assert cache.topics() == ["t"]
    assert "t" in cache
    assert cache.partition(T0).leader == 1
    assert cache.partition(T0).partition_epoch == 4
    assert list(cache.partitions("t")) == [0, 1]
    assert (cache.topic_id("t"), cache.topic_name(ID_T)) == (ID_T, "t")
    assert cache.leader_endpoint(T1, "B") == Endpoint("B", "h2", 1, "SSL")
    assert cache.broker_endpoint(2, "nope") is None
    assert cache.alive_broker(2).endpoint("A").port == 0


def test_brokers_are_replaced_and_partitions_are_a_delta(cache):
    apply(cache, update(partition(0, 2, epoch=4), brokers=[broker(2), broker(3)]))

    assert sorted(each.id for each in cache.alive_brokers()) == [2, 3]
    assert (cache.partition(T0).leader, cache.partition(T0).leader_epoch) == (2, 4)
    assert cache.partition(T1).leader == 2


def test_an_update_without_partitions_keeps_them(cache):
    assert apply(cache, update(brokers=[broker(1)], controller=-1)) == []

    assert cache.partition(T0).leader == 1
    assert cache.controller_id == -1


def test_leader_minus_two_deletes(cache):
    assert apply(cache, update(partition(0, -2))) == [T0]
    assert cache.partition(T0) is None
    assert cache.partition(T1) is not None
    assert cache.topic_id("t") == ID_T

    assert apply(cache, update(partition(1, -2))) == [T1]
    assert "t" not in cache
    assert cache.topic_name(ID_T) is None


def test_a_partition_deleted_and_made_again_in_one_request_is_there(cache):
    request = update(partition(0, -2))
    request.topic_states += update(partition(0, 2), topic_id=ID_U).topic_states

    assert apply(cache, request) == []
    assert cache.partition(T0).leader == 2
    assert (cache.topic_id("t"), cache.topic_name(ID_T)) == (ID_U, None)


def test_a_topic_without_id_loses_the_one_it_had(cache):
    apply(cache, update(partition(0, 1), topic_id=ZERO_UUID))

    assert cache.topic_id("t") == ZERO_UUID


def test_a_reader_keeps_the_state_it_took(cache):
    before = cache.snapshot
    apply(cache, update(partition(0, 2), partition(1, -2), brokers=[broker(9)]))

    assert before.partitions["t"][0].leader == 1
    assert 1 in before.partitions["t"]
    assert sorted(before.brokers) == [1, 2]


@pytest.mark.parametrize(
    ("leader", "brokers", "listener", "listeners_as_errors", "error", "shown"),
    [
        (1, None, "A", True, ErrorCode.NONE, 1),
        (-1, None, "A", True, ErrorCode.LEADER_NOT_AVAILABLE, -1),
        (1, [broker(2)], "A", True, ErrorCode.LEADER_NOT_AVAILABLE, -1),
        (1, [broker(1, "A"), broker(2)], "B", True, ErrorCode.LISTENER_NOT_FOUND, -1),
        (1, [broker(1, "A"), broker(2)], "B", False, ErrorCode.LEADER_NOT_AVAILABLE, -1),
    ],
)
def test_leaders_by_listener(leader, brokers, listener, listeners_as_errors, error, shown):
    cache = MetadataCache(2)
    apply(cache, update(partition(0, leader, offline=[1]), brokers=brokers))
    (answer,) = cache.snapshot.describe(
        "t", listener, endpoints_as_errors=False, listeners_as_errors=listeners_as_errors
    )

    assert answer == PartitionAnswer(error, 0, shown, 3, (1, 2), (1, 2), (1,))


def test_version_0_leaves_unreachable_replicas_out():
    cache = MetadataCache(1)
    apply(cache, update(partition(0, 1, replicas=(1, 2, 3), isr=(1, 3)), brokers=[broker(1), broker(2)]))
    (answer,) = cache.snapshot.describe("t", "A", endpoints_as_errors=True, listeners_as_errors=False)

    assert answer.error is ErrorCode.REPLICA_NOT_AVAILABLE
    assert (answer.replicas, answer.isr) == ((1, 2), (1,))


@pytest.mark.parametrize("version", range(9))
def test_requests_of_every_version(version):
    request = update(partition(0, 1))
    if version < 5:
        request.ungrouped_partition_states = request.topic_states[0].partition_states
        request.ungrouped_partition_states[0].topic_name = "t"
        request.topic_states = []
    if version == 0:
        for each in request.live_brokers:
            each.v0_host, each.v0_port, each.endpoints = each.endpoints[0].host, 7, []
    decoded, _ = UpdateMetadataRequest.decode(b"".join(request.encode(version)), version)
    cache = MetadataCache(1)
    apply(cache, decoded)

    assert cache.partition(T0).leader == 1
    listener = "PLAINTEXT" if version < 3 else "A"
    assert cache.leader_endpoint(T0, listener).host == "h1"
    assert cache.topic_id("t") == (ID_T if version >= 7 else ZERO_UUID)


def test_a_listener_of_an_unknown_protocol_is_told_to_clients(cache):
    strange = UpdateMetadataEndpoint(port=9, host="h", listener="A", security_protocol=17881)
    apply(
        cache, update(brokers=[UpdateMetadataBroker(id=1, endpoints=[strange]), UpdateMetadataBroker(id=2)])
    )
    found = cache.broker_endpoint(1, "A")
    assert (found.host, found.port) == ("h", 9)
    assert cache.broker_endpoint(2, "PLAINTEXT") is None


def test_a_topic_of_another_id_is_found_by_that_only(cache):
    apply(cache, update(partition(0, 1), topic_id=ID_U))
    assert (cache.topic_name(ID_T), cache.topic_name(ID_U), cache.topic_id("t")) == (None, "t", ID_U)

    apply(cache, update(partition(0, 1), topic="u", topic_id=ID_T))
    assert (cache.topic_name(ID_T), cache.topic_name(ID_U)) == ("u", "t")


def test_two_updates_must_not_cross(cache):
    first = cache.apply_in_slices(delta(update(partition(0, 2))))
    next(first)
    apply(cache, update(partition(1, 1)))

    with pytest.raises(AssertionError, match="two updates crossed"):
        list(first)


def test_different_listeners_are_logged(caplog, cache):
    with caplog.at_level(logging.ERROR, "barnabas"):
        apply(cache, update(brokers=[broker(1, "A"), broker(2, "A", "B")]))

        apply(cache, update(brokers=[broker(1, "A"), broker(2, "A", "B")]))
    assert len(caplog.records) == 1, "it is said once, although each update names all brokers"
    assert "listeners_not_identical" in caplog.text
    assert repr(cache) == "<MetadataCache 1 topics brokers=[1, 2] controller=1>"


def test_listeners_that_differ_in_another_way_or_again_are_news(caplog, cache):
    same, more, other = ([broker(1, "A"), broker(2, *names)] for names in (("A",), ("A", "B"), ("A", "C")))
    for brokers in (more, other, same, more):
        apply(cache, update(brokers=brokers))

    assert len([each for each in caplog.messages if "listeners_not_identical" in each]) == 3
