"""Fetch: what is read, what waits, what sessions leave out."""

import pytest

from barnabas.broker.context import RequestContext
from barnabas.core.chunks import FileSlice
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.framing import RequestHeader
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from barnabas.records.batch import decode_batch

TOPIC_ID = b"\7" * 16


def request(
    *places,
    topic="orders",
    topic_id=ZERO_UUID,
    max_wait_ms=0,
    min_bytes=1,
    max_bytes=1 << 20,
    partition_bytes=1 << 20,
    **more,
):
    """A fetch of (partition, offset) places."""
    entry = {"current_leader_epoch": more.pop("epoch", -1), "last_fetched_epoch": more.pop("last_epoch", -1)}
    partitions = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_bytes, **entry)
        for partition, offset in places
    ]
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)] if places else []
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **more
    )


def data_of(response, partition=0):
    [found] = [
        each for topic in response.responses for each in topic.partitions if each.partition_index == partition
    ]
    return found


def values(response, partition=0):
    records = data_of(response, partition).records
    data = bytes(records)
    found, position = [], 0
    while position < len(data):
        found += [record.value for record in decode_batch(data, position)]
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


@pytest.mark.parametrize("version", range(4, 18))
def test_records_come_back(world, make_batch, version):
    world.create(topic_id=TOPIC_ID)
    world.produce(records=make_batch(2))

    topic_id = TOPIC_ID if version >= 13 else ZERO_UUID
    response = world.send(request((0, 0), topic_id=topic_id), version)

    data = data_of(response)
    assert values(response) == [b"v0", b"v1"]
    assert (data.high_watermark, data.last_stable_offset) == (2, 2)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert response.error_code == 0


def test_committed_data_ends_where_a_transaction_is_open(world, make_batch):
    world.create()
    world.produce()
    records = make_batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    world.replicas.appender.append(TopicPartition("orders", 0), bytearray(records), 1)

    assert values(world.send(request((0, 0), isolation_level=0), 12)) == [b"v0", b"v0"]
    assert values(world.send(request((0, 0), isolation_level=1), 12)) == [b"v0"]


def test_records_stay_in_their_file(world):
    world.create()
    world.produce()
    context = RequestContext(world.services, RequestHeader(1, 12, 9, "test"), world.peer, size=0)
    answer = world.services.api_table[1].handler(context, request((0, 0)))

    assert isinstance(answer.responses[0].partitions[0].records, FileSlice)


def test_a_long_poll_is_answered_by_a_produce(world):
    world.create()
    answer = world.start(request((0, 0), max_wait_ms=500), 12)
    assert answer() is None

    world.produce()

    assert values(answer()) == [b"v0"]
    assert world.replicas.fetch_purgatory.size == 0


def test_a_long_poll_ends_with_its_time(world):
    world.create()
    answer = world.start(request((0, 0), max_wait_ms=500), 12)
    world.clock.advance(499)
    assert answer() is None
    world.clock.advance(1)

    assert data_of(answer()).records == b""
    assert data_of(answer()).error_code == 0


def test_min_bytes_are_waited_for(world, make_batch):
    size = len(make_batch())
    world.create()
    answer = world.start(request((0, 0), max_wait_ms=500, min_bytes=2 * size), 12)

    world.produce()
    assert answer() is None
    world.produce()

    assert len(values(answer())) == 2


def test_min_bytes_count_over_all_partitions(world, make_batch):
    size = len(make_batch())
    world.create(partitions=2)
    answer = world.start(request((0, 0), (1, 0), max_wait_ms=500, min_bytes=size + 1), 12)
    world.produce(partition=0)
    assert answer() is None
    world.produce(partition=1)

    assert len(values(answer(), 0)) == len(values(answer(), 1)) == 1


def test_min_bytes_zero_never_waits(world):
    world.create()

    assert data_of(world.send(request((0, 0), max_wait_ms=500, min_bytes=0), 12)).error_code == 0


def test_the_first_batch_comes_whole_the_next_partitions_do_not(world, make_batch):
    world.create(partitions=2)
    for partition in (0, 1):
        world.produce(partition=partition, records=make_batch(20))

    response = world.send(request((0, 0), (1, 0), max_bytes=10), 12)

    assert len(values(response, 0)) == 20
    assert data_of(response, 1).records == b""


def test_the_minimum_goes_to_the_first_partition_that_has_anything(world, make_batch):
    world.create(partitions=2)
    world.produce(partition=1, records=make_batch(20))

    response = world.send(request((0, 0), (1, 0), partition_bytes=10), 12)

    assert len(values(response, 1)) == 20


def test_max_bytes_is_shared(world, make_batch):
    size = len(make_batch())
    world.create(partitions=3)
    for partition in range(3):
        world.produce(partition=partition)

    response = world.send(request((0, 0), (1, 0), (2, 0), max_bytes=2 * size), 12)

    assert [len(data_of(response, index).records) for index in range(3)] == [size, size, 0]


@pytest.mark.parametrize("offset", [-1, 1, 99])
def test_offset_out_of_range_does_not_wait(world, offset):
    world.create()

    data = data_of(world.send(request((0, offset), max_wait_ms=500), 12))

    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.log_start_offset) == (-1, -1)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, 0), (5, 0), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_leader_epochs_are_checked(world, epoch, code):
    world.create(epoch=5)

    assert data_of(world.send(request((0, 0), epoch=epoch), 12)).error_code == code


def test_a_reader_whose_epoch_ended_is_told_where(world):
    world.create(epoch=1)
    world.produce()
    world.create(epoch=3)
    world.produce()

    data = data_of(world.send(request((0, 5), last_epoch=2, max_wait_ms=500), 12))

    assert data.error_code == 0
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 1)


def test_unknown_partitions_and_topics(world):
    world.create(topic_id=TOPIC_ID)

    assert data_of(world.send(request((7, 0)), 12), 7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = world.send(request((0, 0), topic_id=b"\1" * 16), 13)
    assert data_of(unknown).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_consumer_may_read_from_a_follower_from_version_11(world):
    world.create(leader=2, isr=(2, 1), epoch=3)

    assert data_of(world.send(request((0, 0)), 10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data_of(world.send(request((0, 0)), 11)).error_code == 0


def test_the_new_leader_is_named_from_version_16(world):
    world.create(leader=2, isr=(2, 1), epoch=3, topic_id=TOPIC_ID)

    response = world.send(request((0, 0), topic_id=TOPIC_ID, epoch=2), 16)

    data = data_of(response)
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 3)
    assert [each.node_id for each in response.node_endpoints] == [2]


def test_a_waiting_fetch_hears_of_a_new_leader_at_once(world):
    world.create()
    answer = world.start(request((0, 0), max_wait_ms=500), 10)
    world.create(leader=2, isr=(2, 1), epoch=1)

    assert data_of(answer()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def open_session(world, *places, version=12, **more):
    return world.send(request(*places, session_epoch=0, **more), version)


def test_a_session_tells_only_the_news(world):
    world.create(partitions=3)
    first = open_session(world, (0, 0), (1, 0), (2, 0))
    assert first.session_id > 0
    assert len(first.responses[0].partitions) == 3

    nothing = world.send(request(session_id=first.session_id, session_epoch=1), 12)
    world.produce(partition=1)
    news = world.send(request(session_id=first.session_id, session_epoch=2), 12)

    assert (nothing.error_code, nothing.session_id, nothing.responses) == (0, first.session_id, [])
    assert [each.partition_index for each in news.responses[0].partitions] == [1]
    assert values(news, 1) == [b"v0"]


@pytest.mark.parametrize(("partitions", "gets_one"), [(19_999, True), (20_000, False)])
def test_a_fetch_of_very_many_partitions_gets_no_session(world, partitions, gets_one):
    # Its topic counts as well.
    world.create()
    wanted = [FetchPartition(partition=number, partition_max_bytes=1) for number in range(partitions)]
    fetch = FetchRequest(
        max_wait_ms=0, session_epoch=0, topics=[FetchTopic(topic="orders", partitions=wanted)]
    )
    answer = world.start(fetch, 12)
    while answer() is None:
        world.clock.advance(0)

    assert (answer().session_id > 0) == gets_one
    assert len(answer().responses[0].partitions) == partitions


def test_a_session_takes_changes(world):
    world.create(partitions=2)
    world.produce(partition=0)
    world.produce(partition=1)
    first = open_session(world, (0, 1))

    more = world.send(request((1, 0), session_id=first.session_id, session_epoch=1), 12)
    assert values(more, 1) == [b"v0"]
    forget = request(
        session_id=first.session_id,
        session_epoch=2,
        forgotten_topics_data=[ForgottenTopic(topic="orders", partitions=[1])],
    )
    assert world.send(forget, 12).responses == []


def test_a_session_with_nothing_left_is_closed(world):
    world.create()
    first = open_session(world, (0, 0))
    forget = request(
        session_id=first.session_id,
        session_epoch=1,
        forgotten_topics_data=[ForgottenTopic(topic="orders", partitions=[0])],
    )

    assert world.send(forget, 12).session_id == 0
    assert len(world.sessions) == 0


def test_session_errors(world):
    world.create(topic_id=TOPIC_ID)
    first = open_session(world, (0, 0))

    def code(version=12, **session):
        response = world.send(request(**session), version)
        assert response.responses == []
        return ErrorCode.of(response.error_code)

    assert code(session_id=99, session_epoch=1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code(session_id=first.session_id, session_epoch=5) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert code(13, session_id=first.session_id, session_epoch=1) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_closes_a_session(world):
    world.create()
    first = open_session(world, (0, 0))
    closing = world.send(request((0, 0), session_id=first.session_id, session_epoch=-1), 12)

    assert closing.session_id == 0
    assert len(world.sessions) == 0


def test_a_session_keeps_errors_coming(world):
    world.create()
    first = open_session(world, (0, 5))

    again = world.send(request(session_id=first.session_id, session_epoch=1), 12)

    assert data_of(again).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_session_by_ids_learns_of_a_topic_that_is_created_later(world):
    first = world.send(request((0, 0), topic_id=TOPIC_ID, session_epoch=0), 13)
    assert data_of(first).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    world.create(topic_id=TOPIC_ID)

    second = world.send(request(session_id=first.session_id, session_epoch=1), 13)

    assert data_of(second).error_code == 0


def test_a_topic_of_the_same_name_is_another_topic(world):
    world.create(topic_id=TOPIC_ID)
    world.update_metadata(
        {"orders": []},
        topic_id=b"\1" * 16,
    )

    response = world.send(request((0, 0), topic_id=b"\1" * 16), 13)

    assert data_of(response).error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def follower_request(offset, *, version=15, broker=2, epoch=0, **more):
    fetch = request((0, offset), epoch=epoch, **more)
    if version >= 15:
        fetch.replica_state = ReplicaState(replica_id=broker, replica_epoch=-1)
    else:
        fetch.replica_id = broker
    return fetch


def test_a_follower_moves_the_high_watermark_and_wakes_those_who_wait(world, make_batch):
    world.create(isr=(1, 2), topic_id=TOPIC_ID)
    consumer = world.start(request((0, 0), max_wait_ms=500), 12)
    world.produce()
    assert consumer() is None, "not committed yet"
    assert len(values(world.send(follower_request(0, topic_id=TOPIC_ID), 15))) == 1
    assert consumer() is None

    world.send(follower_request(1, topic_id=TOPIC_ID), 15)

    assert values(consumer()) == [b"v0"]
    assert world.partition().log.high_watermark == 1


def test_a_stranger_is_no_follower(world):
    world.create(isr=(1, 2))

    stranger = world.send(follower_request(0, version=12, broker=9), 12)
    assert data_of(stranger).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    without_epoch = world.send(follower_request(0, version=12, broker=9, epoch=-1), 12)
    assert data_of(without_epoch).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_brokers_limit_is_below_the_clients(make_world, make_batch):
    world = make_world(fetch_max_bytes="1024")
    world.create(partitions=2)
    world.produce(partition=0, records=make_batch(200))
    world.produce(partition=1)

    response = world.send(request((0, 0), (1, 0)), 12)

    assert len(values(response, 0)) == 200
    assert data_of(response, 1).records == b""
