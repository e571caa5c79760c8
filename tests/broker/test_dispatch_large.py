"""Large requests and responses: in slices, in the order in which they were sent, within their limit."""

import dataclasses
import gc
import weakref

import pytest
from pipelined_line import Line, frame

from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

NOW_MS = 1_700_000_000_000


@pytest.fixture
def world(make_world):
    """A broker whose clock moves a little whenever it is looked at: slices come to an end."""
    world = make_world()
    looks = [world.clock.monotonic_ms()]

    def monotonic_ms():
        looks[0] += 0.5
        return looks[0]

    world.clock.monotonic_ms = monotonic_ms
    return world


def replace(world, key, handler):
    table = dict(world.services.api_table)
    table[key] = dataclasses.replace(table[key], handler=handler)
    world.services.api_table = table
    world.dispatcher = type(world.dispatcher)(world.services)


def names(count):
    return MetadataRequest(topics=[MetadataRequestTopic(name=f"topic-{n}") for n in range(count)])


def test_a_large_request_is_decoded_in_slices_and_holds_its_connection(world):
    seen = []

    def handler(context, request):
        seen.append((len(request.topics), world.control.holds))
        return MetadataResponse()

    replace(world, ApiKey.METADATA, handler)
    answer = world.start(names(20_000), 9)

    assert answer() is None
    assert seen == []
    assert world.control.holds == 1
    world.clock.advance(0)
    assert seen == [(20_000, 0)]
    assert world.control.holds == 0
    assert answer() == MetadataResponse()


def test_a_request_of_few_elements_is_decoded_at_once_however_large(world):
    world.create()
    answer = world.produce(records=bytes(build_batch([Record(0, NOW_MS, b"k", bytes(500_000))])))

    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert world.control.holds == 0


def test_a_large_request_whose_handler_waits_no_longer_holds_its_connection(world):
    waiting = Pending()
    replace(world, ApiKey.METADATA, lambda context, request: waiting)
    answer = world.start(names(20_000), 9)
    world.clock.advance(0)

    assert world.control.holds == 0
    assert answer() is None
    waiting.fail(KafkaError(ErrorCode.NOT_CONTROLLER))
    world.clock.advance(0)
    assert {topic.error_code for topic in answer().topics} == {ErrorCode.NOT_CONTROLLER}


def test_a_large_request_that_breaks_off_closes_with_the_same_words(world):
    whole = frame(names(20_000), 9)
    outcome = world.send_frame(whole[:-10])
    world.clock.advance(0)

    with pytest.raises(CloseConnection) as closed:
        outcome.result()
    assert "Error getting request for apiKey: METADATA, apiVersion: 9, connectionId: 127.0.0.1:" in str(
        closed.value
    )
    assert "MetadataRequest v9, field topics" in str(closed.value)
    assert world.control.holds == 1, "what comes behind garbage is garbage"


class Received(bytearray):
    """The memory of a frame, which can be watched."""


@pytest.mark.parametrize("at_fault", ["request", "handler"])
def test_the_memory_of_a_large_request_that_fails_needs_no_garbage_collector(world, at_fault):
    """A hundred megabytes of nonsense stayed until the collector ran, which is rare in a broker."""

    def handler(_context, _request):
        raise CloseConnection("the service does not like it")

    replace(world, ApiKey.METADATA, handler)
    whole = frame(names(20_000), 9)
    received = Received(whole if at_fault == "handler" else whole[:-10])
    alive = weakref.ref(received)
    gc.collect()
    gc.disable()
    try:
        outcome = world.dispatcher.handle(world.peer, memoryview(received))
        del received
        world.clock.advance(0)
        assert isinstance(outcome.error, CloseConnection)
        del outcome
        assert alive() is None
    finally:
        gc.enable()


def test_more_elements_than_the_limit_close_the_connection_with_the_key(make_world):
    world = make_world(barnabas_request_elements_max=70_000)
    within = world.start(FindCoordinatorRequest(coordinator_keys=[f"g{n}" for n in range(70_000)]), 4)
    world.clock.advance(0)
    assert within() is not None

    with pytest.raises(CloseConnection) as closed:
        world.send_frame(frame(FindCoordinatorRequest(coordinator_keys=["g"] * 70_001), 4))

    assert str(closed.value).endswith(
        "listenerName: PLAINTEXT: FindCoordinatorRequest v4, field coordinator_keys, byte 16: "
        "70001 elements, more than 70000 (barnabas.request.elements.max)"
    )
    assert "apiKey: FIND_COORDINATOR, apiVersion: 4" in str(closed.value)


def test_a_large_response_is_encoded_in_slices(world):
    response = ListGroupsResponse(groups=[ListedGroup(group_id=f"g{n}") for n in range(20_000)])
    replace(world, ApiKey.LIST_GROUPS, lambda context, request: response)
    answer = world.start(ListGroupsRequest(), 4)

    assert answer() is None
    world.clock.advance(0)
    assert answer() == response


def test_a_large_response_that_comes_late_is_encoded_in_slices_too(world):
    response = ListGroupsResponse(groups=[ListedGroup(group_id=f"g{n}") for n in range(20_000)])
    waiting = Pending()
    replace(world, ApiKey.LIST_GROUPS, lambda context, request: waiting)
    answer = world.start(ListGroupsRequest(), 4)

    waiting.complete(response)
    assert answer() is None
    world.clock.advance(0)
    assert answer() == response


def test_a_large_response_that_cannot_be_written_ends_its_connection(world):
    groups = [ListedGroup(group_id=f"g{n}") for n in range(20_000)]
    groups[-1].group_id = "g" * 40_000
    replace(world, ApiKey.LIST_GROUPS, lambda context, request: ListGroupsResponse(groups=groups))
    answer = world.start(ListGroupsRequest(), 4)
    world.clock.advance(0)

    with pytest.raises(ProtocolError, match=r"field groups\.group_id"):
        answer()


def produce_of(records, nowhere):
    """Records for partition 0 behind `nowhere` partitions that do not exist."""
    data = [PartitionProduceData(index=index + 1, records=b"") for index in range(nowhere)]
    data.append(PartitionProduceData(index=0, records=records))
    return ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=data)]
    )


def test_a_small_produce_behind_a_large_one_is_appended_behind_it(world, make_batch):
    world.create()
    line = Line(world)
    large, small = make_batch(3), make_batch(1)
    frames = [frame(produce_of(large, 20_000), 9, 1), frame(produce_of(small, 0), 9, 2)]
    line.send(*frames)

    assert line.answers(ApiKey.PRODUCE, 9) == []
    for _ in range(20):
        line.turn()

    answers = line.answers(ApiKey.PRODUCE, 9)
    assert [correlation_id for correlation_id, _ in answers] == [1, 2]
    ends = [answer.responses[0].partition_responses[-1] for _, answer in answers]
    assert [(end.index, end.error_code, end.base_offset) for end in ends] == [(0, 0, 0), (0, 0, 3)]


def test_what_comes_behind_a_handler_that_works_in_slices_is_handled_after_it(world):
    calls, between = [], []

    @sliced
    def handler(context, request):
        calls.append(("begins", context.header.correlation_id))
        for _ in range(100):
            world.clock.call_soon(lambda: between.append((calls[-1][0], line.conversation.runnable)))
            yield
        calls.append(("ends", context.header.correlation_id))
        return MetadataResponse()

    replace(world, ApiKey.METADATA, handler)
    line = Line(world)
    frames = [frame(names(1), 9, correlation_id) for correlation_id in (1, 2)]
    line.send(*frames)
    for _ in range(100):
        line.turn()

    assert ("begins", False) in between
    assert ("begins", True) not in between
    assert calls == [("begins", 1), ("ends", 1), ("begins", 2), ("ends", 2)]


def test_what_comes_behind_a_large_request_that_was_none_is_not_handled(world):
    frames = [frame(names(20_000), 9)[:-10], frame(names(1), 9)]
    aborted, handled = [], []
    replace(world, ApiKey.METADATA, lambda context, request: handled.append(request))
    line = Line(world)
    line.abort = aborted.append
    line.send(*frames)
    for _ in range(20):
        line.turn()

    [error] = aborted
    assert isinstance(error, CloseConnection)
    assert handled == []
