"""Transactions of our producer with genuine coordinators, before KIP-890 and after: what readers see."""

import uuid

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import (
    AbortableTransactionError,
    Consumer,
    ConsumerGroupMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)
from barnabas.core.errors import ErrorCode

pytestmark = pytest.mark.jvm
PARTITIONS = 3


@pytest.fixture(params=["kafka39", "kafka44"])
def genuine(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def topic(genuine):
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    with Admin(genuine) as admin:
        admin.topics.create([NewTopic(name, PARTITIONS, 1)])
    return name


def committed_values(bootstrap, topic):
    """What a reader of committed records finds up to the last stable offset."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        values = []
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            values += [record.value.decode() for record in consumer.poll(200)]
    return values


def test_readers_see_what_was_committed_whole_and_nothing_else(genuine, topic):
    with Producer(genuine, transactional_id=topic) as producer:
        with producer.transaction():
            for number in range(300):
                producer.send(topic, f"a{number}", partition=number % PARTITIONS)
        with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012
            for number in range(300):
                producer.send(topic, f"b{number}", partition=number % PARTITIONS)
            producer.flush()
            1 / 0  # noqa: B018
        with producer.transaction():
            producer.send(topic, "c", partition=1)
    found = committed_values(genuine, topic)
    assert sorted(found) == sorted(["c", *(f"a{number}" for number in range(300))])


def test_offsets_are_committed_with_the_records_and_never_without(genuine, topic):
    group, tp = f"{topic}-group", TopicPartition(topic, 0)
    with Consumer(genuine, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        with Producer(genuine, transactional_id=topic) as producer:
            with producer.transaction():
                producer.send(topic, "copied", partition=0)
                producer.send_offsets({tp: 7}, consumer.group_metadata())
            assert consumer.committed([tp])[tp].offset == 7
            with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012
                producer.send_offsets({tp: 9}, consumer.group_metadata())
                1 / 0  # noqa: B018
            assert consumer.committed([tp])[tp].offset == 7


def test_a_member_that_is_not_in_the_group_commits_no_offsets(genuine, topic):
    stranger = ConsumerGroupMetadata(f"{topic}-group", 5, "nobody-knows-me", None)
    with Producer(genuine, transactional_id=topic) as producer:
        with pytest.raises(AbortableTransactionError) as caught, producer.transaction():
            producer.send_offsets({TopicPartition(topic, 0): 7}, stranger)
        assert caught.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        with producer.transaction():
            producer.send(topic, "after", partition=0)
    assert committed_values(genuine, topic) == ["after"]


def test_a_newer_producer_fences_the_older_one_and_ends_what_it_left_open(genuine, topic):
    with Producer(genuine, transactional_id=topic) as zombie:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, "left open", partition=0)
        zombie.flush()
        with Producer(genuine, transactional_id=topic) as producer, producer.transaction():
            producer.send(topic, "new", partition=0)
        with pytest.raises(ProducerFencedError):
            zombie.commit_transaction()
    assert committed_values(genuine, topic) == ["new"]


def test_a_record_that_is_too_large_costs_one_transaction(genuine, topic):
    options = {"transactional_id": topic, "max_request_size": 8_000_000}
    with Producer(genuine, **options) as producer:
        with pytest.raises(AbortableTransactionError) as caught, producer.transaction():  # noqa: PT012
            producer.send(topic, "small", partition=0)
            producer.send(topic, b"x" * 4_000_000, partition=0)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with producer.transaction():
            producer.send(topic, "after", partition=0)
    assert committed_values(genuine, topic) == ["after"]
