"""Requests of administrators: what a handler does itself.
What is decided behind it is tested in tests/cluster.
"""

import pytest

from barnabas.broker.authorizer import Operation, Resource
from barnabas.cluster.leadership import ReplicaAssignment
from barnabas.cluster.metadata.config_admin import ConfigOp
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.network.errors import CloseConnection
from barnabas.protocol.election_type import ElectionType
from barnabas.protocol.messages import alter_configs, incremental_alter_configs
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


class Only:
    """Of what can be altered, these topics only."""

    def __init__(self, *topics):
        self.topics = topics

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        return operation is not Operation.ALTER or (resource is Resource.TOPIC and name in self.topics)


# -------------------------------------------------------------------------------- CreatePartitions


def more(name, count, *assignments):
    placed = [CreatePartitionsAssignment(broker_ids=list(each)) for each in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=placed or None)


@pytest.mark.parametrize("version", range(4))
def test_create_partitions(world, version):
    world.create()
    request = CreatePartitionsRequest(topics=[more("orders", 3)], timeout_ms=500)
    answer = world.start(request, version)
    assert answer() is None, "the store has them, but they have no leaders yet"
    world.clock.advance(0)

    [result] = answer().results
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert len(world.cache.partitions("orders")) == 3


def test_create_partitions_refuses_one_by_one(make_world):
    world = make_world(authorizer=Only("orders", "twice", "deleting", "placed", "absent"))
    for name in ("orders", "secret", "deleting", "placed"):
        world.create(name)
    world.controller.deleting.add("deleting")
    topics = [
        more("orders", 3),
        more("twice", 3),
        more("twice", 4),
        more("secret", 3),
        more("deleting", 3),
        more("placed", 2, (1, 2)),
        more("absent", 2),
    ]
    answer = world.start(CreatePartitionsRequest(topics=topics, timeout_ms=500), 3)
    world.clock.advance(0)
    results = {
        each.name: (ErrorCode.of(each.error_code).name, each.error_message) for each in answer().results
    }

    assert results == {
        "orders": ("NONE", None),
        "twice": ("INVALID_REQUEST", "Duplicate topic in request."),
        "secret": ("TOPIC_AUTHORIZATION_FAILED", "The topic authorization is failed."),
        "deleting": ("INVALID_TOPIC_EXCEPTION", "The topic is queued for deletion."),
        "placed": ("NONE", None),
        "absent": ("UNKNOWN_TOPIC_OR_PARTITION", "The topic 'absent' does not exist."),
    }
    assert world.topics.asked == [("orders", 3, None), ("placed", 2, [[1, 2]]), ("absent", 2, None)]


def test_create_partitions_gives_up_when_the_time_is_over(world):
    world.create()
    world.topics.leaders = False
    answer = world.start(CreatePartitionsRequest(topics=[more("orders", 2)], timeout_ms=100), 3)
    world.clock.advance(99)
    assert answer() is None
    world.clock.advance(1)

    [result] = answer().results
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    hurry = CreatePartitionsRequest(topics=[more("orders", 2)], timeout_ms=0)
    assert world.send(hurry, 3).results[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_create_partitions_may_only_validate(world):
    world.create()
    request = CreatePartitionsRequest(topics=[more("orders", 2)], timeout_ms=500, validate_only=True)

    assert world.send(request, 3).results[0].error_code == 0
    assert len(world.cache.partitions("orders")) == 1


def test_create_partitions_is_the_controllers(world):
    world.create()
    world.controller.is_active = False
    request = CreatePartitionsRequest(topics=[more("orders", 2)], timeout_ms=500)

    [result] = world.send(request, 3).results
    assert (result.error_code, result.error_message) == (ErrorCode.NOT_CONTROLLER, None)


def test_a_request_for_very_many_partitions_creates_none(make_world):
    world = make_world(barnabas_create_topics_max_partitions="10")
    world.create()
    topics = [more("orders", 9), more("absent", 3)]
    answer = world.send(CreatePartitionsRequest(topics=topics, timeout_ms=500), 3)

    assert {each.error_code for each in answer.results} == {ErrorCode.POLICY_VIOLATION}
    assert world.topics.asked == []


# ------------------------------------------------------------------------------------ ElectLeaders


def elect(*partitions, kind=ElectionType.PREFERRED, **options):
    topics = [TopicPartitions(topic=topic, partitions=list(numbers)) for topic, *numbers in partitions]
    return ElectLeadersRequest(election_type=kind, topic_partitions=topics, **{"timeout_ms": 500, **options})


def elected(answer):
    return {
        (topic.topic, each.partition_id): (ErrorCode.of(each.error_code).name, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", range(3))
def test_elect_leaders(world, version):
    world.create("moves", 2, leader=5)
    tp, other = TopicPartition("moves", 0), TopicPartition("moves", 1)
    world.controller.elections = {tp: 1, other: KafkaError(ErrorCode.ELECTION_NOT_NEEDED)}
    answer = world.start(elect(("moves", 0, 1)), version)
    assert answer() is None, "the store has it, but this broker's metadata do not"
    world.create("moves", 2, leader=1)

    assert elected(answer()) == {
        ("moves", 0): ("NONE", None),
        ("moves", 1): ("ELECTION_NOT_NEEDED", ErrorCode.ELECTION_NOT_NEEDED.message),
    }
    assert world.controller.asked == [([tp, other], ElectionType.PREFERRED)]


def test_elect_leaders_of_all_names_those_that_needed_it(world):
    world.create("a", 2, leader=5)
    world.create("b", leader=5)
    world.controller.elections = {
        TopicPartition("a", 0): KafkaError(ErrorCode.ELECTION_NOT_NEEDED),
        TopicPartition("a", 1): KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "why"),
        TopicPartition("b", 0): 5,
    }
    request = ElectLeadersRequest(topic_partitions=None, timeout_ms=500)

    assert elected(world.send(request, 2)) == {
        ("a", 1): ("PREFERRED_LEADER_NOT_AVAILABLE", "why"),
        ("b", 0): ("NONE", None),
    }


def test_a_type_of_election_that_does_not_exist_is_foreseen(world, caplog):
    world.controller.elections = {}

    answer = world.send(elect(("moves", 0), kind=-1), 2)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_elect_leaders_gives_up_when_the_time_is_over(world):
    world.create("moves", leader=5)
    world.controller.elections = {TopicPartition("moves", 0): 1}
    answer = world.start(elect(("moves", 0)), 2)
    world.clock.advance(499)
    assert answer() is None
    world.clock.advance(1)

    assert elected(answer()) == {("moves", 0): ("REQUEST_TIMED_OUT", None)}


def test_elect_leaders_waits_its_time_for_a_topic_that_is_deleted_meanwhile(world):
    world.create("moves", leader=5)
    world.controller.elections = {TopicPartition("moves", 0): 1}
    answer = world.start(elect(("moves", 0)), 2)
    world.delete("moves")
    assert answer() is None
    world.clock.advance(500)

    assert elected(answer()) == {("moves", 0): ("REQUEST_TIMED_OUT", None)}


def test_elect_leaders_is_the_controllers(world):
    world.controller.elections = KafkaError(ErrorCode.NOT_CONTROLLER)
    answer = world.send(elect(("moves", 0, 1)), 2)

    assert answer.error_code == 0
    assert elected(answer) == dict.fromkeys([("moves", 0), ("moves", 1)], ("NOT_CONTROLLER", None))


@pytest.mark.parametrize("version", range(3))
def test_elect_leaders_is_for_those_who_may_alter_the_cluster(make_world, version):
    world = make_world(authorizer=Only())
    answer = world.send(elect(("moves", 0)), version)

    assert elected(answer) == {("moves", 0): ("CLUSTER_AUTHORIZATION_FAILED", None)}
    assert answer.error_code == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED if version else 0)


def test_an_election_of_an_unknown_kind(world):
    answer = world.send(elect(("moves", 0), kind=7), 2)

    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# ----------------------------------------------------------- AlterConfigs, IncrementalAlterConfigs


def incremental(*resources, dry=False):
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in operations
                ],
            )
            for kind, name, *operations in resources
        ],
        validate_only=dry,
    )


def replacing(*resources, dry=False):
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in pairs],
            )
            for kind, name, *pairs in resources
        ],
        validate_only=dry,
    )


def altered(answer):
    return [
        (each.resource_type, each.resource_name, ErrorCode.of(each.error_code).name, each.error_message)
        for each in answer.responses
    ]


@pytest.mark.parametrize("version", range(2))
def test_incremental_alter_configs(world, version):
    request = incremental((2, "t", ("a", 0, "1"), ("b", 1, None)), (4, "", ("c", 2, "x")), dry=True)

    assert altered(world.send(request, version)) == [(2, "t", "NONE", None), (4, "", "NONE", None)]
    assert world.config_admin.asked == [
        ("topic", "t", [ConfigOp("a", 0, "1"), ConfigOp("b", 1, "")], True),
        ("broker", "", [ConfigOp("c", 2, "x")], True),
    ]


@pytest.mark.parametrize("version", range(3))
def test_alter_configs(world, version):
    request = replacing((2, "t", ("a", "1")), (4, "1", ("c", "x")))

    assert altered(world.send(request, version)) == [(2, "t", "NONE", None), (4, "1", "NONE", None)]
    assert world.config_admin.asked == [
        ("topic", "t", {"a": "1"}, False),
        ("broker", "1", {"c": "x"}, False),
    ]


def test_configs_are_refused_one_by_one(make_world):
    class Denies:
        def authorize(self, request, operation, resource, name, count=None, **_logs):
            return operation is not Operation.ALTER_CONFIGS or name == "t"

    world = make_world(authorizer=Denies())
    both = [("a", 0, "1"), ("a", 0, "2")]
    request = incremental(
        (2, "t", ("a", 0, "1")),
        (2, "twice", ("a", 0, "1")),
        (2, "twice", ("a", 0, "2")),
        (2, "other", *both),
        (2, "null", ("a", 0, None), ("b", 2, None)),
        (77, "t", ("a", 0, "1")),
        (2, "secret", ("a", 0, "1")),
        (4, "1", ("a", 0, "1")),
    )

    assert [each[2:] for each in altered(world.send(request, 1))] == [
        ("NONE", None),
        ("INVALID_REQUEST", "Each resource must appear at most once."),
        ("INVALID_REQUEST", "Each resource must appear at most once."),
        ("INVALID_REQUEST", "Error due to duplicate config keys"),
        ("INVALID_REQUEST", "Null value not supported for : a, b"),
        ("INVALID_REQUEST", "Unknown resource type 77"),
        ("TOPIC_AUTHORIZATION_FAILED", None),
        ("CLUSTER_AUTHORIZATION_FAILED", None),
    ]
    assert [name for _, name, _, _ in world.config_admin.asked] == ["t"]


def test_an_error_of_the_store_is_the_resources_own(world):
    world.config_admin.error = RuntimeError("a bug")

    assert altered(world.send(replacing((2, "t", ("a", "1"))), 2)) == [(2, "t", "UNKNOWN_SERVER_ERROR", None)]


# --------------------------------------- AlterPartitionReassignments, ListPartitionReassignments


def move(**topics):
    return AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(partition_index=number, replicas=replicas)
                    for number, replicas in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ]
    )


def test_reassignments_are_handed_on_and_answered_one_by_one(world):
    first, second, third = (TopicPartition(*each) for each in (("a", 0), ("a", 1), ("b", 0)))
    refusals = {
        first: None,
        second: KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        third: KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "why"),
    }
    world.controller.reassigned = Pending.of(refusals)
    answer = world.send(move(a={0: [1, 2], 1: None}, b={0: []}), 0)

    assert world.controller.asked == [{first: [1, 2], second: None, third: []}]
    assert (answer.error_code, answer.error_message) == (0, ""), "as Kafka leaves it"
    found = {
        (topic.name, each.partition_index): (ErrorCode.of(each.error_code).name, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
    }
    assert found == {
        ("a", 0): ("NONE", None),
        ("a", 1): ("NO_REASSIGNMENT_IN_PROGRESS", ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.message),
        ("b", 0): ("INVALID_REPLICA_ASSIGNMENT", "why"),
    }


def test_whether_the_number_of_replicas_may_change_is_handed_on_and_answered(make_world):
    world = make_world(barnabas_api_profile="4.4")
    world.controller.reassigned = Pending.of({TopicPartition("a", 0): None})
    for version, allowed in ((0, True), (1, True), (1, False)):
        request = move(a={0: [1]})
        request.allow_replication_factor_change = allowed
        answer = world.send(request, version)

        assert world.controller.allows_factor_change is allowed
        assert answer.allow_replication_factor_change is allowed


def test_reassignments_are_listed(world):
    world.controller.moving = Pending.of(
        {TopicPartition("a", 3): ReplicaAssignment((3, 1, 2), adding=(3,), removing=(1, 2))}
    )
    topics = [ListPartitionReassignmentsTopics(name="a", partition_indexes=[3, 4])]
    answer = world.send(ListPartitionReassignmentsRequest(topics=topics), 0)
    world.send(ListPartitionReassignmentsRequest(topics=None), 0)

    assert world.controller.asked == [[TopicPartition("a", 3), TopicPartition("a", 4)], None]
    [topic] = answer.topics
    [partition] = topic.partitions
    assert (topic.name, partition.partition_index, partition.replicas) == ("a", 3, [3, 1, 2])
    assert (partition.adding_replicas, partition.removing_replicas) == ([3], [1, 2])


def test_reassignments_are_the_controllers(world):
    refusal = KafkaError(ErrorCode.NOT_CONTROLLER)
    world.controller.reassigned = world.controller.moving = Pending.failed(refusal)

    for request in (move(a={0: [1]}), ListPartitionReassignmentsRequest(topics=None)):
        answer = world.send(request, 0)
        assert (answer.error_code, answer.error_message) == (refusal.code, refusal.message)


def test_reassignments_need_a_right_to_the_cluster(make_world):
    class Denies:
        def authorize(self, request, operation, resource, name, count=None, **_logs):
            return operation not in (Operation.ALTER, Operation.DESCRIBE)

    world = make_world(authorizer=Denies())
    answer = world.send(move(a={0: [1]}), 0)
    assert answer.error_code == answer.responses[0].partitions[0].error_code
    listed = world.send(ListPartitionReassignmentsRequest(topics=None), 0)

    assert {answer.error_code, listed.error_code} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


# ---------------------------------------------------------------------------------------- Envelope


def test_an_envelope_closes_the_connection(world):
    with pytest.raises(CloseConnection, match="forwarding has not been enabled"):
        world.start(EnvelopeRequest(request_data=b"x", request_principal=None), 0)
