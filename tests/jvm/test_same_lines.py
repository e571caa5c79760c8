"""Our tools and Kafka's, given the same flags on the same genuine broker, print the same lines."""

import json
import random
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable

import kafka_harness
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from topics_there import create_topics

from barnabas.core.ids import java_abs, java_hash
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]


def ours(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module", params=["kafka39", "kafka44"])
def genuine(request) -> str:
    """The bootstrap address of a genuine broker that holds two topics of this module."""
    bootstrap = request.getfixturevalue(request.param)
    kept = {"retention.ms": "-1"}  # the records are old
    create_topics(bootstrap, NewTopic("lines", 2, 1, config=kept), NewTopic("lines-too", 1, 1))
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(5):
        producer.produce("lines", f"{number}", partition=number % 2, timestamp=1_600_000_000_000 + number)
    assert producer.flush(60) == 0
    return bootstrap


@pytest.fixture
def both(genuine, kafka_tool) -> Callable[..., tuple[list[str], list[str]]]:
    """The lines of Kafka's tool and of ours."""

    def run(theirs_name: str, our_name: str, *arguments: str) -> tuple[list[str], list[str]]:
        server = ("--bootstrap-server", genuine)
        theirs = kafka_tool(theirs_name, *server, *arguments)
        mine = ours(our_name, *server, *arguments)
        assert theirs.returncode == 0, theirs.stderr
        assert mine.returncode == 0, mine.stderr
        return theirs.stdout.splitlines(), mine.stdout.splitlines()

    return run


@pytest.mark.parametrize(
    "flags",
    [
        ("--topic", "lines"),
        ("--topic", "lines.*"),
        ("--topic", "lines", "--partitions", "1"),
        ("--topic-partitions", "lines:0-1,lines-too:0"),
        ("--topic", "lines", "--time", "earliest"),
        ("--topic", "lines", "--time", "max-timestamp"),
        ("--topic", "lines", "--time", "1600000000002"),
        ("--exclude-internal-topics",),
    ],
    ids=" ".join,
)
def test_get_offsets(both, flags):
    theirs, mine = both("kafka-get-offsets", "get-offsets", *flags)

    assert mine == theirs


@pytest.mark.parametrize(
    "flags",
    [("--list",), ("--describe", "--topic", "lines"), ("--describe", "--topic", "lines.*")],
    ids=" ".join,
)
def test_topics(both, flags):
    theirs, mine = both("kafka-topics", "topics", *flags)

    assert sorted(map(_without_elr, mine)) == sorted(map(_without_elr, theirs))


def _without_elr(line: str) -> str:
    # Eligible leader replicas (KIP-966) come from an API that 3.9 with ZooKeeper does not have; Kafka's tool
    # asks a 4.4 broker for them, ours asks for none.
    return line.partition("\tElr:")[0]


def test_a_topic_made_by_ours_is_there_for_theirs_and_goes_the_other_way_round(
    genuine, kafka_tool, topic_name
):
    name = topic_name("made")
    server = ("--bootstrap-server", genuine)

    created = ours("topics", *server, "--create", "--topic", name, "--partitions", "3")
    assert (created.stdout.strip(), created.returncode) == (f"Created topic {name}.", 0)
    assert name in kafka_tool("kafka-topics", *server, "--list").stdout.split()

    assert kafka_tool("kafka-topics", *server, "--delete", "--topic", name).returncode == 0
    assert name not in ours("topics", *server, "--list").stdout.split()


def test_lines_pass_between_their_console_and_ours(genuine, kafka_tool, topic_name):
    name = topic_name("console")
    server = ("--bootstrap-server", genuine)
    assert ours("topics", *server, "--create", "--topic", name, "--partitions", "1").returncode == 0
    key_flags = ("--property", "parse.key=true", "--property", "key.separator=:")
    command = [sys.executable, "-m", "barnabas", "produce", *server, "--topic", name, *key_flags]
    subprocess.run(command, input="a:one\nb:two ❄\n", text=True, timeout=60, check=True, capture_output=True)

    read = ("--topic", name, "--partition", "0", "--max-messages", "2", "--property", "print.key=true")
    theirs = kafka_tool("kafka-console-consumer", *server, *read, "--offset", "earliest")
    mine = ours("consume", *server, *read, "--from-beginning")

    assert theirs.stdout.splitlines() == ["a\tone", "b\ttwo ❄"]
    assert mine.stdout.splitlines() == theirs.stdout.splitlines()


FORMATTERS = "org.apache.kafka.tools.consumer."
OLD_OFFSETS = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"


@pytest.fixture(scope="module")
def commits(genuine) -> tuple[str, str]:
    """The partition of a group that has committed, left, and committed by hand, and how many
    records it has.
    """
    settings = {"bootstrap.servers": genuine, "group.id": "printed", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["lines"])
    until(lambda: consumer.poll(1), "a record")
    consumer.commit(asynchronous=False)
    consumer.close()
    by_hand = Consumer(settings)
    by_hand.commit(offsets=[TopicPartition("lines", 1, 2, metadata='a "word"')], asynchronous=False)
    partitions = by_hand.list_topics("__consumer_offsets", timeout=60).topics["__consumer_offsets"].partitions
    partition = java_abs(java_hash("printed")) % len(partitions)
    end = by_hand.get_watermark_offsets(TopicPartition("__consumer_offsets", partition), timeout=60)[1]
    by_hand.close()
    return str(partition), str(end)


@pytest.mark.parametrize(
    "formatter",
    [f"{FORMATTERS}{name}MessageFormatter" for name in ("Offsets", "GroupMetadata", "NoOp")] + [OLD_OFFSETS],
)
def test_records_of_groups(genuine, commits, kafka_tool, formatter):
    partition, count = commits
    read = ("--bootstrap-server", genuine, "--topic", "__consumer_offsets", "--partition", partition)
    flags = ("--offset", "earliest", "--max-messages", count, "--formatter", formatter)
    # The old class is gone from Kafka 4, whose others name the type of a record.
    version = kafka_harness.ZOOKEEPER_ERA if formatter == OLD_OFFSETS else kafka_harness.NEWEST_TOOLS
    theirs = kafka_tool("kafka-console-consumer", *read, *flags, version=version)
    mine = ours("consume", *read, *flags)

    assert mine.returncode == 0, mine.stderr
    assert theirs.returncode == 0, theirs.stderr
    # The script of 3.9 passes over the topic's id, which a broker of 4.4 writes beside a commit.
    printed = re.sub(r',"topicId":"[^"]*"', "", mine.stdout) if formatter == OLD_OFFSETS else mine.stdout
    assert printed == theirs.stdout
    assert bool(mine.stdout) == (formatter != f"{FORMATTERS}NoOpMessageFormatter")
    assert mine.stderr.splitlines()[-1] == theirs.stderr.splitlines()[-1]


def test_what_deserializers_make_of_numbers(genuine, kafka_tool, topic_name):
    name = topic_name("numbers")
    create_topics(genuine, NewTopic(name, 1, 1))
    rng = random.Random(5)
    powers = [float(f"{rng.random():.{rng.randint(1, 16)}f}e{power}") for power in range(-12, 13)]
    doubles = [*powers, 0.0, -0.0, 1.0, -1.5, 1e7, 9999999.0, 1e-3, 9.99e-4, 5e-324, 1.7976931348623157e308]
    doubles += [float("nan"), float("inf"), float("-inf")]
    producer = Producer({"bootstrap.servers": genuine})
    for value in doubles:
        # As a key the same 8 bytes are a whole number.
        producer.produce(name, struct.pack(">d", value), struct.pack(">d", value))
    assert producer.flush(60) == 0
    package = "org.apache.kafka.common.serialization"
    read = (
        "--bootstrap-server",
        genuine,
        "--topic",
        name,
        "--from-beginning",
        "--max-messages",
        str(len(doubles)),
    )
    flags = ("--property", "print.key=true", "--key-deserializer", f"{package}.LongDeserializer")
    flags += ("--property", f"value.deserializer={package}.DoubleDeserializer")

    theirs = kafka_tool("kafka-console-consumer", *read, *flags)
    mine = ours("consume", *read, *flags)

    assert mine.stdout.splitlines() == theirs.stdout.splitlines()
    assert len(mine.stdout.splitlines()) == len(doubles)


def test_delete_records(genuine, both, topic_name, tmp_path):
    name = topic_name("deleted")
    made = ours("topics", "--bootstrap-server", genuine, "--create", "--topic", name, "--partitions", "20")
    assert made.returncode == 0, made.stderr
    wanted = [{"topic": name, "partition": place, "offset": place % 3 - 1} for place in range(20)]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": wanted}))

    theirs, mine = both("kafka-delete-records", "delete-records", "--offset-json-file", str(file))

    assert mine == theirs


def test_log_dirs(genuine, both, topic_name):
    """In the order of two hash maps, the first of which has every replica of the broker."""
    made = ours(
        "topics",
        "--bootstrap-server",
        genuine,
        "--create",
        "--topic",
        topic_name("many"),
        "--partitions",
        "40",
    )
    assert made.returncode == 0, made.stderr

    theirs, mine = both("kafka-log-dirs", "log-dirs", "--describe", "--topic-list", "lines,lines-too")

    assert mine == theirs


def test_broker_api_versions(kafka39, kafka_tool):
    """On a broker of the tool's own version: what is usable depends on the client."""
    theirs = kafka_tool("kafka-broker-api-versions", "--bootstrap-server", kafka39)
    mine = ours("broker-api-versions", "--bootstrap-server", kafka39)

    assert (mine.returncode, mine.stdout) == (theirs.returncode, theirs.stdout)


def test_cluster(genuine, kafka_tool):
    for command in (("cluster-id",), ("unregister", "--id", "77")):
        theirs = kafka_tool("kafka-cluster", *command, "--bootstrap-server", genuine)
        mine = ours("cluster", *command, "--bootstrap-server", genuine)
        assert (mine.returncode, mine.stdout) == (theirs.returncode, theirs.stdout)


@pytest.mark.parametrize(
    "flags", [("describe",), ("upgrade", "--metadata", "3.9", "--feature", "b=2")], ids=" ".join
)
def test_features(genuine, kafka_tool, flags):
    theirs = kafka_tool("kafka-features", "--bootstrap-server", genuine, *flags)
    mine = ours("features", "--bootstrap-server", genuine, *flags)

    # KRaft's epoch goes up all the time.
    found, wanted = (re.sub(r"Epoch: \d+", "Epoch: N", run.stdout) for run in (mine, theirs))
    assert (mine.returncode, found, mine.stderr) == (theirs.returncode, wanted, theirs.stderr)


@pytest.mark.parametrize("topic", ["lines", "a b"])
def test_describe_producers(genuine, kafka_tool, topic):
    [broker] = AdminClient({"bootstrap.servers": genuine}).list_topics(timeout=60).brokers
    flags = ("describe-producers", "--topic", topic, "--partition", "0", "--broker-id", f"{broker}")
    theirs = kafka_tool("kafka-transactions", "--bootstrap-server", genuine, *flags)
    mine = ours("transactions", "--bootstrap-server", genuine, *flags)

    assert (mine.returncode, mine.stdout) == (theirs.returncode, theirs.stdout)
    assert mine.stderr.splitlines() == theirs.stderr.splitlines()[-1:], (
        "before it stands what the script logs"
    )


QUOTAS = """
--entity-type users --entity-name alice --add-config consumer_byte_rate=1024
--entity-type users --entity-name alice --add-config SCRAM-SHA-512=[iterations=8192,password=x]
--entity-type users --entity-name bob --add-config SCRAM-SHA-256=[iterations=4097,password=x]
--entity-type users --entity-default --add-config producer_byte_rate=12345678
--entity-type clients --entity-name "an app" --add-config request_percentage=12.5
--entity-type users --entity-name alice --entity-type clients --entity-name "an app" \
--add-config producer_byte_rate=7
--entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=20
"""
SHOWN = """
--entity-type users
--entity-type users --entity-name alice
--entity-type users --entity-default
--entity-type clients
--entity-type clients --entity-default
--entity-type users --entity-name alice --entity-type clients --entity-name "an app"
--entity-type ips
"""


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("users_forgotten")
def test_quotas_and_credentials(kafka39, kafka_tool, both, genuine):
    if genuine != kafka39:
        pytest.skip("once is enough")
    theirs, mine = both("kafka-configs", "configs", "--describe", "--entity-type", "users")
    assert (theirs, mine) == ([], []), "nothing is set, and nothing is shown"
    for line in QUOTAS.strip().splitlines():
        done = kafka_tool("kafka-configs", "--bootstrap-server", genuine, "--alter", *shlex.split(line))
        assert done.returncode == 0, done.stdout + done.stderr
    shown = {}
    for line in SHOWN.strip().splitlines():
        theirs, mine = both("kafka-configs", "configs", "--describe", *shlex.split(line))
        shown[line] = (sorted(mine), sorted(theirs))
    assert [line for line, (mine, theirs) in shown.items() if mine != theirs] == [], shown
    assert sum(bool(mine) for mine, _ in shown.values()) == 6


SAID = """
--alter --user alice --add-config producer_byte_rate=1024,request_percentage=12.5
--alter --entity-type users --entity-default --entity-type clients --entity-name x \
--add-config consumer_byte_rate=7
--alter --user bob --add-config SCRAM-SHA-256=[iterations=8192,password=pw]
--alter --user u --add-config a=1,b=2
--alter --user u --delete-config a,b
--alter --client c --delete-config b,a
--alter --user-defaults --add-config SCRAM-SHA-256=[password=x]
--alter --user u --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=1
--alter --ip 10.0.0.1 --add-config producer_byte_rate=1
--alter --client c --add-config producer_byte_rate=many
--alter --user u --add-config SCRAM-SHA-256=[iterations=5,password=x]
--alter --entity-type users --entity-type clients --entity-name c --add-config producer_byte_rate=1
--alter --client c --add-config producer_byte_rate=1.5
--alter --client c --delete-config producer_byte_rate
--alter --user nobody --delete-config SCRAM-SHA-256
--alter --user u --add-config SCRAM-SHA-256=[password=]
--alter --user u --add-config SCRAM-SHA-256=[iterations=99999,password=x]
--describe --client c --user-defaults
"""
"""Of each the script says something else."""


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("users_forgotten")
def test_what_is_said_of_quotas_and_credentials(kafka39, kafka_tool, genuine):
    if genuine != kafka39:
        pytest.skip("once is enough")
    different = {}
    for line in SAID.strip().splitlines():
        flags = ("--bootstrap-server", genuine, *shlex.split(line))
        theirs, mine = kafka_tool("kafka-configs", *flags), ours("configs", *flags)
        traced = re.sub(r"^(\tat|Caused|\t\.\.\.).*\n", "", theirs.stderr, flags=re.MULTILINE)
        # The script repeats what it was given, passwords too; ours does not.
        hidden = re.sub(r"(password=)[^ ']*", r"\1[hidden]", traced)
        wanted = (theirs.returncode, theirs.stdout, hidden)
        if (mine.returncode, mine.stdout, mine.stderr) != wanted:
            different[line] = (wanted, (mine.returncode, mine.stdout, mine.stderr))
    assert different == {}
