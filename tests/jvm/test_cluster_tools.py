"""Kafka's tools of a cluster and ours, given the same flags on our brokers, print the same lines and end
alike.

Each changes a topic of its own, `twin-a` theirs and `twin-b` ours; TWIN stands for it in a line of flags.
"""

import json
import re
import shlex
import subprocess

import kafka_harness
import pytest
from kafka_tools import KafkaTools, Run, ours

from barnabas.admin import Admin, ConfigResource, NewTopic, TopicPartitionReplica
from barnabas.client import Producer
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

AS_39 = ("--set", "barnabas.api.profile=3.9")
"""A broker of 4.4 tells Kafka's `kafka-topics` of eligible leader replicas, for which ours does not ask."""
ZOOKEEPER_SHELL = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"
OURS = {
    "kafka-configs": "configs",
    "kafka-leader-election": "leader-election",
    "kafka-reassign-partitions": "reassign-partitions",
    "kafka-topics": "topics",
}


@pytest.fixture(scope="module")
def tools(judge):
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    with KafkaTools() as running:
        yield running


NOISE = r"\s+(at|\.\.\.) |Caused by: |\tSuppressed: |\[(main|kafka-admin-client-thread .*)\] "


def said(run: Run) -> tuple[int, list[str]]:
    """What counts: the exit code and the lines, of which ours prints no help, no stack trace and no log.

    Some scripts print errors on standard output, ours on standard error like all its errors. Behind a message
    they print the exception once more, with its class.
    """
    lines = []
    for line in run.out.splitlines() + run.err.splitlines():
        if line.startswith(("Option  ", "See barnabas")):
            break
        if (
            line
            and not re.match(NOISE, line)
            and not (lines and re.match(r"(java|org|com|joptsimple)\.", line))
        ):
            lines.append(re.sub(r"^Error: (.*) \(see barnabas .*--help\)$", r"\1", line))
    # Ours also knows the type of entities that came with Kafka 4.
    lines = [line.replace("client-metrics, groups with", "client-metrics with") for line in lines]
    return run.code, [re.sub("twin-[ab]|TopicId: [^\t]*", "TWIN", line) for line in lines]


def assert_same(tools, bootstrap, script):
    """Both tools answer each line of the script alike."""
    found = []
    for line in script.strip().splitlines():
        name, *flags = shlex.split(f"{line} --bootstrap-server {bootstrap}")
        # A broker gets new values by a watch: the two may have asked before and after it.
        for _ in range(5 if "--describe" in flags else 1):
            theirs = said(tools(name, *(flag.replace("TWIN", "twin-a") for flag in flags)))
            mine = said(ours(OURS[name], *(flag.replace("TWIN", "twin-b") for flag in flags)))
            if theirs == mine:
                break
        else:
            found.append(f"{line}\n  theirs: {theirs}\n  ours:   {mine}")
    assert not found, "\n".join(found)


SETTINGS = """
kafka-configs --describe --entity-type topics --entity-name TWIN
kafka-configs --alter --entity-type topics --entity-name TWIN \
--add-config retention.ms=1000,cleanup.policy=[delete,compact]
kafka-configs --describe --topic TWIN
kafka-configs --describe --topic TWIN --all
kafka-configs --alter --topic TWIN --add-config retention.ms=x
kafka-configs --alter --topic TWIN --add-config retention.mss=1
kafka-configs --alter --topic TWIN --add-config a=b=c
kafka-configs --alter --topic TWIN --add-config a/b=c
kafka-configs --alter --topic TWIN --add-config retention.ms=5 --delete-config retention.ms
kafka-configs --alter --topic TWIN --delete-config retention.bytes,retention.ms
kafka-configs --alter --topic TWIN --delete-config retention.ms
kafka-configs --alter --topic TWIN --add-config-file /no/such/file
kafka-configs --alter --topic TWIN
kafka-configs --alter --topic never-made --add-config retention.ms=1
kafka-configs --describe --entity-type topics --entity-name never-made
kafka-configs --describe --entity-type topics --entity-name "not a name"
kafka-configs --alter --broker-defaults --add-config log.retention.ms=1111111
kafka-configs --alter --entity-type brokers --entity-name 0 --add-config message.max.bytes=2000000
kafka-configs --describe --entity-type brokers
kafka-configs --describe --broker 0
kafka-configs --describe --broker 0 --all
kafka-configs --alter --broker 0 --add-config log.dir=/x
kafka-configs --alter --broker-defaults --add-config log.retention.ms=7 --delete-config log.retention.bytes
kafka-configs --describe --broker one
kafka-configs --alter --entity-type broker-loggers --entity-name 0 \
--add-config kafka.server.KafkaApis=INFO,root=WARN
kafka-configs --describe --entity-type broker-loggers --entity-name 0
kafka-configs --alter --broker-logger 0 --delete-config kafka.server.KafkaApis
kafka-configs --describe --broker-logger 0
kafka-configs --alter --broker-logger 0 --delete-config root
kafka-configs --alter --broker-logger 0 --add-config root=LOUD
kafka-configs --alter --broker-logger 0 --add-config no.such.logger=INFO
kafka-configs --describe --entity-type broker-loggers
kafka-configs --describe
kafka-configs --describe --alter
kafka-configs --describe --topic TWIN --add-config a=b
kafka-configs --describe --topic TWIN --entity-type topics
kafka-configs --describe --topic TWIN --entity-name b
kafka-configs --describe --entity-type topic
"""

# Not compared, since the script prints the name as Java prints an Optional: a topic that does not exist.
PARTITIONS = """
kafka-topics --alter --topic TWIN --partitions 3
kafka-topics --alter --topic TWIN --partitions 5 --replica-assignment 0,0,0,0,0
kafka-topics --alter --topic TWIN --partitions 5
kafka-topics --alter --topic TWIN --partitions 4
kafka-topics --alter --topic TWIN --partitions 7 --replica-assignment 0,0,0
kafka-topics --alter --topic TWIN --partitions 6 --replica-assignment 0:0
kafka-topics --alter --topic TWIN
kafka-topics --alter --partitions 3
kafka-topics --alter --topic TWIN --partitions 6 --config a=b
kafka-topics --alter --topic TWIN --partitions 6 --replication-factor 2
kafka-topics --alter --topic never-made --partitions 2 --if-exists
kafka-topics --alter --describe --topic TWIN
kafka-topics --describe --topic TWIN --under-replicated-partitions
kafka-topics --describe --topic TWIN --at-min-isr-partitions
kafka-topics --describe --topic TWIN --under-min-isr-partitions
kafka-topics --describe --topic TWIN --unavailable-partitions
kafka-topics --describe --topic TWIN --topics-with-overrides
kafka-topics --describe --topic TWIN --unavailable-partitions --topics-with-overrides
"""


@pytest.mark.parametrize("script", [SETTINGS, PARTITIONS], ids=["settings", "partitions"])
def test_one_broker(tools, serve, tmp_path, script):
    server = serve(tmp_path / "data", *AS_39)
    server.wait_until_ready()
    with Admin(server.bootstrap) as admin:
        admin.topics.create([NewTopic(name, 1, 1) for name in ("twin-a", "twin-b")])

    assert_same(tools, server.bootstrap, script)
    assert server.stop() == 0


# Not compared: a file that is not JSON, of which Java's parser and Python's say what is wrong in their own
# words.
FILES = {
    "noop-TWIN": {"TWIN-p0": [1, 2], "TWIN-p1": [2, 1]},
    "begun-TWIN": {"lone-TWIN-p0": [1, 2]},
    "dead-broker": {"TWIN-p0": [3, 2]},
    "move-TWIN": {"TWIN-p0": [2, 3], "TWIN-p1": [3, 1]},
    "unknown-broker": {"TWIN-p0": [9]},
    "unknown-partition": {"TWIN-p7": [1], "never-made-p0": [1]},
    "repeated-broker": {"TWIN-p0": [1, 1]},
    "no-replicas": {"TWIN-p0": []},
}

MOVES_DONE = """
kafka-reassign-partitions --list
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/noop-TWIN
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/noop-TWIN
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/noop-TWIN --throttle 100000
kafka-configs --describe --topic TWIN
kafka-configs --describe --entity-type brokers
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/noop-TWIN --preserve-throttles
kafka-configs --describe --topic TWIN
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/noop-TWIN
kafka-configs --describe --topic TWIN
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/move-TWIN
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/unknown-partition --preserve-throttles
kafka-reassign-partitions --cancel --reassignment-json-file FOLDER/noop-TWIN
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/unknown-broker
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/unknown-partition
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/repeated-broker
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/no-replicas
kafka-reassign-partitions --execute
kafka-reassign-partitions --execute --verify
kafka-reassign-partitions --list --throttle 5
kafka-reassign-partitions --generate --broker-list 1,2
kafka-leader-election --election-type preferred --all-topic-partitions
kafka-leader-election --election-type preferred --topic TWIN --partition 0
kafka-leader-election --election-type PREFERRED --path-to-json-file FOLDER/noop-TWIN
kafka-leader-election --election-type unclean --path-to-json-file FOLDER/unknown-partition
kafka-leader-election --election-type preferred
kafka-leader-election --election-type preferred --topic TWIN
kafka-leader-election --election-type preferred --all-topic-partitions --partition 1
kafka-leader-election --all-topic-partitions
"""

# Their leader is dead, so these moves stay on their way.
MOVES_BEGUN = """
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/begun-TWIN --additional
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/begun-TWIN
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/dead-broker --additional
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/begun-TWIN
kafka-reassign-partitions --list
kafka-topics --describe --topic lone-TWIN
kafka-topics --describe --topic lone-TWIN --under-replicated-partitions
kafka-topics --describe --topic lone-TWIN --unavailable-partitions
kafka-leader-election --election-type preferred --topic lone-TWIN --partition 0
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/begun-TWIN --additional
kafka-reassign-partitions --cancel --reassignment-json-file FOLDER/begun-TWIN --preserve-throttles
kafka-reassign-partitions --list
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/begun-TWIN
"""


@pytest.fixture
def three_brokers(join_cluster):
    servers = []
    for number in (1, 2, 3):  # one after the other: the first is the controller
        servers.append(join_cluster(number, *AS_39))
        servers[-1].wait_until_ready()
    with Admin(servers[0].bootstrap) as admin:
        for twin in ("twin-a", "twin-b"):
            admin.topics.create(NewTopic(twin, assignment={0: [1, 2], 1: [2, 1]}))
            admin.topics.create(NewTopic(f"lone-{twin}", assignment={0: [3]}))
    yield servers
    for server in servers:
        server.kill()


def test_moves_and_elections(tools, three_brokers, tmp_path):
    for name, replicas in FILES.items():
        for twin in ("twin-a", "twin-b"):
            partitions = [
                {
                    "topic": partition.rpartition("-p")[0].replace("TWIN", twin),
                    "partition": int(partition.rpartition("-p")[2]),
                    "replicas": brokers,
                }
                for partition, brokers in replicas.items()
            ]
            text = json.dumps({"version": 1, "partitions": partitions})
            (tmp_path / name.replace("TWIN", twin)).write_text(text)
    bootstrap = three_brokers[0].bootstrap

    assert_same(tools, bootstrap, MOVES_DONE.replace("FOLDER", str(tmp_path)))
    three_brokers[2].kill()
    with Admin(bootstrap) as admin:
        for lone in ("lone-twin-a", "lone-twin-b"):
            until(lambda name=lone: admin.topics.describe([name])[name].partitions[0].leader < 0, "no leader")
    assert_same(tools, bootstrap, MOVES_BEGUN.replace("FOLDER", str(tmp_path)))


# A move that goes through is in tests/cli: here the throttle holds both until they are given up.
LOG_DIRS = """
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/here-TWIN --preserve-throttles
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/there-TWIN \
--replica-alter-log-dirs-throttle 0
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/there-TWIN
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/here-TWIN
kafka-reassign-partitions --cancel --reassignment-json-file FOLDER/there-TWIN --preserve-throttles
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/there-TWIN --preserve-throttles
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/missing
kafka-reassign-partitions --execute --reassignment-json-file FOLDER/nowhere-TWIN
kafka-reassign-partitions --verify --reassignment-json-file FOLDER/here-TWIN
"""


def test_moves_between_log_directories(tools, join_cluster, tmp_path):
    here, there = str(tmp_path / "one"), str(tmp_path / "two")
    server = join_cluster(1, *AS_39, "--set", f"log.dirs={here},{there}")
    server.wait_until_ready()
    with Admin(server.bootstrap) as admin, Producer(server.bootstrap) as producer:
        # The broker gets the throttle by a watch: it has to be there before the moves, which are short
        # without it.
        broker, rate = ConfigResource.broker(1), "replica.alter.log.dirs.io.max.bytes.per.second"
        admin.configs.alter({broker: {rate: "0"}})
        until(lambda: rate in admin.configs.describe(broker)[broker], "the throttle")
        for twin in ("twin-a", "twin-b"):
            # Both are made in the first directory.
            admin.log_dirs.try_alter_replicas({TopicPartitionReplica(1, twin, 0): here})
            admin.topics.create(NewTopic(twin, 1, 1))
            for _ in range(20):  # so many pieces that a move without quota is not over soon
                producer.send(twin, bytes(60_000)).result(60)
            for name, topic, path in (
                (f"here-{twin}", twin, here),
                (f"there-{twin}", twin, there),
                (f"nowhere-{twin}", twin, "/nowhere"),
                ("missing", "never-made", here),
            ):
                partition = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [path]}
                (tmp_path / name).write_text(json.dumps({"partitions": [partition]}))

    assert_same(tools, server.bootstrap, LOG_DIRS.replace("FOLDER", str(tmp_path)))
    assert server.stop() == 0


NOT_SHOWN = ("pZxid", "cversion", "aclVersion")
"""What ZooKeeper's shell says of a znode and ours does not."""


@pytest.mark.parametrize(
    "command",
    [
        "ls /brokers",
        "get -s /cluster/id",
        "ls -R /config",
        "ls -s /controller",
        "stat /brokers",
        "get /never",
    ],
)
def test_zookeepers_shell(zookeeper, kafka39, command, topic_name):
    if "-R" in command:  # something below a child that is not the last one
        with Admin(kafka39) as admin:
            admin.topics.create(NewTopic(topic_name(), 1, 1, configs={"retention.ms": "1000"}))
    words = [f"{zookeeper}/kafka39", *command.split()]
    java = kafka_harness.java_command(
        kafka_harness.ZOOKEEPER_ERA, ZOOKEEPER_SHELL, kafka_harness.TOOL_OPTIONS
    )
    # The broker may write a znode between the two: a topic that an earlier test deleted, say.
    for _ in range(5):
        shell = subprocess.run(
            [*java, "-server", *words], capture_output=True, text=True, timeout=60, check=False
        )
        mine = ours("zookeeper-shell", *words)
        shown = [line for line in shell.stdout.splitlines() if not line.startswith(NOT_SHOWN)]
        if mine.out.splitlines() == shown:
            break

    assert (mine.code, mine.out.splitlines()) == (shell.returncode, shown)
    assert mine.err in shell.stderr


def test_znodes_on_zookeeper_and_a_chroot(zookeeper, kafka39, serve, tmp_path):
    server = serve(tmp_path / "data", "--zookeeper", f"{zookeeper}/tools/of/ours")
    server.wait_until_ready()

    listed = [
        ours("store", "ls", "/", "--zookeeper", f"{zookeeper}/{root}")
        for root in ("tools/of/ours", "kafka39")
    ]
    assert listed[0].out == listed[1].out
    assert "controller_epoch\n" in listed[0].out
    theirs = ours("store", "get", "/brokers/ids/0", "--json", "--zookeeper", f"{zookeeper}/kafka39")
    assert json.loads(theirs.out)["data"]["port"] == int(kafka39.rpartition(":")[2])
    assert json.loads(theirs.out)["ephemeral_owner"] != 0
    assert ours("store", "ls", "/", "--zookeeper", f"{zookeeper}/never").err == "Error: There is no znode /\n"
    assert "never" not in ours("store", "ls", "/", "--zookeeper", zookeeper).out
    assert server.stop() == 0
