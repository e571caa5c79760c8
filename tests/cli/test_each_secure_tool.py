"""Every tool over SASL_SSL: with a file of options it does its work, without it nothing is done."""

import json

import pytest

from asking_tools import asking_tools
from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.broker_config import read_properties

pytestmark = pytest.mark.timeout(120)

ADMIN = "--bootstrap-server {boot} --command-config {config}"
CONSUMER = "--bootstrap-server {boot} --consumer.config {config}"
PERF = "producer-perf-test --topic orders --num-records 10 --record-size 10 --throughput -1"
ELECT = "leader-election --election-type preferred --all-topic-partitions"
READ = "consume --topic orders --from-beginning --max-messages 1"
TOOLS = [
    (f"topics --list {ADMIN}", "orders"),
    (f"configs --describe --topic orders --all {ADMIN}", "retention.ms"),
    (f"acls --list {ADMIN}", ""),
    (f"reassign-partitions --list {ADMIN}", "No partition reassignments found."),
    (f"{ELECT} {ADMIN}", ""),
    (f"{ELECT} --bootstrap-server {{boot}} --admin.config {{config}}", ""),
    (f"groups --list {ADMIN}", ""),
    (f"list-groups --list {ADMIN}", "GROUP"),
    (f"get-offsets --topic orders {ADMIN}", "orders:0:"),
    (f"delete-records --offset-json-file {{records}} {ADMIN}", "low_watermark: 0"),
    (f"broker-api-versions {ADMIN}", "Produce(0)"),
    (f"cluster cluster-id {ADMIN}", "Cluster ID:"),
    ("cluster cluster-id --bootstrap-server {boot} --config {config}", "Cluster ID:"),
    (f"features {ADMIN} describe", ""),
    (f"transactions {ADMIN} list", "TransactionalId"),
    (f"log-dirs --describe {ADMIN}", "orders-0"),
    (f"client-metrics --list {ADMIN}", ""),
    (f"explain partition orders 0 {ADMIN}", "orders-0"),
    (f"status {ADMIN}", "0 without a leader"),
    (
        f"e2e-latency --topic late --num-records 1 --producer-acks 1 --record-size 1 {ADMIN}",
        "Avg latency",
    ),
    (f"doctor {ADMIN}", "answers like Kafka"),
    (f"messages --topic orders {ADMIN}", "first"),
    (f"produce --topic orders {ADMIN}", ""),
    ("produce --topic orders --bootstrap-server {boot} --producer.config {config}", ""),
    (f"{READ} {ADMIN}", "first"),
    (f"{READ} {CONSUMER}", "first"),
    (f"{PERF} {ADMIN}", "10 records sent"),
    (f"{PERF} --command-property bootstrap.servers={{boot}} --producer.config {{config}}", "10 records sent"),
    (f"consumer-perf-test --topic orders --num-records 3 {ADMIN}", ", "),
    (f"consumer-perf-test --topic orders --messages 3 {CONSUMER}", ", "),
    (f"verifiable-producer --topic orders --max-messages 2 {ADMIN}", '"sent":2'),
    (f"verifiable-consumer --topic orders --group-id g --max-messages 1 {ADMIN}", "shutdown_complete"),
]
"""A command, and something of what it prints. {boot} is the broker, {config} the file of options, {records} a
file of JSON.
"""
ELSEWHERE = {
    "transactional-message-copier": "as Kafka's it takes no options of clients",
    "demo": "it brings its own broker, or uses one without passwords",
    "delegation-tokens": "its own tests ask a broker that knows tokens",
    "console": "it needs an extra, and takes the same options of the admin client",
    "pipeline": "it drafts a file from a topic: tests/spark/test_pipeline_drafts.py",
    "analyze": "it needs Spark: tests/spark/test_key_skew.py",
}


@pytest.fixture(scope="module")
def secure(serve, tmp_path_factory):
    """The address of a broker and the options of its first user, with a topic of three records."""
    folder = tmp_path_factory.mktemp("secure")
    server = serve(folder / "data", "--secure")
    server.wait_until_ready()
    config = folder / "data" / "client.properties"
    given = {key.replace(".", "_"): value for key, value in read_properties(config.read_text()).items()}
    with Admin(server.bootstrap, **given) as admin, Producer(server.bootstrap, **given) as producer:
        admin.topics.create([NewTopic("orders", 1)])
        for value in (b"first", b"second", b"third"):
            producer.send_and_wait("orders", value)
    records = folder / "records.json"
    records.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": 0, "offset": 0}]}))
    nothing = folder / "nothing.properties"
    nothing.write_text("default.api.timeout.ms=3000\nrequest.timeout.ms=2000\nmax.block.ms=3000\n")
    yield {"boot": server.bootstrap, "config": config, "records": records}, nothing
    server.stop()


def arguments(command, names):
    return command.format(**names).split()


@pytest.mark.parametrize(("command", "said"), TOOLS, ids=[command[:40] for command, _ in TOOLS])
def test_a_tool_logs_in(barnabas, secure, command, said):
    names, _ = secure
    done = barnabas(*arguments(command, names), stdin="fourth\n")
    assert done.exit_code == 0, done.stderr
    assert said in done.stdout
    assert "does not obey" not in done.stderr


@pytest.mark.parametrize("command", [f"topics --list {ADMIN}", f"produce --topic orders {ADMIN}"])
def test_without_its_options_nothing_is_done(barnabas, secure, command):
    names, nothing = secure
    done = barnabas(*arguments(command, {**names, "config": nothing}), stdin="refused\n")
    assert done.exit_code == 1
    read = barnabas(*arguments(f"consume --topic orders --from-beginning --timeout-ms 2000 {ADMIN}", names))
    assert "first" in read.stdout
    assert "refused" not in read.stdout


def test_no_tool_is_left_out():
    assert (
        asking_tools() - ELSEWHERE.keys() == {command.split()[0] for command, _ in TOOLS} - ELSEWHERE.keys()
    )
