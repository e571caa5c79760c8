"""``kafka-transactions.sh`` of 3.9 and of 4.3, and ours, on genuine brokers and on ours: the same lines and
exit codes, and each finds and ends a transaction that hangs.

Each changes a topic of its own, which stands as TWIN in a line of flags.
"""

import re
import shlex

import kafka_harness
import pytest
from kafka_tools import KafkaTools, ours

from barnabas.admin import Admin, ConfigResource, NewTopic
from barnabas.admin.types import AlterConfigOp
from barnabas.client import Producer, TopicPartition
from forged_transactions import LONG_AGO_MS, UNVERIFIED, leave_open

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

TWINS = ("twin-39", "twin-42", "twin-us")
"""Of one length, so that their tables are equally wide."""
HANGING_ID = 4_000_000_001
LIVE = "live-clerk"
LOG_LINE = r"\[(main|kafka-admin-client-thread .*)\] |org\.apache\.kafka\.common\.errors\.\w+: "
"""With a line of its log the script prints an exception."""


@pytest.fixture(scope="module")
def tools(judge):
    """Each tool by the name of its topic."""
    for version in (kafka_harness.ZOOKEEPER_ERA, kafka_harness.NEWEST_TOOLS):
        judge(f"Apache Kafka {version}", lambda version=version: kafka_harness.artifacts(version))
    with KafkaTools() as old, KafkaTools(kafka_harness.NEWEST_TOOLS) as new:
        yield {
            "twin-39": lambda *flags: old("kafka-transactions", *flags),
            "twin-us": lambda *flags: ours("transactions", *flags),
            "twin-42": lambda *flags: new("kafka-transactions", *flags),
        }


@pytest.fixture(scope="module", params=["kafka39", "kafka44", "ours"])
def bootstrap(request, tmp_path_factory):
    """A broker that does not ask coordinators, so that a transaction can be left hanging on it."""
    if request.param == "ours":
        serve = request.getfixturevalue("serve")
        server = serve(tmp_path_factory.mktemp("ours") / "data", f"--set={UNVERIFIED}")
        server.wait_until_ready()
        yield server.bootstrap
        return
    address = request.getfixturevalue(request.param)
    name, value = UNVERIFIED.split("=")
    with Admin(address) as admin:
        admin.configs.alter({ConfigResource.all_brokers(): [AlterConfigOp(name, value)]})
        yield address
        admin.configs.alter({ConfigResource.all_brokers(): [AlterConfigOp(name, "true")]})


@pytest.fixture(scope="module")
def broker(bootstrap):
    """The broker's id. It has a topic for each tool: a transaction hangs in partition 0, in partition 1 one
    is open that its coordinator knows.
    """
    with Admin(bootstrap) as admin:
        admin.topics.create([NewTopic(name, 2, 1) for name in TWINS])
        [node] = [each.node_id for each in admin.cluster.describe().brokers]
        with Producer(bootstrap, transactional_id=LIVE) as producer:
            with producer.transaction():
                for name in TWINS:
                    producer.send(name, "v", partition=1, timestamp_ms=LONG_AGO_MS)
            producer.begin_transaction()
            for name in TWINS:
                producer.send(name, "v", partition=1, timestamp_ms=LONG_AGO_MS)
            producer.flush()
            for name in TWINS:
                leave_open(bootstrap, TopicPartition(name, 0), HANGING_ID, epoch=5)
            yield node
            producer.abort_transaction()
        admin.topics.delete(TWINS)


SCRIPT = """
list
list --duration-filter 3600000
list --duration-filter -1
describe --transactional-id live-clerk
describe --transactional-id nobody
describe-producers --topic TWIN --partition 0
describe-producers --topic TWIN --partition 1 --broker-id BROKER
describe-producers --topic "a b" --partition 1
find-hanging
find-hanging --partition 1 --broker-id BROKER
find-hanging --topic TWIN
find-hanging --topic TWIN --partition 0
find-hanging --topic TWIN --partition 1
find-hanging --broker-id BROKER
find-hanging --broker-id BROKER --topic TWIN --max-transaction-timeout 1
find-hanging --topic TWIN --max-transaction-timeout 2000000000
find-hanging --topic never-made
find-hanging --topic "a b" --partition 0
abort --topic TWIN --partition 0
abort --topic TWIN --partition 0 --producer-id 4000000001
abort --topic TWIN --partition 0 --producer-id 4000000001 --producer-epoch 5
abort --topic TWIN --partition 0 --start-offset 99
abort --topic "a b" --partition 0 --start-offset 1
abort --topic TWIN --partition 0 --producer-id 4000000001 --producer-epoch 4 --coordinator-epoch 0
abort --topic TWIN --partition 0 --start-offset 0
abort --topic TWIN --partition 0 --start-offset 0
find-hanging --topic TWIN
abort --topic TWIN --partition 0 --producer-id 4000000001 --producer-epoch 5 --coordinator-epoch -3
abort --topic TWIN --partition 0 --producer-id 4000000001 --producer-epoch 6 --coordinator-epoch 9
abort --topic TWIN --partition 0 --producer-id 4000000001 --producer-epoch 6 --coordinator-epoch 8
describe-producers --topic TWIN --partition 0
"""


def said(run, twin):
    """What counts: the exit code and the lines, without what a client logs. What changes from one moment to
    the next is as wide as it was. Where the twins share an answer its rows are sorted: they come in the order
    in which a broker has its topics in a hash map.
    """
    lines = [line for line in (run.out + run.err).splitlines() if not re.match(LOG_LINE, line)]
    lines = [re.sub(r"\b1[7-9]\d{11}\b", "N" * 13, line) for line in lines]
    lines = [_without_duration(line).replace(twin or "TWIN", "TWIN") for line in lines]
    return run.code, lines if twin else sorted(lines)


def _without_duration(line):
    """Lines of describe and of find-hanging have the time that passed in their eighth column."""
    cells = line.split("\t")
    if len(cells) > 8 and cells[7].strip().isdigit():
        cells[7] = f"{'#':<{len(cells[7])}}"
    return "\t".join(cells)


def test_each_tool_says_the_same_and_ends_what_hangs(tools, bootstrap, broker):
    found, shared = [], ("find-hanging --broker-id BROKER", "describe --transactional-id live-clerk")
    for line in SCRIPT.strip().splitlines():
        flags = shlex.split(line.replace("BROKER", str(broker)))
        answers = {}
        for twin, tool in tools.items():
            here = (flag.replace("TWIN", twin) for flag in flags)
            answers[twin] = said(
                tool("--bootstrap-server", bootstrap, *here), None if line in shared else twin
            )
        if any(answer != answers["twin-39"] for answer in answers.values()):
            found.append("\n".join([line, *(f"  {twin}: {answer}" for twin, answer in answers.items())]))
    assert not found, "\n".join(found)
