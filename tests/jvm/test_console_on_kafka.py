"""The console on genuine Apache Kafka: what it says is what Kafka's own tools say of the same cluster."""

import re

import pytest

from barnabas.admin import Admin, NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.console.collector import Pace
from barnabas.console.views import groups, overview, topics
from barnabas.console.watched import WatchedCluster
from barnabas.core.ids import TopicPartition
from barnabas.operations.clock import now_ms

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

BACK_MS = 600_000
"""How long ago the first record was written: Kafka 4 takes none of the future."""


@pytest.fixture(params=["kafka39", "kafka44"])
def bootstrap(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def watched(bootstrap, topic_name):
    """The cluster with a topic of 10 records in the first of 3 partitions, and a group that read three."""
    name = topic_name("console")
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=3, configs={"retention.ms": "7200000"}))
        start_ms = now_ms() - BACK_MS
        with Producer(bootstrap) as producer:
            for number in range(10):
                at = start_ms + number * 10_000
                producer.send_and_wait(name, b"v", partition=0, timestamp_ms=at)
        admin.groups.alter_offsets(f"of-{name}", {TopicPartition(name, 0): OffsetAndMetadata(3)})
    one = WatchedCluster(name, {"bootstrap.servers": bootstrap}, Pace(round_s=3600, seldom=1)).start()
    assert one.wait_for_round(60), one
    assert one.wait_for_round(60), one
    yield one
    one.close()


def test_its_facts_are_those_of_kafka_s_tools(watched, bootstrap, kafka_tool):
    name, now = watched.name, now_ms()
    whole = overview.overview(watched, now)
    listed = kafka_tool("kafka-topics", "--bootstrap-server", bootstrap, "--list").stdout.split()
    assert (whole.topics.value, whole.brokers.value) == (len(listed), 1)

    view = topics.topic(watched.snapshot, watched.trend, name, now, page=1, size=100)
    ends = kafka_tool("kafka-get-offsets", "--bootstrap-server", bootstrap, "--topic", name).stdout
    shown = {f"{name}:{one.partition}:{one.end.value}" for one in view.partitions}
    assert shown == set(ends.split())
    described = kafka_tool(
        "kafka-topics", "--bootstrap-server", bootstrap, "--describe", "--topic", name
    ).stdout
    leaders = re.findall(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\S+)\s+Isr: (\S+)", described)
    assert leaders == [
        (
            str(one.partition),
            str(one.leader.value),
            ",".join(str(each.broker) for each in one.replicas),
            ",".join(map(str, one.isr)),
        )
        for one in view.partitions
    ]
    assert {one.name: one.value for one in view.configs}["retention.ms"] == "7200000"
    sizes = [each.size_bytes.value for one in view.partitions for each in one.replicas]
    dirs = kafka_tool(
        "kafka-log-dirs", "--bootstrap-server", bootstrap, "--describe", "--topic-list", name
    ).stdout
    assert sorted(map(int, re.findall(r'"size":(\d+)', dirs))) == sorted(sizes)


def test_the_lag_is_kafka_s_and_the_seconds_are_those_of_the_records(watched, bootstrap, kafka_tool):
    group = f"of-{watched.name}"
    view = groups.group(watched.snapshot, watched.trend, group, now_ms(), 10)
    lines = kafka_tool(
        "kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", group
    ).stdout
    (line,) = re.findall(rf"{group}\s+\S+\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", lines)
    (part,) = view.partitions
    assert line == tuple(
        str(one) for one in (part.partition, part.committed.value, part.end.value, part.lag.value)
    )
    assert part.seconds.value == 60.0


def test_a_cluster_that_is_well_is_not_critical(watched):
    verdict = watched.verdict(now_ms())
    levels = {one.key: one.level for one in verdict.checks}
    for key in ("controller", "no-leader", "offline-log-dirs", "under-min-isr"):
        assert levels[key] == "good", verdict
