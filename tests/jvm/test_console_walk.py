"""Chromium through the console of genuine Kafka, and of ours: every page, every action by its forms, facts
on the pages that are those of Kafka's own tools.
"""

import re

import pytest

from barnabas.admin import Admin, NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.console.collector import Pace
from barnabas.console.console import console_of
from barnabas.console.watched import WatchedCluster
from barnabas.core.ids import TopicPartition
from barnabas.testing import Kafka
from console_walk import Walk, chromium, operate, served

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


@pytest.fixture
def walked(bootstrap, topic_name, tmp_path):
    """A console of a cluster with ten records and a group that has read three of them."""
    topic = topic_name("walked")
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic(topic, partitions=3))
        with Producer(bootstrap) as producer:
            for number in range(10):
                producer.send_and_wait(topic, f"{number}", partition=0)
        admin.groups.alter_offsets(f"of-{topic}", {TopicPartition(topic, 0): OffsetAndMetadata(3)})
        admin.transactions.fence(f"of-{topic}-made")  # an id that is there can be fenced
        broker = admin.cluster.describe().brokers[0].node_id
    watched = WatchedCluster("walked", {"bootstrap.servers": bootstrap}, Pace(round_s=3600, seldom=1))
    console = console_of([watched], data=tmp_path / "console", allow_changes=True)
    assert watched.wait_for_round(60), watched
    assert watched.wait_for_round(60), watched
    with served(console) as address:
        yield address, topic, broker
    console.close()


def test_an_operator_walks_every_page_and_every_action(browser, walked, bootstrap, kafka_tool):
    address, topic, broker = walked
    walk, group = Walk(browser, address, "walked"), f"of-{topic}"
    assert (
        walk.pages(
            {
                "/brokers/{broker_id}": f"/brokers/{broker}",
                "/topics/{name}": f"/topics/{topic}",
                "/groups/{name:path}": f"/groups/{group}",
                "/lag-rules/{name:path}": f"/lag-rules/{group}",
                "/configs/{kind}/{name}": f"/configs/topic/{topic}",
                "/explain/{kind}/{name:path}": f"/explain/partition/{topic}-0",
                "/messages": f"/messages?topic={topic}&start=earliest",
                # What a cluster without a quorum, rules or a named store says is a refusal in a line.
                **dict.fromkeys(("/quorum", "/acls", "/tokens", "/store")),
            }
        )
        == []
    )
    for path in ("/quorum", "/acls", "/tokens", "/store"):
        assert walk.open(path)
    browser.get_log("browser")

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
