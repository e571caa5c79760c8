"""Chromium through the console of genuine Kafka, and of ours: every page, every action by its forms, facts
on the pages that are those of Kafka's own tools. With three brokers one of them is killed afterwards.
"""

import contextlib
import re

import kafka_harness
import pytest
from three_brokers import JVM, ThreeBrokers

from barnabas.admin import Admin, NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.console.collector import Pace
from barnabas.console.console import console_of
from barnabas.console.watched import WatchedCluster
from barnabas.core.ids import TopicPartition
from barnabas.testing import Kafka
from console_walk import Walk, chromium, operate, served
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def ours():
    with Kafka(1) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(params=["kafka39", "kafka44", "ours"])
def bootstrap(request):
    return request.getfixturevalue(request.param)


@contextlib.contextmanager
def console_on(bootstrap, topic, data):
    """A console of a cluster with ten records and a group that has read three of them; its address, the
    cluster that it looks at, and a broker.
    """
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic(topic, partitions=3))
        with Producer(bootstrap) as producer:
            for number in range(10):
                producer.send_and_wait(topic, f"{number}", partition=0)
        admin.groups.alter_offsets(f"of-{topic}", {TopicPartition(topic, 0): OffsetAndMetadata(3)})
        admin.transactions.fence(f"of-{topic}-made")  # an id that is there can be fenced
        broker = admin.cluster.describe().brokers[0].node_id
    watched = WatchedCluster("walked", {"bootstrap.servers": bootstrap}, Pace(round_s=3600, seldom=1))
    console = console_of([watched], data=data / "console", allow_changes=True)
    assert watched.wait_for_round(60), watched
    assert watched.wait_for_round(60), watched
    with served(console) as address:
        yield address, watched, broker
    console.close()


def subjects(topic, group, broker):
    """What the parameters of the pages' paths are."""
    return {
        "/brokers/{broker_id}": f"/brokers/{broker}",
        "/topics/{name}": f"/topics/{topic}",
        "/groups/{name:path}": f"/groups/{group}",
        "/lag-rules/{name:path}": f"/lag-rules/{group}",
        "/configs/{kind}/{name}": f"/configs/topic/{topic}",
        "/explain/{kind}/{name:path}": f"/explain/partition/{topic}-0",
        "/messages": f"/messages?topic={topic}&start=earliest",
        # What a cluster without a quorum, rules or a named store says is a refusal in a line.
        **dict.fromkeys(("/quorum", "/acls", "/tokens", "/store")),
        # No client pushes its metrics here.
        "/clients/{name:path}": None,
    }


def walk_everything(walk, bootstrap, topic, broker, kafka_tool):
    """Every page, what Kafka's tools say of the same cluster, every action."""
    group = f"of-{topic}"
    assert walk.pages(subjects(topic, group, broker)) == []
    for path in ("/quorum", "/acls", "/tokens", "/store"):
        assert walk.open(path)
    walk.browser.get_log("browser")

    walk.open(f"/topics/{topic}")
    shown = {f"{topic}:{row[0]}:{row[6]}" for row in walk.rows(1)}
    ends = kafka_tool("kafka-get-offsets", "--bootstrap-server", bootstrap, "--topic", topic).stdout
    assert shown == set(ends.split())
    walk.open(f"/groups/{group}")
    described = kafka_tool(
        "kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", group
    ).stdout
    (committed,) = re.findall(rf"{group}\s+\S+\s+0\s+(\d+)\s+(\d+)\s+(\d+)", described)
    cells = [cell for row in walk.rows(1) for cell in row]
    assert set(committed) <= set(cells), cells

    assert operate(walk, broker, f"{topic}-made", f"{group}-made") == []


def test_an_operator_walks_every_page_and_every_action(browser, bootstrap, topic_name, tmp_path, kafka_tool):
    topic = topic_name("walked")
    with console_on(bootstrap, topic, tmp_path) as (address, _, broker):
        walk_everything(Walk(browser, address, "walked"), bootstrap, topic, broker, kafka_tool)


@pytest.fixture
def three(server_folder, zookeeper, judge):
    """Three genuine brokers 3.9."""
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    folder = server_folder / "console-three"
    folder.mkdir()
    settings = {"default.replication.factor": 3, "min.insync.replicas": 1}
    cluster = ThreeBrokers(folder, (JVM,) * 3, f"{zookeeper}/console-three", settings)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.close()


def test_the_walk_through_three_brokers_goes_on_when_one_is_killed(
    browser, three, topic_name, tmp_path, kafka_tool
):
    topic, alone = topic_name("walked"), topic_name("alone")
    with console_on(three.bootstrap, topic, tmp_path) as (address, watched, broker):
        walk = Walk(browser, address, "walked")
        walk_everything(walk, three.bootstrap, topic, broker, kafka_tool)

        with Admin(three.bootstrap) as admin:
            admin.topics.create(NewTopic(alone, assignment={0: [3], 1: [1]}))
        three.kill(3)
        until(lambda: three.is_without(3), "the others know that broker 3 is gone", 60)
        assert watched.wait_for_round(60), watched
        assert watched.wait_for_round(60), watched

        assert walk.pages(subjects(topic, f"of-{topic}", 1)) == []
        walk.open(f"/topics/{alone}")
        states = {row[0]: (row[1], row[7]) for row in walk.rows(1)}
        assert (states["0"], states["1"]) == (("none", "no leader why?"), ("1", "in order"))
        walk.open(f"/topics/{topic}")
        marked = {row[0] for row in walk.rows(1) if row[7].startswith("under-replicated")}
        described = kafka_tool(
            "kafka-topics",
            "--bootstrap-server",
            f"127.0.0.1:{three.ports[1]}",
            "--describe",
            "--under-replicated-partitions",
            "--topic",
            topic,
        ).stdout
        assert marked == set(re.findall(r"Partition: (\d+)", described)) == {"0", "1", "2"}
        walk.open("/health")
        wrong = {
            row[1].splitlines()[-1]: row[3] for row in walk.rows(1) if row[2] not in {"good", "no source"}
        }
        assert f"{alone}-0" in wrong["no-leader"]
        assert "broker 3" in wrong["missing-brokers"]
        assert "no leader" in walk.act("delete-topic", topic=alone)
