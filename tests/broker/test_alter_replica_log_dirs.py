"""AlterReplicaLogDirs: partitions move between directories while they serve;
DescribeLogDirs shows them on their way.
"""

import errno
from itertools import pairwise

import pytest

from barnabas.broker.authorizer import Operation
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.log import creation
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.records.batch import parse_header
from broker_world import World, batch

TP = TopicPartition("orders", 0)


@pytest.fixture
def two_disks():
    return World(directories=("/data", "/other"))


def alter(world, path, topic="orders", partition=0, version=2):
    named = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[named])])
    [result] = world.send(request, version).results
    [answer] = result.partitions
    assert (result.topic_name, answer.partition_index) == (topic, partition)
    return ErrorCode.of(answer.error_code)


def replicas(world):
    """(directory, size, lag, is future) of each log."""
    results = world.send(DescribeLogDirsRequest(topics=None), 4).results
    return [
        (directory.log_dir, one.partition_size, one.offset_lag, one.is_future_key)
        for directory in results
        for topic in directory.topics
        for one in topic.partitions
    ]


def other_than(world):
    here = world.partition().log.directory.rpartition("/")[0]
    return "/other" if here == "/data" else "/data"


@pytest.mark.parametrize("version", range(3))
def test_a_partition_moves_and_goes_on(two_disks, version):
    two_disks.create()
    for _ in range(3):
        two_disks.produce(records=batch(3))
    log, target = two_disks.partition().log, other_than(two_disks)
    size = log.size

    assert alter(two_disks, target, version=version) is ErrorCode.NONE
    [current, future] = sorted(replicas(two_disks), key=lambda one: one[3])
    assert (current[1:], future) == ((size, 0, False), (target, 0, 9, True))
    two_disks.produce(records=batch(2))
    two_disks.clock.advance(0)

    assert replicas(two_disks) == [(target, log.size, 0, False)]
    assert two_disks.partition().log is log
    assert (log.log_end_offset, log.high_watermark) == (11, 11)
    assert two_disks.produce(records=batch(1)).responses[0].partition_responses[0].base_offset == 11


def test_many_small_partitions_move_one_in_a_turn(two_disks):
    two_disks.create(partitions=60)
    logs = [two_disks.partition(partition=number).log for number in range(60)]
    for number in range(60):
        two_disks.produce(partition=number)
        alter(two_disks, "/other", partition=number)
    there = [0]

    def look():
        there.append(sum(log.directory.startswith("/other/") for log in logs))
        if there[-1] < 60:
            two_disks.clock.call_soon(look)

    two_disks.clock.call_soon(look)
    two_disks.clock.advance(0)

    assert max(after - before for before, after in pairwise(there[1:])) == 1, "others are served between two"
    assert {log.directory.rpartition("/")[0] for log in logs} == {"/other"}
    assert [log.log_end_offset for log in logs] == [1] * 60
    assert not any(is_future for *_, is_future in replicas(two_disks))


def test_moves_that_wait_make_room_for_others_when_they_end(two_disks):
    two_disks.create(partitions=5)
    logs = [two_disks.partition(partition=number).log for number in range(5)]
    homes = [log.directory.rpartition("/")[0] for log in logs]
    cleaned_until_ms = two_disks.clock.time_ms() + 150
    two_disks.logs.is_cleaning = lambda log: two_disks.clock.time_ms() < cleaned_until_ms
    for number, home in enumerate(homes):
        alter(two_disks, "/other" if home == "/data" else "/data", partition=number)
    two_disks.clock.advance(100)
    assert [log.directory.rpartition("/")[0] for log in logs] == homes, "two move, and wait for the cleaner"

    two_disks.clock.advance(400)

    assert all(not log.directory.startswith(f"{home}/") for log, home in zip(logs, homes, strict=True))


def test_what_cannot_be_moved_says_why(two_disks):
    two_disks.create()
    assert alter(two_disks, "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert alter(two_disks, "/data", topic="unknown") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(two_disks, "/data", topic="t" * 249) is ErrorCode.INVALID_TOPIC_EXCEPTION
    two_disks.replicas.log_directory_failed([TP])
    assert alter(two_disks, "/data") is ErrorCode.KAFKA_STORAGE_ERROR
    two_disks.logs.directories[1].go_offline(OSError(5, "Input/output error"))
    assert alter(two_disks, "/other") is ErrorCode.KAFKA_STORAGE_ERROR


def test_who_may_not_alter_the_cluster_moves_nothing(make_world):
    class ReadOnly:
        def authorize(self, request, operation, resource, name, count=None, **_logs):
            return operation is not Operation.ALTER

    world = make_world(authorizer=ReadOnly(), directories=("/data", "/other"))
    world.create()
    assert alter(world, other_than(world)) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert len(replicas(world)) == 1


def test_to_ask_for_the_directory_of_now_gives_the_move_up(two_disks):
    two_disks.create()
    target = other_than(two_disks)
    here = "/data" if target == "/other" else "/other"
    assert alter(two_disks, target) is ErrorCode.NONE
    assert alter(two_disks, here) is ErrorCode.NONE
    assert [one[3] for one in replicas(two_disks)] == [False]
    two_disks.clock.advance(0)

    assert [(one[0], one[3]) for one in replicas(two_disks)] == [(here, False)]


def test_to_ask_once_more_for_where_it_moves_goes_on_with_what_is_copied(two_disks):
    two_disks.create()
    two_disks.produce(records=batch(5))
    target = other_than(two_disks)
    two_disks.replicas.quotas.alter_log_dirs.bound = 0
    alter(two_disks, target)
    two_disks.clock.advance(0)
    future = two_disks.logs.futures.get(TP)

    assert alter(two_disks, target) is ErrorCode.NONE
    assert (two_disks.logs.futures.get(TP), future.log_end_offset) == (future, 5)


@pytest.mark.parametrize("target", ["/data", "/other"])
def test_a_partition_that_is_not_there_yet_is_made_where_it_was_asked_for(two_disks, target):
    assert alter(two_disks, target) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    two_disks.create()
    assert two_disks.partition().log.directory == f"{target}/orders-0"


def test_a_log_that_is_cut_while_it_moves_is_moved_as_it_is_then(two_disks):
    two_disks.create()
    for _ in range(4):
        two_disks.produce(records=batch(1))
    log, target = two_disks.partition().log, other_than(two_disks)
    two_disks.replicas.quotas.alter_log_dirs.bound = 0
    alter(two_disks, target)
    two_disks.clock.advance(0)
    future = two_disks.logs.futures.get(TP)
    assert future.log_end_offset == 4, "the first piece goes, then the quota holds"
    log.truncate_to(1)
    two_disks.produce(records=batch(2))
    assert log.log_end_offset == 3
    two_disks.replicas.quotas.alter_log_dirs.bound = 2**63 - 1
    two_disks.clock.advance(100)

    assert log.directory == f"{target}/orders-0"
    end = log.read(1, 1 << 20).records.read()
    assert (log.log_end_offset, len(end), len(log.segments)) == (3, len(batch(2)), 1)


def test_a_move_that_a_stop_interrupted_goes_on_with_the_next_role(two_disks):
    two_disks.create()
    two_disks.produce(records=batch(5))
    log, target = two_disks.partition().log, other_than(two_disks)
    two_disks.replicas.quotas.alter_log_dirs.bound = 0
    alter(two_disks, target)
    two_disks.clock.advance(0)
    two_disks.replicas.log_dir_moves.close()
    two_disks.clock.advance(200)
    assert log.directory != f"{target}/orders-0"

    two_disks.replicas.log_dir_moves._closed = False
    two_disks.replicas.quotas.alter_log_dirs.bound = 2**63 - 1
    two_disks.create("another")
    two_disks.clock.advance(0)
    assert log.directory == f"{target}/orders-0"


def stop(world, *, delete):
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=delete)
    topic = StopReplicaTopicState(topic_name="orders", partition_states=[state])
    request = StopReplicaRequest(controller_id=1, controller_epoch=1, broker_epoch=7, topic_states=[topic])
    [answer] = world.send(request, 4).partition_errors
    assert answer.error_code == 0


def test_a_topic_that_is_deleted_while_it_moves_is_gone_from_both(two_disks):
    two_disks.create()
    two_disks.produce(records=batch(3))
    alter(two_disks, other_than(two_disks))
    assert len(replicas(two_disks)) == 2

    stop(two_disks, delete=True)
    two_disks.clock.advance(0)

    assert replicas(two_disks) == []
    two_disks.create("orders", epoch=1)
    assert [(size, is_future) for _, size, _, is_future in replicas(two_disks)] == [(0, False)]


def test_a_replica_that_is_stopped_while_it_moves_keeps_its_records(two_disks):
    two_disks.create()
    two_disks.produce(records=batch(3))
    size = two_disks.partition().log.size
    alter(two_disks, other_than(two_disks))

    stop(two_disks, delete=False)
    two_disks.clock.advance(0)
    two_disks.create("orders", epoch=1)
    two_disks.clock.advance(0)

    assert [(held, is_future) for _, held, _, is_future in replicas(two_disks)] == [(size, False)]


def test_only_so_many_partitions_to_come_are_remembered(two_disks, monkeypatch):
    monkeypatch.setattr(creation, "PREFERRED_MAX", 3)
    for partition in range(4):
        assert alter(two_disks, "/other", partition=partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # What has no directory of its choice goes to the one with the fewest logs.
    two_disks.create("orders", partitions=4)

    homes = [two_disks.partition(partition=number).log.directory.rpartition("/")[0] for number in range(4)]
    assert homes == ["/data", "/other", "/other", "/other"]


@pytest.fixture
def held(two_disks):
    """A partition with four records whose move stands after its first piece, and where it moves to."""
    two_disks.create()
    for _ in range(4):
        two_disks.produce(records=batch(1))
    two_disks.replicas.quotas.alter_log_dirs.bound = 0
    target = other_than(two_disks)
    alter(two_disks, target)
    two_disks.clock.advance(0)
    assert two_disks.logs.futures.get(TP).log_end_offset == 4
    return two_disks, target


def release(world):
    world.replicas.quotas.alter_log_dirs.bound = 2**63 - 1
    world.clock.advance(100)


def offsets_read(log):
    """The base offset of each batch that a reader finds, from the start of the log on."""
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        header = parse_header(log.read(offset, 1, min_one_message=True).records.read())
        found.append(header.base_offset)
        offset = header.last_offset + 1
    return found


def test_another_target_while_it_moves_is_the_one_that_counts():
    world = World(directories=("/data", "/other", "/third"))
    world.create()
    world.produce(records=batch(3))
    log = world.partition().log
    first, second = (
        each for each in ("/data", "/other", "/third") if each != log.directory.rpartition("/")[0]
    )
    assert alter(world, first) is ErrorCode.NONE
    assert alter(world, second) is ErrorCode.NONE
    world.clock.advance(0)

    assert [(one[0], one[3]) for one in replicas(world)] == [(second, False)]
    assert offsets_read(log) == [0]


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_partitions_move_at_a_time_than_there_are_threads(threads):
    world = World(directories=("/data", "/other"), num_replica_alter_log_dirs_threads=threads)
    world.create(partitions=6)
    at_work = set()
    world.logs.is_cleaning = lambda log: at_work.add(log.tp) or True  # each move waits where it asks
    for number in range(6):
        log = world.partition(partition=number).log
        alter(world, "/other" if log.directory.startswith("/data/") else "/data", partition=number)
    world.clock.advance(1_000)

    assert len(at_work) == threads


def test_a_move_that_fails_is_tried_again(held):
    world, target = held
    log = world.partition().log
    world.disk.fail(f"{target}/", "write", errno.ENOSPC)
    world.produce(records=batch(1))
    release(world)
    assert not log.directory.startswith(f"{target}/"), "there is no room"
    world.disk.heal()
    world.clock.advance(1_000)

    assert log.directory == f"{target}/orders-0"
    assert offsets_read(log) == [0, 1, 2, 3, 4]


def test_records_that_are_deleted_before_they_were_copied_are_left_out(held):
    world, target = held
    log = world.partition().log
    for _ in range(4):
        world.produce(records=batch(1))
    world.partition().delete_records(6)
    release(world)

    assert log.directory == f"{target}/orders-0"
    assert (log.log_start_offset, offsets_read(log)) == (6, [6, 7])


def test_a_log_that_begins_again_below_what_was_copied_is_copied_from_its_new_start(two_disks):
    """As a follower's does whose leader was elected uncleanly; its epoch may be the same."""
    two_disks.create()
    for _ in range(4):
        two_disks.produce(records=batch(1))
    log, target = two_disks.partition().log, other_than(two_disks)
    two_disks.partition().delete_records(3)
    two_disks.replicas.quotas.alter_log_dirs.bound = 0
    alter(two_disks, target)
    two_disks.clock.advance(0)
    two_disks.replicas.log_dir_moves.close()
    two_disks.clock.advance(200)
    assert two_disks.logs.futures.get(TP).log_start_offset == 3

    log.truncate_fully_and_start_at(1)
    for _ in range(5):
        two_disks.produce(records=batch(1))
    two_disks.replicas.log_dir_moves._closed = False
    two_disks.create("another")
    release(two_disks)

    assert log.directory == f"{target}/orders-0"
    assert (log.log_start_offset, offsets_read(log)) == (1, [1, 2, 3, 4, 5])


def test_a_bug_is_answered_in_the_place_of_each_partition():
    """The response has no field for all of it: a client waited, and its connection was closed."""

    class Broken:
        def authorize(self, *_question):
            raise RuntimeError("a bug")

    world = World(authorizer=Broken())
    topic = AlterReplicaLogDirTopic(name="orders", partitions=[0, 3])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/data", topics=[topic])])
    [result] = world.send(request, 2).results

    assert result.topic_name == "orders"
    assert [(each.partition_index, ErrorCode.of(each.error_code).name) for each in result.partitions] == [
        (0, "UNKNOWN_SERVER_ERROR"),
        (3, "UNKNOWN_SERVER_ERROR"),
    ]


def test_nothing_is_moved_to_a_cordoned_directory(two_disks):
    """KIP-1066; also no partition that is not there, as on a genuine Kafka 4.4.0."""
    two_disks.create()
    two_disks.logs.cordon(["/data", "/other"])

    for topic in ("orders", "nosuch"):
        assert alter(two_disks, "/other", topic) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
