"""A leader that lacks what a consumer has read (KIP-320): it reads on where the logs part."""

import pytest

from barnabas.admin import NewTopic
from barnabas.client import Consumer, LogTruncationError, Producer, TopicPartition
from barnabas.testing import Kafka
from waiting import until

TP = TopicPartition("t", 0)


@pytest.fixture
def kafka(request):
    """Brokers of which the first two have the topic; a third one keeps the offsets of groups."""
    settings = {"unclean.leader.election.enable": "true"}
    with Kafka(brokers=getattr(request, "param", 2), settings=settings) as cluster:
        yield cluster


def lose_the_end(kafka):
    """Gives both brokers five records of a topic and the first one five more, and returns what makes the
    second one lead, with twenty of its own.
    """
    first, second = kafka.brokers[:2]
    kafka.admin.topics.create(NewTopic("t", assignment={0: [first, second]}))
    send(kafka, "both", 5, acks="all")
    kafka.kill(second)
    until(lambda: len(in_sync(kafka)) == 1, "the second one to be given up")
    send(kafka, "first", 5)

    def elect():
        kafka.kill(first)
        kafka.restart(second)
        until(lambda: kafka.leader("t") == second, "the second one to lead")
        send(kafka, "second", 20)

    return elect


def in_sync(kafka):
    return kafka.admin.topics.describe("t")["t"].partitions[0].isr


def send(kafka, stem, count, acks="1"):
    with Producer(kafka.bootstrap_servers, acks=acks) as producer:
        for number in range(count):
            producer.send("t", f"{stem} {number}", partition=0)


def read(consumer, count):
    values = []
    until(lambda: values.extend(consumer.poll(100)) or len(values) >= count, "the records")
    return [record.value.decode() for record in values]


def test_a_consumer_reads_on_where_the_logs_part(kafka, caplog):
    elect = lose_the_end(kafka)
    with Consumer(kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        assert read(consumer, 10)[5:] == [f"first {number}" for number in range(5)]
        elect()

        # Without a look at the epochs it would go on at offset 10, and never see what is at 5 to 9 now.
        assert read(consumer, 20) == [f"second {number}" for number in range(20)]
    assert any("consumer.truncated" in each.getMessage() for each in caplog.records)


def test_one_that_resets_nothing_by_itself_is_told_where(kafka):
    elect = lose_the_end(kafka)
    with Consumer(kafka.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        read(consumer, 10)
        elect()
        with pytest.raises(LogTruncationError, match="t-0 at 5; seek there") as told:
            read(consumer, 1)
        assert (told.value.divergent, told.value.positions) == ({TP: 5}, {TP: 10})
        consumer.seek(TP, told.value.divergent[TP])
        assert read(consumer, 20)[0] == "second 0"


@pytest.mark.parametrize("kafka", [3], indirect=True)
def test_a_committed_offset_is_looked_at_too(kafka):
    options = {"group_id": "g", "auto_offset_reset": "earliest"}
    kafka.admin.topics.create(NewTopic("other"))
    with Consumer(kafka.bootstrap_servers, **options) as consumer:
        consumer.commit({TopicPartition("other", 0): 0})  # has the topic of offsets made while all are there
    elect = lose_the_end(kafka)
    with Consumer(kafka.bootstrap_servers, **options) as consumer:
        consumer.assign([TP])
        read(consumer, 10)
        consumer.commit()
    elect()
    with Consumer(kafka.bootstrap_servers, **options) as consumer:
        consumer.assign([TP])
        assert read(consumer, 20)[0] == "second 0"
