"""The quickstart of Kafka 4's documentation, line by line, on `barnabas serve` as a new user starts it: by
the newest scripts of Kafka that are published, and by ours, which print the same.

Its parts about Connect and about Streams run programs of Kafka's, whose topics either scripts make and read.
"""

import contextlib
import re
import signal
import subprocess
import sys

import kafka_harness
import pytest

from serving import die_with_parent, free_port
from waiting import eventually

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(180)]

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


def _at_a_terminal():
    """Ctrl-C counts, also where the tests run in the background, which ignores it."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def read_until_ctrl_c(command, count):
    """What a consumer prints: so many lines, and then the user has seen enough."""
    lines = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_at_a_terminal,  # noqa: PLW1509 - it makes system calls only
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


# --- the steps that run programs of Kafka's


@pytest.fixture
def at(serve, tmp_path, judge):
    """The flags that name a broker as a new user starts it."""
    judge("Kafka's Connect and Streams", kafka_harness.quickstart_jars)
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    yield ("--bootstrap-server", server.bootstrap)
    assert server.stop() == 0


@contextlib.contextmanager
def running(log, main, *arguments):
    """A program that runs until the user has seen enough."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            kafka_harness.quickstart_command(main, *map(str, arguments)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def test_the_demo_of_streams_counts_words(at, tmp_path):
    for command, topic, *more in (
        (genuine, "streams-plaintext-input"),
        (ours, "streams-wordcount-output", "--config", "cleanup.policy=compact"),
    ):
        topic_flags = ("--replication-factor", "1", "--partitions", "1", "--topic", topic, *more)
        assert run(command("kafka-topics", "--create", *topic_flags, *at)) == f"Created topic {topic}.\n"
    settings = {"bootstrap.servers": at[1], "state.dir": tmp_path / "state", "commit.interval.ms": 200}
    path = kafka_harness.write_properties(tmp_path / "streams.properties", settings)
    demo = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
    flags = ("--topic", "streams-wordcount-output", "--from-beginning")
    for one in ("print.key=true", "print.value=true"):
        flags += ("--formatter-property", one)
    for one, kind in (("key", "String"), ("value", "Long")):
        reader = f"org.apache.kafka.common.serialization.{kind}Deserializer"
        flags += ("--formatter-property", f"{one}.deserializer={reader}")
    expected = ["all\t1", "streams\t1", "lead\t1", "to\t1", "kafka\t1", "hello\t1", "kafka\t2", "streams\t2"]
    with running(tmp_path / "demo.log", demo, path):
        for command, words in ((genuine, "all streams lead to kafka\n"), (ours, "hello kafka streams\n")):
            run(command("kafka-console-producer", "--topic", "streams-plaintext-input", *at), words)
        for command in (ours, genuine):
            read, _ = read_until_ctrl_c(command("kafka-console-consumer", *flags, *at), count=8)
            assert read.splitlines() == expected


def test_connect_imports_and_exports_a_file(at, tmp_path):
    (jar,) = kafka_harness.quickstart_jars().glob("connect-file-*.jar")
    source, sink = tmp_path / "test.txt", tmp_path / "test.sink.txt"
    source.write_text("foo\nbar\n")
    json = "org.apache.kafka.connect.json.JsonConverter"
    worker = {
        "bootstrap.servers": at[1],
        "key.converter": json,
        "value.converter": json,
        "offset.storage.file.filename": tmp_path / "connect.offsets",
        "offset.flush.interval.ms": 1000,
        "plugin.path": jar,
        "plugin.discovery": "service_load",  # it begins without a look into each class of a hundred jars
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    for_source = {"name": "local-file-source", "connector.class": "FileStreamSource", "file": source}
    for_sink = {"name": "local-file-sink", "connector.class": "FileStreamSink", "file": sink}
    files = [
        kafka_harness.write_properties(tmp_path / f"{name}.properties", values)
        for name, values in (
            ("worker", worker),
            ("source", {**for_source, "topic": "connect-test", "tasks.max": 1}),
            ("sink", {**for_sink, "topics": "connect-test", "tasks.max": 1}),
        )
    ]
    standalone = "org.apache.kafka.connect.cli.ConnectStandalone"
    with running(tmp_path / "connect.log", standalone, *files):
        eventually(lambda: sink.read_text() if sink.exists() else "", "foo\nbar\n", seconds=100)
        flags = ("--topic", "connect-test", "--from-beginning")
        schema = '{"schema":{"type":"string","optional":false},"payload":'
        for command in (ours, genuine):
            read, _ = read_until_ctrl_c(command("kafka-console-consumer", *flags, *at), count=2)
            assert read.splitlines() == [f'{schema}"foo"}}', f'{schema}"bar"}}']
        with source.open("a") as more:
            more.write("Another line\n")
        eventually(sink.read_text, "foo\nbar\nAnother line\n")
