"""A bug that healthy topics hide: offsets that are taken for a sequence without gaps.

A stream processor works on records side by side, and commits up to the first that is not done. One that looks
for "the last offset plus one" never gets over a gap; and gaps are usual: transactions leave markers, and
compaction takes records away.
"""

from collections.abc import Callable

import pytest

from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.testing import Kafka

Commit = Callable[[list[int], list[int]], int]
"""From the offsets that were read and those that are done, both in order: what may be committed."""


def without_gaps(_read: list[int], done: list[int]) -> int:
    """The bug."""
    committed = done[0]
    while committed in done:
        committed += 1
    return committed


def by_what_was_read(read: list[int], done: list[int]) -> int:
    """Mended: up to the first that was read and is not done, or behind the last."""
    return next((offset for offset in read if offset not in done), read[-1] + 1)


@pytest.mark.parametrize(
    "commit", [pytest.param(without_gaps, marks=pytest.mark.xfail(strict=True)), by_what_was_read]
)
def test_everything_is_committed_though_offsets_have_gaps(
    kafka: Kafka, kafka_topic: str, commit: Commit
) -> None:
    """Two transactions: records at 0, 1 and 3, 4, with markers between and behind them."""
    with Producer(kafka.bootstrap_servers, transactional_id=kafka_topic) as producer:
        for pair in (("a", "b"), ("c", "d")):
            with producer.transaction():
                for value in pair:
                    producer.send(kafka_topic, value)
    group = f"processor-of-{kafka_topic}"
    with Consumer(kafka.bootstrap_servers, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([(kafka_topic, 0)])
        consumer.seek_to_beginning()
        read: list[int] = []
        while len(read) < 4:
            read += [record.offset for record in consumer.poll(timeout_ms=1000)]
        consumer.commit({TopicPartition(kafka_topic, 0): commit(read, done=read)})
    assert [each.offset for each in kafka.offsets(group).values()] == [5]
