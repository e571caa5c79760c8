"""confluent-kafka (librdkafka): transactions, read by consumers of committed records."""

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

SECONDS = 20


def transactional(broker, transactional_id):
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 5,
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(SECONDS)
    return producer


def committed_reader(broker, group="by-hand", isolation="read_committed"):
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )


def read_to_end(broker, topic, isolation="read_committed"):
    """The values of a partition up to where such a reader may go."""
    consumer = committed_reader(broker, isolation=isolation)
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        values = []
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None
            if message.error():
                return values
            values.append(message.value().decode())
    finally:
        consumer.close()


def write(producer, topic, *values):
    for value in values:
        producer.produce(topic, value, partition=0)


@pytest.mark.timeout(90)
def test_committed_records_are_read_and_aborted_ones_are_not(broker, make_topic):
    topic = make_topic("transactions")
    producer = transactional(broker, topic)
    for number, ends in enumerate((True, False, True)):
        producer.begin_transaction()
        write(producer, topic, f"{number}a", f"{number}b")
        producer.commit_transaction(SECONDS) if ends else producer.abort_transaction(SECONDS)

    assert read_to_end(broker, topic) == ["0a", "0b", "2a", "2b"]


@pytest.mark.timeout(90)
def test_an_open_transaction_holds_its_readers_back(broker, make_topic):
    topic = make_topic("open")
    producer = transactional(broker, topic)
    producer.begin_transaction()
    write(producer, topic, "open")
    assert producer.flush(SECONDS) == 0

    assert read_to_end(broker, topic, isolation="read_uncommitted") == ["open"]
    assert read_to_end(broker, topic) == []
    producer.commit_transaction(SECONDS)
    assert read_to_end(broker, topic) == ["open"]


@pytest.mark.timeout(90)
def test_a_new_producer_fences_the_earlier_one_and_aborts_what_it_left(broker, make_topic):
    topic = make_topic("fenced")
    zombie = transactional(broker, topic)
    zombie.begin_transaction()
    write(zombie, topic, "left open")
    assert zombie.flush(SECONDS) == 0

    later = transactional(broker, topic)

    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(SECONDS)
    assert refused.value.args[0].fatal()
    later.begin_transaction()
    write(later, topic, "later")
    later.commit_transaction(SECONDS)
    assert read_to_end(broker, topic) == ["later"]


@pytest.mark.timeout(90)
def test_offsets_are_committed_with_their_transaction(broker, make_topic):
    source, target = make_topic("source"), make_topic("target")
    producer = transactional(broker, target)
    producer.begin_transaction()
    write(producer, source, "one", "two", "three")
    producer.commit_transaction(SECONDS)
    group = f"copies-{target}"

    def copy(count, ends):
        consumer = committed_reader(broker, group)
        consumer.subscribe([source])
        producer.begin_transaction()
        done = 0
        while done < count:
            message = consumer.poll(SECONDS)
            assert message is not None
            if not message.error():
                write(producer, target, message.value())
                done += 1
        next_offset = TopicPartition(source, 0, message.offset() + 1)
        producer.send_offsets_to_transaction([next_offset], consumer.consumer_group_metadata(), SECONDS)
        producer.commit_transaction(SECONDS) if ends else producer.abort_transaction(SECONDS)
        consumer.close()
        return position()

    def position():
        consumer = committed_reader(broker, group)
        (found,) = consumer.committed([TopicPartition(source, 0)], SECONDS)
        consumer.close()
        return found.offset

    # librdkafka's first auto.offset.reset would be the end, so the group is given a beginning.
    consumer = committed_reader(broker, group)
    consumer.commit(offsets=[TopicPartition(source, 0, 0)], asynchronous=False)
    consumer.close()
    assert copy(2, ends=False) == 0
    assert copy(2, ends=True) == 2
    assert copy(1, ends=True) == 3
    assert read_to_end(broker, target) == ["one", "two", "three"]
