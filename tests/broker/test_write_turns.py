"""Requests that arrive together: their records are one write, and each answer says what became of it."""

import dataclasses
import errno

import pytest
from pipelined_line import Line, frame

from barnabas.broker.handlers.produce import AT_ONCE_MAX
from barnabas.core.errors import ErrorCode
from barnabas.log.config import LogConfig
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.security.quota_managers import QuotaManagers
from standing_clock import Clock

LATEST = -1


def produce(records, number, acks=1, topic="orders", **more):
    data = [PartitionProduceData(index=int(name[1:]), records=batch) for name, batch in more.items()]
    data = [PartitionProduceData(index=0, records=records), *data]
    request = ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    return frame(request, 9, number)


def end_offset(number):
    partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[partition])]
    )
    return frame(request, 5, number)


def fetch(number, offset, wait_ms=0):
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="orders", partitions=[partition])]
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1 if wait_ms else 0, max_bytes=1 << 20, topics=topics
    )
    return frame(request, 11, number)


@pytest.fixture
def line(world, make_batch):
    """A connection to a broker with two partitions that have a record each."""
    world.create(partitions=2)
    for partition in (0, 1):
        world.produce(partition=partition, records=make_batch())
    return Line(world)


@pytest.fixture
def writes(world, line):
    """The files of batches that were written, in order."""
    written, check = [], world.disk.check

    def counting(path, operation):
        if operation == "write" and path.endswith(".log"):
            written.append(path)
        check(path, operation)

    world.disk.check = counting
    return written


def produced(line):
    """(correlation id, error, base offset) of each answer to a produce."""
    return [
        (number, ErrorCode.of(each.error_code), each.base_offset)
        for number, response in line.answers(ApiKey.PRODUCE, 9)
        for topic in response.responses
        for each in topic.partition_responses
    ]


def test_several_requests_are_one_write(line, writes, make_batch):
    line.send(*(produce(make_batch(2), number) for number in range(5)))

    assert len(writes) == 1
    assert produced(line) == [(number, ErrorCode.NONE, 1 + 2 * number) for number in range(5)]


def test_a_request_of_its_own_is_written_at_once(world, line, writes, make_batch):
    line.send(produce(make_batch(), 1))
    line.send(produce(make_batch(), 2))

    assert len(writes) == 2
    assert world.partition().log.high_watermark == 3


@pytest.mark.parametrize("acks", [1, -1])
def test_a_failed_write_fails_each_request(world, line, make_batch, acks):
    world.disk.fail("/data", "write")

    line.send(*(produce(make_batch(), number, acks) for number in range(4)))

    assert produced(line) == [(number, ErrorCode.KAFKA_STORAGE_ERROR, -1) for number in range(4)]
    assert world.produce().responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE])
def test_a_failed_write_fails_a_request_that_waits_for_replicas(make_world, make_batch, code):
    world = make_world()
    world.create(isr=(1, 2), replicas=(1, 2))
    world.produce()
    line = Line(world)
    world.disk.fail("/data", "write", code)

    line.send(*(produce(make_batch(), number, acks=-1) for number in range(3)))

    assert produced(line) == [(number, ErrorCode.KAFKA_STORAGE_ERROR, -1) for number in range(3)]


def test_a_failed_write_fails_what_waits_in_the_same_directory(world, line, make_batch):
    world.disk.fail(world.partition().log.active.path, "write")
    other = world.partition(partition=1).log.active.path

    line.send(*(produce(make_batch(), number, p1=make_batch()) for number in range(2)))

    # The failure takes the whole directory offline, so what waits for the other partition is not written
    # either.
    assert produced(line) == [(number, ErrorCode.KAFKA_STORAGE_ERROR, -1) for number in (0, 0, 1, 1)]
    assert len(world.disk.read(other)) == len(make_batch())


def test_a_failed_write_fails_a_request_of_many_batches_too(world, line, make_batch):
    # So many are worked off in slices, which the end of the turn does not wait for.
    world.create("many", AT_ONCE_MAX + 1)
    many = [PartitionProduceData(index=index, records=make_batch()) for index in range(AT_ONCE_MAX + 1)]
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="many", partition_data=many)]
    )
    world.disk.fail("/data", "write")

    line.send(frame(request, 9, 1), produce(make_batch(), 2))

    refused = [(1, ErrorCode.KAFKA_STORAGE_ERROR, -1)] * len(many)
    assert produced(line) == [*refused, (2, ErrorCode.KAFKA_STORAGE_ERROR, -1)]


def test_acks_0_closes_the_connection_and_the_others_are_answered(world, line, make_batch):
    world.disk.fail("/data", "write")

    with pytest.raises(CloseConnection) as closed:
        line.send(produce(make_batch(), 1), produce(make_batch(), 2, acks=0), produce(make_batch(), 3))

    assert "orders-0 -> KAFKA_STORAGE_ERROR" in closed.value.reason
    assert produced(line) == [(number, ErrorCode.KAFKA_STORAGE_ERROR, -1) for number in (1, 3)]


def test_acks_0_is_written_with_the_rest(world, line, writes, make_batch):
    line.send(*(produce(make_batch(), number, acks=number % 2) for number in range(4)))

    assert len(writes) == 1
    assert world.partition().log.log_end_offset == 5
    assert produced(line) == [(1, ErrorCode.NONE, 2), (3, ErrorCode.NONE, 4)]


def test_other_requests_of_the_turn_see_what_is_written(world, line, writes, make_batch):
    line.send(produce(make_batch(), 1), end_offset(2), produce(make_batch(), 3), fetch(4, 1))

    assert len(writes) == 2
    assert world.partition().log.log_end_offset == 3


def test_other_requests_of_a_turn_see_nothing_of_a_failed_write(world, make_batch):
    seen = []

    def look(context, request):
        log = world.partition().log
        seen.append((log.log_end_offset, log.offline))
        return MetadataResponse()

    table = dict(world.services.api_table)
    table[ApiKey.METADATA] = dataclasses.replace(table[ApiKey.METADATA], handler=look)
    world.services.api_table = table
    world.dispatcher = type(world.dispatcher)(world.services)
    world.create()
    world.produce()
    line = Line(world)
    world.disk.fail("/data", "write")

    line.send(produce(make_batch(), 1), frame(MetadataRequest(topics=[]), 9, 2), produce(make_batch(), 3))

    assert seen == [(1, True)]


def test_a_waiting_fetch_is_answered_with_all_of_a_turn(world, line, make_batch):
    consumer = Line(world)
    consumer.send(fetch(1, 1, wait_ms=500))
    assert consumer.conversation.waiting == 1

    line.send(*(produce(make_batch(), number) for number in range(6)))

    [(_, response)] = consumer.answers(ApiKey.FETCH, 11)
    assert len(response.responses[0].partitions[0].records) == 6 * len(make_batch())


def test_a_waiting_fetch_is_answered_though_the_last_of_a_turn_is_a_duplicate(line, make_batch):
    consumer = Line(line.world)
    consumer.send(fetch(1, 1, wait_ms=500))
    records = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}

    line.send(*(produce(make_batch(**records), number) for number in range(2)))

    assert produced(line) == [(number, ErrorCode.NONE, 1) for number in range(2)]
    [(_, response)] = consumer.answers(ApiKey.FETCH, 11)
    assert len(response.responses[0].partitions[0].records) == len(make_batch(**records))


def test_what_a_turn_appends_is_counted_once_and_what_the_disk_refuses_is_not(world, line, make_batch):
    records = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    before = world.replicas.topic_stats.total()
    line.send(produce(make_batch(3), 1), *(produce(make_batch(2, **records), number) for number in (2, 3)))

    counted = world.replicas.topic_stats.total()
    assert counted.messages_in - before.messages_in == 3 + 2
    assert counted.bytes_in - before.bytes_in == len(make_batch(3)) + len(make_batch(2, **records))
    world.disk.fail("/data", "write")
    line.send(*(produce(make_batch(), number) for number in (4, 5)))
    after = world.replicas.topic_stats.total()
    assert (after.messages_in, after.bytes_in) == (counted.messages_in, counted.bytes_in)


def test_a_duplicate_of_what_waits_fails_with_it(world, line, make_batch):
    world.disk.fail("/data", "write")
    records = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}

    line.send(*(produce(make_batch(**records), number) for number in range(2)))

    assert produced(line) == [(number, ErrorCode.KAFKA_STORAGE_ERROR, -1) for number in range(2)]


def test_records_that_are_synced_wait_for_the_sync(make_world, make_batch):
    world = make_world()
    world.log_config = LogConfig(flush_messages=1)
    world.create()
    line = Line(world)

    line.send(*(produce(make_batch(), number) for number in range(3)))
    assert produced(line) == []
    world.clock.advance(0)

    assert [number for number, code, _ in produced(line) if code is ErrorCode.NONE] == [0, 1, 2]


def test_an_answer_that_is_made_at_the_end_of_a_turn_asks_the_client_to_wait(make_world, make_batch):
    clock = Clock()
    quotas = QuotaManagers(clock.monotonic_ms)
    world = make_world(quotas=quotas, clock=clock)
    world.create()
    line = Line(world)
    frames = [produce(make_batch(), number) for number in range(3)]
    quotas.produce.update_quota("", "t", len(frames[0]) * 2.5 / 10)
    quotas.enabled = True

    line.send(*frames)

    # Three are 3 / 2.5 of what may come in ten seconds; each counts once.
    assert [answer.throttle_time_ms for _, answer in line.answers(ApiKey.PRODUCE, 9)] == [0, 0, 2000]
