"""Partitions that moved between log directories, or were on their way, under the next broker:
Apache Kafka's, then ours again.
"""

import kafka_harness
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bare_requests import Asker
from barnabas.admin import Admin, ConfigResource, NewTopic, TopicPartitionReplica
from barnabas.client import Producer
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SELF = ConfigResource.broker(0)
RECORDS, SIZE = 100, 20_000
VALUES = [number.to_bytes(4, "big") * (SIZE // 4) for number in range(RECORDS)]


def read(bootstrap, topic):
    """The values of the topic's only partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "by-hand", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found = []
        until(
            lambda: found.extend(consumer.consume(RECORDS, 1)) or len(found) >= RECORDS,
            lambda: f"{len(found)} records",
        )
        return [message.value() for message in found]
    finally:
        consumer.close()


def home(folders, topic):
    """The folder that has the partition, while it is in one and on its way to none."""
    found = [folder for folder in folders if (folder / f"{topic}-0").exists()]
    on_the_way = [folder for folder in folders if list(folder.glob(f"{topic}-0.*-future"))]
    return found[0] if len(found) == 1 and not on_the_way else None


def other(folders, folder):
    return folders[1 - folders.index(folder)]


def epoch_ends(bootstrap, topic, partitions=2):
    """Where the leader epochs -1, 0 and 1 of each partition end, as the broker answers it."""
    wanted = [
        OffsetForLeaderPartition(partition=partition, leader_epoch=epoch)
        for partition in range(partitions)
        for epoch in (-1, 0, 1)
    ]
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=wanted)])
    ends = Asker(int(bootstrap.rpartition(":")[2])).ask(request, 4).topics[0].partitions
    return [(each.partition, each.error_code, each.leader_epoch, each.end_offset) for each in ends]


@pytest.fixture
def our_life(serve, tmp_path, zookeeper, folders):
    """Starts our broker on the directories and on ZooKeeper."""

    def start():
        settings = {
            "broker.id": 0,
            "zookeeper.connect": f"{zookeeper}/moved-directories",
            "log.dirs": ",".join(map(str, folders)),
        }
        server = serve(tmp_path / "ours", *(f"--set={key}={value}" for key, value in settings.items()))
        server.wait_until_ready()
        return server

    return start


@pytest.fixture
def folders(tmp_path):
    return [tmp_path / "one", tmp_path / "two"]


def test_the_next_broker_finds_all_and_ends_the_move(our_life, zookeeper, tmp_path, folders):
    ours = our_life()
    with Admin(ours.bootstrap) as admin, Producer(ours.bootstrap) as producer:
        targets = {}
        for topic in ("moved", "moving"):
            admin.topics.create(NewTopic(topic, 1, 1, configs={"segment.bytes": "300000"}))
            for value in VALUES:
                producer.send(topic, value)
            producer.flush()
            targets[topic] = other(folders, home(folders, topic))
        admin.log_dirs.alter_replicas({TopicPartitionReplica(0, "moved", 0): str(targets["moved"])})
        until(lambda: home(folders, "moved") == targets["moved"], "the move")
        admin.configs.alter({SELF: {RATE: "0"}})
        until(lambda: RATE in admin.configs.describe(SELF)[SELF], "the throttle")
        admin.log_dirs.alter_replicas({TopicPartitionReplica(0, "moving", 0): str(targets["moving"])})
        until(lambda: list(targets["moving"].glob("moving-0.*-future/*.log")), "a future log")
    assert ours.stop() == 0
    assert home(folders, "moving") is None

    (tmp_path / "genuine").mkdir()
    settings = {"log.dirs": ",".join(map(str, folders))}
    kafka = kafka_harness.start_broker(tmp_path / "genuine", f"{zookeeper}/moved-directories", 0, settings)
    try:
        bootstrap = kafka.wait_until_listening().bootstrap
        assert read(bootstrap, "moved") == VALUES
        assert read(bootstrap, "moving") == VALUES
        with Admin(bootstrap) as admin:
            admin.configs.alter({SELF: {RATE: None}})
        until(lambda: home(folders, "moving") == targets["moving"], "Kafka ends the move that ours began")
        assert read(bootstrap, "moving") == VALUES
        # The other way round: Kafka begins one, and ours ends it.
        with Admin(bootstrap) as admin:
            admin.configs.alter({SELF: {RATE: "1"}})
            until(lambda: RATE in admin.configs.describe(SELF)[SELF], "the throttle")
            back = other(folders, targets["moved"])
            admin.log_dirs.alter_replicas({TopicPartitionReplica(0, "moved", 0): str(back)})
            until(lambda: list(back.glob("moved-0.*-future/*.log")), "a future log of Kafka's")
        assert kafka.stop() in {0, 143}
    finally:
        kafka.kill()
    complaints = [line for line in kafka.tail().splitlines() if "ERROR" in line or "orrupt" in line]
    assert complaints == []
    assert home(folders, "moved") is None

    again = our_life()
    assert read(again.bootstrap, "moved") == VALUES
    with Admin(again.bootstrap) as admin:
        admin.configs.alter({SELF: {RATE: None}})
    until(lambda: home(folders, "moved") == back, "ours ends the move that Kafka began")
    assert read(again.bootstrap, "moved") == VALUES
    assert again.stop() == 0


@pytest.mark.parametrize("side", ["Apache Kafka", "ours"])
def test_an_epoch_without_a_record_is_forgotten_by_a_move(side, our_life, zookeeper, tmp_path, folders):
    if side == "ours":
        server = our_life()
    else:
        settings = {"log.dirs": ",".join(map(str, folders))}
        server = kafka_harness.start_broker(tmp_path, f"{zookeeper}/moved-epochs", 0, settings)
        server.wait_until_listening()
    try:
        with Admin(server.bootstrap) as admin, Producer(server.bootstrap) as producer:
            admin.topics.create(NewTopic("epochs", 2, 1))
            producer.send("epochs", b"one", partition=1)
            producer.flush()
            before = epoch_ends(server.bootstrap, "epochs")
            for partition in (0, 1):
                here = next(folder for folder in folders if (folder / f"epochs-{partition}").exists())
                target = other(folders, here)
                moved = TopicPartitionReplica(0, "epochs", partition)
                admin.log_dirs.alter_replicas({moved: str(target)})
                until(
                    lambda name=target / f"epochs-{partition}", old=here / f"epochs-{partition}": (
                        name.exists() and not old.exists()
                    ),
                    "the move",
                )

        unknown = [(0, 0, -1, -1), (1, 0, -1, -1)]
        assert before == [unknown[0], (0, 0, 0, 0), unknown[0], unknown[1], (1, 0, 0, 1), unknown[1]]
        assert epoch_ends(server.bootstrap, "epochs") == [*[unknown[0]] * 3, *before[3:]]
    finally:
        server.kill()
