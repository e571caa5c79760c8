"""The console on genuine Apache Kafka: what it says is what Kafka's own tools say of the same cluster."""

import asyncio
import re

import pytest

from barnabas.admin import Admin, NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.console.actions import groups as group_actions
from barnabas.console.actions import security as security_actions
from barnabas.console.actions.kinds import KINDS
from barnabas.console.collector import Pace
from barnabas.console.views import groups, overview, topics
from barnabas.console.views import quorum as quorum_views
from barnabas.console.views import security as security_views
from barnabas.console.watched import WatchedCluster
from barnabas.core.ids import TopicPartition
from barnabas.operations.clock import now_ms
from waiting import eventually

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


def acted(watched, kind, wanted):
    """The action as its preview says it."""

    async def act():
        planned = await watched.use(lambda admin: KINDS[kind].plan(admin, wanted))
        await watched.use(planned.carry_out)
        return [(one.subject, one.before, one.after) for one in planned.effects]

    return asyncio.run(act())


def test_passwords_and_quotas_are_those_that_kafka_s_tools_see(watched, bootstrap, kafka_tool):
    user = f"user-{watched.name}"
    acted(watched, "set-user", security_actions.SetUser(user, password="secret", iterations=4096))
    rate = security_actions.SetQuota("producer_byte_rate", user=user, value="2048")
    acted(watched, "set-quota", rate)

    def described():
        of = ("--entity-type", "users", "--entity-name", user)
        return kafka_tool("kafka-configs", "--bootstrap-server", bootstrap, "--describe", *of).stdout

    # The controller has answered; a broker tells it once it has read the records.
    facts = ("producer_byte_rate=2048.0", "SCRAM-SHA-512=iterations=4096")
    eventually(lambda: [fact in described() for fact in facts], [True, True])
    shown = asyncio.run(security_views.users(watched)).users
    assert [(one.mechanism, one.iterations) for one in shown if one.user == user] == [("SCRAM-SHA-512", 4096)]
    quotas = asyncio.run(security_views.quotas(watched)).quotas
    assert [(one.key, one.value) for one in quotas if one.named == f"user {user}"] == [
        ("producer_byte_rate", 2048.0)
    ]
    acted(watched, "delete-user", security_actions.DeleteUser(user))
    acted(watched, "set-quota", security_actions.SetQuota("producer_byte_rate", user=user))
    eventually(
        lambda: [key in described() for key in ("producer_byte_rate", "SCRAM-SHA-512")], [False, False]
    )


def test_offsets_are_copied_to_a_group_that_was_not_there(watched, bootstrap, kafka_tool):
    group = f"copy-of-{watched.name}"
    acted(watched, "copy-offsets", group_actions.CopyOffsets(f"of-{watched.name}", group))
    tp = f"{watched.name}-0"
    move = group_actions.SetOffset(group, watched.name, 0, 5)
    assert acted(watched, "set-offset", move) == [(tp, "3", "5")]
    lines = kafka_tool(
        "kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", group
    ).stdout
    assert re.findall(rf"{group}\s+\S+\s+0\s+(\d+)", lines) == ["5"]


def test_rules_without_an_authorizer_are_unknown_and_say_why(watched):
    state = asyncio.run(security_views.acls(watched)).state
    assert (state.value, "uthorizer" in str(state.why)) == (None, True)


def test_the_quorum_is_what_kafka_s_tool_describes(watched, bootstrap, kafka_tool, request):
    shown = asyncio.run(quorum_views.quorum(watched))
    if "kafka39" in request.node.name:
        assert (shown.leader, shown.state.why) == (None, None)
        return
    told = kafka_tool("kafka-metadata-quorum", "--bootstrap-server", bootstrap, "describe", "--status").stdout
    status = dict(re.findall(r"(\w+):\s+(\S+)", told))
    assert (shown.leader, shown.epoch) == (int(status["LeaderId"]), int(status["LeaderEpoch"]))
    [row] = shown.replicas
    assert (row.node, row.is_leader, row.is_voter, row.lag) == (1, True, True, 0)
    assert 0 < shown.high_watermark <= int(status["HighWatermark"])
