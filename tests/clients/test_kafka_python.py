"""kafka-python: produce, read by assigned partition, administer."""

import contextlib

import pytest
from awkward import CODECS, FIRST_TIMESTAMP, SAMPLES, Sample
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

SECONDS = 15


def produce(broker, topic, samples=SAMPLES, **config):
    with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap, **config)) as producer:
        futures = [
            producer.send(
                topic,
                sample.value,
                sample.key,
                headers=sample.headers,
                timestamp_ms=sample.timestamp,
                partition=0,
            )
            for sample in samples
        ]
        producer.flush(SECONDS)
        return [future.get(SECONDS) for future in futures]


@contextlib.contextmanager
def assigned(broker, topic, **config):
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, **config)
    with contextlib.closing(consumer):
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        yield consumer, partition


def read(broker, topic, count):
    with assigned(broker, topic) as (consumer, partition):
        consumer.seek(partition, 0)
        records = []
        for _ in range(100):
            records += consumer.poll(timeout_ms=200).get(partition, [])
            if len(records) >= count:
                break
        return records


def sample_of(record):
    return Sample(record.key, record.value, list(record.headers), record.timestamp)


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(broker, make_topic, codec):
    topic = make_topic(f"kafka-python-{codec}")

    sent = produce(broker, topic, compression_type=None if codec == "none" else codec, linger_ms=5)

    records = read(broker, topic, len(SAMPLES))
    assert [sample_of(record) for record in records] == SAMPLES
    assert [metadata.offset for metadata in sent] == [record.offset for record in records] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(broker, make_topic, acks):
    topic = make_topic(f"kafka-python-acks-{acks}")

    produce(broker, topic, acks=acks, enable_idempotence=acks == "all")

    assert [sample_of(record) for record in read(broker, topic, len(SAMPLES))] == SAMPLES


def test_an_idempotent_producer_writes_each_record_once(broker, make_topic):
    topic = make_topic("kafka-python-idempotent")
    samples = [Sample(None, b"%d" % n, [], FIRST_TIMESTAMP + n) for n in range(1000)]

    sent = produce(broker, topic, samples, enable_idempotence=True, batch_size=1000)

    assert [metadata.offset for metadata in sent] == list(range(1000))
    assert [record.value for record in read(broker, topic, 1000)] == [sample.value for sample in samples]


def test_offsets_by_time_and_at_both_ends(broker, make_topic):
    topic = make_topic("kafka-python-offsets")
    produce(broker, topic)

    with assigned(broker, topic) as (consumer, partition):
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: len(SAMPLES)}
        found = consumer.offsets_for_times({partition: FIRST_TIMESTAMP + 4})[partition]
        assert (found.offset, found.timestamp) == (1, FIRST_TIMESTAMP + 7)


def test_a_record_too_large_is_refused(broker, make_topic):
    topic = make_topic("kafka-python-large", max_message_bytes="10000")

    with pytest.raises(MessageSizeTooLargeError):
        produce(broker, topic, [Sample(None, b"x" * 20_000, [], FIRST_TIMESTAMP)])


def test_topics_are_created_listed_described_and_deleted(broker, topic_name):
    name = topic_name("kafka-python-admin")
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics([NewTopic(name, 3, 1)], wait_for_metadata=True)

        (described,) = admin.describe_topics([name])
        assert (described["name"], len(described["partitions"])) == (name, 3)
        assert name in admin.list_topics()
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(name, 3, 1)])

        admin.delete_topics([name])
        assert name not in admin.list_topics()


def test_the_cluster_and_configs_are_described(broker, make_topic):
    name = make_topic("kafka-python-configs", retention_ms="654321")
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        cluster = admin.describe_cluster()
        assert broker.port in [node["port"] for node in cluster["brokers"]]

        described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        assert "654321" in str(described)
