"""Records in and out, offsets, Arrow, and what the commands print beside Kafka's scripts."""

import asyncio
import re
import subprocess
import sys
import time

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def topic(bootstrap, topic_name):
    name = topic_name("client")
    with Admin(bootstrap) as admin:
        # Some records are old on purpose: without this, retention may come before the reader.
        admin.topics.create(NewTopic(name, partitions=3, configs={"retention.ms": "-1"}))
    return name


def barnabas(*arguments, stdin=""):
    command = [sys.executable, "-m", "barnabas", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_make_the_round_with_every_codec(bootstrap, topic, codec):
    async def scenario():
        async with AsyncProducer(bootstrap, compression_type=codec, linger_ms=20) as producer:
            stored = [
                await producer.send(topic, f"v{number}", key=f"k{number}", headers=[("n", b"%d" % number)])
                for number in range(1000)
            ]
            places = [await one for one in stored]
        async with AsyncConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign((topic, number) for number in range(3))
            records = []
            while len(records) < 1000:
                records += await consumer.poll(5000)
            assert await consumer.poll(100) == []
        assert {(r.partition, r.offset) for r in records} == {(p.partition, p.offset) for p in places}
        by_key = {r.key: (r.value, list(r.headers)) for r in records}
        assert by_key[b"k7"] == (b"v7", [("n", b"7")])

    asyncio.run(scenario())


@pytest.mark.jvm
def test_a_key_goes_where_the_java_producer_puts_it(bootstrap, topic, kafka_tool):
    keys = [f"key-{number}" for number in range(60)]
    lines = "".join(f"{key}:java\n" for key in keys)
    options = ["--property", "parse.key=true", "--property", "key.separator=:"]
    kafka_tool(
        "kafka-console-producer", "--bootstrap-server", bootstrap, "--topic", topic, *options, input=lines
    )
    with Producer(bootstrap) as producer:
        ours = {key: producer.send_and_wait(topic, "ours", key=key).partition for key in keys}
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign((topic, number) for number in range(3))
        records = []
        while len(records) < 120:
            records += consumer.poll(5000)
    java = {record.key.decode(): record.partition for record in records if record.value == b"java"}
    assert java == ours


def test_many_small_fetches_in_one_session(bootstrap, topic):
    with Producer(bootstrap) as producer, Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign((topic, number) for number in range(3))
        seen = []
        for turn in range(30):
            wanted = [producer.send_and_wait(topic, f"{turn}", partition=number) for number in range(3)]
            while len(seen) < 3 * (turn + 1):
                seen += [(record.partition, record.offset) for record in consumer.poll(2000)]
            assert {(one.partition, one.offset) for one in wanted} <= set(seen)


def test_offsets_and_positions(bootstrap, topic):
    tp = TopicPartition(topic, 0)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, str(number), partition=0, timestamp_ms=1_000_000 + number)
    with Consumer(bootstrap) as consumer:
        consumer.assign([tp])
        assert consumer.position(tp) == 10
        assert consumer.offsets_for_times({tp: 1_000_004})[tp].offset == 4
        assert consumer.offsets_for_times({tp: int(time.time() * 2000)}) == {tp: None}
        consumer.seek(tp, 6)
        (raw,) = consumer.fetch_raw(5000)
        assert (raw.position, raw.high_watermark) == (6, 10)
    with Admin(bootstrap) as admin:
        for timestamp, offset in ((LATEST_TIMESTAMP, 10), (EARLIEST_TIMESTAMP, 0), (MAX_TIMESTAMP, 9)):
            assert admin.offsets.list({tp: timestamp})[tp].offset == offset


def test_arrow_through_the_wire(bootstrap, topic):
    pytest.importorskip("numba")
    with Producer(bootstrap, compression_type="lz4", linger_ms=10) as producer:
        for number in range(5000):
            producer.send(topic, str(number), partition=1)
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 1)])
        values = []
        while len(values) < 5000:
            values += [v for batch in consumer.poll_arrow(20_000) for v in batch.column("value").to_pylist()]
    assert values == [str(number).encode() for number in range(5000)]


def without_elr(text):
    """KRaft's eligible leader replicas come by DescribeTopicPartitions, which a 3.9 cluster does not have:
    the script leaves the columns empty there, ours says N/A to both."""
    return re.sub(r"Elr: (N/A)?", "Elr:", text)


@pytest.mark.jvm
def test_commands_print_what_the_scripts_print(bootstrap, topic, kafka_tool):
    with Producer(bootstrap) as producer:
        for number in range(5):
            producer.send(topic, "x", partition=number % 3)
    server = ["--bootstrap-server", bootstrap]
    for script, command, flags in (
        ("kafka-topics", "topics", ["--describe", "--topic", topic]),
        ("kafka-get-offsets", "get-offsets", ["--topic", topic]),
        ("kafka-get-offsets", "get-offsets", ["--topic-partitions", f"{topic}:1-", "--time", "earliest"]),
        ("kafka-get-offsets", "get-offsets", ["--time", "soon"]),
        (
            "kafka-console-consumer",
            "consume",
            ["--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "2"],
        ),
    ):
        theirs, ours = kafka_tool(script, *server, *flags), barnabas(command, *server, *flags)
        assert without_elr(ours.stdout) == without_elr(theirs.stdout), command
        assert (ours.returncode, ours.stderr.splitlines()[-1:]) == (
            theirs.returncode,
            [line for line in theirs.stderr.splitlines() if not line.startswith("[")][-1:],
        )
