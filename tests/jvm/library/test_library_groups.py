"""Groups with rebalances: our consumers as members, alone and beside those of other libraries."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import confluent_kafka
import kafka
import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor

from barnabas.admin import Admin, GroupState, GroupType, NewTopic
from barnabas.client import (
    CommitFailedError,
    Consumer,
    GroupError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from barnabas.core.errors import ErrorCode
from group_members import GroupMember, finish_the_join
from waiting import until

pytestmark = pytest.mark.timeout(300)

SESSION_MS = 6_000
HEARTBEAT_MS = 300
BY_BROKER = {"group_protocol": "consumer"}
"""A member whose partitions the coordinator chooses (KIP-848), where no strategy of members is named."""


@pytest.fixture
def topic(bootstrap, topic_name):
    name = topic_name("groups")
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=6))
    return name


def fill(bootstrap, topic, count, label="v"):
    with Producer(bootstrap, linger_ms=5) as producer:
        for number in range(count):
            producer.send(topic, f"{label}{number}", partition=number % 6)


class Member(GroupMember):
    """A consumer of one topic; it owns numbers of partitions."""

    def __init__(self, bootstrap, group, topic, strategy="range", **options):
        super().__init__(bootstrap, group)
        self.topic, self.strategy, self.options = topic, strategy, options
        self.start()

    def close(self):
        super().close()
        self.owned = frozenset()


class Ours(Member):
    def consume(self):
        options = {
            "group_id": self.group,
            "auto_offset_reset": "earliest",
            "metadata_max_age_ms": 1000,
            **(BY_BROKER if self.strategy is None else self.classic()),
            **self.options,
        }
        with Consumer(self.bootstrap, **options) as consumer:
            consumer.subscribe(
                [self.topic],
                on_assigned=lambda tps: self.note("+", (tp.partition for tp in tps)),
                on_revoked=lambda tps: self.note("-", (tp.partition for tp in tps)),
                on_lost=lambda tps: self.note("x", (tp.partition for tp in tps)),
            )
            while not self.stopped:
                self.values += [record.value for record in consumer.poll(100)]
                # The identity first: who is seen to own something has one.
                self.identity = consumer.group_metadata()
                self.owned = frozenset(tp.partition for tp in consumer.assignment())

    def classic(self):
        return {
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "partition_assignment_strategy": self.strategy,
        }


class KafkaPython(Member):
    def consume(self):
        consumer = kafka.KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        with contextlib.closing(consumer):
            while not self.stopped:
                for records in consumer.poll(timeout_ms=100).values():
                    self.values += [record.value for record in records]
                finish_the_join(consumer)
                self.owned = frozenset(tp.partition for tp in consumer.assignment())


class Confluent(Member):
    def consume(self):
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": self.strategy,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
            }
        )
        with contextlib.closing(consumer):
            consumer.subscribe([self.topic])
            while not self.stopped:
                self.values += [one.value() for one in consumer.consume(100, 0.1) if one.error() is None]
                self.owned = frozenset(tp.partition for tp in consumer.assignment())


def shared(*members):
    """Whether all six partitions have one owner each, evenly."""
    for member in members:
        assert member.failure is None, member.failure
    counts = [len(member.owned) for member in members]
    everything = [number for member in members for number in member.owned]
    return sorted(everything) == list(range(6)) and max(counts) - min(counts) <= 1


def all_read(count, *members, label="v"):
    wanted = {f"{label}{number}".encode() for number in range(count)}
    return lambda: wanted <= {value for member in members for value in member.values}


@pytest.mark.parametrize("order", [(Ours, KafkaPython, Confluent), (Confluent, KafkaPython, Ours)])
def test_three_libraries_in_one_group_whoever_leads(bootstrap, topic, order):
    fill(bootstrap, topic, 60)
    with contextlib.ExitStack() as stack:
        members = []
        for kind in order:
            members.append(stack.enter_context(kind(bootstrap, f"{topic}-three", topic)))
            until(lambda: shared(*members), f"{len(members)} members share")
        fill(bootstrap, topic, 60, "w")
        until(all_read(60, *members, label="w"), "all records read")
        until(all_read(60, *members), "all records read")
        members[0].close()
        until(lambda: shared(*members[1:]), "two are left")


@pytest.mark.parametrize("order", [(Ours, Confluent), (Confluent, Ours)])
def test_cooperative_members_move_only_what_has_to_move(bootstrap, topic, order):
    fill(bootstrap, topic, 60)
    strategy = "cooperative-sticky"
    with contextlib.ExitStack() as stack:
        members = []
        for kind in (*order, Ours):
            members.append(stack.enter_context(kind(bootstrap, f"{topic}-coop", topic, strategy)))
            until(lambda: shared(*members), f"{len(members)} members share")
        ours = members[order.index(Ours)]
        revoked = [numbers for event, numbers in ours.events if event == "-"]
        assert revoked
        assert all(len(numbers) < 6 for numbers in revoked), "never everything at once"
        until(all_read(60, *members), "all records read")
        values = [value for member in members for value in member.values]
        assert len(values) == 60, "committed before it moves, a record is read once"


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_ours_come_and_go(bootstrap, topic, strategy):
    group = f"{topic}-{strategy}"
    fill(bootstrap, topic, 120)
    with Ours(bootstrap, group, topic, strategy) as first:
        until(lambda: shared(first), "one owns all")
        with Ours(bootstrap, group, topic, strategy) as second:
            until(lambda: shared(first, second), "two share")
            fill(bootstrap, topic, 120, "w")
            until(all_read(120, first, second, label="w"), "all read")
        until(lambda: shared(first), "one owns all again")
        assert len(first.values) + len(second.values) == 240, "nothing twice, as nobody failed"


CHILD = """
import sys
from barnabas.client import Consumer
consumer = Consumer(sys.argv[1], group_id=sys.argv[2], auto_offset_reset="earliest", session_timeout_ms=6000,
                    heartbeat_interval_ms=300, auto_commit_interval_ms=100)
consumer.subscribe([sys.argv[3]])
while True:
    for record in consumer.poll(100):
        print(record.value.decode(), flush=True)
    print(len(consumer.assignment()), flush=True)
"""


def test_a_member_that_dies_is_taken_over_after_its_session(bootstrap, topic):
    group = f"{topic}-killed"
    fill(bootstrap, topic, 60)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, bootstrap, group, topic], stdout=subprocess.PIPE, text=True
    )
    try:
        with Ours(bootstrap, group, topic, heartbeat_interval_ms=HEARTBEAT_MS) as survivor:
            lines = iter(child.stdout.readline, "")
            assert any(line.strip() == "3" for line in lines), "the child has half of the group"
            until(lambda: len(survivor.owned) == 3, "the survivor has the other half")
            os.kill(child.pid, signal.SIGKILL)
            killed_at = time.monotonic()
            fill(bootstrap, topic, 60, "w")
            until(lambda: shared(survivor), "the survivor owns all")
            took = time.monotonic() - killed_at
            until(all_read(60, survivor, label="w"), "nothing is lost")
            assert took > SESSION_MS / 1000 - 2
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(bootstrap, topic):
    group = f"{topic}-static"
    with Ours(bootstrap, group, topic, group_instance_id="one") as one:
        until(lambda: shared(one), "the first owns all")
        two = Ours(bootstrap, group, topic, group_instance_id="two")
        until(
            lambda: shared(one, two) and one.identity.generation_id == two.identity.generation_id,
            "two share a generation",
        )
        owned, generation, events = two.owned, one.identity.generation_id, len(one.events)
        two.close()
        with Ours(bootstrap, group, topic, group_instance_id="two") as again:
            until(lambda: again.owned == owned, "the same partitions")
            assert again.identity.member_id != two.identity.member_id
            assert (one.identity.generation_id, len(one.events)) == (generation, events)


def test_a_static_member_whose_name_is_taken_is_told(bootstrap, topic):
    first = Ours(bootstrap, f"{topic}-fenced", topic, group_instance_id="one")
    until(lambda: shared(first), "the first owns all")
    with Ours(bootstrap, f"{topic}-fenced", topic, group_instance_id="one") as second:
        until(lambda: first.failure is not None, "the first is fenced")
        assert isinstance(first.failure, GroupError)
        assert first.failure.code is ErrorCode.FENCED_INSTANCE_ID
        until(lambda: shared(second), "the second owns all")


def test_commits_of_all_kinds(bootstrap, topic):
    group, tp = f"{topic}-commits", TopicPartition(topic, 0)
    fill(bootstrap, topic, 60)
    with Consumer(bootstrap, group_id=group, enable_auto_commit=False) as alone:
        assert alone.committed([tp]) == {tp: None}
        told = []
        alone.assign([tp])
        alone.commit_async({tp: 3}, lambda offsets, error: told.append((offsets[tp].offset, error)))
        alone.commit({TopicPartition(topic, 1): 4})
        assert told == [(3, None)]
        assert alone.position(tp) == 3
        with pytest.raises(GroupError) as refused:
            alone.commit({tp: OffsetAndMetadata(1, "x" * 5000)})
        assert refused.value.code is ErrorCode.OFFSET_METADATA_TOO_LARGE
    options = {"group_id": group, "enable_auto_commit": False, "heartbeat_interval_ms": HEARTBEAT_MS}
    with Consumer(bootstrap, **options, session_timeout_ms=SESSION_MS) as member:
        member.subscribe(topic, on_assigned=lambda assigned: member.pause(*assigned))
        until(lambda: member.poll(100) is not None and len(member.assignment()) == 6, "it joins")
        assert member.position(tp) == 3, "a member goes on where somebody else committed"
        with Consumer(bootstrap, group_id=group, enable_auto_commit=False) as stranger:
            stranger.assign([tp])
            with pytest.raises(CommitFailedError) as refused:
                stranger.commit({tp: 9})
        assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert member.committed([tp])[tp].offset == 3


def test_arrow_batches_of_a_subscription(bootstrap, topic):
    pytest.importorskip("numba")
    fill(bootstrap, topic, 600)
    options = {"group_id": f"{topic}-arrow", "auto_offset_reset": "earliest"}
    values = []
    with Consumer(bootstrap, **options) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        while len(values) < 600 and time.monotonic() < deadline:
            values += [v for batch in consumer.poll_arrow(1000) for v in batch.column("value").to_pylist()]
    assert {value.decode() for value in values} == {f"v{number}" for number in range(600)}
    with Consumer(bootstrap, **options) as consumer:
        committed = consumer.committed(TopicPartition(topic, number) for number in range(6))
        assert {one.offset for one in committed.values()} == {100}


def test_a_pattern_takes_in_new_topics(bootstrap, topic):
    options = {"group_id": f"{topic}-pattern", "metadata_max_age_ms": 300, "heartbeat_interval_ms": 300}
    with Consumer(bootstrap, **options) as consumer, Admin(bootstrap) as admin:
        consumer.subscribe(pattern=f"{topic}.*")
        until(lambda: consumer.poll(100) is not None and len(consumer.assignment()) == 6, "it joins")
        admin.topics.create(NewTopic(f"{topic}-more", partitions=2))
        until(lambda: consumer.poll(100) is not None and len(consumer.assignment()) == 8, "it grows")


# The consumer protocol (KIP-848), which Kafka 3.9 does not have.


@pytest.fixture
def topic_of_today(bootstrap_of_today, topic_name):
    name = topic_name("groups")
    with Admin(bootstrap_of_today) as admin:
        admin.topics.create(NewTopic(name, partitions=6))
    return name


def test_members_whose_coordinator_assigns_come_and_go(bootstrap_of_today, topic_of_today):
    bootstrap, topic = bootstrap_of_today, topic_of_today
    group = f"{topic}-consumer"
    fill(bootstrap, topic, 120)
    with Ours(bootstrap, group, topic, None) as first:
        until(lambda: shared(first), "one owns all")
        with Ours(bootstrap, group, topic, None) as second:
            until(lambda: shared(first, second), "two share")
            fill(bootstrap, topic, 120, "w")
            until(all_read(120, first, second, label="w"), "all read")
            with Admin(bootstrap) as admin:
                described = admin.groups.describe([group])[group]
            assert (described.type, described.state) == (GroupType.CONSUMER, GroupState.STABLE)
            assert {one.member_epoch for one in described.members} == {described.group_epoch}
            owned = sorted(len(one.assignment) for one in described.members)
            assert owned == [3, 3]
        until(lambda: shared(first), "one owns all again")
        assert len(first.values) + len(second.values) == 240, "nothing twice, as nobody failed"
        revoked = [numbers for event, numbers in first.events if event == "-"]
        assert all(len(numbers) < 6 for numbers in revoked), "never everything at once"


def test_members_of_both_protocols_share_a_group(bootstrap_of_today, topic_of_today):
    bootstrap, topic = bootstrap_of_today, topic_of_today
    fill(bootstrap, topic, 60)
    with Ours(bootstrap, f"{topic}-both", topic, "range") as classic:
        until(lambda: shared(classic), "the classic one owns all")
        with Ours(bootstrap, f"{topic}-both", topic, None) as consumer:
            until(lambda: shared(classic, consumer), "two share")
            fill(bootstrap, topic, 60, "w")
            until(all_read(60, classic, consumer, label="w"), "all read")


def test_a_static_member_that_lives_is_not_replaced(bootstrap_of_today, topic_of_today):
    bootstrap, topic = bootstrap_of_today, topic_of_today
    with Ours(bootstrap, f"{topic}-taken", topic, None, group_instance_id="one") as first:
        until(lambda: shared(first), "the first owns all")
        second = Ours(bootstrap, f"{topic}-taken", topic, None, group_instance_id="one")
        until(lambda: second.failure is not None, "the second is refused")
        assert isinstance(second.failure, GroupError)
        assert second.failure.code is ErrorCode.UNRELEASED_INSTANCE_ID
        assert first.failure is None
