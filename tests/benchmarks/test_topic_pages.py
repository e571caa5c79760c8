"""The bench of pages of topics: what the loop holds counts, and a broker that leaves topics out ends it."""

import time

import pytest
from bench.timed_broker import TimedEventLoop, turns_between
from bench.topic_pages import walk

from barnabas.core.chunks import materialize
from barnabas.protocol.framing import decode_request_header, encode_response
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


class Broker:
    """Tells these names, one partition each, in pages as large as it is asked for."""

    def __init__(self, names):
        self._names = names

    def ask(self, frame):
        _, at = decode_request_header(frame[4:])
        request, _ = DescribeTopicPartitionsRequest.decode(frame[4 + at :], 0)
        first = request.cursor.topic_name if request.cursor else ""
        names = [name for name in self._names if name >= first]
        page, rest = names[: request.response_partition_limit], names[request.response_partition_limit :]
        answer = DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(
                    name=name, partitions=[DescribeTopicPartitionsResponsePartition()]
                )
                for name in page
            ],
            next_cursor=Cursor(topic_name=rest[0]) if rest else None,
        )
        return materialize(encode_response(7, answer, 0))[4:]


def test_a_walk_is_as_many_pages_as_the_topics_need():
    assert len(walk(Broker(["a", "b", "c", "d", "e"]), ["a", "b", "c", "d", "e"], 2, named=False)) == 3
    assert len(walk(Broker(["a", "b"]), ["a", "b"], 2, named=True)) == 1


@pytest.mark.parametrize("told", [["a", "c"], ["a", "b", "b", "c"]], ids=["left out", "told twice"])
def test_a_topic_that_is_not_told_once_ends_the_bench(told):
    with pytest.raises(RuntimeError, match=f"3 topics were created, and {len(told)} told"):
        walk(Broker(told), ["a", "b", "c"], 10, named=False)


def test_a_turn_of_the_loop_counts_by_what_it_computes(tmp_path):
    def busy():
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass

    loop = TimedEventLoop()
    with (tmp_path / "turns").open("w", buffering=1) as loop.turns:
        began = time.monotonic()
        loop.call_soon(time.sleep, 0.02)
        loop.call_later(0.03, loop.stop)
        loop.run_forever()
        between = time.monotonic()
        loop.call_soon(busy)
        loop.call_soon(loop.stop)
        loop.run_forever()
        ended = time.monotonic()
    loop.close()

    assert max(turns_between(tmp_path / "turns", began, between), default=0) < 15
    assert max(turns_between(tmp_path / "turns", between, ended)) >= 20
