"""`barnabas consume` that Ctrl-C ends: what was printed is committed, and the group is left."""

import signal
import subprocess
import sys

from barnabas.admin import Admin, GroupState
from barnabas.client import Producer, TopicPartition

A_WHILE_S = 60
ENTRY = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from barnabas.cli.main import main
main()
"""
"""The tool as a shell starts it, also where this process ignores Ctrl-C."""


def test_ctrl_c_ends_it_in_order(kafka, kafka_topic):
    servers, group = kafka.bootstrap_servers, f"{kafka_topic}-readers"
    with Producer(servers) as producer:
        for number in range(5):
            producer.send(kafka_topic, f"line {number}")
    command = [sys.executable, "-c", ENTRY, "consume", "--topic", kafka_topic, "--from-beginning"]
    process = subprocess.Popen(
        [*command, "--group", group, "--bootstrap-server", servers],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert [process.stdout.readline() for _ in range(5)] == [f"line {number}\n" for number in range(5)]
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=A_WHILE_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, rest, said.strip()) == (130, "", "Processed a total of 5 messages")
    with Admin(servers) as admin:
        assert admin.groups.offsets(group)[group][TopicPartition(kafka_topic, 0)].offset == 5
        assert admin.groups.describe(group)[group].state is GroupState.EMPTY
