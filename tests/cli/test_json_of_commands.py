"""``--json``: every command that shows facts has it, in one style; each other stands here with its reason."""

import json
import re

import click
import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.cli.facts import plain
from barnabas.cli.main import COMMANDS, CommandTable, cli
from barnabas.client import Consumer, Producer
from barnabas.core.acl import Operation
from barnabas.core.errors import ErrorCode, KafkaError

WITHOUT = {
    "serve": "runs a broker; its ready line is for programs",
    "demo": "ends with a report",
    "pipeline run": "runs until it is stopped; its metrics are for programs",
    "pipeline check": "says whether a file is right, by its exit code",
    "pipeline compact": "merges files; the line says how many",
    "pipeline init": "writes a file",
    "pipeline try": "prints the user's own rows, each as JSON already",
    "pipeline replay": "sends records; the line says how many",
    "pipeline report": "writes a page; `pipeline status` has JSON",
    "pipeline rewind": "takes batches back; the line says how many",
    "leader-election": "changes leaders; the exit code says whether",
    "produce": "sends",
    "consume": "prints records, by a formatter",
    "producer-perf-test": "prints as it measures, lines that are read as Kafka's",
    "consumer-perf-test": "prints CSV, as Kafka's script",
    "verifiable-producer": "prints JSON anyway, an object a line",
    "verifiable-consumer": "prints JSON anyway, an object a line",
    "transactional-message-copier": "prints JSON anyway, an object a line",
    "dump-log": "prints a line a record; the columns are Spark's format barnabas-log",
    "analyze disk": "--out writes its tables as Parquet",
    "analyze skew": "--out writes its tables as Parquet",
    "analyze codecs": "--out writes its tables as Parquet",
    "kafka-scripts": "writes files",
    "zookeeper-shell": "prints what ZooKeeper's shell prints; `store` has JSON",
    "zookeeper-security-migration": "changes znodes",
    "cluster unregister": "takes a broker out",
    "features upgrade": "changes levels",
    "features downgrade": "changes levels",
    "features disable": "changes levels",
    "features version-mapping": "prints NAME=LEVEL, a line each",
    "features feature-dependencies": "prints NAME=LEVEL, a line each",
    "transactions abort": "ends a transaction",
    "control fault add": "the control port answers in JSON",
    "control fault list": "the control port answers in JSON",
    "control fault wait": "the control port answers in JSON",
    "control fault remove": "the control port answers in JSON",
    "control disk fill": "the control port answers in JSON",
    "control disk wait": "the control port answers in JSON",
    "control disk free": "the control port answers in JSON",
    "control group wait": "the control port answers in JSON",
    "control move-leader": "the control port answers in JSON",
    "control advance": "the control port answers in JSON",
}
"""Why a command has no ``--json``."""

SHOWN = {
    "topics": [(["--list"], "topics"), (["--describe"], "topics")],
    "configs": [
        (["--describe", "--topic", "orders"], "entities"),
        (["--describe", "--entity-type", "brokers"], "entities"),
        (["--describe", "--entity-type", "users"], "quotas"),
    ],
    "acls": [(["--list"], "acls")],
    "reassign-partitions": [
        (["--list"], "reassignments"),
        (["--generate", "--topics-to-move-json-file", "{topics}", "--broker-list", "0"], "proposed"),
    ],
    "client-metrics": [(["--list"], "client_metrics"), (["--describe"], "client_metrics")],
    "groups": [
        (["--list"], "groups"),
        (["--describe", "--group", "readers"], "groups"),
        (["--describe", "--all-groups", "--members"], "groups"),
        (["--describe", "--group", "readers", "--state"], "groups"),
    ],
    "list-groups": [(["--list"], "groups")],
    "get-offsets": [(["--topic", "orders"], "offsets")],
    "delete-records": [(["--offset-json-file", "{offsets}"], "partitions")],
    "broker-api-versions": [([], "brokers")],
    "cluster cluster-id": [([], "cluster_id")],
    "cluster list-endpoints": [([], "endpoints")],
    "cluster api-versions": [([], "brokers")],
    "features describe": [([], "features")],
    "transactions list": [([], "transactions")],
    "transactions describe": [(["--transactional-id", "payments"], "transactional_id")],
    "transactions describe-producers": [(["--topic", "orders", "--partition", "0"], "producers")],
    "transactions find-hanging": [(["--broker-id", "0"], "hanging")],
    "log-dirs": [(["--describe"], "log_dirs")],
    "explain request": [(["metadata"], "stations")],
    "explain partition": [(["orders", "0"], "stations")],
    "explain transaction": [(["payments"], "stations")],
    "explain listener": [(["--broker", "0"], "stations")],
    "explain coordinator": [(["readers"], "partition")],
    "store ls": [(["/brokers", "--store", "{data}"], "znodes")],
    "store get": [(["/brokers/ids/0", "--store", "{data}"], "data")],
    "status": [([], "brokers")],
    "e2e-latency": [
        (
            ["--topic", "latency", "--num-records", "2", "--producer-acks", "1", "--record-size", "1"],
            "average_ms",
        )
    ],
    "doctor": [(["--port", "1"], "diagnoses")],
    "console": [(["--check"], "level")],
    "timeline": [],  # needs a console's folder: tests/console/test_timeline.py
    "messages": [(["--topic", "orders"], "ranges")],
    "pipeline schema": [],  # needs a registry: tests/spark/test_pipeline_schemas.py
    "pipeline status": [],  # needs a pipeline: tests/spark/test_pipeline_status.py
    "delegation-tokens": [],  # for those who have logged in: test_delegation_tokens_command.py
}
"""What is asked with ``--json``, and a key of the answer."""
BEFORE_THE_VERB = {"features", "transactions"}
"""Groups whose own options name the brokers, as Kafka's script has them."""
WITHOUT_BROKERS = {"timeline", "store ls", "store get"}


def commands(command=cli, words=()):
    """Each command that does something, by its words."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    names = COMMANDS if isinstance(command, CommandTable) else command.list_commands(context)
    for name in names:
        yield from commands(command.get_command(context, name), (*words, name))


def test_every_command_has_it_or_says_why_not():
    has = {words for words, command in commands() if any(each.name == "as_json" for each in command.params)}
    every = {words for words, _ in commands()}
    assert every - has == set(WITHOUT)
    assert has == set(SHOWN)


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A broker that has something of everything."""
    from serving import ServeProcess

    folder = tmp_path_factory.mktemp("json")
    server = ServeProcess(
        folder / "data",
        "--set",
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "--set",
        "allow.everyone.if.no.acl.found=true",
    )
    try:
        bootstrap = server.wait_until_ready().bootstrap
        with Admin(bootstrap) as admin:
            admin.topics.create(NewTopic("orders", 2, 1, configs={"retention.ms": "1000000"}))
        with Producer(bootstrap, transactional_id="payments") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"1", partition=0)
        with Consumer(bootstrap, group_id="readers", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            assert consumer.poll(timeout_ms=20_000)
            consumer.commit()
            yield server, folder
    finally:
        server.stop()


def asked(barnabas, busy, words, options):
    server, folder = busy
    files = {"topics": folder / "topics.json", "offsets": folder / "offsets.json", "data": server.data_dir}
    files["topics"].write_text('{"version": 1, "topics": [{"topic": "orders"}]}')
    files["offsets"].write_text('{"partitions": [{"topic": "orders", "partition": 1, "offset": 0}]}')
    options = [option.format(**files) for option in options]
    group, *verb = words.split()
    brokers = [] if words in WITHOUT_BROKERS else ["--bootstrap-server", server.bootstrap]
    if group in BEFORE_THE_VERB:
        return barnabas(group, *brokers, *verb, *options, "--json")
    return barnabas(group, *verb, *options, *brokers, "--json")


@pytest.mark.parametrize(
    ("words", "options", "key"),
    [(words, options, key) for words, rows in SHOWN.items() for options, key in rows],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_one_object_in_the_one_style(barnabas, busy, words, options, key):
    result = asked(barnabas, busy, words, options)
    assert result.stdout, result.stderr
    found = json.loads(result.stdout)
    assert key in found
    if words not in {"store get", "reassign-partitions", "console"}:  # contents of znodes, a file of Kafka's
        assert odd_names(found) == []


def odd_names(value, inside=None):
    """Names that are no snake_case, but for those of settings and features, which are Kafka's."""
    if isinstance(value, list):
        return [name for each in value for name in odd_names(each, inside)]
    if not isinstance(value, dict):
        return []
    if inside in {"percentiles_ms", "configs", "iterations", "values", "entity"}:
        return []
    wrong = [name for name in value if not re.fullmatch(r"[a-z][a-z0-9_]*", name)]
    return wrong + [name for key, each in value.items() for name in odd_names(each, key)]


def test_what_is_in_it(barnabas, busy):
    def found(words, *options):
        return json.loads(asked(barnabas, busy, words, options).stdout)

    (topic,) = (one for one in found("topics", "--describe")["topics"] if one["name"] == "orders")
    assert topic["configs"] == {"retention.ms": "1000000"}
    assert topic["replication_factor"] == 1
    first, second = topic["partitions"]
    assert (first["partition"], first["leader"], first["isr"]) == (0, 0, [0])
    assert second["partition"] == 1

    listed = found("topics", "--list")["topics"]
    assert {"name": "orders", "topic_id": topic["topic_id"], "is_internal": False} in listed

    (group,) = found("groups", "--describe", "--group", "readers")["groups"]
    assert (group["state"], len(group["members"])) == ("stable", 1)
    (at,) = (row for row in group["offsets"] if row["partition"] == 0)
    assert at["lag"] == at["end"] - at["offset"]
    (group,) = found("groups", "--describe", "--group", "readers", "--members")["groups"]
    assert group["offsets"] is None

    offsets = found("get-offsets", "--topic", "orders")["offsets"]
    assert [(row["topic"], row["partition"], row["error"]) for row in offsets] == [
        ("orders", 0, None),
        ("orders", 1, None),
    ]
    (row,) = found("transactions list")["transactions"]
    assert (row["transactional_id"], row["state"]) == ("payments", "completecommit")


def test_a_group_that_is_not_there(barnabas, busy):
    (group,) = json.loads(asked(barnabas, busy, "groups", ["--describe", "--group", "nobody"]).stdout)[
        "groups"
    ]
    assert (group["group_id"], group["state"], group["members"], group["offsets"]) == (
        "nobody",
        "dead",
        [],
        [],
    )


def test_nothing_but_the_object_is_printed_for_nothing(barnabas, busy):
    result = asked(barnabas, busy, "topics", ["--describe", "--topic", "nothing.*", "--if-exists"])
    assert json.loads(result.stdout) == {"topics": []}


@pytest.mark.parametrize("report", ["unavailable", "under-replicated", "under-min-isr"])
def test_a_report_leaves_out_what_is_well(barnabas, busy, report):
    result = asked(barnabas, busy, "topics", ["--describe", f"--{report}-partitions"])
    assert json.loads(result.stdout) == {"topics": []}


@pytest.mark.parametrize(
    ("words", "options", "line"),
    [
        ("topics", ["--create", "--topic", "x"], "--json is for --list and --describe"),
        ("configs", ["--alter", "--topic", "x", "--add-config", "a=b"], "--json is for --describe"),
        ("acls", ["--add", "--topic", "x", "--allow-principal", "User:a"], "--json is for --list"),
        ("groups", ["--delete", "--group", "x"], "--json is for --list and --describe"),
        ("client-metrics", ["--delete", "--name", "x"], "--json is for --describe and --list"),
    ],
)
def test_with_what_changes_it_is_refused_before_anything_is_asked(barnabas, words, options, line):
    result = barnabas(words, *options, "--bootstrap-server", "127.0.0.1:1", "--json")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {line}"), result.stderr


def test_values_in_json():
    assert plain({"op": Operation.DESCRIBE_CONFIGS, "raw": b"\x01", "some": {3, 1}, "none": None}) == {
        "op": "describe_configs",
        "raw": "01",
        "some": [1, 3],
        "none": None,
    }
    assert plain(KafkaError(ErrorCode.NOT_CONTROLLER))["code"] == "NOT_CONTROLLER"
    with pytest.raises(TypeError, match="list such things under a noun"):
        plain({(1, 2): 3})
    with pytest.raises(TypeError, match="object has no form in JSON"):
        plain(object())
