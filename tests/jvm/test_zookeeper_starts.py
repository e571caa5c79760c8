"""A broker of ours starts on a genuine ZooKeeper:
within the session of its killed predecessor, and on damaged znodes.
"""

import re
from itertools import cycle

import kafka_harness
import pytest
from kazoo.client import KazooClient

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from damaged_znodes import damages

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

SESSION_MS = 6000
PATHS = (
    "/cluster/id",
    "/controller_epoch",
    "/feature",
    "/brokers/topics/bad",
    "/brokers/topics/bad/partitions/0/state",
    "/config/topics/bad",
    "/config/brokers/<default>",
)
WAYS = ("empty", "truncated", "another JSON type", "not UTF-8", "a megabyte")


@pytest.fixture
def start(zookeeper, serve, tmp_path, request):
    """Starts broker 7, again and again on one directory."""
    settings = {
        "broker.id": 7,
        "zookeeper.connect": f"{zookeeper}/{request.node.name.partition('[')[0]}",
        "zookeeper.session.timeout.ms": SESSION_MS,
        "log.initial.task.delay.ms": 200,
    }
    path = kafka_harness.write_properties(tmp_path / "broker.properties", settings)

    def start():
        server = serve(tmp_path / "data", "--config", path)
        server.wait_until_ready()
        return server

    start.connect = settings["zookeeper.connect"]
    return start


@pytest.mark.alone
def test_a_killed_broker_starts_within_its_session(start):
    server = start()
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [7]}))
    server.kill()
    server = start()
    said = server.log.read_text()

    assert len(re.findall(r"registration_waits broker=7 at_most_ms=\d+", said)) == 1
    with Admin(server.bootstrap) as admin:
        assert admin.topics.describe(["t"])["t"].partitions[0].leader == 7
    assert server.stop() == 0, server.tail()


def test_damaged_znodes_take_one_topic_away_at_most(start):
    server = start()
    with Admin(server.bootstrap) as admin:
        for topic in ("bad", "good"):
            admin.topics.create(NewTopic(topic, assignment={0: [7]}))
    assert server.stop() == 0, server.tail()
    client = KazooClient(start.connect)
    client.start(10)
    try:
        for path, way in zip(PATHS, cycle(WAYS), strict=False):
            whole = client.get(path)[0] if client.exists(path) else b'{"version":1,"config":{}}'
            client.ensure_path(path)
            client.set(path, dict(damages(whole))[way])
            before = len(server.log.read_text())
            server = start()
            with Admin(server.bootstrap) as admin:
                topics = {listed.name for listed in admin.topics.list()}
                good = admin.topics.describe(["good"])["good"].partitions[0]
            assert server.stop() == 0, server.tail()
            client.set(path, whole)
            said = server.log.read_text()[before:]

            assert (topics | {"bad"}, good.leader) == ({"bad", "good"}, 7), (path, way, said)
            lines = re.findall(r"znode_unreadable path=(\S+)", said)
            # As in Kafka, settings that are empty are none.
            assert lines == ([] if way == "empty" and path.startswith("/config") else [path]), (
                path,
                way,
                said,
            )
            assert "Traceback" not in said, (path, way, said)
    finally:
        client.stop()
        client.close()
