"""A broker of a cluster that finds the first segments of a partition gone:
the other one keeps its records, and gives them back.
"""

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from whole_partition import read

from barnabas.admin import Admin, NewTopic

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(120)]

TOPIC = "orders"
RECORDS = 200
SECONDS = 30


@pytest.fixture
def pair(tmp_path, join_cluster):
    """Brokers 1 and 2 with a replica each of many segments; the folders of the replicas."""
    servers = {broker: join_cluster(broker) for broker in (1, 2)}
    for server in servers.values():
        bootstrap = server.wait_until_ready().bootstrap
    with Admin(bootstrap) as admin:
        admin.topics.create([NewTopic(TOPIC, 1, 2, configs={"segment.bytes": "2000"})])
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number * 20, partition=0)
        producer.flush(SECONDS)
    return servers, {broker: tmp_path / str(broker) / f"{TOPIC}-0" for broker in servers}


def lose_front(folder: Path) -> None:
    for path in sorted(folder.glob("*.log"))[:3]:
        path.unlink()


def records_in(folder: Path) -> bytes:
    """What the segments hold; nothing while their broker replaces them."""
    try:
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    except FileNotFoundError:
        return b""


def until(what) -> None:
    deadline = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def offsets(bootstrap: str) -> list[int]:
    return [offset for offset, _ in read(bootstrap, TOPIC)]


@pytest.mark.parametrize("damaged", [1, 2])
def test_a_replica_that_lost_its_front_while_the_other_led_has_all_of_it_again(pair, join_cluster, damaged):
    servers, folders = pair
    other = 3 - damaged
    whole = records_in(folders[other])
    servers[damaged].kill()
    lose_front(folders[damaged])
    server = join_cluster(damaged)
    server.wait_until_ready()
    until(lambda: records_in(folders[damaged]) == whole)
    assert "log.lost_front" in server.log.read_text()
    assert "partition.fills_front" in server.log.read_text()
    assert records_in(folders[other]) == whole


def test_a_replica_that_lost_its_front_and_leads_costs_the_other_nothing(pair, join_cluster):
    """Both were killed, and the damaged one is there first:
    the other one deleted its records below the new start.
    """
    servers, folders = pair
    whole = records_in(folders[2])
    for server in servers.values():
        server.kill()
    lose_front(folders[1])
    damaged = join_cluster(1)
    left = offsets(damaged.wait_until_ready().bootstrap)
    assert 0 < len(left) < RECORDS
    assert left == list(range(RECORDS - len(left), RECORDS))
    other = join_cluster(2)
    bootstrap = other.wait_until_ready().bootstrap
    with Admin(bootstrap) as admin:
        until(lambda: len(admin.topics.describe([TOPIC])[TOPIC].partitions[0].isr) == 2)
    assert records_in(folders[2]) == whole
    damaged.kill()

    assert offsets(bootstrap) == list(range(RECORDS))
