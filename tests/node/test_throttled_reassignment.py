"""KIP-73 between brokers: a replica that is added under a throttle waits for it, and comes into sync once it
is lifted.
"""

import os

import pytest

from barnabas.admin.admin import Admin
from barnabas.admin.types import ConfigResource, NewTopic
from barnabas.client import Producer, TopicPartition
from waiting import until

OPTIONS = (
    *("--set", "replica.fetch.backoff.ms=50", "--set", "replica.fetch.wait.max.ms=100"),
    *("--set", "replica.fetch.max.bytes=10000", "--set", "replica.fetch.response.max.bytes=10000"),
)
RECORDS, SIZE = 2000, 2000
TP = TopicPartition("moved", 0)


@pytest.fixture
def servers(join_cluster):
    """Two brokers, and a topic of many fetches that only broker 1 has."""
    servers = [join_cluster(number, *OPTIONS) for number in (1, 2)]
    for server in servers:
        server.wait_until_ready()
    with Admin(servers[0].bootstrap) as admin:
        admin.topics.create(NewTopic("moved", assignment={0: [1]}))
    with Producer(servers[0].bootstrap, batch_size=SIZE) as producer:
        for sent in [producer.send("moved", os.urandom(SIZE), partition=0) for _ in range(RECORDS)]:
            sent.result()
    return servers


@pytest.mark.parametrize(("side", "rate"), [("leader", "0"), ("follower", "1")])
def test_a_throttle_holds_a_replica_that_is_added_until_it_is_lifted(servers, side, rate):
    rates = {ConfigResource.broker(number): {f"{side}.replication.throttled.rate": rate} for number in (1, 2)}
    replicas = {ConfigResource.topic("moved"): {f"{side}.replication.throttled.replicas": "0:1,0:2"}}
    copy = servers[1].data_dir / "moved-0" / "00000000000000000000.log"
    with Admin(servers[0].bootstrap) as admin:
        admin.configs.alter({**rates, **replicas})
        admin.partitions.reassign({TP: [1, 2]})
        # The first fetch finds nothing used of the quota; at a byte a second the others take days.
        until(lambda: copy.exists() and copy.stat().st_size > 0)
        assert copy.stat().st_size < RECORDS * SIZE / 2
        assert [*admin.partitions.reassignments()] == [TP]

        admin.configs.alter({ConfigResource.topic("moved"): dict.fromkeys(next(iter(replicas.values())))})
        until(lambda: not admin.partitions.reassignments())
        assert sorted(admin.topics.describe(["moved"])["moved"].partitions[0].isr) == [1, 2]
