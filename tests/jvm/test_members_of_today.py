"""Members of the Java 4.4.0 clients, of librdkafka, of franz-go and of ours in one group of the consumer
protocol, and a group whose members change their protocol one by one, and back.
"""

import functools
import json
import subprocess
import sys
import threading
from abc import abstractmethod
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

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(400)]  # Go compiles for minutes where it has not yet

PARTITIONS, RECORDS = 12, 600
"""Partitions that three members can share evenly, and four."""
QUICKLY = ["-gcflags=all=-N -l", "-ldflags=-s -w"]
"""Go's first build takes twice as long with optimisations."""
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 200,
}


class Program(GroupMember):
    """A member in a process of its own, which says on stdout what it owns and has read, in the lines of
    Kafka's ``VerifiableConsumer``.
    """

    def __init__(self, broker, group, topics, strategy="range"):
        super().__init__(broker.bootstrap, group)
        (self.topic,) = topics
        self.strategy = strategy
        self.start()

    @abstractmethod
    def command(self):
        """The command that starts it."""

    def consume(self):
        process = subprocess.Popen(
            self.command(),
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


class Java(Program):
    """``VerifiableConsumer`` with the clients of 4.4.0."""

    protocol = "consumer"

    def command(self):
        # The tools of 4.4.0 are not published: its clients stand before those of the newest ones that are.
        jars = f"{kafka_harness.clients_jar()}:{kafka_harness.artifacts(kafka_harness.NEWEST_TOOLS)}/*"
        return [
            *(kafka_harness.java(), *kafka_harness.TOOL_OPTIONS, "-cp", jars),
            *("org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", self.bootstrap),
            *("--topic", self.topic, "--group-id", self.group, "--group-protocol", self.protocol),
            *("--group-remote-assignor", self.strategy),
        ]


class ClassicJava(Java):
    protocol = "classic"


class FranzGo(Program):
    """The program of Go in the folder ``franz_go``, which asks for the assignor ``range``."""

    def __init__(self, program, protocol, *group, **options):
        self._program, self._protocol = program, protocol
        super().__init__(*group, **options)

    def command(self):
        return [self._program, self.bootstrap, self.group, self.topic, self._protocol]


@pytest.fixture(scope="module")
def franz_go(judge, tmp_path_factory, pytestconfig):
    """A function from a protocol to the kinds of franz-go's members: one, or none where Go is missing."""
    source, program = Path(__file__).parent / "franz_go", tmp_path_factory.mktemp("franz-go") / "member"
    try:
        judge("franz-go", lambda: kafka_harness.go_program(source, program, *QUICKLY))
    except pytest.skip.Exception as missing:
        # The other libraries have something to say without it.
        with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            sys.stderr.write(f"\n{missing}\n")
        return lambda _protocol: []
    return lambda protocol: [functools.partial(FranzGo, program, protocol)]


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


def test_four_libraries_share_a_group_of_the_consumer_protocol(bootstrap, topic, member, franz_go):
    members = [member(kind) for kind in (Java, NewProtocol, Ours, *franz_go("consumer"))]
    # A newcomer may own its first partition before the others have given up all that they are to give.
    even = {PARTITIONS // len(members)}
    until(lambda: {len(each.owned) for each in members} == even, lambda: f"{members} own as many each")
    share(topic, *members)
    assert kind_of(bootstrap) == (ConsumerGroupType.CONSUMER, len(members))
    write(bootstrap, topic)
    # Nothing moves meanwhile, so each record is read by one of them.
    until(lambda: sum(len(each.values) for each in members) >= RECORDS, lambda: f"{members} read all")
    assert {len(each.values) for each in members} == {RECORDS // len(members)}

    java, librdkafka, ours, *go = members
    java.close()
    share(topic, librdkafka, ours, *go)
    librdkafka.close()
    share(topic, ours, *go)
    for each in go:
        each.close()
    ours.owns(PARTITIONS)


def test_a_group_of_four_libraries_changes_its_protocol_and_back(bootstrap, topic, member, franz_go):
    old = [member(kind) for kind in (ClassicJava, Confluent, *franz_go("classic"))]
    count = len(old)
    share(topic, *old)
    assert kind_of(bootstrap) == (ConsumerGroupType.CLASSIC, count)
    # The first that speaks the new one takes the whole group with it.
    new = [member(Java)]
    share(topic, *old, *new)
    assert kind_of(bootstrap) == (ConsumerGroupType.CONSUMER, count + 1)
    for kind in (NewProtocol, Ours, *franz_go("consumer")):
        old.pop(0).close()
        new.append(member(kind))
        share(topic, *old, *new)
    assert kind_of(bootstrap) == (ConsumerGroupType.CONSUMER, count + 1)

    back = [member(ClassicJava)]
    share(topic, *new, *back)
    while new:
        new.pop(0).close()
        if new:
            share(topic, *new, *back)
    back += [member(kind) for kind in (Confluent, *franz_go("classic"))]
    share(topic, *back)
    assert kind_of(bootstrap) == (ConsumerGroupType.CLASSIC, count)
