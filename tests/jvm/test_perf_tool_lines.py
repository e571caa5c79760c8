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


def events(lines: str, topic: str) -> list[str]:
    """The events as they were printed, without what differs from run to run."""
    found = []
    for line in lines.replace(topic, "TOPIC").splitlines():
        event = json.loads(line)
        assert list(event)[:2] == ["timestamp", "name"]
        figures = {key: 0 for key in ("timestamp", "avg_throughput") if key in event}
        found.append(json.dumps(event | figures, separators=(",", ":")))
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
