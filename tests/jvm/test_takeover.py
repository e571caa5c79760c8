"""A genuine Kafka 3.9 broker takes over what ours leaves behind:
its znodes, in ZooKeeper, and its log directory.
"""

import contextlib
import shutil
import sqlite3
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "log"))

import kafka_harness
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kazoo.client import KazooClient
from log_world import World
from three_brokers import JVM_STOPPED
from topics_there import create_topics

from barnabas.core.ids import TopicPartition as Place
from barnabas.log.filesystem import OsFilesystem

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(180)]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def produce(bootstrap: str, codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 5,
        }
    )
    for number in range(300):
        producer.produce("heirloom", f"{codec} {number}", key=codec, partition=number % 2)
    assert producer.flush(60) == 0


def read(bootstrap: str, partition: int, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "by-hand", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("heirloom", partition, OFFSET_BEGINNING)])
        messages = []
        for _ in range(30):
            messages += consumer.consume(count - len(messages), timeout=0.5)
            if len(messages) == count:
                break
        return [message.value() for message in messages]
    finally:
        consumer.close()


def leave_behind(serve, data: Path) -> None:
    """Our broker lives, takes records of every codec, and ends."""
    # In profile 4.4 the store has levels of features, with which a Kafka of 3.9 does not start.
    server = serve(data, "--set", "barnabas.api.profile=3.9")
    bootstrap = server.wait_until_ready().bootstrap
    create_topics(
        bootstrap, NewTopic("heirloom", 2, 1, config={"segment.bytes": "16384", "retention.ms": "-1"})
    )
    for codec in CODECS:
        produce(bootstrap, codec)
    assert server.stop() == 0


def copy_znodes(data: Path, zookeeper: str, chroot: str) -> None:
    """Every znode of the embedded store that outlives its session, into ZooKeeper below `chroot`."""
    (store,) = (path for path in data.rglob("*") if path.is_file() and path.read_bytes()[:6] == b"SQLite")
    with contextlib.closing(sqlite3.connect(store)) as database:
        znodes = database.execute("SELECT path, data FROM znode WHERE owner = 0 ORDER BY path").fetchall()
    client = KazooClient(zookeeper)
    client.start(15)
    try:
        for path, value in znodes:
            client.ensure_path(chroot + path.rstrip("/"))
            if value is not None:
                client.set(chroot + path.rstrip("/"), value)
    finally:
        client.stop()
        client.close()


def copy_log_directory(data: Path, target: Path) -> None:
    """The partitions, the checkpoints and meta.properties; not what is our own."""
    target.mkdir(parents=True)
    for path in data.iterdir():
        if path.is_dir() and path.name.rpartition("-")[2].isdigit():
            shutil.copytree(path, target / path.name)
        elif path.name == "meta.properties" or path.name.endswith("-checkpoint"):
            shutil.copy(path, target)
    shutil.copy(data / ".kafka_cleanshutdown", target)


def test_kafka_serves_and_continues_what_ours_wrote(serve, zookeeper, server_folder):
    folder = server_folder / "takeover"
    data = folder / "ours"
    folder.mkdir()
    leave_behind(serve, data)
    copy_log_directory(data, folder / "data")
    copy_znodes(data, zookeeper, "/takeover")
    batches = {path: path.read_bytes() for path in (folder / "data").rglob("*.batches")}
    assert batches, "what Kafka does not know lies in the directory"

    server = kafka_harness.start_broker(folder, f"{zookeeper}/takeover")
    try:
        bootstrap = server.wait_until_listening().bootstrap
        for partition in (0, 1):
            expected = [f"{c} {n}".encode() for c in CODECS for n in range(300) if n % 2 == partition]
            assert read(bootstrap, partition, len(expected)) == expected
        produce(bootstrap, "zstd")
        assert len(read(bootstrap, 0, 900)) == 900
        resource = ConfigResource(ResourceType.TOPIC, "heirloom")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        described = admin.describe_configs([resource])[resource].result(60)
        assert described["segment.bytes"].value == "16384"
        assert server.stop() == JVM_STOPPED
        assert {path: path.read_bytes() for path in batches} == batches, "Kafka leaves them alone"
    finally:
        server.kill()
    assert_producers_known(folder / "data")
    complaints = [line for line in server.tail().splitlines() if "ERROR" in line or "orrupt" in line]
    assert complaints == []


def assert_producers_known(data: Path) -> None:
    """Ours, on a directory that Kafka has closed:
    five batches of each producer are known, as far as the log has them.
    """
    world = World(OsFilesystem(), str(data))
    manager = world.manager()
    meta = manager.open_directories()
    manager.start(broker_id=meta.broker_id, cluster_id=meta.cluster_id).result()
    for partition in (0, 1):
        log = manager.get(Place("heirloom", partition))
        held: dict[int, list[int]] = {}
        for segment in log.segments:
            for header in segment.headers_from(0):
                held.setdefault(header.producer_id, []).append(header.last_offset)
        known = {
            number: [each.last_offset for each in state.batches]
            for number, state in log.producers.producers.items()
        }
        newest = max(held, key=lambda number: held[number][-1])
        assert known[newest] == held[newest][-5:]
        assert all(offsets[-len(known[number]) :] == known[number] for number, offsets in held.items())
    manager.shutdown()
