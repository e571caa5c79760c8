"""The cache of fetch sessions: slots, eviction, epochs (KIP-227)."""

import itertools

import pytest

from barnabas.broker.fetch_context import build_response, new_context
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID
from barnabas.protocol.fetch_session import next_epoch
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.fetch_session import (
    EVICTION_MS,
    FetchSessionCache,
)


class Sessions:
    def __init__(self, clock, slots=2, **options):
        ids = itertools.count(1)
        self.clock = clock
        self.cache = FetchSessionCache(slots, new_id=lambda: next(ids), now_ms=clock.time_ms, **options)

    def fetch(self, *partitions, session_id=0, epoch=0, follower=False, version=12, topics=("t",), data=None):
        request = FetchRequest(
            session_id=session_id,
            session_epoch=epoch,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[FetchPartition(partition=index, fetch_offset=5) for index in partitions],
                )
                for topic in topics
                if partitions
            ],
        )
        context = new_context(self.cache, request, version, {}, from_follower=follower)
        wanted = list(context.partitions())
        results = [
            (each, (data or {}).get(each.partition) or PartitionData(records=b"", high_watermark=5))
            for each in wanted
        ]
        return context.respond(results)

    def open(self, size, **options):
        return self.fetch(*range(size), **options).session_id


@pytest.fixture
def sessions(clock):
    return Sessions(clock)


def test_epochs_wrap_to_one():
    assert [next_epoch(epoch) for epoch in (-1, 0, 1, 2**31 - 1)] == [-1, 1, 2, 1]


def test_without_a_free_slot_there_is_no_session(sessions):
    assert [sessions.open(3), sessions.open(3), sessions.open(9)] == [1, 2, 0]
    assert repr(sessions.cache) == "<FetchSessionCache 2/2 evictions=0>"


def test_consumers_have_so_many_partitions_between_them(clock):
    """A thousand sessions of ten thousand partitions took 3 GB, which nobody gave back for as long as they
    were used.
    """
    sessions = Sessions(clock, slots=100, partitions_max=10)
    assert [sessions.open(6), sessions.open(5), sessions.open(4), sessions.open(1)] == [1, 0, 2, 0]
    assert sessions.open(50, follower=True) == 3, "followers are the cluster's own"
    assert sessions.fetch(session_id=2, epoch=1).session_id == 2

    sessions.fetch(session_id=1, epoch=-1)
    assert [sessions.open(7), sessions.open(6)] == [0, 4], "a closed one makes room"


def test_a_session_that_grows_beyond_the_room_is_closed(clock):
    sessions = Sessions(clock, slots=100, partitions_max=10)
    assert [sessions.open(6), sessions.open(2)] == [1, 2]
    sessions.fetch(*range(5), session_id=2, epoch=1)
    assert sessions.fetch(session_id=2, epoch=2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.fetch(session_id=1, epoch=1).session_id == 1
    assert sessions.open(4) == 3


def test_partitions_of_idle_sessions_make_room(clock):
    sessions = Sessions(clock, slots=100, partitions_max=10)
    idle, busy = sessions.open(3), sessions.open(3)
    clock.advance(EVICTION_MS)
    sessions.fetch(session_id=busy, epoch=1)
    clock.advance(1)
    assert sessions.open(8) == 0, "what is in use stays"
    assert sessions.open(7) == 3
    assert sessions.fetch(session_id=idle, epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_idle_sessions_give_way(sessions, clock):
    old, busy = sessions.open(3), sessions.open(3)
    clock.advance(EVICTION_MS)
    sessions.fetch(session_id=busy, epoch=1)
    clock.advance(1)

    assert sessions.open(1) == 3
    assert sessions.cache.get(old) is None
    assert sessions.cache.get(busy) is not None


def test_old_sessions_give_way_to_larger_ones(sessions, clock):
    small, large = sessions.open(2), sessions.open(5)
    clock.advance(EVICTION_MS + 1)
    for session in (small, large):
        sessions.fetch(session_id=session, epoch=1)

    assert sessions.open(1) == 0, "smaller than both"
    assert sessions.open(3) == 3
    assert (sessions.cache.get(small), sessions.cache.evictions) == (None, 1)
    assert sessions.cache.get(large) is not None


def test_followers_take_the_slots_of_consumers_at_once(sessions):
    consumer, follower = sessions.open(9), sessions.open(1, follower=True)

    assert sessions.open(1, follower=True) == 3
    assert sessions.cache.get(consumer) is None
    assert sessions.cache.get(follower) is not None
    assert sessions.open(99) == 0, "a consumer cannot take a young follower's"


def test_only_news_are_told_once(sessions):
    session = sessions.open(3)
    moved = PartitionData(partition_index=1, records=b"", high_watermark=6)

    told = sessions.fetch(session_id=session, epoch=1, data={1: moved})
    again = sessions.fetch(session_id=session, epoch=2, data={1: moved})

    assert [each.partition_index for each in told.responses[0].partitions] == [1]
    assert again.responses == []


@pytest.mark.parametrize("high_watermark", [-1, 5])
def test_an_error_is_told_each_time_and_so_is_its_end(sessions, high_watermark):
    session = sessions.open(3)
    failed = PartitionData(
        partition_index=1,
        error_code=ErrorCode.KAFKA_STORAGE_ERROR,
        records=b"",
        high_watermark=high_watermark,
    )
    told = [
        [
            (each.partition_index, each.error_code)
            for topic in sessions.fetch(session_id=session, epoch=epoch, data=data).responses
            for each in topic.partitions
        ]
        for epoch, data in enumerate([{1: failed}, {1: failed}, {}, {}], 1)
    ]
    error = (1, ErrorCode.KAFKA_STORAGE_ERROR)

    assert told == [[error], [error], [(0, ErrorCode.NONE)], []]


def test_partitions_with_records_go_to_the_end_of_the_line(sessions):
    session = sessions.open(3)
    records = PartitionData(partition_index=0, records=b"x", high_watermark=5)
    sessions.fetch(session_id=session, epoch=1, data={0: records})

    order = [partition.partition for partition in sessions.cache.get(session).partitions.values()]
    assert order == [1, 2, 0]


def test_a_duplicate_of_a_request_that_waits(sessions, clock):
    session = sessions.open(1)
    request = FetchRequest(session_id=session, session_epoch=1)
    waiting = new_context(sessions.cache, request, 12, {}, from_follower=False)
    sessions.fetch(session_id=session, epoch=2)

    late = waiting.respond([])

    assert (late.error_code, late.session_id) == (71, session)


def test_changes_of_a_session(sessions):
    session = sessions.open(2)
    sessions.fetch(1, 2, session_id=session, epoch=1)

    assert len(sessions.cache.get(session).partitions) == 3


def test_an_error_is_told_until_it_ends_and_so_is_its_end(sessions):
    session = sessions.open(1)
    bad = {0: PartitionData(error_code=6, records=b"", high_watermark=5)}
    for epoch in (1, 2):
        told = sessions.fetch(session_id=session, epoch=epoch, data=bad)
        assert [each.error_code for each in told.responses[0].partitions] == [6]

    well = sessions.fetch(session_id=session, epoch=3)
    assert [each.error_code for each in well.responses[0].partitions] == [0]
    assert sessions.fetch(session_id=session, epoch=4).responses == []


def test_a_moved_log_start_is_news(sessions):
    session = sessions.open(1)
    moved = {0: PartitionData(records=b"", high_watermark=5, log_start_offset=3)}

    assert len(sessions.fetch(session_id=session, epoch=1, data=moved).responses) == 1
    assert sessions.fetch(session_id=session, epoch=2, data=moved).responses == []


def test_requests_that_do_not_fit_their_session(sessions):
    session = sessions.open(1)
    assert sessions.fetch(session_id=session, epoch=2).error_code == 71, "INVALID_FETCH_SESSION_EPOCH"
    assert sessions.fetch(session_id=session + 7, epoch=1).error_code == 70, "FETCH_SESSION_ID_NOT_FOUND"
    assert sessions.fetch(session_id=session, epoch=1, version=13).error_code == 106, "ids after names"
    assert sessions.fetch(session_id=session, epoch=1).error_code == 0
    assert sessions.fetch(session_id=session, epoch=1).error_code == 71, "the epoch has risen"


def test_what_is_forgotten_and_what_moved_on(sessions):
    session = sessions.open(2)
    request = FetchRequest(
        session_id=session,
        session_epoch=1,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=1, fetch_offset=9)])],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[0])],
    )
    context = new_context(sessions.cache, request, 12, {}, from_follower=False)

    assert [(each.partition, each.fetch_offset) for each in context.partitions()] == [(1, 9)]


def test_a_changed_position_is_no_reason_to_say_the_same_again(sessions):
    session = sessions.open(2)

    assert sessions.fetch(1, session_id=session, epoch=1).responses == []


def test_a_full_fetch_ends_the_session_that_it_names(sessions):
    session = sessions.open(1)
    other = sessions.fetch(0, session_id=session, epoch=0).session_id

    assert sessions.cache.get(session) is None
    assert sessions.cache.get(other) is not None


def test_a_follower_does_not_take_a_young_followers_slot(sessions):
    first, second = sessions.open(1, follower=True), sessions.open(1, follower=True)

    assert sessions.open(9, follower=True) == 0
    assert None not in (sessions.cache.get(first), sessions.cache.get(second))


def test_an_idle_session_gives_way_after_its_time_and_not_before(sessions, clock):
    sessions.open(9)
    sessions.open(9)
    clock.advance(EVICTION_MS)
    assert sessions.open(1) == 0
    clock.advance(1)
    assert sessions.open(1) == 3


def test_neighbours_of_a_topic_share_an_entry():
    def result(topic, partition):
        wanted = CachedPartition(topic, ZERO_UUID, partition)
        return wanted, PartitionData(partition_index=partition)

    response = build_response([result("a", 0), result("a", 1), result("b", 0), result("a", 2)])

    assert [(each.topic, len(each.partitions)) for each in response.responses] == [
        ("a", 2),
        ("b", 1),
        ("a", 1),
    ]


def test_a_partition_named_twice_counts_once(sessions):
    response = sessions.fetch(0, 1, 0)

    assert len(response.responses[0].partitions) == 2
