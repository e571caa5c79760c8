"""Groups of the consumer protocol (KIP-848), as librdkafka and our own consumer speak it, alone, with each
other, and beside members of the classic one.

BARNABAS_TEST_KRAFT_BOOTSTRAP=host:port points these tests at a genuine Kafka 4, which has the protocol.
"""

import os
import time

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient, NewTopic

from group_members import SECONDS
from members import Aiokafka, Confluent, KafkaPython, NewProtocol, Ours
from waiting import until

PARTITIONS = 4
KINDS = pytest.mark.parametrize(
    ("kind", "other"), [(NewProtocol, NewProtocol), (Ours, Ours), (Ours, NewProtocol)]
)


@pytest.fixture(scope="module")
def bootstrap(serve, tmp_path_factory):
    elsewhere = os.environ.get("BARNABAS_TEST_KRAFT_BOOTSTRAP")
    if elsewhere:
        yield elsewhere
        return
    settings = {
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.min.heartbeat.interval.ms": 200,
        "group.consumer.heartbeat.interval.ms": 200,
    }
    options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    server = serve(tmp_path_factory.mktemp("consumer-protocol") / "data", *options)
    yield server.wait_until_ready().bootstrap
    assert server.stop() == 0, server.tail()


@pytest.fixture(scope="module")
def admin(bootstrap):
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def make_topic(admin, topic_name):
    def make(stem, partitions=PARTITIONS):
        name = topic_name(stem)
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(SECONDS)
        return name

    return make


@pytest.fixture
def group(topic_name):
    return topic_name("new-group")


@pytest.fixture
def member(bootstrap, group):
    members = []

    class Broker:
        pass

    broker = Broker()
    broker.bootstrap = bootstrap

    def make(kind, *topics, strategy="uniform", **options):
        members.append(kind(broker, group, list(topics) or None, strategy=strategy, **options))
        return members[-1]

    yield make
    for each in members:
        each.close()


def share(topics, *members):
    """Waits until the members own all partitions, each partition once."""
    whole = {(topic, partition) for topic in topics for partition in range(PARTITIONS)}

    def shared():
        for each in members:
            assert not each.failure, each.failure
        owned = [place for each in members for place in each.owned]
        return len(owned) == len(set(owned)) and set(owned) == whole and all(each.owned for each in members)

    until(shared, lambda: f"{members} share {topics}")


@KINDS
def test_members_share_and_one_takes_over(admin, make_topic, member, group, kind, other):
    topic = make_topic("new")
    first = member(kind, topic)
    first.owns(PARTITIONS)
    second = member(other, topic)
    share([topic], first, second)

    described = admin.describe_consumer_groups([group])[group].result(SECONDS)
    assert (described.type, described.state) == (ConsumerGroupType.CONSUMER, ConsumerGroupState.STABLE)
    assert (described.partition_assignor, len(described.members)) == ("uniform", 2)
    second.close()
    first.owns(PARTITIONS)
    # What it kept was never taken from it: partitions move one by one.
    assert len([event for event, _ in first.events if event == "revoked"]) == 1


@KINDS
@pytest.mark.parametrize("strategy", ["uniform", "range"])
def test_each_assignor_of_the_coordinator(make_topic, member, strategy, kind, other):
    topics = [make_topic("assignor"), make_topic("assignor")]
    first = member(kind, *topics, strategy=strategy)
    second = member(other, *topics, strategy=strategy)
    share(topics, first, second)

    assert {len(first.owned), len(second.owned)} == {PARTITIONS}
    if strategy == "range":
        assert {partition for _, partition in first.owned} in ({0, 1}, {2, 3})


@pytest.mark.parametrize("kind", [NewProtocol, Ours])
def test_topics_that_match_a_pattern_are_read_when_they_appear(make_topic, member, group, kind):
    first = make_topic(f"{group}-pattern")
    reader = member(kind, pattern=f"{group}-pat.*")
    share([first], reader)
    second = make_topic(f"{group}-pattern")
    share([first, second], reader)


@KINDS
def test_a_static_member_finds_its_partitions_again(make_topic, member, kind, other):
    topic = make_topic("new-static")
    stays = member(other, topic, instance="stays")
    goes = member(kind, topic, instance="goes")
    share([topic], stays, goes)
    theirs, before = goes.owned, list(stays.events)
    goes.close()
    time.sleep(1.0)
    again = member(kind, topic, instance="goes")
    share([topic], stays, again)

    assert again.owned == theirs
    assert stays.events == before


@pytest.mark.parametrize(
    ("classic", "modern"),
    [(KafkaPython, NewProtocol), (Confluent, NewProtocol), (Aiokafka, NewProtocol), (Confluent, Ours)],
)
def test_a_group_changes_its_protocol_member_by_member_and_back(
    make_topic, member, admin, group, classic, modern
):
    topic = make_topic("migration")
    old = member(classic, topic, strategy="range")
    old.owns(PARTITIONS)
    new = member(modern, topic, strategy="range")
    share([topic], old, new)
    described = admin.describe_consumer_groups([group])[group].result(SECONDS)
    assert (described.type, len(described.members)) == (ConsumerGroupType.CONSUMER, 2)
    old.close()
    new.owns(PARTITIONS)
    back = member(classic, topic, strategy="range")
    share([topic], new, back)
    new.close()
    back.owns(PARTITIONS)

    described = admin.describe_consumer_groups([group])[group].result(SECONDS)
    assert (described.type, len(described.members)) == (ConsumerGroupType.CLASSIC, 1)
