"""CreatePartitions: what a handler does itself; what is decided behind it is tested in tests/cluster."""

import pytest

from barnabas.broker.authorizer import Operation, Resource
from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


class Only:
    """Who may alter these topics only."""

    def __init__(self, *topics):
        self.topics = topics

    def authorize(self, principal, host, operation, resource, name):
        return (operation, resource) != (Operation.ALTER, Resource.TOPIC) or name in self.topics


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
