"""Members of the Java 4.4.0 clients, of librdkafka and of ours in one group of the consumer protocol, and a
group whose members change their protocol one by one, and back.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path

import kafka_harness
import pytest
from confluent_kafka import ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parents[1] / "clients"))

from group_members import SECONDS, GroupMember
from members import Confluent, NewProtocol, Ours
from serving import die_with_parent
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

PARTITIONS, RECORDS = 6, 600
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 200,
}


class Java(GroupMember):
    """``VerifiableConsumer`` with the clients of 4.4.0, which says on stdout what it owns and has read."""

    protocol = "consumer"

    def __init__(self, broker, group, topics, strategy="range"):
        super().__init__(broker.bootstrap, group)
        (self._topic,) = topics
        self.strategy = strategy
        self.start()

    def consume(self):
        # The tools of 4.4.0 are not published: its clients stand before those of the newest ones that are.
        jars = f"{kafka_harness.clients_jar()}:{kafka_harness.artifacts(kafka_harness.NEWEST_TOOLS)}/*"
        command = [
            *(kafka_harness.java(), *kafka_harness.TOOL_OPTIONS, "-cp", jars),
            *("org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", self.bootstrap),
            *("--topic", self._topic, "--group-id", self.group, "--group-protocol", self.protocol),
            *("--group-remote-assignor", self.strategy),
        ]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
        )
        threading.Thread(target=self._end, args=(process,), daemon=True).start()
        with process:
            for line in process.stdout:
                self._heard(json.loads(line))
        assert self.stopped, f"it ended with {process.returncode}"

    def _end(self, process):
        self._stop.wait()
        process.terminate()

    def _heard(self, event):
        if event["name"] == "records_consumed":
            self.values += [None] * event["count"]
        if event["name"] in {"partitions_assigned", "partitions_revoked"}:
            places = frozenset((each["topic"], each["partition"]) for each in event["partitions"])
            given = event["name"] == "partitions_assigned"
            # A classic member of an eager assignor is told of all that it has; others of what is new.
            self.owned = self.owned | places if given else self.owned - places


class ClassicJava(Java):
    protocol = "classic"


@pytest.fixture(params=["Barnabas", "Apache Kafka"])
def bootstrap(request, judge, serve, tmp_path):
    judge("Kafka's tools", lambda: kafka_harness.artifacts(kafka_harness.NEWEST_TOOLS))
    judge("Kafka's clients", kafka_harness.clients_jar)
    if request.param == "Apache Kafka":
        judge("Apache Kafka 4.4", lambda: kafka_harness.artifacts(kafka_harness.KRAFT_ERA))
        kafka = kafka_harness.start_kraft(tmp_path, SETTINGS)
        try:
            yield kafka.wait_until_listening().bootstrap
        finally:
            kafka.kill()
        return
    options = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    server = serve(tmp_path / "ours", *options)
    yield server.wait_until_ready().bootstrap
    assert server.stop() == 0, server.tail()


@pytest.fixture
def topic(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("mixed", PARTITIONS, 1)])["mixed"].result(SECONDS)
    return "mixed"


@pytest.fixture
def member(bootstrap, topic):
    class Broker:
        pass

    broker, members = Broker(), []
    broker.bootstrap = bootstrap

    def make(kind):
        members.append(kind(broker, "today", [topic], strategy="range"))
        return members[-1]

    yield make
    for each in members:
        each.close()


def share(topic, *members):
    """Waits until the members own all partitions between them, each partition once."""
    whole = {(topic, number) for number in range(PARTITIONS)}

    def shared():
        assert not any(each.failure for each in members), [each.failure for each in members]
        owned = [place for each in members for place in each.owned]
        return len(owned) == len(set(owned)) and set(owned) == whole and all(each.owned for each in members)

    until(shared, lambda: f"{members} share {topic}")


def write(bootstrap, topic):
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert not producer.flush(SECONDS)


def kind_of(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})  # what it was asked ends with it
    found = admin.describe_consumer_groups(["today"])["today"].result(SECONDS)
    return found.type, len(found.members)


def test_three_libraries_share_a_group_of_the_consumer_protocol(bootstrap, topic, member):
    members = [member(kind) for kind in (Java, NewProtocol, Ours)]
    share(topic, *members)
    assert {len(each.owned) for each in members} == {PARTITIONS // 3}
    assert kind_of(bootstrap) == (ConsumerGroupType.CONSUMER, 3)
    write(bootstrap, topic)
    # Nothing moves meanwhile, so each record is read by one of them.
    until(lambda: sum(len(each.values) for each in members) >= RECORDS, lambda: f"{members} read all")
    assert [len(each.values) for each in members] == [RECORDS // 3] * 3

    java, librdkafka, ours = members
    java.close()
    share(topic, librdkafka, ours)
    librdkafka.close()
    ours.owns(PARTITIONS)


def test_a_group_of_three_libraries_changes_its_protocol_and_back(bootstrap, topic, member):
    old = [member(kind) for kind in (ClassicJava, Confluent)]
    share(topic, *old)
    assert kind_of(bootstrap) == (ConsumerGroupType.CLASSIC, 2)
    # The first that speaks the new one takes the whole group with it.
    new = [member(Java)]
    share(topic, *old, *new)
    assert kind_of(bootstrap) == (ConsumerGroupType.CONSUMER, 3)
    old.pop(0).close()
    new.append(member(NewProtocol))
    share(topic, *old, *new)
    old.pop(0).close()
    new.append(member(Ours))
    share(topic, *new)
    assert kind_of(bootstrap) == (ConsumerGroupType.CONSUMER, 3)

    back = [member(ClassicJava)]
    share(topic, *new, *back)
    while new:
        new.pop(0).close()
        if new:
            share(topic, *new, *back)
    back.append(member(Confluent))
    share(topic, *back)
    assert kind_of(bootstrap) == (ConsumerGroupType.CLASSIC, 2)
