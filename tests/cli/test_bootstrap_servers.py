"""Whom a tool asks where its command line does not say it, and when it says whom."""

import json

import pytest

from asking_tools import asking_tools
from barnabas.admin import Admin, NewTopic
from barnabas.cli import bootstrap
from barnabas.cli.bootstrap import with_ports

VARIABLE = "BARNABAS_BOOTSTRAP_SERVERS"
NOBODY = "127.0.0.1:1"


@pytest.fixture
def by_default(cluster, monkeypatch):
    """A cluster at the address that stands for the default one; the environment names none."""
    asking_tools()  # reads the commands: their help has the real one
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(bootstrap, "DEFAULT", cluster.bootstrap)
    return cluster


def test_the_environment_names_the_brokers_where_no_option_does(barnabas, cluster, monkeypatch):
    cluster.add_topic("orders")
    monkeypatch.setenv(VARIABLE, cluster.bootstrap)
    listed = barnabas("topics", "--list")
    assert (listed.stdout, listed.stderr) == ("orders\n", "")
    assert barnabas("get-offsets", "-t", "orders").stdout == "orders:0:0\n"
    monkeypatch.setenv(VARIABLE, NOBODY)
    assert barnabas("topics", "--list", "-b", cluster.bootstrap).stdout == "orders\n"
    shown = barnabas("get-offsets", "-t", "orders", "--broker-list", cluster.bootstrap)
    assert shown.stdout == "orders:0:0\n"


def test_where_nothing_names_brokers_those_of_this_machine_are_asked(barnabas, by_default):
    by_default.add_topic("orders")
    listed = barnabas("topics", "--list")
    assert (listed.exit_code, listed.stdout, listed.stderr) == (0, "orders\n", "")
    made = barnabas("topics", "--create", "-t", "bills")
    assert (made.exit_code, made.stdout) == (0, "Created topic bills.\n")
    assert made.stderr == f"Asking {by_default.bootstrap}, as neither -b nor {VARIABLE} names brokers\n"


def test_the_default_is_kafkas_port_here(barnabas):
    assert "[default: $BARNABAS_BOOTSTRAP_SERVERS, localhost:9092]" in " ".join(
        barnabas("topics", "--help").stdout.split()
    )


def test_an_error_says_whose_it_is(barnabas, by_default, monkeypatch):
    missing = barnabas("topics", "--describe", "-t", "orders")
    assert missing.exit_code == 1
    line, error = missing.stderr.splitlines()
    assert line == f"Asking {by_default.bootstrap}, as neither -b nor {VARIABLE} names brokers"
    assert "orders" in error
    monkeypatch.setenv(VARIABLE, NOBODY)
    line, error = barnabas("topics", "--list", "--timeout", "60").stderr.splitlines()
    assert line == f"Asking {NOBODY}, as {VARIABLE} says so"
    assert f"No broker of {NOBODY} answered in 60 ms" in error
    # This one prints what went wrong where Kafka's script does, with its exit code.
    as_kafka = barnabas("groups", "--list", "--timeout", "60")
    assert (as_kafka.exit_code, as_kafka.stderr) == (0, f"{line}\n")
    named = barnabas("topics", "--list", "--timeout", "60", "-b", NOBODY)
    assert len(named.stderr.splitlines()) == 1
    wrong = barnabas("topics", "--create")
    assert (wrong.exit_code, len(wrong.stderr.splitlines())) == (1, 1), "nobody was asked"


@pytest.fixture
def prepared(broker, topic_name, tmp_path):
    """A topic, a group's reset and files for the commands below, by what stands in braces there."""
    name = topic_name("named")
    partition = {"topic": name, "partition": 0}
    (tmp_path / "records").write_text(json.dumps({"partitions": [{**partition, "offset": 0}], "version": 1}))
    (tmp_path / "config").write_text("client.id=named\n")
    move = {"version": 1, "partitions": [{**partition, "replicas": [0]}]}
    (tmp_path / "move").write_text(json.dumps(move))
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, 1, 1))
    return {"topic": name, "new": topic_name("new"), "folder": tmp_path}


MEASURE = "producer-perf-test -t {topic} --num-records 1 --record-size 1 --throughput -1"
CHANGING = [
    "topics --create -t {new}",
    "topics --alter -t {topic} --partitions 2",
    "topics --delete -t {topic}",
    "configs --alter -t {topic} --add-config retention.ms=1000",
    "produce -t {topic}",
    "delete-records --offset-json-file {folder}/records",
    "groups --reset-offsets -g named -t {topic} --to-earliest --execute",
    "groups --delete -g nobody",
    "groups --delete-offsets -g nobody -t {topic}",
    "reassign-partitions --execute --reassignment-json-file {folder}/move",
    "leader-election --election-type preferred --all-topic-partitions",
    "client-metrics --alter --name named --interval 10000",
    "client-metrics --delete --name named",
    "cluster unregister --id 7",
    "transactions abort -t {topic} --partition 0 --start-offset 0",
    "features upgrade --feature group.version=1 --dry-run",
    "acls --add --allow-principal User:a --operation READ --topic {topic}",
    "delegation-tokens --create --max-life-time-period -1 --command-config {folder}/config",
    MEASURE,
    "verifiable-producer -t {topic} --max-messages 1",
    "e2e-latency -t {topic} --num-records 1 --producer-acks 1 --record-size 1",
]
READING = [
    "topics --list",
    "configs --describe -t {topic}",
    "get-offsets -t {topic}",
    "groups --list",
    "groups --reset-offsets -g named -t {topic} --to-earliest --dry-run",
    "reassign-partitions --list",
    "client-metrics --list",
    "cluster cluster-id",
    "transactions list",
    "features describe",
    "log-dirs --describe",
    "status",
    "explain partition {topic} 0",
]


def test_a_command_that_changes_something_says_where(barnabas, broker, prepared, monkeypatch):
    monkeypatch.setenv(VARIABLE, broker.bootstrap)
    said = f"Asking {broker.bootstrap}, as {VARIABLE} says so"
    order = sorted(CHANGING, key=lambda each: each.startswith("topics --delete"))
    silent = [
        each
        for each in order
        if barnabas(*each.format(**prepared).split(), stdin="x\n").stderr.splitlines().count(said) != 1
    ]
    assert silent == []


def test_a_command_that_only_looks_says_nothing(barnabas, broker, prepared, monkeypatch):
    monkeypatch.setenv(VARIABLE, broker.bootstrap)
    done = {each: barnabas(*each.format(**prepared).split()) for each in READING}
    assert {each: (one.exit_code, one.stderr) for each, one in done.items()} == dict.fromkeys(
        READING, (0, "")
    )


@pytest.mark.parametrize("servers", ["", " "])
def test_an_empty_variable_is_not_taken_for_the_default(barnabas, by_default, monkeypatch, servers):
    monkeypatch.setenv(VARIABLE, servers)
    refused = barnabas("topics", "--delete", "-t", "orders")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"Error: {VARIABLE} is empty: name brokers there or with -b, or unset it"
        " (see barnabas topics --help)\n"
    )
    assert barnabas("topics", "--list", "-b", by_default.bootstrap).exit_code == 0
    assert barnabas("topics", "--help").exit_code == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("topics --list", "--bootstrap-server must be specified"),
        ("groups --list", 'Missing required argument "[bootstrap-server]"'),
        ("broker-api-versions", 'Missing required argument "[bootstrap-server]"'),
        ("produce --topic t", "Missing option '--bootstrap-server'"),
        ("consume --topic t", "Missing option '--bootstrap-server'"),
        ("verifiable-producer --topic t", "exactly one of --bootstrap-server, --broker-list"),
        ("verifiable-consumer --topic t --group-id g", "exactly one of --bootstrap-server, --broker-list"),
    ],
)
def test_a_script_with_kafkas_name_demands_brokers(barnabas, by_default, command, said):
    refused = barnabas("--as-script", *command.split())
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert said in refused.stderr


def test_a_configuration_is_explained_without_brokers(barnabas, monkeypatch):
    monkeypatch.setenv(VARIABLE, NOBODY)
    explained = barnabas("explain", "listener", "--set", "listeners=PLAINTEXT://:9092")
    assert explained.exit_code == 0, explained.stderr


def test_what_a_file_names_goes_before_the_default(barnabas, by_default, monkeypatch):
    monkeypatch.setattr(bootstrap, "DEFAULT", NOBODY)
    by_default.add_topic("orders")
    named = f"--command-property bootstrap.servers={by_default.bootstrap}"
    sent = barnabas(*f"{MEASURE.format(topic='orders')} {named}".split())
    assert (sent.exit_code, sent.stderr) == (0, "")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("localhost", "localhost:9092"),
        ("a,b:1,[::1],[::1]:2", "a:9092,b:1,[::1]:9092,[::1]:2"),
        (None, None),
    ],
)
def test_a_host_without_a_port_means_kafkas(given, meant):
    assert with_ports(given) == meant
