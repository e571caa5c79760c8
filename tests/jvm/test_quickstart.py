"""The quickstart of Kafka 4's documentation, line by line, on `barnabas serve` as a new user starts it: by
the newest scripts of Kafka that are published, and by ours, which print the same.

Its parts about Connect and about Streams are programs of their own: Streams has `test_client_groups.py` and
`streams_noise.py`; Connect is not asked.
"""

import re
import signal
import subprocess
import sys

import kafka_harness
import pytest

from serving import die_with_parent

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

TOPIC = ("--topic", "quickstart-events")
EVENTS = "This is my first event\nThis is my second event\n"
SCRIPTS = {
    "kafka-topics": "topics",
    "kafka-console-producer": "produce",
    "kafka-console-consumer": "consume",
}
"""The scripts of the quickstart, and what they are called here."""


def genuine(script, *flags):
    return kafka_harness.tool_command(script, *flags, version=kafka_harness.NEWEST_TOOLS)


def ours(script, *flags):
    return [sys.executable, "-m", "barnabas", SCRIPTS[script], *flags]


def run(command, text=None):
    done = subprocess.run(
        command,
        **({"stdin": subprocess.DEVNULL} if text is None else {"input": text}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=die_with_parent,
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def read_until_ctrl_c(command, count):
    """What a consumer prints: so many lines, and then the user has seen enough."""
    lines = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
    ) as process:
        lines += [process.stdout.readline() for _ in range(count)]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        said = process.stderr.read()
    return "".join(lines) + rest, said


@pytest.mark.parametrize("command", [genuine, ours])
def test_the_quickstart(serve, tmp_path, judge, command):
    judge("Kafka's tools", lambda: kafka_harness.artifacts(kafka_harness.NEWEST_TOOLS))
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    at = ("--bootstrap-server", server.bootstrap)

    # Step 3: create a topic to store your events.
    assert run(command("kafka-topics", "--create", *TOPIC, *at)) == "Created topic quickstart-events.\n"
    (head, partition) = run(command("kafka-topics", "--describe", *TOPIC, *at)).splitlines()
    words = (
        r"Topic: quickstart-events\tTopicId: [\w-]{22}\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: ?"
    )
    assert re.fullmatch(words, head)
    assert re.match(r"\tTopic: quickstart-events\tPartition: 0\tLeader: 0\tReplicas: 0\tIsr: 0", partition)

    # Step 4: write some events into the topic. A terminal would show the prompts.
    run(command("kafka-console-producer", *TOPIC, *at), EVENTS)

    # Step 5: read the events.
    read, said = read_until_ctrl_c(
        command("kafka-console-consumer", *TOPIC, "--from-beginning", *at), count=2
    )
    assert read == EVENTS
    assert "Processed a total of 2 messages" in said
    assert server.stop() == 0


def test_both_print_the_same_of_one_topic(serve, tmp_path, judge):
    judge("Kafka's tools", lambda: kafka_harness.artifacts(kafka_harness.NEWEST_TOOLS))
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    at = ("--bootstrap-server", server.bootstrap)
    run(ours("kafka-topics", "--create", *TOPIC, *at))
    describe = ("kafka-topics", "--describe", *TOPIC, *at)

    assert run(ours(*describe)) == run(genuine(*describe))
    with_events = ("kafka-console-producer", *TOPIC, *at)
    assert run(ours(*with_events), EVENTS) == run(genuine(*with_events), EVENTS)
    assert server.stop() == 0
