"""Each program of examples/ does what it says, with a broker; the page names each."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SAYS = {
    "produce": ["first at offset 0", "stored at 0:1"],
    "consume": [],
    "json_records": ["set aside: b'not JSON at all'", "cup plate", "2 orders"],
    "transactions": ["aborted: no plates left", "b'a cup'"],
    "exactly_once_copy": [],
    "async_round": ["written to 0", "the last one: b'hello 99'"],
    "read_from_time": [],
    "arrow_tables": [
        "10000 rows with key value topic partition offset timestamp timestampType",
        "10000 rows, a batch at a time",
    ],
    "admin_topics": ["not made: Topic", "retention.ms is 3600000", "has 1 partitions", "brokers: 127.0.0.1:"],
    "security": ["b'in private'"],
    "errors": [
        "Unknown configuration linger; did you mean linger.ms?",
        "nothing listens there",
        "larger than max.request.size",
        "a record's topic cannot be 'no such/topic'",
        "stored at 0",
    ],
    "metrics_and_lag": ["100 records, ", "90 records behind"],
    "stop_on_signal": [],
}
"""What each program prints among other lines; those without have a test of their own."""


def program(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_and_the_tests_name_every_program():
    there = {path.stem for path in FOLDER.glob("*.py")}
    named = set(re.findall(r"^\| \[(\w+)\.py\]", (FOLDER / "README.md").read_text(), re.MULTILINE))
    assert there == named
    assert there == {*SAYS, "test_orders"}


@pytest.mark.parametrize("name", [name for name, lines in SAYS.items() if lines])
def test_a_program_says_what_it_does(kafka, kafka_topic, tmp_path, capsys, name):
    servers = kafka.bootstrap_servers
    if name == "security":
        (tmp_path / "client.properties").write_text(
            f"# of a user\nbootstrap.servers = {servers}\nsecurity.protocol = PLAINTEXT\n"
        )
        servers = str(tmp_path / "client.properties")
    program(name).main(servers, kafka_topic)
    said = capsys.readouterr().out
    for line in SAYS[name]:
        assert line in said


def test_a_group_reads_what_was_written_and_goes_on_behind_it(kafka, kafka_topic, capsys):
    program("produce").main(kafka.bootstrap_servers, kafka_topic)
    capsys.readouterr()
    for expected in (1002, 0):
        program("consume").main(kafka.bootstrap_servers, kafka_topic, polls=4)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"now reading {kafka_topic}-0"
        assert len(lines) == 1 + expected


def test_a_topic_is_copied_once(kafka, kafka_topic, capsys):
    program("produce").main(kafka.bootstrap_servers, kafka_topic)
    for _ in range(2):
        program("exactly_once_copy").main(kafka.bootstrap_servers, kafka_topic, f"{kafka_topic}-copy", 1)
    copied = [record.value for record in kafka.records(f"{kafka_topic}-copy")]
    assert copied == [b"A CUP", b"A PLATE", *[b"ORDER %d" % number for number in range(1000)]]


def test_what_is_old_is_not_read(kafka, kafka_topic, capsys):
    from barnabas.client import Producer

    with Producer(kafka.bootstrap_servers) as producer:
        producer.send(kafka_topic, "old", timestamp_ms=1_000_000)
        producer.send(kafka_topic, "new")
    program("read_from_time").main(kafka.bootstrap_servers, kafka_topic)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("b'new'")


def child(*arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_signal_ends_a_consumer(kafka, kafka_topic):
    with child(str(FOLDER / "stop_on_signal.py"), kafka.bootstrap_servers, kafka_topic) as running:
        assert running.stdout.readline() == "reading\n"
        kafka.wait_for_group(f"until-stopped-{kafka_topic}", state="Stable", members=1)
        running.send_signal(signal.SIGTERM)
        assert running.stdout.read() == "stopped\n"
        assert running.wait(30) == 0
    kafka.wait_for_group(f"until-stopped-{kafka_topic}", state="Empty", members=0)


def test_the_tests_with_a_broker_pass():
    with child("-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / "test_orders.py")) as running:
        said, _ = running.communicate(timeout=120)
        assert "2 passed" in said
        assert running.returncode == 0


@pytest.mark.timeout(180)
def test_the_samples_that_had_a_container_or_a_mock_pass_and_the_bugs_in_them_are_seen():
    samples = FOLDER / "instead_of_containers"
    # The other clients' own warnings are theirs.
    options = ("-q", "-W", "default", "-p", "no:cacheprovider", "-p", "no:randomly")
    with child("-m", "pytest", *options, str(samples)) as running:
        said, _ = running.communicate(timeout=170)
        assert re.search(r"^6 passed, 2 xfailed", said, re.MULTILINE), said
    named = set(re.findall(r"\[(test_\w+)\.py\]", (samples / "README.md").read_text()))
    assert named == {path.stem for path in samples.glob("*.py")}


@pytest.mark.timeout(300)
def test_mypy_finds_nothing_in_the_programs():
    files = sorted(map(str, FOLDER.glob("*.py")))
    configuration = str(FOLDER.parent / "pyproject.toml")
    with child("-m", "mypy", "--strict", "--config-file", configuration, *files) as running:
        said, _ = running.communicate(timeout=280)
        assert running.returncode == 0, said
