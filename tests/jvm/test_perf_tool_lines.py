"""The perf tools and the verifiable ones print the lines of Kafka's scripts, on the same genuine broker.

Figures and timestamps differ from run to run: they are compared by their form.
"""

import json
import re
import subprocess
import sys

import pytest
from confluent_kafka.admin import NewTopic
from topics_there import create_topics

from barnabas.admin import Admin
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.client.types import LATEST_TIMESTAMP
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(180)]


@pytest.fixture
def both(kafka_tool):
    """Runs Kafka's tool and ours side by side, each with its own flags:
    most of their time is a wait for a group.
    """

    def run(name: str, theirs: tuple[str, ...], mine: tuple[str, ...]):
        command = [sys.executable, "-m", "barnabas", name, *mine]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                genuine = kafka_tool(f"kafka-{name}", *theirs)
                out, err = process.communicate(timeout=60)
            except BaseException:
                process.kill()
                raise
        return genuine, subprocess.CompletedProcess(command, process.returncode, out, err)

    return run


def shape(text: str) -> str:
    """The text with each figure as the number of its decimals."""
    return re.sub(r"\d+(?:\.(\d+))?", lambda figure: f"<{len(figure[1] or '')}>", text)


@pytest.fixture
def topics(kafka39, topic_name) -> tuple[str, str]:
    """Two empty topics of one partition: one for each tool."""
    names = (topic_name("of-theirs"), topic_name("of-ours"))
    create_topics(kafka39, *(NewTopic(name, 1, 1) for name in names))
    return names


def test_perf_tools(kafka39, both, topics):
    sending = ("--num-records", "200", "--record-size", "10", "--throughput", "-1")
    props = ("--producer-props", f"bootstrap.servers={kafka39}")
    theirs, mine = both("producer-perf-test", *(("--topic", topic, *sending, *props) for topic in topics))
    assert (mine.returncode, shape(mine.stdout)) == (theirs.returncode, shape(theirs.stdout)), mine.stderr

    reading = ("--bootstrap-server", kafka39, "--messages", "200", "--timeout", "60000")
    theirs, mine = both("consumer-perf-test", *((*reading, "--topic", topic) for topic in topics))
    assert (mine.returncode, shape(mine.stdout)) == (theirs.returncode, shape(theirs.stdout)), mine.stderr
    fields = [run.stdout.splitlines()[1].split(", ") for run in (theirs, mine)]
    assert fields[0][2] == fields[1][2], "MB"
    assert fields[0][4] == fields[1][4] == "200"


def test_perf_tool_with_transactions(kafka39, both, topics):
    """So many records at this rate are several transactions of 20 ms; the last one ends with them. A second
    of them: on a busy machine the first transaction may take half of it.
    """
    sending = ("--num-records", "200", "--payload-monotonic", "--throughput", "200")
    sending += ("--transaction-duration-ms", "20", "--producer-props", f"bootstrap.servers={kafka39}")
    theirs, mine = both(
        "producer-perf-test",
        *(("--topic", topic, *sending, "--transactional-id", f"id-{topic}") for topic in topics),
    )
    assert (mine.returncode, shape(mine.stdout)) == (theirs.returncode, shape(theirs.stdout)), mine.stderr

    with Admin(kafka39) as admin:
        for topic in topics:
            name = f"id-{topic}"
            until(lambda name=name: admin.transactions.describe([name])[name].state == "CompleteCommit")
        ends = admin.offsets.list({TopicPartition(topic, 0): LATEST_TIMESTAMP for topic in topics})
    assert all(end.offset > 202 for end in ends.values()), "each transaction has a marker"


@pytest.mark.parametrize("mode", [(), ("--group-mode", "--use-group-metadata")], ids=" ".join)
def test_copiers(kafka39, both, topics, topic_name, mode):
    """Both copy all records once, and print lines with the same fields, stages and figures at the end."""
    source = topic_name("copied")
    create_topics(kafka39, NewTopic(source, 1, 1))
    with Producer(kafka39) as producer:
        for number in range(300):
            producer.send(source, f"{number}", f"{number}", partition=0)
    reading = ("--broker-list", kafka39, "--input-topic", source, "--input-partition", "0", *mode)
    reading += ("--transaction-size", "50", "--enable-random-aborts")
    theirs, mine = both(
        "transactional-message-copier",
        *(
            (
                *reading,
                "--output-topic",
                topic,
                "--consumer-group",
                f"by-{topic}",
                "--transactional-id",
                topic,
            )
            for topic in topics
        ),
    )
    assert mine.returncode == theirs.returncode == 0, mine.stderr
    for topic, done in zip(topics, (theirs, mine), strict=True):
        copied = [f"{number}".encode() for number in range(300)]
        until(lambda topic=topic, copied=copied: values(kafka39, topic) == copied)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        fields = ["transactionalId", "stage", "time", "totalProcessed", "consumed", "remaining"]
        assert all(list(line) == fields for line in lines), lines
        assert shape(lines[0]["time"]) == "<0>/<0>/<0> <0>:<0>:<0>:<0>"
        end = {"stage": "ShutdownComplete", "totalProcessed": 300, "consumed": 300, "remaining": 0}
        assert lines[-1] == {"transactionalId": topic, **end, "time": lines[-1]["time"]}
        assert {line["stage"] for line in lines[:-1]} == (
            {"RebalanceComplete", "ProcessLoop"} if mode else {"ProcessLoop"}
        )
        assert json.dumps(lines[0], separators=(",", ":")) == done.stdout.splitlines()[0]


def values(bootstrap: str, topic: str) -> list[bytes]:
    """What a reader of committed records finds up to the last stable offset."""
    tp = TopicPartition(topic, 0)
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        end, found = consumer.end_offsets([tp])[tp], []
        while consumer.position(tp) < end:
            found += [record.value for record in consumer.poll(200)]
    return found


def events(lines: str, topic: str) -> list[str]:
    """The events as they were printed, without what differs from run to run."""
    found = []
    for line in lines.replace(topic, "TOPIC").splitlines():
        event = json.loads(line)
        assert list(event)[:2] == ["timestamp", "name"]
        figures = {key: 0 for key in ("timestamp", "avg_throughput") if key in event}
        # The order of the others is that in which a JVM finds a class's methods: not always the same.
        found.append(json.dumps(event | figures, sort_keys=True))
        assert json.dumps(event, separators=(",", ":")) == line
    return found


def test_verifiable_tools(kafka39, both, topics):
    server = ("--bootstrap-server", kafka39, "--max-messages", "3")
    sending = (*server, "--repeating-keys", "2", "--value-prefix", "7", "--message-create-time", "1000")
    theirs, mine = both("verifiable-producer", *((*sending, "--topic", topic) for topic in topics))
    assert mine.returncode == theirs.returncode == 0, mine.stderr
    assert events(mine.stdout, topics[1]) == events(theirs.stdout, topics[0])

    reading = (*server, "--verbose")
    theirs, mine = both(
        "verifiable-consumer",
        *((*reading, "--topic", topic, "--group-id", f"by-{topic}") for topic in topics),
    )
    assert mine.returncode == theirs.returncode == 0, mine.stderr
    assert events(mine.stdout, topics[1]) == events(theirs.stdout, topics[0])
