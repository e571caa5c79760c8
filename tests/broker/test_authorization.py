"""A denying authorizer: what each API asks, in which order, and what a client without rights hears."""

import re

import pytest

from barnabas.broker.authorizer import Operation, Resource
from barnabas.core.errors import ErrorCode
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.stop_replica import StopReplicaRequest
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest

TOPIC_ID = b"\7" * 16


class Denying:
    """Denies everything but what is allowed; notes what was asked."""

    def __init__(self):
        self.allowed = set()
        self.asked = []
        self.deny = False

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        assert (request.principal, request.client_host) == ("User:ANONYMOUS", "127.0.0.1")
        self.asked.append((operation.name, resource.name, name))
        return not self.deny or (operation, resource, name) in self.allowed

    def authorize_any(self, request, operation, resource):
        self.asked.append((operation.name, resource.name, "*"))
        return not self.deny or (operation, resource, "*") in self.allowed


@pytest.fixture
def authorizer():
    return Denying()


@pytest.fixture
def world(make_world, authorizer):
    world = make_world(authorizer=authorizer)
    world.create(topic_id=TOPIC_ID)
    authorizer.asked.clear()
    authorizer.deny = True
    return world


def code(number):
    return ErrorCode.of(number).name


CLUSTER = "kafka-cluster"


def test_produce(world, authorizer):
    response = world.produce()

    assert code(response.responses[0].partition_responses[0].error_code) == "TOPIC_AUTHORIZATION_FAILED"
    assert authorizer.asked == [("WRITE", "TOPIC", "orders")]
    assert world.partition().log.log_end_offset == 0
    with pytest.raises(CloseConnection, match="TOPIC_AUTHORIZATION_FAILED"):
        world.produce(acks=0)


def test_produce_asks_for_the_transaction_first(world, authorizer, make_batch):
    authorizer.allowed = {(Operation.WRITE, Resource.TOPIC, "orders")}
    records = make_batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    response = world.produce(records=records)

    found = response.responses[0].partition_responses[0].error_code
    assert code(found) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def fetch(**more):
    topic = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=100)])
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic], **more)


def test_fetch(world, authorizer):
    response = world.send(fetch(), 12)
    assert code(response.responses[0].partitions[0].error_code) == "TOPIC_AUTHORIZATION_FAILED"
    response = world.send(fetch(replica_id=2), 12)
    assert code(response.responses[0].partitions[0].error_code) == "TOPIC_AUTHORIZATION_FAILED"
    assert authorizer.asked == [("READ", "TOPIC", "orders"), ("CLUSTER_ACTION", "CLUSTER", CLUSTER)]


def test_list_offsets(world, authorizer):
    topic = ListOffsetsTopic(
        name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
    )
    response = world.send(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)

    assert code(response.topics[0].partitions[0].error_code) == "TOPIC_AUTHORIZATION_FAILED"
    assert authorizer.asked == [("DESCRIBE", "TOPIC", "orders")]


def test_offset_for_leader_epoch(world, authorizer):
    entry = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="orders", partitions=[entry])])
    response = world.send(request, 4)

    assert code(response.topics[0].partitions[0].error_code) == "TOPIC_AUTHORIZATION_FAILED"
    assert authorizer.asked == [("CLUSTER_ACTION", "CLUSTER", CLUSTER), ("DESCRIBE", "TOPIC", "orders")]
    authorizer.allowed = {(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER)}
    assert world.send(request, 4).topics[0].partitions[0].error_code == 0


def test_metadata_does_not_tell_whether_a_topic_exists(world, authorizer):
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("orders", "absent")])
    response = world.send(request, 9)

    assert [(topic.name, code(topic.error_code)) for topic in response.topics] == [
        ("orders", "TOPIC_AUTHORIZATION_FAILED"),
        ("absent", "TOPIC_AUTHORIZATION_FAILED"),
    ]
    assert world.send(MetadataRequest(topics=None), 9).topics == []
    assert world.topics.own == {}


def test_metadata_creates_only_for_those_who_may(world, authorizer):
    authorizer.allowed = {(Operation.DESCRIBE, Resource.TOPIC, name) for name in ("one", "two")}
    authorizer.allowed.add((Operation.CREATE, Resource.TOPIC, "two"))
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("one", "two")])

    codes = {topic.name: code(topic.error_code) for topic in world.send(request, 9).topics}

    assert codes == {"one": "TOPIC_AUTHORIZATION_FAILED", "two": "LEADER_NOT_AVAILABLE"}
    assert list(world.topics.own) == ["two"]
    assert authorizer.asked[2:] == [
        ("CREATE", "CLUSTER", CLUSTER),
        ("CREATE", "TOPIC", "one"),
        ("CREATE", "TOPIC", "two"),
    ]


def test_metadata_by_id_hides_the_name(world):
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=TOPIC_ID, name=None)])
    [topic] = world.send(request, 12).topics

    assert (topic.name, topic.topic_id, code(topic.error_code)) == (
        None,
        TOPIC_ID,
        "TOPIC_AUTHORIZATION_FAILED",
    )


def test_create_topics(world, authorizer):
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    [result] = world.send(CreateTopicsRequest(topics=[topic], timeout_ms=0), 7).topics

    assert (code(result.error_code), result.error_message) == (
        "TOPIC_AUTHORIZATION_FAILED",
        "Authorization failed.",
    )
    assert authorizer.asked == [
        ("CREATE", "CLUSTER", CLUSTER),
        ("CREATE", "TOPIC", "new"),
        ("DESCRIBE_CONFIGS", "TOPIC", "new"),
    ]
    authorizer.allowed = {
        (Operation.CREATE, Resource.TOPIC, "new"),
        (Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER),  # for the controller's own requests
    }
    [result] = world.send(CreateTopicsRequest(topics=[topic], timeout_ms=500), 7).topics
    assert (result.error_code, code(result.topic_config_error_code)) == (0, "TOPIC_AUTHORIZATION_FAILED")
    assert (result.num_partitions, result.configs) == (-1, [])


def test_delete_topics(world, authorizer):
    [result] = world.send(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1), 5).responses
    assert (result.name, code(result.error_code)) == ("orders", "TOPIC_AUTHORIZATION_FAILED")
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=TOPIC_ID)], timeout_ms=1)
    [result] = world.send(by_id, 6).responses
    assert (result.name, code(result.error_code)) == (None, "TOPIC_AUTHORIZATION_FAILED")
    assert "orders" in world.cache


def test_describe_configs(world):
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in ((2, "orders"), (4, "1"))
        ]
    )
    results = world.send(request, 4).results

    assert [code(each.error_code) for each in results] == [
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
    ]
    assert [each.configs for each in results] == [[], []]


def test_describe_cluster_and_api_versions_ask_nothing(world, authorizer):
    assert world.send(DescribeClusterRequest(), 1).error_code == 0
    assert world.send(ApiVersionsRequest(), 0).error_code == 0
    assert authorizer.asked == []
    hidden = world.send(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert hidden.cluster_authorized_operations == 0


def test_init_producer_id(world, authorizer):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    assert code(world.send(request, 4).error_code) == "CLUSTER_AUTHORIZATION_FAILED"
    assert authorizer.asked == [("IDEMPOTENT_WRITE", "CLUSTER", CLUSTER), ("WRITE", "TOPIC", "*")]
    authorizer.allowed = {(Operation.WRITE, Resource.TOPIC, "*")}
    assert world.send(request, 4).error_code == 0
    named = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1)
    assert code(world.send(named, 4).error_code) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (LeaderAndIsrRequest(controller_epoch=9), 7),
        (StopReplicaRequest(controller_epoch=9), 4),
        (UpdateMetadataRequest(controller_epoch=9), 8),
        (ControlledShutdownRequest(), 3),
        (AlterPartitionRequest(), 3),
        (AllocateProducerIdsRequest(), 0),
    ],
    ids=lambda value: ApiKey(value.api).name if hasattr(value, "api") else None,
)
def test_only_brokers_may_speak_as_brokers(world, authorizer, request_, version):
    assert code(world.send(request_, version).error_code) == "CLUSTER_AUTHORIZATION_FAILED"
    assert authorizer.asked == [("CLUSTER_ACTION", "CLUSTER", CLUSTER)]
    assert world.replicas.controller_epoch == 1


def metadata_of(topic, _partition):
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9


def produce_to(topic, partition):
    # The records are whole, broken or none: a client without the right hears nothing of that either.
    data = PartitionProduceData(index=partition, records=None if partition else b"broken")
    entry = TopicProduceData(name=topic, partition_data=[data])
    return ProduceRequest(acks=1, timeout_ms=100, topic_data=[entry]), 9


def fetch_from(topic, partition):
    wanted = FetchPartition(partition=partition, partition_max_bytes=100, current_leader_epoch=77)
    return FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic=topic, partitions=[wanted])]), 12


def offsets_of(topic, partition):
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=-77)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]), 7


def epochs_of(topic, partition):
    wanted = OffsetForLeaderPartition(partition=partition, leader_epoch=0, current_leader_epoch=77)
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]), 4


def commit_to(topic, partition):
    wanted = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)
    entry = OffsetCommitRequestTopic(name=topic, partitions=[wanted])
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[entry]), 8


def committed_in(topic, partition):
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[wanted])]), 8


def forget_in(topic, partition):
    wanted = OffsetDeleteRequestPartition(partition_index=partition)
    entry = OffsetDeleteRequestTopic(name=topic, partitions=[wanted])
    return OffsetDeleteRequest(group_id="g", topics=[entry]), 0


def create(topic, partition):
    entry = CreatableTopic(name=topic, num_partitions=partition + 1, replication_factor=1)
    return CreateTopicsRequest(topics=[entry], timeout_ms=0), 7


def delete(topic, _partition):
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=0), 6


def configs_of(topic, _partition):
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)
    return DescribeConfigsRequest(resources=[resource]), 4


HIDDEN_ID = b"\6" * 16


@pytest.fixture
def consumers(make_world, authorizer):
    """Topics `orders` and `hidden`, and a client that may read the group `g` and see only `orders`."""
    settings = {"barnabas_api_profile": "4.4", "group_consumer_assignment_interval_ms": "0"}
    world = make_world(authorizer=authorizer, **settings)
    world.create("orders", 1, topic_id=TOPIC_ID)
    world.create("hidden", 1, topic_id=HIDDEN_ID)
    world.create("__consumer_offsets", 50)
    world.clock.advance(1)
    authorizer.asked.clear()
    authorizer.deny = True
    authorizer.allowed = {(operation, Resource.GROUP, "g") for operation in Operation}
    authorizer.allowed.add((Operation.DESCRIBE, Resource.TOPIC, "orders"))
    return world


def joining(*topics, **fields):
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=list(topics),
        **fields,
    )


def test_a_consumer_may_describe_the_topics_that_it_names(consumers, authorizer):
    refused = consumers.send(joining("orders", "hidden"), 1)
    assert code(refused.error_code) == "TOPIC_AUTHORIZATION_FAILED"
    assert authorizer.asked == [
        ("READ", "GROUP", "g"),
        ("DESCRIBE", "TOPIC", "orders"),
        ("DESCRIBE", "TOPIC", "hidden"),
    ]
    assert code(consumers.send(joining("orders"), 1).error_code) == "NONE"


def test_an_expression_stands_for_no_topic_that_its_consumer_may_not_describe(consumers):
    epoch = consumers.send(joining(subscribed_topic_regex=".*"), 1).member_epoch
    consumers.clock.advance(1)
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
    told = consumers.send(beat, 1)
    assert [topic.topic_id for topic in told.assignment.topic_partitions] == [TOPIC_ID]


def test_a_group_with_a_hidden_topic_is_not_described(consumers, authorizer):
    authorizer.deny = False
    assert code(consumers.send(joining("orders", "hidden"), 1).error_code) == "NONE"
    authorizer.deny = True

    (group,) = consumers.send(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (code(group.error_code), group.members) == ("TOPIC_AUTHORIZATION_FAILED", [])
    authorizer.allowed.add((Operation.DESCRIBE, Resource.TOPIC, "hidden"))
    (group,) = consumers.send(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (code(group.error_code), len(group.members)) == ("NONE", 1)


@pytest.mark.parametrize(
    "ask",
    [
        metadata_of,
        produce_to,
        fetch_from,
        offsets_of,
        epochs_of,
        commit_to,
        committed_in,
        forget_in,
        create,
        delete,
        configs_of,
    ],
    ids=lambda ask: ask.__name__,
)
def test_no_answer_tells_whether_a_hidden_topic_exists(world, authorizer, ask):
    authorizer.deny = False
    world.create("__consumer_offsets", 50)
    world.clock.advance(1000)
    # A group that exists, so that the coordinator has no refusal of its own.
    world.send(commit_to("orders", 0)[0], 8)
    authorizer.deny = True
    authorizer.allowed = {(operation, Resource.GROUP, "g") for operation in Operation}

    for partition in (0, 99):
        existing = world.send(*ask("orders", partition))
        absent = world.send(*ask("absent", partition))

        # TOPIC_AUTHORIZATION_FAILED is 29, and nothing but the name differs.
        assert "error_code=29" in text_of(existing)
        assert text_of(existing).replace("orders", "absent") == text_of(absent)


def text_of(response):
    """The whole response, without the addresses of its buffers."""
    return re.sub(r"0x[0-9a-f]+", "", repr(response))


def test_only_what_a_client_asked_for_by_name_is_denied_aloud(make_world):
    """The audit has a line at INFO for what a request names; other questions are the broker's own."""
    aloud = []

    class Listening(Denying):
        def authorize(self, request, operation, resource, name, count=None, *, log_if_denied=True, **_logs):
            if log_if_denied:
                aloud.append((operation.name, name, 1 if count is None else count(name)))
            return not self.deny

    authorizer = Listening()
    world = make_world(authorizer=authorizer)
    world.create()
    authorizer.deny = True

    def said(request, version):
        aloud.clear()
        world.send(request, version)
        return list(aloud)

    assert said(MetadataRequest(topics=None), 12) == []
    assert said(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 12) == [
        ("DESCRIBE", "orders", 1)
    ]
    assert said(InitProducerIdRequest(transactional_id=None), 4) == []
    creation = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1)])
    assert said(creation, 7) == [("CREATE", "new", 1)]
    epochs = OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition(partition=0)])
    assert said(OffsetForLeaderEpochRequest(topics=[epochs]), 4) == [("DESCRIBE", "orders", 1)]
    partitions = [FetchPartition(partition=index, partition_max_bytes=100) for index in (0, 1)]
    fetching = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="orders", partitions=partitions)])
    assert said(fetching, 12) == [("READ", "orders", 2)]
    refused = world.send(fetching, 12).responses[0].partitions
    assert [code(each.error_code) for each in refused] == ["TOPIC_AUTHORIZATION_FAILED"] * 2
