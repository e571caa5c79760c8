"""``barnabas transactional-message-copier`` on a running broker."""

import json
import re
import signal
import subprocess
import sys

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Consumer, Producer, TopicPartition

FIELDS = ["transactionalId", "stage", "time", "totalProcessed", "consumed", "remaining"]
COUNT = 500


@pytest.fixture
def topics(broker, topic_name):
    """A topic with some records, and an empty one."""
    source, target = topic_name("copied-from"), topic_name("copied-to")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create([NewTopic(source, partitions=1), NewTopic(target, partitions=1)])
    with Producer(broker.bootstrap) as producer:
        for number in range(COUNT):
            producer.send(source, f"{number}", f"key-{number}", partition=0)
    return source, target


@pytest.fixture
def flags(broker, topics):
    source, target = topics
    return (
        *("transactional-message-copier", "--broker-list", broker.bootstrap, "--input-topic", source),
        *("--input-partition", "0", "--output-topic", target, "--consumer-group", f"by-{source}"),
        *("--transactional-id", f"copier-of-{source}", "--transaction-size", "60"),
    )


def copies(broker, topics):
    tp = TopicPartition(topics[1], 0)
    with Consumer(
        broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        found = []
        while consumer.position(tp) < end:
            found += [(record.key, record.value) for record in consumer.poll(1000)]
    return found


EXPECTED = [(f"key-{number}".encode(), f"{number}".encode()) for number in range(COUNT)]


@pytest.mark.parametrize("mode", [(), ("--group-mode", "--use-group-metadata")], ids=" ".join)
def test_all_is_copied_once_although_transactions_are_aborted(barnabas, broker, topics, flags, mode):
    done = barnabas(*flags, "--enable-random-aborts", *mode)
    assert (done.exit_code, done.stderr) == (0, "")
    assert copies(broker, topics) == EXPECTED

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(list(line) == FIELDS for line in lines)
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d:\d{3}", lines[0]["time"])
    last = lines[-1]
    assert (last["stage"], last["totalProcessed"], last["remaining"]) == ("ShutdownComplete", COUNT, 0)
    stages = {line["stage"] for line in lines[:-1]}
    assert stages == ({"ProcessLoop", "RebalanceComplete"} if mode else {"ProcessLoop"})
    with Admin(broker.bootstrap) as admin:
        group = f"by-{topics[0]}"
        assert admin.groups.offsets([group])[group][TopicPartition(topics[0], 0)].offset == COUNT


def test_a_second_run_goes_on_where_the_first_has_ended(barnabas, broker, topics, flags):
    assert barnabas(*flags, "--max-messages", "100").exit_code == 0
    first = len(copies(broker, topics))
    assert 100 <= first < COUNT
    assert barnabas(*flags).exit_code == 0
    assert copies(broker, topics) == EXPECTED


def test_a_signal_ends_it_and_leaves_no_transaction_open(broker, topics, flags):
    """In a group it does not end before its input has no more records for a while."""
    command = [sys.executable, "-m", "barnabas", *flags, "--transaction-size", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while json.loads(process.stdout.readline())["totalProcessed"] < 3:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        last = [json.loads(line) for line in process.stdout][-1]
        assert process.wait(60) == 128 + signal.SIGTERM
    assert last["stage"] == "ShutdownComplete"
    found = copies(broker, topics)
    assert found == EXPECTED[: len(found)]
    assert len(found) in {last["totalProcessed"], last["totalProcessed"] + 1}


def test_another_process_claims_the_transactional_id(broker, topics, flags):
    command = [sys.executable, "-m", "barnabas", *flags, "--transaction-size", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        while json.loads(process.stdout.readline())["totalProcessed"] < 3:
            assert process.poll() is None
        with Producer(broker.bootstrap, transactional_id=f"copier-of-{topics[0]}") as other:
            other.init_transactions()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
    claimed = (
        f"KafkaException: The transactional.id copier-of-{topics[0]} has been claimed by another process"
    )
    # In transaction version 2, as in Kafka 4: its commit came between the fence and the next epoch.
    aborted = (
        "InvalidTxnStateException: The producer attempted a transactional operation in an invalid state."
    )
    reason = said.splitlines()[-1].removeprefix("Shutting down after unexpected error ")
    assert reason.startswith((claimed, aborted)), said
