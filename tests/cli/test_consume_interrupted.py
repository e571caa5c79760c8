"""`barnabas consume` that Ctrl-C ends: what was printed is committed, and the group is left. One whose output
nobody reads stays in its group.
"""

import fcntl
import signal
import subprocess
import sys
import termios

from barnabas.admin import Admin, GroupState
from barnabas.client import Producer, TopicPartition
from barnabas.testing import Fault
from waiting import until

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


def test_a_reader_of_its_output_may_take_longer_than_the_session(kafka, kafka_topic):
    servers, group, client = kafka.bootstrap_servers, f"{kafka_topic}-slow", f"{kafka_topic}-client"
    with Producer(servers) as producer:
        for _ in range(200):
            producer.send(kafka_topic, b"x" * 1000)
    command = [sys.executable, "-c", ENTRY, "consume", "--topic", kafka_topic, "--from-beginning"]
    quick = ["--command-property", "heartbeat.interval.ms=100", "--command-property", f"client.id={client}"]
    process = subprocess.Popen(
        [*command, "--group", group, "--bootstrap-server", servers, *quick], stdout=subprocess.PIPE
    )
    try:
        waiting = bytearray(4)

        def printed():
            fcntl.ioctl(process.stdout, termios.FIONREAD, waiting)
            return int.from_bytes(waiting, sys.byteorder)

        until(lambda: printed() > 60_000, lambda: f"{printed()} bytes")  # a pipe has 65,536
        with kafka.plant(Fault("Heartbeat", client_id=client, count=None)) as beats:
            for number in range(1, 5):
                beats.wait(3 * number)
                kafka.advance(20)  # of a session of 45 s
        with Admin(servers) as admin:
            assert len(admin.groups.describe(group)[group].members) == 1
    finally:
        process.kill()
        process.communicate()
