"""aiokafka: produce, read by assigned partition, administer."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from awkward import CODECS, FIRST_TIMESTAMP, SAMPLES, Sample

SECONDS = 15


async def produce(broker, topic, samples=SAMPLES, **config):
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **config) as producer:
        futures = [
            await producer.send(
                topic,
                sample.value,
                sample.key,
                headers=sample.headers,
                timestamp_ms=sample.timestamp,
                partition=0,
            )
            for sample in samples
        ]
        return await asyncio.gather(*futures)


async def read(broker, topic, count):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    async with consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        async with asyncio.timeout(SECONDS):
            return [await consumer.getone(partition) for _ in range(count)]


def sample_of(record):
    return Sample(record.key, record.value, list(record.headers), record.timestamp)


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(broker, make_topic, codec):
    topic = make_topic(f"aiokafka-{codec}")

    async def round_trip():
        sent = await produce(broker, topic, compression_type=None if codec == "none" else codec, linger_ms=5)
        return sent, await read(broker, topic, len(SAMPLES))

    sent, records = asyncio.run(round_trip())

    assert [sample_of(record) for record in records] == SAMPLES
    assert [metadata.offset for metadata in sent] == [record.offset for record in records] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(broker, make_topic, acks):
    topic = make_topic(f"aiokafka-acks-{acks}")

    async def round_trip():
        await produce(broker, topic, acks=acks)
        return await read(broker, topic, len(SAMPLES))

    assert [sample_of(record) for record in asyncio.run(round_trip())] == SAMPLES


def test_an_idempotent_producer_writes_each_record_once(broker, make_topic):
    topic = make_topic("aiokafka-idempotent")
    samples = [Sample(None, b"%d" % n, [], FIRST_TIMESTAMP + n) for n in range(1000)]

    async def round_trip():
        sent = await produce(broker, topic, samples, enable_idempotence=True, max_batch_size=1000)
        return sent, await read(broker, topic, 1000)

    sent, records = asyncio.run(round_trip())

    assert [metadata.offset for metadata in sent] == list(range(1000))
    assert [record.value for record in records] == [sample.value for sample in samples]


def test_offsets_by_time_and_at_both_ends(broker, make_topic):
    topic = make_topic("aiokafka-offsets")
    partition = TopicPartition(topic, 0)

    async def ask():
        await produce(broker, topic)
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
            consumer.assign([partition])
            first = await consumer.beginning_offsets([partition])
            last = await consumer.end_offsets([partition])
            return first, last, await consumer.offsets_for_times({partition: FIRST_TIMESTAMP + 4})

    first, last, found = asyncio.run(ask())

    assert (first[partition], last[partition]) == (0, len(SAMPLES))
    assert (found[partition].offset, found[partition].timestamp) == (1, FIRST_TIMESTAMP + 7)


def test_topics_are_created_listed_described_and_deleted(broker, topic_name):
    name = topic_name("aiokafka-admin")

    async def administer():
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, 2, 1)])
            (described,) = await admin.describe_topics([name])
            listed = await admin.list_topics()
            await admin.delete_topics([name])
            return described, listed, await admin.list_topics()
        finally:
            await admin.close()

    described, listed, left = asyncio.run(administer())

    assert (described["topic"], len(described["partitions"])) == (name, 2)
    assert name in listed
    assert name not in left
