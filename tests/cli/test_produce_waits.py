"""`barnabas produce` beside somebody who types: what was read is sent while the next line is waited for."""

import contextlib
import signal
import subprocess
import sys

import pytest

from waiting import eventually

A_WHILE_S = 60
ENTRY = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from barnabas.cli.main import main
main()
"""
"""The tool as a shell starts it, also where this process ignores Ctrl-C."""


@pytest.fixture
def produce(kafka, kafka_topic):
    started = []

    def start(*flags):
        command = [sys.executable, "-c", ENTRY, "produce", "--topic", kafka_topic]
        started.append(
            subprocess.Popen(
                [*command, "--bootstrap-server", kafka.bootstrap_servers, *flags],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for process in started:
        process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.communicate()


def test_a_line_is_stored_before_the_next_one_comes_and_ctrl_c_ends_the_wait(produce, kafka, kafka_topic):
    process = produce("--timeout", "1")
    process.stdin.write(b"first\n")
    process.stdin.flush()
    eventually(lambda: [record.value for record in kafka.records(kafka_topic)], [b"first"])
    process.send_signal(signal.SIGINT)
    assert process.wait(A_WHILE_S) == 130
    assert process.stderr.read().strip() == b""


def test_lines_in_front_of_a_wrong_one_are_stored(produce, kafka, kafka_topic):
    process = produce("--key-separator", ":")
    _, said = process.communicate(b"a:1\nb:2\nno key\nc:3\n", A_WHILE_S)
    assert (process.returncode, said) == (1, b"Error: No key separator found on line number 3: 'no key'\n")
    assert [record.value for record in kafka.records(kafka_topic)] == [b"1", b"2"]


def test_a_line_without_an_end_is_refused_while_it_comes(produce):
    process = produce()
    with contextlib.suppress(BrokenPipeError):  # it ends before it has all
        process.stdin.write(bytes(1_200_000))
        process.stdin.flush()
    assert process.wait(A_WHILE_S) == 1
    assert b"Error: Line number 1 has more than" in process.stderr.read()
