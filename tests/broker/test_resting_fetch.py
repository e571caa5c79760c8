"""Sessions of many partitions in which nothing moves:
their requests cost no look at each partition, and miss nothing.
"""

from dataclasses import replace

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from barnabas.replica.fetch import REST_MS

MANY = 120
WAIT_MS = 500
TOPIC_ID = b"\7" * 16
FOLLOWER = 2


def follower_fetch(session_id=0, epoch=0, offsets=None, **more):
    """The request of a follower that names these partitions."""
    entry = {"current_leader_epoch": 0, "log_start_offset": 0, "partition_max_bytes": 1 << 20}
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, **entry) for index, offset in offsets or ()
    ]
    return FetchRequest(
        replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=-1),
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=partitions)] if partitions else [],
        **more,
    )


class Session:
    """A follower of `MANY` partitions."""

    def __init__(self, world):
        self.world = world
        world.create(partitions=MANY, isr=(1, FOLLOWER), topic_id=TOPIC_ID)
        answer = world.start(follower_fetch(offsets=[(index, 0) for index in range(MANY)]), 17)
        world.clock.advance(WAIT_MS)
        self.id = answer().session_id
        self.epoch = 0

    def ask(self, **more):
        """Sends the next request; a function that gives the answer or None."""
        self.epoch += 1
        return self.world.start(follower_fetch(self.id, self.epoch, **more), 17)

    def poll(self, **more):
        """The next request, waited for; (error, partitions that are named, with their sizes)."""
        answer = self.ask(**more)
        self.world.clock.advance(WAIT_MS)
        return named(answer())

    def last_fetch_ms(self, partition=0):
        """When the leader was last told by this partition that its follower lives."""
        return self.world.partition(partition=partition).follower(FOLLOWER, 0).last_caught_up_time_ms


def named(response):
    partitions = {
        each.partition_index: len(each.records or b"")
        for topic in response.responses
        for each in topic.partitions
    }
    return ErrorCode(response.error_code), partitions


@pytest.fixture
def session(world):
    session = Session(world)
    assert session.poll() == (ErrorCode.NONE, {}), "all is said by now"
    return session


def test_quiet_requests_do_not_look_at_partitions(session):
    looked_at = session.last_fetch_ms()
    times = [(session.poll(), session.last_fetch_ms())[1] for _ in range(3)]
    assert times == [looked_at] * 3
    assert session.world.replicas.fetch_purgatory.size == 1, "it stays under its keys"


def test_each_partition_is_looked_at_again_in_time(session):
    for _ in range(20):
        assert session.poll() == (ErrorCode.NONE, {})
        unseen_ms = session.world.clock.time_ms() - session.last_fetch_ms()
        assert unseen_ms <= REST_MS + WAIT_MS


def test_the_share_of_a_short_lag_is_short(make_world):
    session = Session(make_world(replica_lag_time_max_ms=1000))
    for _ in range(10):
        session.poll()
        assert session.world.clock.time_ms() - session.last_fetch_ms() < 1000


def test_an_append_answers_a_resumed_request_at_once(session):
    session.poll()
    answer = session.ask()
    session.world.produce(partition=7)
    error, partitions = named(answer())
    assert (error, [*partitions]) == (ErrorCode.NONE, [7])
    assert partitions[7] > 0


@pytest.mark.parametrize("while_waiting", [False, True])
def test_a_log_start_that_moved_is_in_the_next_answer(session, while_waiting):
    session.world.produce(partition=7)
    session.poll()
    session.poll(offsets=[(7, 1)])
    session.poll()
    answer = session.ask() if while_waiting else None
    session.world.partition(partition=7).delete_records(1)
    answer = answer or session.ask()
    session.world.clock.advance(WAIT_MS)

    [partition] = answer().responses[0].partitions
    assert (partition.partition_index, partition.log_start_offset) == (7, 1)


def test_retention_that_moves_a_log_start_is_in_the_next_answer(session):
    session.world.produce(partition=7)
    session.poll()
    session.poll(offsets=[(7, 1)])
    session.poll()
    log = session.world.partition(partition=7).log
    log.roll(session.world.clock.time_ms())
    log.config = replace(log.config, retention_ms=0)
    session.world.clock.advance(1)
    assert session.world.logs.clean_up_log(log) > 0
    answer = session.ask()
    session.world.clock.advance(WAIT_MS)

    [partition] = answer().responses[0].partitions
    assert (partition.partition_index, partition.log_start_offset) == (7, 1)


def test_an_append_between_two_requests_is_found_by_the_second(session):
    session.poll()
    session.world.produce(partition=7)
    _, partitions = named(session.ask()())
    assert partitions[7] > 0
    assert session.world.replicas.fetch_purgatory.size == 0


@pytest.mark.parametrize("waiting", [False, True], ids=["between", "while it waits"])
def test_a_high_watermark_that_moves_is_news(session, waiting):
    world = session.world
    world.produce(partition=7)
    session.ask()
    assert session.poll(offsets=[(7, 1)])[1] == {7: 0}, "the high watermark of its own fetch"
    session.poll()
    partition = world.partition(partition=7)
    answer = session.ask() if waiting else None
    partition.log.high_watermark = 0
    world.replicas._wake.progressed(TopicPartition("orders", 7))
    answer = answer or session.ask()
    world.clock.advance(WAIT_MS)
    assert named(answer())[1] == {7: 0}


def test_a_partition_that_is_led_elsewhere_ends_the_rest(session):
    session.poll()
    answer = session.ask()
    session.world.create(partitions=1, leader=FOLLOWER, isr=(FOLLOWER, 1), epoch=1, topic_id=TOPIC_ID)
    response = answer()
    [data] = [each for topic in response.responses for each in topic.partitions]
    assert (data.partition_index, data.error_code) == (0, ErrorCode.UNKNOWN_LEADER_EPOCH)


def test_a_request_that_changes_something_is_read_in_full(session):
    session.poll()
    forgotten = ForgottenTopic(topic_id=TOPIC_ID, partitions=[7])
    before = session.last_fetch_ms(0)
    answer = session.ask(forgotten_topics_data=[forgotten])
    assert session.last_fetch_ms(0) > before
    session.world.produce(partition=7)
    assert answer() is None, "it is fetched no more"
    session.world.clock.advance(WAIT_MS)
    assert named(answer()) == (ErrorCode.NONE, {})


def test_a_request_that_comes_twice_is_an_error(session):
    session.poll()
    answer = session.ask()
    session.epoch -= 1
    again = session.ask()()
    assert again.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.world.clock.advance(WAIT_MS)
    assert answer().error_code == ErrorCode.NONE


def test_a_session_that_ends_leaves_nothing_behind(session):
    session.poll()
    session.world.clock.advance(REST_MS + WAIT_MS)
    assert session.world.replicas.fetch_purgatory.size == 0


def test_a_broker_that_stops_answers_a_resumed_request(session):
    session.poll()
    answer = session.ask()
    session.world.replicas.shutdown()
    session.world.clock.advance(WAIT_MS)
    assert answer().error_code == ErrorCode.NONE
