"""``barnabas explain partition``:
the decision about a partition, its znode, and what each broker was told.
"""

from dataclasses import replace

import pytest

from barnabas.admin import Admin, ClusterDescription, NewTopic
from barnabas.client.metadata import Broker, PartitionMetadata
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.network.errors import DisconnectedError
from barnabas.operations.partition_stations import PartitionStations, lines
from waiting import until


@pytest.fixture
def explain(barnabas):
    return lambda *flags: barnabas("explain", "partition", *map(str, flags))


def stations(result):
    assert result.exit_code == 0, result.stderr
    return [line.split(maxsplit=1) for line in result.stdout.replace("in sync", "in-sync").splitlines()]


def test_a_partition_is_explained_before_and_after_its_leader_dies(join_cluster, explain, tmp_path):
    servers = {}
    for number in (1, 2):  # one after the other: the first is the controller
        servers[number] = join_cluster(number)
        servers[number].wait_until_ready()
    server = ("--bootstrap-server", servers[1].bootstrap)
    store = ("--store", tmp_path)
    with Admin(servers[1].bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [2, 1]}))
        admin.topics.create(NewTopic("lone", assignment={0: [2]}))

        until(lambda: "brokers 1,2 know this" in explain("t", 0, *server).stdout, "UpdateMetadata")
        found = dict(stations(explain("t", 0, *server, *store)))
        assert found["partition"] == "t-0, replicas 2,1"
        assert found["leader"] == "broker 2, since leader epoch 0; the preferred one"
        assert found["in-sync"].endswith("; min.insync.replicas=1, so it takes records with acks=all")
        assert found["controller"] == "broker 1"
        assert found["znode"].startswith("leader 2, leader epoch 0, ISR 2,1; partition epoch ")
        assert "written under controller epoch 1 (now 1) at 20" in found["znode"]
        assert found["LeaderAndIsr"] == "broker 2 was told to lead: it answers as the leader"
        assert found["UpdateMetadata"] == "brokers 1,2 know this"

        servers[2].kill()
        until(lambda: admin.topics.describe(["t"])["t"].partitions[0].leader == 1, "the next leader")
        until(lambda: admin.topics.describe(["lone"])["lone"].partitions[0].leader < 0, "no leader")
        shown = explain("t", 0, *server).stdout
        assert "broker 1, since leader epoch 1; preferred is 2" in shown
        assert "2: this broker is not registered, so it is down or has lost its session" in shown
        shown = explain("lone", 0, *server).stdout
        assert "none: in-sync replicas 2, of which none live" in shown
        assert "there is no leader to tell" in shown
        assert "without a leader nobody can write" in shown
    servers[1].kill()


def test_a_broker_that_was_not_told_shows():
    now = PartitionMetadata(1, leader=2, leader_epoch=7, replicas=[2, 3], isr=[2], offline_replicas=[])
    brokers = [Broker(number, "h", 1) for number in (1, 2, 3)]
    found = dict(
        lines(
            PartitionStations(
                TopicPartition("t", 1),
                now,
                ClusterDescription("c", None, brokers),
                minimum=2,
                moving=None,
                views={1: now, 2: DisconnectedError("gone"), 3: replace(now, leader_epoch=6, isr=[3, 2])},
                served=KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not yet"),
                decision=None,
            )
        )
    )
    assert found["UpdateMetadata"] == (
        "brokers 1 know this; broker 2: gone; broker 3 has leader 2, leader epoch 6, ISR 3,2"
    )
    assert found["LeaderAndIsr"] == "broker 2 does not answer as the leader: not yet"
    assert found["in sync"] == "2; min.insync.replicas=2, so it refuses records with acks=all"
    assert found["not in sync"] == "3: it has not caught up with the leader within replica.lag.time.max.ms"
    assert found["controller"] == "none now"


def test_what_cannot_be_explained_is_one_line(explain, broker, topic_name):
    name = topic_name("explained")
    server = ("--bootstrap-server", broker.bootstrap)
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, 1, 1))
    assert explain(name, 5, *server).stderr == f"Error: Topic {name} has no partition 5: it has 1\n"
    assert explain("never-made", 0, *server).stderr.startswith(
        "Error: This server does not host this topic-part"
    )
    both = explain(name, 0, *server, "--store", "x", "--zookeeper", "y")
    assert both.stderr.startswith("Error: Name one store: either --store or --zookeeper")
