"""``barnabas verifiable-producer`` and ``verifiable-consumer`` on a running broker."""

import json
import signal
import subprocess
import sys

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Consumer, TopicPartition


@pytest.fixture
def topic(broker, topic_name):
    name = topic_name("verified")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=1))
    return name


@pytest.fixture
def events(barnabas, broker, topic):
    """Runs one of the tools on the topic; its events without their timestamps."""

    def run(command, *flags):
        done = barnabas(command, "--bootstrap-server", broker.bootstrap, "--topic", topic, *flags)
        assert done.exit_code == 0, done.stderr
        return [plain(line) for line in done.stdout.splitlines()]

    return run


def plain(line):
    event = json.loads(line)
    assert event.pop("timestamp") > 0
    return event


def sent(topic, value, key=None):
    place = {"offset": value, "topic": topic, "partition": 0}
    return {"name": "producer_send_success", "key": key, "value": f"{value}", **place}


def test_each_number_is_acknowledged(events, topic):
    first, *middle, ended, data = events(
        "verifiable-producer", "--max-messages", "3", "--repeating-keys", "2"
    )

    assert (first["name"], ended["name"]) == ("startup_complete", "shutdown_complete")
    assert middle == [sent(topic, 0, "0"), sent(topic, 1, "1"), sent(topic, 2, "0")]
    assert data.pop("avg_throughput") > 0
    assert data == {"name": "tool_data", "sent": 3, "acked": 3, "target_throughput": -1}


def test_values_and_times_as_asked_for(events, broker, topic):
    flags = ("--message-create-time", "1000", "--value-prefix", "7", "--max-messages", "2")
    events("verifiable-producer", *flags, "--acks", "1")
    with Consumer(broker.bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        first = consumer.poll(30_000)[0]

    assert (first.value, first.timestamp) == (b"7.0", 1000)


def test_a_number_that_is_refused_is_an_event(events):
    found = events("verifiable-producer", "--topic", "a b", "--max-messages", "1")

    refused = found[1]
    assert refused.pop("exception").startswith("class org.apache.kafka.common.")
    assert "a b" in refused.pop("message")
    assert refused == {"name": "producer_send_error", "topic": "a b", "key": None, "value": "0"}
    assert (found[-1]["sent"], found[-1]["acked"]) == (1, 0)


def test_what_was_read_is_printed_and_committed(events, broker, topic):
    events("verifiable-producer", "--max-messages", "5")
    found = events("verifiable-consumer", "--group-id", f"g-{topic}", "--max-messages", "3", "--verbose")

    partition = {"topic": topic, "partition": 0}
    records = [
        {"name": "record_data", "key": None, "value": f"{number}", **partition, "offset": number}
        for number in range(3)
    ]
    summary = {**partition, "count": 3, "minOffset": 0, "maxOffset": 2}
    assert found == [
        {"name": "startup_complete"},
        {"name": "partitions_assigned", "partitions": [partition]},
        *records,
        {"name": "records_consumed", "count": 5, "partitions": [summary]},
        {"name": "offsets_committed", "offsets": [{**partition, "offset": 3}], "success": True},
        {"name": "partitions_revoked", "partitions": [partition]},
        {"name": "shutdown_complete"},
    ]
    with Admin(broker.bootstrap) as admin:
        assert admin.groups.offsets([f"g-{topic}"])[f"g-{topic}"][TopicPartition(topic, 0)].offset == 3


@pytest.mark.parametrize(
    ("command", "flags", "ready"),
    [
        ("verifiable-producer", (), "producer_send_success"),
        ("verifiable-producer", ("--throughput", "0"), "producer_send_success"),
        (
            "verifiable-consumer",
            ("--group-id", "until-a-signal", "--close-timeout", "9000"),
            "partitions_assigned",
        ),
    ],
)
def test_a_signal_ends_them_in_order(broker, topic, command, flags, ready):
    server = ("--topic", topic, "--bootstrap-server", broker.bootstrap)
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", command, *server, *flags],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        while plain(process.stdout.readline())["name"] != ready:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        rest = [plain(line) for line in process.stdout]
        assert process.wait(60) == 128 + signal.SIGTERM
    names = [event["name"] for event in rest]
    assert "shutdown_complete" in names
    if command == "verifiable-producer":
        assert names[-1] == "tool_data"
        assert rest[-1]["sent"] == rest[-1]["acked"] > 0


@pytest.mark.parametrize(
    ("command", "flags", "words"),
    [
        ("verifiable-consumer", ("--bootstrap-server", "h:1"), "--group-id"),
        (
            "verifiable-consumer",
            ("--bootstrap-server", "h:1", "--group-id", "g", "--group-protocol", "consumer"),
            "knows the classic protocol only",
        ),
        (
            "verifiable-consumer",
            ("--bootstrap-server", "h:1", "--group-id", "g", "--assignment-strategy", "none"),
            "partition.assignment.strategy",
        ),
    ],
)
def test_flags_that_do_not_go(barnabas, command, flags, words):
    done = barnabas(command, "--topic", "t", *flags)

    assert (done.exit_code, done.stdout) == (1, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
