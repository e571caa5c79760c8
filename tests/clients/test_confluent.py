"""confluent-kafka (librdkafka): produce, read by assigned partition, administer."""

import time
from collections import Counter

import pytest
from awkward import CODECS, FIRST_TIMESTAMP, SAMPLES, Sample
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

SECONDS = 15


def produce(broker, topic, samples=SAMPLES, partition=0, **config):
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **config})
    reports = []
    for sample in samples:
        producer.produce(
            topic,
            key=sample.key,
            value=sample.value,
            headers=sample.headers,
            timestamp=sample.timestamp,
            partition=partition,
            on_delivery=lambda error, message: reports.append((error, message)),
        )
    assert producer.flush(SECONDS) == 0
    assert [error for error, _ in reports if error] == []
    return [message for _, message in reports]


def reader(broker, **config):
    """A consumer that reads what it is assigned, and commits nothing: no group is part of it."""
    fixed = {"bootstrap.servers": broker.bootstrap, "group.id": "by-hand", "enable.auto.commit": False}
    return Consumer({**fixed, **config})


def read(broker, topic, count, partition=0, offset=OFFSET_BEGINNING):
    consumer = reader(broker)
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        return read_assigned(consumer, count)
    finally:
        consumer.close()


def read_assigned(consumer, count):
    messages = []
    deadline = time.monotonic() + SECONDS
    while len(messages) < count and time.monotonic() < deadline:
        messages += consumer.consume(count - len(messages), timeout=0.5)
    assert [message.error() for message in messages if message.error()] == []
    return messages


def sample_of(message):
    return Sample(message.key(), message.value(), message.headers() or [], message.timestamp()[1])


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(broker, make_topic, codec):
    topic = make_topic(f"librdkafka-{codec}")

    produce(broker, topic, **{"compression.type": codec})

    messages = read(broker, topic, len(SAMPLES))
    assert [sample_of(message) for message in messages] == SAMPLES
    assert [message.offset() for message in messages] == list(range(len(SAMPLES)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(broker, make_topic, acks):
    topic = make_topic(f"librdkafka-acks-{acks}")

    produce(broker, topic, acks=acks)

    assert [sample_of(message) for message in read(broker, topic, len(SAMPLES))] == SAMPLES


def test_an_idempotent_producer_writes_each_record_once(broker, make_topic):
    topic = make_topic("librdkafka-idempotent")
    samples = [Sample(None, b"%d" % n, [], FIRST_TIMESTAMP + n) for n in range(5000)]

    reports = produce(
        broker, topic, samples, **{"enable.idempotence": True, "batch.num.messages": 100, "linger.ms": 0}
    )

    assert sorted(message.offset() for message in reports) == list(range(5000))
    assert [message.value() for message in read(broker, topic, 5000)] == [s.value for s in samples]


def test_keys_spread_over_partitions_and_stay_together(broker, make_topic):
    topic = make_topic("librdkafka-keys", partitions=3)
    samples = [Sample(b"key-%d" % (n % 20), b"%d" % n, [], FIRST_TIMESTAMP) for n in range(200)]

    reports = produce(broker, topic, samples, partition=-1)

    counts = Counter(message.partition() for message in reports)
    homes = {message.key(): message.partition() for message in reports}
    assert set(counts) == {0, 1, 2}
    for partition, count in counts.items():
        assert {homes[m.key()] for m in read(broker, topic, count, partition)} == {partition}


def test_reading_starts_where_the_consumer_seeks(broker, make_topic):
    topic = make_topic("librdkafka-seek")
    produce(broker, topic)

    messages = read(broker, topic, 2, offset=3)

    assert [message.offset() for message in messages] == [3, 4]


def test_offsets_by_time_and_at_both_ends(broker, make_topic):
    topic = make_topic("librdkafka-offsets")
    produce(broker, topic)
    consumer = reader(broker)
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), SECONDS) == (0, len(SAMPLES))
        asked = [TopicPartition(topic, 0, FIRST_TIMESTAMP + 4)]
        assert [found.offset for found in consumer.offsets_for_times(asked, SECONDS)] == [1]
        late = [TopicPartition(topic, 0, FIRST_TIMESTAMP + 10_000_000)]
        assert [found.offset for found in consumer.offsets_for_times(late, SECONDS)] == [-1]
    finally:
        consumer.close()


def test_a_consumer_that_waits_gets_what_comes_later(broker, make_topic):
    topic = make_topic("librdkafka-tail")
    consumer = reader(broker)
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert consumer.poll(0.3) is None
        produce(broker, topic)
        assert [sample_of(message) for message in read_assigned(consumer, len(SAMPLES))] == SAMPLES
    finally:
        consumer.close()


def test_an_offset_out_of_range_is_told(broker, make_topic):
    topic = make_topic("librdkafka-range")
    produce(broker, topic)
    consumer = reader(broker, **{"auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 1000)])
        message = consumer.poll(SECONDS)
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    finally:
        consumer.close()


def test_a_record_too_large_is_refused(broker, make_topic):
    topic = make_topic("librdkafka-large", max_message_bytes="10000")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    errors = []
    producer.produce(topic, b"x" * 20_000, on_delivery=lambda error, _: errors.append(error.code()))

    assert producer.flush(SECONDS) == 0
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_log_append_time_is_the_brokers(broker, make_topic):
    topic = make_topic("librdkafka-append-time", message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000

    produce(broker, topic, [Sample(b"k", b"v", [], FIRST_TIMESTAMP)])

    kind, timestamp = read(broker, topic, 1)[0].timestamp()
    assert kind == 2
    assert before_ms - 1000 <= timestamp <= time.time_ns() // 1_000_000 + 1000


def test_topics_are_created_listed_described_and_deleted(broker, topic_name):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    name = topic_name("librdkafka-admin")

    admin.create_topics([NewTopic(name, 4, 1)])[name].result(SECONDS)

    described = admin.list_topics(name, SECONDS).topics[name]
    assert sorted(described.partitions) == [0, 1, 2, 3]
    leader = described.partitions[2].leader
    assert (described.partitions[2].replicas, described.partitions[2].isrs) == ([leader], [leader])
    assert name in admin.list_topics(timeout=SECONDS).topics

    admin.delete_topics([name])[name].result(SECONDS)

    assert name not in admin.list_topics(timeout=SECONDS).topics


def test_a_topic_that_exists_is_not_created_again(broker, make_topic):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    name = make_topic("librdkafka-exists")

    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS)

    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (NewTopic("a b", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("too-many-replicas", 1, 99), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("no-such-config", 1, 1, config={"cleanup.policy": "sometimes"}), KafkaError.INVALID_CONFIG),
    ],
    ids=lambda value: value.topic.replace(" ", "_") if isinstance(value, NewTopic) else "",
)
def test_a_topic_that_cannot_be_is_refused_with_kafkas_code(broker, wanted, code):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    with pytest.raises(KafkaException) as refused:
        admin.create_topics([wanted])[wanted.topic].result(SECONDS)

    assert refused.value.args[0].code() == code


def test_validate_only_creates_nothing(broker, topic_name):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    name = topic_name("librdkafka-validated")

    admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name].result(SECONDS)

    assert name not in admin.list_topics(timeout=SECONDS).topics


def test_configs_of_a_topic_are_described(broker, make_topic):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    name = make_topic("librdkafka-configs", retention_ms="123456", cleanup_policy="compact")
    resource = ConfigResource(ResourceType.TOPIC, name)

    entries = admin.describe_configs([resource])[resource].result(SECONDS)

    assert (entries["retention.ms"].value, entries["cleanup.policy"].value) == ("123456", "compact")
    assert not entries["retention.ms"].is_default
    assert (entries["segment.bytes"].value, entries["segment.bytes"].is_default) == ("1073741824", True)


def test_the_cluster_and_its_offsets_are_described(broker, make_topic):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    name = make_topic("librdkafka-cluster")
    produce(broker, name)

    cluster = admin.describe_cluster(request_timeout=SECONDS).result(SECONDS)
    assert (broker.host, broker.port) in {(node.host, node.port) for node in cluster.nodes}
    assert cluster.controller.id in {node.id for node in cluster.nodes}

    partition = TopicPartition(name, 0)
    latest = admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(SECONDS)
    newest = admin.list_offsets({partition: OffsetSpec.max_timestamp()})[partition].result(SECONDS)
    assert (latest.offset, newest.offset, newest.timestamp) == (5, 4, SAMPLES[4].timestamp)
