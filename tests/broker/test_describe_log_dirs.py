"""DescribeLogDirs: what each directory holds, and what is said of one that is out of service."""

import pytest

from barnabas.broker.authorizer import Operation
from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from broker_world import ME, OTHER, batch


def held(result):
    """The replicas in a directory: (size, lag) of each."""
    return {
        (topic.name, each.partition_index): (each.partition_size, each.offset_lag)
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key
    }


def named(*partitions):
    topics = [DescribableLogDirTopic(topic=topic, partitions=[index]) for topic, index in partitions]
    return DescribeLogDirsRequest(topics=topics)


@pytest.mark.parametrize("version", range(1, 6))
def test_all_partitions_with_their_sizes(make_world, version):
    world = make_world(barnabas_api_profile="4.4")
    world.create(partitions=2)
    world.produce(records=batch(3))
    size = world.partition().log.size
    [result] = world.send(DescribeLogDirsRequest(topics=None), version).results

    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, "/data")
    assert held(result) == {("orders", 0): (size, 0), ("orders", 1): (0, 0)}
    assert size > 0
    assert (0 < result.usable_bytes <= result.total_bytes) == (version >= 4)


@pytest.mark.parametrize(("version", "cordoned"), [(4, False), (5, True)])
def test_a_cordoned_directory_says_so(make_world, version, cordoned):
    world = make_world(barnabas_api_profile="4.4")
    world.logs.cordon(["/data/"])
    [result] = world.send(DescribeLogDirsRequest(topics=None), version).results

    assert (result.error_code, result.is_cordoned) == (ErrorCode.NONE, cordoned)


def test_only_what_is_named_and_is_there(world):
    world.create(partitions=2)
    [result] = world.send(named(("orders", 1), ("orders", 7), ("nowhere", 0), ("orders", 1)), 4).results
    [nothing] = world.send(named(), 4).results

    assert held(result) == {("orders", 1): (0, 0)}
    assert (nothing.error_code, nothing.topics) == (ErrorCode.NONE, [])


def test_a_log_lags_as_far_as_its_end_is_below_the_high_watermark_and_never_less_than_nothing(world):
    world.create(isr=(ME, OTHER))
    world.produce(records=batch(3))
    assert world.partition().log.high_watermark == 0
    [result] = world.send(named(("orders", 0)), 4).results

    assert held(result)["orders", 0][1] == 0


def test_a_log_that_no_partition_serves_has_no_lag(world):
    world.create()
    world.replicas.log_directory_failed([world.partition().tp])
    [result] = world.send(named(("orders", 0)), 4).results

    assert held(result) == {("orders", 0): (0, -1)}


def test_a_directory_out_of_service_says_so(world):
    world.create()
    world.logs.directories[0].go_offline(OSError(5, "Input/output error"))
    [result] = world.send(DescribeLogDirsRequest(topics=None), 4).results

    assert (result.error_code, result.log_dir, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, "/data", [])
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)


def test_who_may_not_describe_the_cluster_sees_nothing(make_world):
    class Nobody:
        def authorize(self, request, operation, resource, name, count=None, **_logs):
            return operation is not Operation.DESCRIBE

    world = make_world(authorizer=Nobody())
    answer = world.send(DescribeLogDirsRequest(topics=None), 4)

    assert (answer.error_code, answer.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
