"""DeleteRecords: what is deleted, what is refused, and how long the answer waits for the followers."""

import pytest

from barnabas.broker.authorizer import Operation
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.log.config import LogConfig
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from broker_world import ME, OTHER, SMALL_INDEX, batch

TOPIC_ID = b"\5" * 16


def delete(*wanted, timeout_ms=1000):
    """A request; each wanted is (topic, partition, offset)."""
    topics = [
        DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
        )
        for topic, partition, offset in wanted
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def answers(response):
    return {
        (topic.name, each.partition_index): (ErrorCode.of(each.error_code).name, each.low_watermark)
        for topic in response.topics
        for each in topic.partitions
    }


def fetch_as_follower(world, offset, log_start_offset):
    """What broker 2 says with a fetch: how far it has come and where its log begins."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=0,
        fetch_offset=offset,
        log_start_offset=log_start_offset,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=OTHER, replica_epoch=-1),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )
    return world.send(request, 17).responses[0].partitions[0]


def test_where_the_logs_start_is_written_down_once_before_the_answer(world):
    """A kill within a minute brought the records back."""
    world.create(partitions=3)
    for partition in range(3):
        world.produce(partition=partition, records=batch(3))
    written = []
    disk = world.disk
    write_atomic = disk.write_atomic

    def watched(path, data, *, sync=True):
        if path.endswith("/log-start-offset-checkpoint"):
            written.append((data.splitlines()[2:], sync))
        write_atomic(path, data, sync=sync)

    disk.write_atomic = watched
    world.send(delete(*(("orders", partition, 2) for partition in range(3))), 2)

    assert written == [([b"orders %d 2" % partition for partition in range(3)], False)]


@pytest.fixture
def replicated(world):
    """A partition of two replicas with three records that both have."""
    world.create(isr=(ME, OTHER), topic_id=TOPIC_ID)
    world.produce(records=batch(3))
    fetch_as_follower(world, 3, 0)
    assert world.partition().log.high_watermark == 3
    return world


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("offset", "start"), [(2, 2), (-1, 3), (3, 3), (0, 0)])
def test_the_log_begins_at_the_offset_or_at_the_high_watermark(world, version, offset, start):
    world.create()
    world.produce(records=batch(3))

    assert answers(world.send(delete(("orders", 0, offset)), version)) == {("orders", 0): ("NONE", start)}
    assert world.partition().log.log_start_offset == start


def test_records_that_followers_lack_are_not_deleted(replicated):
    replicated.produce(records=batch(2), acks=1)
    assert replicated.partition().log.log_end_offset == 5
    answer = replicated.start(delete(("orders", 0, -1)), 2)
    fetch_as_follower(replicated, 3, 3)

    assert answers(answer()) == {("orders", 0): ("NONE", 3)}
    assert answers(replicated.send(delete(("orders", 0, 4)), 2)) == {
        ("orders", 0): ("OFFSET_OUT_OF_RANGE", -1)
    }


def test_a_log_start_never_moves_back(world):
    world.create()
    world.produce(records=batch(3))
    world.send(delete(("orders", 0, 2)), 2)

    assert answers(world.send(delete(("orders", 0, 1)), 2)) == {("orders", 0): ("NONE", 2)}


def test_each_partition_is_refused_with_kafkas_code(make_world):
    class NotSecret:
        def authorize(self, request, operation, resource, name, count=None, **_logs):
            return operation is not Operation.DELETE or name != "secret"

    world = make_world(authorizer=NotSecret())
    for name in ("orders", "secret", "__consumer_offsets"):
        world.create(name)
    world.log_config = LogConfig(segment_index_bytes=SMALL_INDEX, cleanup_policy=("compact",))
    world.create("compacted")
    world.create("elsewhere", leader=OTHER, isr=(ME, OTHER))
    world.produce(records=batch(3))
    wanted = [
        ("orders", 0, 4),
        ("secret", 0, 0),
        ("__consumer_offsets", 0, 0),
        ("compacted", 0, 0),
        ("elsewhere", 0, 0),
        ("nowhere", 0, 0),
        ("orders", 7, 0),
    ]

    assert answers(world.send(delete(*wanted), 2)) == {
        ("orders", 0): ("OFFSET_OUT_OF_RANGE", -1),
        ("secret", 0): ("TOPIC_AUTHORIZATION_FAILED", -1),
        ("__consumer_offsets", 0): ("INVALID_TOPIC_EXCEPTION", -1),
        ("compacted", 0): ("POLICY_VIOLATION", -1),
        ("elsewhere", 0): ("NOT_LEADER_OR_FOLLOWER", -1),
        ("nowhere", 0): ("UNKNOWN_TOPIC_OR_PARTITION", -1),
        ("orders", 7): ("UNKNOWN_TOPIC_OR_PARTITION", -1),
    }
    assert answers(world.send(delete(("orders", 0, -2)), 2)) == {("orders", 0): ("OFFSET_OUT_OF_RANGE", -1)}
    assert world.partition().log.log_start_offset == 0


def test_the_answer_waits_until_the_follower_has_moved_its_own_start(replicated):
    answer = replicated.start(delete(("orders", 0, 2)), 2)
    assert answer() is None
    found = fetch_as_follower(replicated, 3, 0)
    assert found.log_start_offset == 2, "the follower hears of it"
    assert answer() is None, "a fetch that still names the old start is no news"
    fetch_as_follower(replicated, 3, 2)

    assert answers(answer()) == {("orders", 0): ("NONE", 2)}
    assert replicated.replicas.delete_records_purgatory.size == 0


def test_the_time_runs_out_with_the_low_watermark_as_it_was(replicated):
    answer = replicated.start(delete(("orders", 0, 2), timeout_ms=500), 2)
    replicated.clock.advance(499)
    assert answer() is None
    replicated.clock.advance(1)

    assert answers(answer()) == {("orders", 0): ("REQUEST_TIMED_OUT", 0)}
    assert replicated.partition().log.log_start_offset == 2, "what is deleted stays deleted"


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_without_time_it_is_deleted_here_at_least(replicated, timeout_ms):
    answer = replicated.start(delete(("orders", 0, 2), timeout_ms=timeout_ms), 2)
    replicated.clock.advance(0)

    assert answers(answer()) == {("orders", 0): ("REQUEST_TIMED_OUT", 0)}


def test_a_dead_follower_is_not_waited_for(replicated):
    answer = replicated.start(delete(("orders", 0, 2)), 2)
    assert answer() is None
    replicated.update_metadata({}, brokers=(ME,))

    assert answers(answer()) == {("orders", 0): ("NONE", 2)}


def test_who_loses_the_leadership_says_so_at_once(replicated):
    answer = replicated.start(delete(("orders", 0, 2)), 2)
    replicated.create(leader=OTHER, isr=(ME, OTHER), epoch=1, topic_id=TOPIC_ID)

    assert answers(answer()) == {("orders", 0): ("NOT_LEADER_OR_FOLLOWER", -1)}


def test_what_cannot_be_deleted_does_not_keep_the_rest_waiting(replicated):
    replicated.create("alone")
    answer = replicated.start(delete(("orders", 0, 2), ("alone", 0, 9)), 2)
    fetch_as_follower(replicated, 3, 2)

    assert answers(answer()) == {("orders", 0): ("NONE", 2), ("alone", 0): ("OFFSET_OUT_OF_RANGE", -1)}


def test_a_failed_directory_is_a_storage_error(replicated):
    answer = replicated.start(delete(("orders", 0, 2)), 2)
    replicated.replicas.log_directory_failed([TopicPartition("orders", 0)])

    assert answers(answer()) == {("orders", 0): ("KAFKA_STORAGE_ERROR", -1)}


def test_a_reader_of_what_is_deleted_is_answered(world):
    """A consumer that waits for more bytes than there are hears at once that its offset is gone."""
    world.create(topic_id=TOPIC_ID)
    world.produce(records=batch(3))
    request = FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1 << 20,
        max_bytes=1 << 20,
        topics=[
            FetchTopic(
                topic_id=TOPIC_ID,
                partitions=[FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)],
            )
        ],
    )
    answer = world.start(request, 17)
    assert answer() is None
    world.send(delete(("orders", 0, 2)), 2)

    assert answer().responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_records_of_the_same_turn_are_deleted_too(world):
    world.create()
    world.replicas.appender.begin_turn()
    world.produce(records=batch(3))
    answer = world.send(delete(("orders", 0, -1)), 2)
    world.replicas.appender.end_turn()

    assert answers(answer) == {("orders", 0): ("NONE", 3)}


def test_one_partition_that_is_done_does_not_answer_for_another(replicated):
    replicated.create("alone")
    replicated.produce("alone", records=batch(3))
    answer = replicated.start(delete(("alone", 0, 1), ("orders", 0, 2)), 2)
    assert answer() is None
    fetch_as_follower(replicated, 3, 2)

    assert answers(answer()) == {("orders", 0): ("NONE", 2), ("alone", 0): ("NONE", 1)}


def test_of_a_partition_that_is_named_twice_the_last_offset_counts(world):
    world.create()
    world.produce(records=batch(3))

    assert answers(world.send(delete(("orders", 0, 3), ("orders", 0, 1)), 2)) == {("orders", 0): ("NONE", 1)}
    assert world.partition().log.log_start_offset == 1


def test_a_partition_that_this_broker_has_and_the_metadata_has_not_is_unknown(world):
    world.create()
    world.produce(records=batch(3))
    world.delete("orders")

    assert answers(world.send(delete(("orders", 0, 1)), 2)) == {
        ("orders", 0): ("UNKNOWN_TOPIC_OR_PARTITION", -1)
    }
    assert world.partition().log.log_start_offset == 0
