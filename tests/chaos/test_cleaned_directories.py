"""A log that was compacted once, and what became of its topic before the broker was killed: all that the
cleaner left is read.

Each start of these found a gap that the cleaner had left, took it for a loss of power, and dropped all that
lay behind.
"""

import re
import shutil
import time

import pytest
from confluent_kafka import Producer
from whole_partition import read

from barnabas.admin import Admin, ConfigResource, NewTopic

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(120)]

TOPIC = "once-compacted"
SMALL = {"segment.bytes": "65536", "min.cleanable.dirty.ratio": "0.01"}
AT_ONCE = ("log.cleaner.backoff.ms=100", "log.initial.task.delay.ms=100", "offsets.topic.num.partitions=1")
AT_ONCE = tuple(option for setting in AT_ONCE for option in ("--set", setting))
SECONDS = 30


def fill(bootstrap, data, *, replicas=1, **configs):
    """4,000 records over 50 keys, compacted in each of the directories, and 100 more behind;
    all records that are left then.
    """
    with Admin(bootstrap) as admin:
        admin.topics.create([NewTopic(TOPIC, 1, replicas, configs={**SMALL, **configs})])
    produce(bootstrap, 4000, keys=50)
    for each in data:
        wait_until_cleaned(each)
    produce(bootstrap, 100, keys=100)
    left = read(bootstrap, TOPIC)
    assert 100 < len(left) < 1000
    assert left[-1][0] == 4099
    return left


def produce(bootstrap, count, *, keys):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "acks": "all"})
    for number in range(count):
        producer.produce(TOPIC, b"%d " % number * 40, key=b"%d of %d" % (number % keys, keys), partition=0)
        if not number % 100:
            producer.flush()
    assert producer.flush(SECONDS) == 0


def wait_until_cleaned(data):
    """The cleaner has been through all but the last segment, and says so."""
    checkpoint, deadline = data / "cleaner-offset-checkpoint", time.monotonic() + SECONDS
    while True:
        last = max(int(path.stem) for path in (data / f"{TOPIC}-0").glob("*.log"))
        if f"{TOPIC} 0 {last}\n" in checkpoint.read_text():
            return
        assert time.monotonic() < deadline, checkpoint.read_text()
        time.sleep(0.05)


def alter_to_delete(bootstrap):
    with Admin(bootstrap) as admin:
        admin.configs.alter({ConfigResource.topic(TOPIC): {"cleanup.policy": "delete"}})


@pytest.mark.parametrize("missing", [(), ("recovery-point",), ("recovery-point", "cleaner")], ids=str)
def test_the_policy_was_altered(tmp_path, serve, missing):
    data = tmp_path / "data"
    server = serve(data, *AT_ONCE)
    bootstrap = server.wait_until_ready().bootstrap
    left = fill(bootstrap, [data], **{"cleanup.policy": "compact"})
    alter_to_delete(bootstrap)
    for _ in range(2):
        server.kill()
        for name in missing:
            (data / f"{name}-offset-checkpoint").unlink(missing_ok=True)
        server = serve(data)
        assert read(server.wait_until_ready().bootstrap, TOPIC) == left
        assert "segment.dropped" not in server.tail()


def test_the_policy_was_the_brokers(tmp_path, serve):
    data = tmp_path / "data"
    server = serve(data, *AT_ONCE, "--set", "log.cleanup.policy=compact")
    left = fill(server.wait_until_ready().bootstrap, [data])
    server.kill()

    assert read(serve(data).wait_until_ready().bootstrap, TOPIC) == left


def test_all_three_replicas_were_killed(tmp_path, join_cluster):
    data = {broker: tmp_path / str(broker) for broker in (1, 2, 3)}
    servers = [join_cluster(broker, *AT_ONCE) for broker in data]
    for server in servers:
        bootstrap = server.wait_until_ready().bootstrap
    left = fill(bootstrap, data.values(), replicas=3, **{"cleanup.policy": "compact"})
    alter_to_delete(bootstrap)
    for server in servers:
        server.kill()
    servers = [join_cluster(broker) for broker in data]
    for server in servers:
        bootstrap = server.wait_until_ready().bootstrap

    assert read(bootstrap, TOPIC) == left
    # Also where nobody reads: each replica may lead tomorrow.
    assert not any("segment.dropped" in server.tail() for server in servers)


def test_the_store_is_an_older_copy_that_does_not_know_the_topic(tmp_path, serve):
    data, older, newer = tmp_path / "data", tmp_path / "older", tmp_path / "newer"
    server = serve(data, *AT_ONCE)
    server.wait_until_ready()
    assert server.stop() == 0
    keep_store(data, older)
    server = serve(data, *AT_ONCE)
    left = fill(server.wait_until_ready().bootstrap, [data], **{"cleanup.policy": "compact"})
    server.kill()
    keep_store(data, newer)
    put_back(older, data)
    (data / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    server = serve(data)
    server.wait_until_ready()
    assert re.search(f"partitions.unknown count=.*{TOPIC}-0", server.log.read_text())
    server.kill()
    put_back(newer, data)

    assert read(serve(data).wait_until_ready().bootstrap, TOPIC) == left


def test_the_store_is_an_older_copy_that_knows_fewer_partitions(tmp_path, serve):
    """Nothing was said of partitions that were added since."""
    data, older = tmp_path / "data", tmp_path / "older"
    server = serve(data)
    with Admin(server.wait_until_ready().bootstrap) as admin:
        admin.topics.create([NewTopic(TOPIC, 1, 1)])
    assert server.stop() == 0
    keep_store(data, older)
    server = serve(data)
    with Admin(server.wait_until_ready().bootstrap) as admin:
        admin.topics.create_partitions({TOPIC: 3})
    assert server.stop() == 0
    put_back(older, data)
    server = serve(data)
    server.wait_until_ready()

    assert f"partitions.unknown count=2 partitions={TOPIC}-1,{TOPIC}-2" in server.tail()


def keep_store(data, copy):
    copy.mkdir()
    for path in data.glob("metadata.sqlite*"):
        if path.is_file():
            shutil.copy(path, copy)


def put_back(copy, data):
    for path in data.glob("metadata.sqlite*"):
        if path.is_file():
            path.unlink()
    for path in copy.iterdir():
        shutil.copy(path, data)
