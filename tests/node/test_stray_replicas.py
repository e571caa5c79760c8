"""A replica that a reassignment took away while its broker was down goes from the disk, after a while."""

import pytest

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.client import Producer, TopicPartition
from waiting import until

MOVED, KEPT = TopicPartition("moved", 0), TopicPartition("kept", 0)
QUICK = ("--set", "log.initial.task.delay.ms=100")
"""How long after a start, and how often, a broker looks."""


@pytest.fixture
def three_brokers(join_cluster):
    servers = {number: join_cluster(number, *QUICK) for number in (1, 2, 3)}
    for server in servers.values():
        server.wait_until_ready()
    yield servers
    for server in servers.values():
        if server.runs:
            assert server.stop() == 0, server.tail()


def replicas(admin, tp):
    partition = admin.topics.describe([tp.topic])[tp.topic].partitions[tp.partition]
    return sorted(partition.replicas), sorted(partition.isr)


def strays(server):
    return [path.name for path in server.data_dir.glob("*-stray")]


def listed(admin):
    """The partitions that the log directories of broker 1 are said to hold."""
    return {tp for each in admin.log_dirs.describe([1])[1].values() for tp in each.replicas}


def test_a_replica_that_was_moved_away_from_a_dead_broker(three_brokers, join_cluster):
    dead, other = three_brokers[1], three_brokers[2]
    with Admin(other.bootstrap) as admin:
        for tp in (MOVED, KEPT):
            admin.topics.create(NewTopic(tp.topic, assignment={0: [1, 2]}))
        with Producer(other.bootstrap) as producer:
            for number in range(100):
                producer.send("moved", b"%d" % number)
                producer.send("kept", b"%d" % number)
        until(lambda: list(dead.data_dir.glob("moved-0/*.log")))
        dead.kill()
        until(lambda: replicas(admin, MOVED)[1] == [2])
        admin.partitions.reassign({MOVED: [2, 3]})
        until(lambda: admin.partitions.reassignments() == {})
        assert list(dead.data_dir.glob("moved-0")), "nobody could tell the dead broker"

        back = join_cluster(1, *QUICK, "--set", "barnabas.log.stray.delete.delay.ms=3000")
        back.wait_until_ready()
        until(lambda: strays(back))
        assert [name.partition(".")[0] for name in strays(back)] == ["moved-0"]
        assert not list(back.data_dir.glob("moved-0"))
        assert MOVED in listed(admin)
        until(lambda: not strays(back))
        until(lambda: replicas(admin, KEPT) == ([1, 2], [1, 2]))
        assert list(back.data_dir.glob("kept-0/*.log"))
        assert replicas(admin, MOVED) == ([2, 3], [2, 3])
    assert back.stop() == 0, back.tail()
