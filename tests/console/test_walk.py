"""A walk through a cluster of three with a broker killed: pages answer, with marks where they belong."""

import pytest
from console_site import scraped_sender

from barnabas.admin import NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from barnabas.testing import Kafka
from console_walk import Walk, chromium, element, served
from waiting import until

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def damaged():
    """Broker 2 is gone, and with it the only replica of the first partition of `alone`."""
    with Kafka(3) as kafka:
        kafka.admin.topics.create(
            [
                NewTopic("alone", assignment={0: [2], 1: [0]}),
                NewTopic("kept", assignment={0: [0, 1, 2], 1: [1, 2, 0]}),
            ]
        )
        with Producer(kafka.bootstrap_servers) as producer:
            for number in range(10):
                producer.send_and_wait("kept", f"{number}", partition=0)
        kafka.admin.groups.alter_offsets("readers", {TopicPartition("kept", 0): OffsetAndMetadata(3)})
        kafka.kill(2)
        yield kafka


def test_pages_have_marks_where_they_belong(browser, damaged, open_console):
    def is_known():
        one = damaged.admin.topics.describe("alone")["alone"].partitions[0]
        return one.leader < 0

    until(is_known, "the brokers to know that one is gone")
    site = open_console(damaged.bootstrap_servers, allow_changes=True, watched={"brokers": scraped_sender})
    site.look()
    site.look()
    with served(site.console) as address:
        walk = Walk(browser, address, "demo")
        subjects = {
            "/brokers/{broker_id}": "/brokers/1",
            "/topics/{name}": "/topics/alone",
            "/groups/{name:path}": "/groups/readers",
            "/clients/{name:path}": "/clients/sender",
            "/lag-rules/{name:path}": "/lag-rules/readers",
            "/configs/{kind}/{name}": "/configs/topic/alone",
            "/explain/{kind}/{name:path}": "/explain/partition/alone-0",
            "/messages": "/messages?topic=kept&start=earliest",
            "/store": None,
        }
        assert walk.pages(subjects) == []
        walk.open("/topics/alone")
        states = {row[0]: (row[1], row[7]) for row in walk.rows(1)}
        assert (states["0"], states["1"]) == (("none", "no leader why?"), ("0", "in order"))
        element(browser, "main a[href$='/explain/partition/alone-0']").click()
        assert "without a leader nobody can write" in element(browser, "main table").text
        walk.open("/brokers/2")
        assert "not in the cluster" in element(browser, "main .alarm").text
        walk.open("/messages?topic=alone&start=earliest")
        assert "partition 0" in element(browser, "#left-out").text
        assert element(browser, "#found").text.startswith("0 records found")
        walk.open("/topics/kept")
        assert [row[7].partition(" why?")[0] for row in walk.rows(1)] == ["under-replicated"] * 2
        walk.open("/transactions/hanging")
        assert "alone-0: the partition has no leader" in element(browser, "main").text
        walk.open("/health")
        assert [row[2] for row in walk.rows(1)][:3] == ["critical", "critical", "warning"]
        wrong = {
            row[1].splitlines()[-1]: row[3] for row in walk.rows(1) if row[2] not in {"good", "no source"}
        }
        assert "alone-0" in wrong["no-leader"]
        assert "broker 2" in wrong["missing-brokers"]
        assert "no leader" in walk.act("delete-topic", topic="alone")
