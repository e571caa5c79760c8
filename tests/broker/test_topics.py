"""Metadata, CreateTopics, DeleteTopics, DescribeConfigs, DescribeCluster, InitProducerId, ListOffsets."""

import pytest

from barnabas.cluster.metadata.topics import NewTopic
from barnabas.cluster.store.contract import SessionExpiredError
from barnabas.core.config import Source
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.update_metadata import UpdateMetadataPartitionState

TOPIC_ID = b"\7" * 16


def ask(*names, **more):
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **more)


def codes(response):
    return {topic.name: ErrorCode.of(topic.error_code).name for topic in response.topics}


@pytest.mark.parametrize("version", range(13))
def test_metadata_of_a_topic(world, version):
    world.create(partitions=2, isr=(1, 2), epoch=4, topic_id=TOPIC_ID)

    response = world.send(ask("orders"), version)

    [topic] = response.topics
    assert [(each.partition_index, each.error_code, each.leader_id) for each in topic.partitions] == [
        (0, 0, 1),
        (1, 0, 1),
    ]
    assert (topic.partitions[0].replica_nodes, topic.partitions[0].isr_nodes) == ([1, 2], [1, 2])
    assert topic.topic_id == (TOPIC_ID if version >= 10 else ZERO_UUID)
    assert [(each.node_id, each.host, each.port) for each in response.brokers] == [
        (1, "127.0.0.1", 9091),
        (2, "127.0.0.1", 9092),
    ]
    assert response.controller_id == (1 if version else -1)
    assert response.cluster_id == ("cluster" if version >= 2 else None)


def test_topics_with_too_many_partitions_do_not_come_into_being_when_asked_for(make_world):
    world = make_world(barnabas_create_topics_max_partitions="3", num_partitions="2")

    assert codes(world.send(ask("one"), 9)) == {"one": "LEADER_NOT_AVAILABLE"}
    assert codes(world.send(ask("two", "three"), 9)) == {
        "two": "POLICY_VIOLATION",
        "three": "POLICY_VIOLATION",
    }
    assert [topic.name for topic in world.topics.asked] == ["one"]


def test_all_topics(world):
    world.create("a")
    world.create("b")

    assert set(codes(world.send(MetadataRequest(topics=None), 1))) == {"a", "b"}
    assert set(codes(world.send(MetadataRequest(topics=[]), 0))) == {"a", "b"}
    assert codes(world.send(MetadataRequest(topics=[]), 1)) == {}


def test_topics_come_into_being_when_asked_for(world):
    request = ask("fresh", "bad name!")

    assert codes(world.send(request, 9)) == {
        "bad name!": "INVALID_TOPIC_EXCEPTION",
        "fresh": "LEADER_NOT_AVAILABLE",
    }
    world.clock.advance(0)
    assert codes(world.send(ask("fresh"), 9)) == {"fresh": "NONE"}


@pytest.mark.parametrize("config", [{}, {"auto_create_topics_enable": "false"}])
def test_topics_do_not_come_into_being_where_one_side_is_against(make_world, config):
    world = make_world(**config)
    request = ask("fresh", "bad name!", allow_auto_topic_creation=bool(config))

    assert codes(world.send(request, 9)) == {
        "bad name!": "INVALID_TOPIC_EXCEPTION",
        "fresh": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert world.topics.own == {}


def test_a_session_that_ends_is_no_bug(world, caplog):
    world.topics.create = lambda topic, **_: Pending.failed(SessionExpiredError("/brokers/topics"))

    assert codes(world.send(ask("new"), 9)) == {"new": "UNKNOWN_SERVER_ERROR"}
    created = world.send(CreateTopicsRequest(topics=[new("new")], timeout_ms=500), 7)
    assert created.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    lines = [each for each in caplog.records if "creation_failed" in each.message]
    assert len(lines) == 2
    assert not any(each.exc_info for each in lines)


def test_internal_topics_have_a_configuration_of_their_own(make_world):
    world = make_world(offsets_topic_replication_factor="1")
    world.send(ask("__consumer_offsets"), 9)
    world.clock.advance(0)

    assert len(world.cache.partitions("__consumer_offsets")) == 50
    assert world.topics.own["__consumer_offsets"]["cleanup.policy"] == "compact"
    assert world.send(ask("__consumer_offsets"), 9).topics[0].is_internal


def test_too_few_brokers_for_an_internal_topic(world):
    response = world.send(ask("__consumer_offsets", "nope"), 9)

    assert codes(response)["__consumer_offsets"] == "INVALID_REPLICATION_FACTOR"
    assert {each.name: each.is_internal for each in response.topics} == {
        "__consumer_offsets": True,
        "nope": False,
    }


def test_topics_by_id(world):
    world.create(topic_id=TOPIC_ID)
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(topic_id=TOPIC_ID, name=None),
            MetadataRequestTopic(topic_id=b"\1" * 16, name=None),
        ]
    )

    assert codes(world.send(request, 12)) == {"orders": "NONE", None: "UNKNOWN_TOPIC_ID"}


@pytest.mark.parametrize(("version", "code"), [(5, "LEADER_NOT_AVAILABLE"), (6, "LEADER_NOT_AVAILABLE")])
def test_a_dead_leader(world, version, code):
    world.create()
    state = UpdateMetadataPartitionState(partition_index=0, leader=9, isr=[9], replicas=[9])
    world.update_metadata({"orders": [state]})

    [partition] = world.send(ask("orders"), version).topics[0].partitions
    assert (ErrorCode.of(partition.error_code).name, partition.leader_id) == (code, -1)


def test_authorized_operations_are_told_where_asked_for(world):
    world.create()
    request = ask(
        "orders", include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    response = world.send(request, 8)

    assert response.topics[0].topic_authorized_operations == 0b110111111000
    assert response.cluster_authorized_operations == 0b1111110100000 ^ 0b0000001000000 ^ 0b0000001000000
    assert world.send(ask("orders"), 8).topics[0].topic_authorized_operations == -(2**31)


def new(name, partitions=1, replicas=1, **more):
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **more)


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics(world, version):
    answer = world.start(CreateTopicsRequest(topics=[new("a", 3)], timeout_ms=500), version)
    assert answer() is None, "the store has it, but no partition has a leader yet"
    world.clock.advance(0)

    [result] = answer().topics
    assert (result.name, result.error_code, result.error_message) == ("a", 0, None)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        shown = {config.name: (config.value, config.config_source) for config in result.configs}
        assert shown["segment.bytes"] == ("1073741824", 5)
    assert (result.topic_id != ZERO_UUID) == (version >= 7)


def test_create_topics_refuses_one_by_one(world):
    world.create("there")
    request = CreateTopicsRequest(
        topics=[
            new("good", -1, -1),
            new("there"),
            new("twice"),
            new("twice"),
            new("__cluster_metadata"),
        ],
        timeout_ms=500,
    )
    results = {each.name: each for each in world.send(request, 7).topics}

    assert {name: ErrorCode.of(each.error_code).name for name, each in results.items()} == {
        "good": "NONE",
        "there": "TOPIC_ALREADY_EXISTS",
        "twice": "INVALID_REQUEST",
        "__cluster_metadata": "INVALID_REQUEST",
    }
    assert results["there"].error_message == "Topic 'there' already exists."
    assert results["there"].num_partitions == -1
    assert results["twice"].error_message == "Found multiple entries for this topic."


def test_create_topics_hands_on_what_is_asked_for(world):
    """What a topic may be is decided in one place, `TopicAdmin`, and tested there."""
    assigned = [CreatableReplicaAssignment(partition_index=each, broker_ids=[7, each]) for each in (1, 0)]
    settings = [CreatableTopicConfig(name="segment.bytes", value="1048576")]
    topics = [new("both", 3, 2, assignments=assigned), new("set", configs=settings)]
    world.send(CreateTopicsRequest(topics=topics, validate_only=True), 7)

    assert world.topics.asked == [
        NewTopic("both", 3, 2, {1: [7, 1], 0: [7, 0]}),
        NewTopic("set", 1, 1, configs={"segment.bytes": "1048576"}),
    ]


def test_create_topics_gives_up_when_the_time_is_over(world):
    world.topics.leaders = False
    answer = world.start(CreateTopicsRequest(topics=[new("slow")], timeout_ms=500), 7)
    world.clock.advance(499)
    assert answer() is None
    world.clock.advance(1)

    assert answer().topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_create_topics_may_only_validate(world):
    request = CreateTopicsRequest(topics=[new("a", 2)], timeout_ms=500, validate_only=True)
    [result] = world.send(request, 7).topics

    assert (result.error_code, result.num_partitions) == (0, 2)
    assert world.topics.own == {}


def test_only_the_controller_changes_topics(world):
    world.create()
    world.controller.is_active = False

    [created] = world.send(CreateTopicsRequest(topics=[new("a")], timeout_ms=1), 7).topics
    assert (created.error_code, created.error_message) == (ErrorCode.NOT_CONTROLLER, "")
    [deleted] = world.send(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1), 5).responses
    assert deleted.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics(world, version):
    world.create(topic_id=TOPIC_ID)
    request = DeleteTopicsRequest(timeout_ms=500, topic_names=["orders", "absent"])
    if version >= 6:
        request = DeleteTopicsRequest(
            timeout_ms=500,
            topics=[
                DeleteTopicState(topic_id=TOPIC_ID),
                DeleteTopicState(name="absent"),
                DeleteTopicState(topic_id=b"\1" * 16),
            ],
        )
    answer = world.start(request, version)
    assert answer() is None
    world.clock.advance(0)

    found = [(each.name, ErrorCode.of(each.error_code).name) for each in answer().responses]
    assert found[:2] == [("orders", "NONE"), ("absent", "UNKNOWN_TOPIC_OR_PARTITION")]
    assert found[2:] == ([(None, "UNKNOWN_TOPIC_ID")] if version >= 6 else [])
    assert "orders" not in world.cache


def test_delete_topics_may_be_switched_off(make_world):
    world = make_world(delete_topic_enable="false")
    world.create()
    request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1)

    assert world.send(request, 2).responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert world.send(request, 3).responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED


def test_delete_topics_gives_up_when_the_time_is_over(world):
    world.create()
    world.topics.leaders = False
    answer = world.start(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=100), 5)
    world.clock.advance(100)

    assert answer().responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def describe(resource_type, name, keys=None, **more):
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    return DescribeConfigsRequest(resources=[resource], **more)


def test_describe_configs_of_a_topic(world):
    world.create()
    world.topics.own["orders"] = {"retention.ms": "1000"}
    [result] = world.send(describe(2, "orders", include_synonyms=True, include_documentation=True), 4).results

    entries = {entry.name: entry for entry in result.configs}
    retention = entries["retention.ms"]
    assert (retention.value, retention.config_source, retention.config_type) == ("1000", 1, 5)
    assert [(each.name, each.source) for each in retention.synonyms] == [
        ("retention.ms", 1),
    ]
    assert retention.documentation
    assert entries["segment.bytes"].config_source == 5
    assert not entries["segment.bytes"].read_only


def test_describe_configs_as_a_genuine_broker_prints_them(world):
    """Every line of the golden file: key, value, and synonyms in order."""
    from pathlib import Path

    names = {1: "DYNAMIC_TOPIC_CONFIG", 4: "STATIC_BROKER_CONFIG", 5: "DEFAULT_CONFIG"}
    world.create("t1")
    world.topics.own["t1"] = {"retention.ms": "100000"}
    [result] = world.send(describe(2, "t1", include_synonyms=True), 4).results
    ours = set()
    for entry in result.configs:
        synonyms = ", ".join(f"{names[each.source]}:{each.name}={each.value}" for each in entry.synonyms)
        ours.add(f"{entry.name}={entry.value} sensitive=false synonyms={{{synonyms}}}")
    golden = Path(__file__).parents[1] / "golden" / "describe-configs-topic-all.txt"
    theirs = {line.strip() for line in golden.read_text().splitlines()[1:]}

    assert ours == theirs


def test_describe_configs_of_the_broker(make_world):
    world = make_world(message_max_bytes="2000000")
    [result] = world.send(
        describe(4, "1", ["message.max.bytes", "broker.rack"], include_synonyms=True), 4
    ).results

    entries = {entry.name: entry for entry in result.configs}
    assert set(entries) == {"message.max.bytes", "broker.rack"}
    shown = [(each.name, each.value, each.source) for each in entries["message.max.bytes"].synonyms]
    assert shown == [("message.max.bytes", "2000000", 4), ("message.max.bytes", "1048588", 5)]
    assert entries["broker.rack"].value is None
    assert entries["broker.rack"].read_only
    assert not entries["message.max.bytes"].read_only


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "message"),
    [
        (2, "absent", "UNKNOWN_TOPIC_OR_PARTITION", ""),
        (2, "bad name", "INVALID_TOPIC_EXCEPTION", "Topic name is invalid"),
        (4, "7", "INVALID_REQUEST", "Unexpected broker id, expected 1 or empty string, but received 7"),
        (4, "x", "INVALID_REQUEST", "Broker id must be an integer, but it is: x"),
        (4, " 1", "INVALID_REQUEST", "Broker id must be an integer, but it is:  1"),
        (8, "0_1", "INVALID_REQUEST", "Broker id must be an integer, but it is: 0_1"),
        (4, "\u0661", "INVALID_REQUEST", "Broker id must be an integer, but it is: \u0661"),
        (4, "2147483648", "INVALID_REQUEST", "Broker id must be an integer, but it is: 2147483648"),
        (16, "x", "INVALID_REQUEST", "Config type client-metrics is only supported on KRaft clusters"),
        (16, "", "INVALID_REQUEST", "Client metrics subscription name must not be empty"),
        (32, "x", "INVALID_REQUEST", "This most likely occurs because of a request being malformed"),
        (77, "x", "INVALID_REQUEST", "This most likely occurs because of a request being malformed"),
    ],
)
def test_describe_configs_refuses(world, resource_type, name, code, message):
    [result] = world.send(describe(resource_type, name), 4).results

    assert ErrorCode.of(result.error_code).name == code
    assert message in result.error_message
    assert (result.resource_type, result.resource_name) == (resource_type, name)


def test_a_kind_of_resource_that_there_is_not_refuses_the_whole_request(world):
    world.create()
    request = describe(2, "orders", ["retention.ms"])
    request.resources += describe(32, "group").resources

    answer = world.send(request, 4)

    assert [(ErrorCode.of(each.error_code).name, each.configs) for each in answer.results] == [
        ("INVALID_REQUEST", []),
        ("INVALID_REQUEST", []),
    ]


def test_the_keys_of_a_topic_come_in_the_order_of_a_genuine_broker(world):
    """Kafka's tools print them as they come, those of few keys in another order than those of many."""
    from pathlib import Path

    golden = Path(__file__).parents[1] / "golden" / "topic-keys-in-order.txt"
    whole, some = (part.split() for part in golden.read_text().split("\n\n"))
    world.create()

    [described] = world.send(describe(2, "orders"), 4).results
    [in_part] = world.send(describe(2, "orders", sorted(some)), 4).results
    topic = CreatableTopic(name="fresh", num_partitions=1, replication_factor=1)
    [created] = world.send(CreateTopicsRequest(topics=[topic], validate_only=True), 7).topics

    assert [entry.name for entry in described.configs] == whole
    assert [entry.name for entry in in_part.configs] == some
    assert [entry.name for entry in created.configs] == whole


@pytest.mark.parametrize("version", [5, 7])
def test_a_created_topic_says_where_its_settings_come_from(make_world, version):
    world = make_world(log_retention_ms="1000")
    of_all = world.config.with_values({"log.flush.interval.messages": "7"}, Source.DYNAMIC_DEFAULT_BROKER)
    world.config = of_all.with_values({"log.segment.bytes": "2000"}, Source.DYNAMIC_BROKER)
    world.services.config = world.config
    topic = CreatableTopic(
        name="fresh",
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="segment.ms", value="3000")],
    )

    [created] = world.send(CreateTopicsRequest(topics=[topic], validate_only=True), version).topics

    sources = {entry.name: entry.config_source for entry in created.configs}
    assert sources["segment.ms"] == 1
    assert sources["segment.bytes"] == 2
    assert sources["flush.messages"] == 3
    assert sources["retention.ms"] == 4
    assert sources["cleanup.policy"] == 5


def test_describe_cluster(world):
    response = world.send(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)

    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert [each.broker_id for each in response.brokers] == [1, 2]
    assert response.cluster_authorized_operations > 0
    wrong = world.send(DescribeClusterRequest(endpoint_type=2), 1)
    assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    unknown = world.send(DescribeClusterRequest(endpoint_type=9), 1)
    assert unknown.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_producer_ids_are_unique_and_fetched_ahead(world):
    def init(**more):
        return world.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1, **more), 4)

    ids = [init().producer_id for _ in range(2100)]

    assert ids == list(range(2100))
    assert init().producer_epoch == 0
    assert init(producer_id=5, producer_epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    assert init(producer_id=5, producer_epoch=3).error_code == 0


def test_producer_ids_while_the_controller_is_away(world):
    world.blocks.error = ErrorCode.NOT_CONTROLLER
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)

    assert world.send(request, 4).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.blocks.error = ErrorCode.NONE
    assert world.send(request, 4).error_code == 0


def list_offset(world, timestamp, version=9, *, replica_id=-1, isolation=0, epoch=-1, partition=0, times=1):
    entry = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[
            ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(**entry) for _ in range(times)])
        ],
    )
    found = world.send(request, version).topics[0].partitions[0]
    return ErrorCode.of(found.error_code).name, found.timestamp, found.offset, found.leader_epoch


@pytest.mark.parametrize("level", [2, 5, -1])
def test_list_offsets_at_an_isolation_that_there_is_not(world, level):
    world.create()

    assert list_offset(world, -1, isolation=level)[0] == "UNKNOWN_SERVER_ERROR"
    assert list_offset(world, -1, isolation=level, replica_id=2)[0] == "NONE", "followers read everything"


def test_list_offsets(world, make_batch):
    world.create(epoch=3)
    now = world.clock.time_ms()
    world.produce(records=make_batch(3, timestamp=now))
    world.produce(records=make_batch(3, timestamp=now - 1000))

    assert list_offset(world, -1) == ("NONE", -1, 6, 3)
    assert list_offset(world, -2) == ("NONE", -1, 0, 3)
    assert list_offset(world, -3) == ("NONE", now + 2, 2, 3)
    assert list_offset(world, -4) == ("NONE", -1, 0, 3)
    assert list_offset(world, -5) == ("NONE", -1, -1, -1)
    assert list_offset(world, now + 1) == ("NONE", now + 1, 1, 3)
    assert list_offset(world, now + 9) == ("NONE", -1, -1, -1)
    assert list_offset(world, -1, 1) == ("NONE", -1, 6, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 9), (-100, 9)])
def test_special_times_need_their_version(world, timestamp, version):
    world.create()

    assert list_offset(world, timestamp, version) == ("UNSUPPORTED_VERSION", -1, -1, -1)


def test_list_offsets_sees_what_the_asker_may_see(world):
    world.create(isr=(1, 2), epoch=0)
    world.produce()

    assert list_offset(world, -1)[2] == 0, "consumers: the high watermark"
    assert list_offset(world, -1, isolation=1)[2] == 0
    assert list_offset(world, -1, replica_id=2)[2] == 1, "followers: the end"
    assert list_offset(world, world.clock.time_ms()) == ("NONE", -1, -1, -1)


def test_list_offsets_of_committed_data_ends_where_a_transaction_is_open(world, make_batch):
    world.create()
    world.produce()
    records = make_batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    world.replicas.appender.append(TopicPartition("orders", 0), bytearray(records), 1)

    assert list_offset(world, -1)[2] == 2
    assert list_offset(world, -1, isolation=1)[2] == 1


def test_list_offsets_errors(world):
    world.create(isr=(1, 2), epoch=0)
    world.produce()
    assert list_offset(world, -1, times=2)[0] == "INVALID_REQUEST"
    assert list_offset(world, -1, partition=9)[0] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert list_offset(world, -1, epoch=4)[0] == "UNKNOWN_LEADER_EPOCH"
    world.create(isr=(1, 2), epoch=1)  # this epoch starts at 1, the high watermark is 0
    assert list_offset(world, -1)[0] == "OFFSET_NOT_AVAILABLE"
    assert [list_offset(world, -1, version)[0] for version in (4, 5)] == [
        "LEADER_NOT_AVAILABLE",
        "OFFSET_NOT_AVAILABLE",
    ]
    assert list_offset(world, -2)[0] == "NONE"
    world.create(leader=2, isr=(2, 1), epoch=2)
    assert list_offset(world, -1)[0] == "NOT_LEADER_OR_FOLLOWER"
    assert list_offset(world, -1, replica_id=-2)[0] == "NONE", "the debugging consumer asks anybody"


def test_offset_for_leader_epoch(world):
    world.create(epoch=1)
    world.produce()
    world.create(epoch=4)

    def ask_epoch(epoch, partition=0, current=-1):
        entry = OffsetForLeaderPartition(
            partition=partition, leader_epoch=epoch, current_leader_epoch=current
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=2, topics=[OffsetForLeaderTopic(topic="orders", partitions=[entry])]
        )
        [found] = world.send(request, 4).topics[0].partitions
        return ErrorCode.of(found.error_code).name, found.leader_epoch, found.end_offset

    assert ask_epoch(1) == ("NONE", 1, 1)
    assert ask_epoch(3) == ("NONE", 1, 1)
    assert ask_epoch(4) == ("NONE", 4, 1)
    assert ask_epoch(9) == ("NONE", -1, -1)
    assert ask_epoch(1, current=3) == ("FENCED_LEADER_EPOCH", -1, -1)
    assert ask_epoch(1, partition=9) == ("UNKNOWN_TOPIC_OR_PARTITION", -1, -1)


def test_configs_of_a_resource_that_is_named_often_are_told_once(world):
    world.create()
    names = [(4, "1"), (4, "01"), (2, "orders"), (4, "1"), (2, "orders"), (2, "no"), (2, "no")]
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in names
    ]
    some = DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=["num.io.threads", "no.such.key"]
    )

    results = world.send(DescribeConfigsRequest(resources=[*resources, some, some]), 4).results

    # What is refused is as small as the question, and answered as often, as in Kafka.
    told = [(each.resource_type, each.resource_name) for each in results]
    assert told == [(4, "1"), (2, "orders"), (2, "no"), (2, "no"), (4, "1")]
    assert [config.name for config in results[-1].configs] == ["num.io.threads"]


def creation(*names, **more):
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000, **more)


def test_what_a_client_asks_behind_a_change_of_topics_waits_for_it(world):
    """Kafka handles one request of a connection at a time:
    a topic can be deleted right behind its creation.
    """
    created = world.start(creation("orders"), 5)
    assert (created(), world.control.holds) == (None, 1)
    world.clock.advance(0)
    assert ([topic.error_code for topic in created().topics], world.control.holds) == ([0], 0)

    deleted = world.start(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
    assert (deleted(), world.control.holds) == (None, 1)
    world.clock.advance(0)
    assert ([topic.error_code for topic in deleted().responses], world.control.holds) == ([0], 0)


def test_a_change_of_topics_that_takes_too_long_lets_the_connection_go(world):
    world.topics.leaders = False
    created = world.start(creation("orders"), 5)
    assert (created(), world.control.holds) == (None, 1)
    world.clock.advance(1001)
    assert [topic.error_code for topic in created().topics] == [ErrorCode.REQUEST_TIMED_OUT]
    assert world.control.holds == 0
