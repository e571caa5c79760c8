"""Every tool that talks to a broker ends in the time that it is given, and says in one line what is wrong."""

import socket
import time

import pytest

import barnabas.admin  # noqa: F401 - read before the time of a tool is taken
from asking_tools import asking_tools

GIVEN_MS = 60
"""What a tool is given here, and what it may take more: its modules are read, its client is closed."""
MORE_S = 20
TIMEOUT = f"--bootstrap-server {{boot}} --timeout {GIVEN_MS}"
PERF = "producer-perf-test --topic t --num-records 3 --record-size 10 --throughput -1"
TOOLS = [
    f"topics --list {TIMEOUT}",
    f"configs --describe --topic t --all {TIMEOUT}",
    f"configs --describe --entity-type users {TIMEOUT}",
    f"acls --list {TIMEOUT}",
    f"delegation-tokens --describe {TIMEOUT} --command-config {{config}}",
    f"reassign-partitions --list --bootstrap-server {{boot}} --api-timeout {GIVEN_MS}",
    f"leader-election --election-type preferred --all-topic-partitions {TIMEOUT}",
    f"list-groups --list {TIMEOUT}",
    f"get-offsets --topic t {TIMEOUT}",
    f"delete-records --offset-json-file {{records}} {TIMEOUT}",
    f"broker-api-versions {TIMEOUT}",
    f"cluster cluster-id {TIMEOUT}",
    f"cluster list-endpoints {TIMEOUT}",
    f"cluster unregister --id 7 {TIMEOUT}",
    f"features {TIMEOUT} describe",
    f"transactions {TIMEOUT} list",
    f"log-dirs --describe {TIMEOUT}",
    f"client-metrics --list {TIMEOUT}",
    f"explain partition t 0 {TIMEOUT}",
    f"explain coordinator g {TIMEOUT}",
    f"status {TIMEOUT}",
    f"e2e-latency --topic t --num-records 1 --producer-acks 1 --record-size 1 {TIMEOUT}",
    f"messages --topic t {TIMEOUT}",
    f"produce --topic t --bootstrap-server {{boot}} --max-block-ms {GIVEN_MS}",
    f"{PERF} {TIMEOUT}",
    f"verifiable-producer --topic t --max-messages 3 {TIMEOUT}",
    f"verifiable-consumer --topic t --group-id g {TIMEOUT}",
]
"""A command. {boot} is the address, {config} a file of options, {records} a file of JSON."""
AS_KAFKA = [
    (f"groups --list {TIMEOUT}", 0, "No broker of"),
    (
        f"consume --topic t --bootstrap-server {{boot}} --timeout-ms {GIVEN_MS}",
        0,
        "Processed a total of 0 messages",
    ),
    (f"consumer-perf-test --topic t --num-records 3 {TIMEOUT}", 0, "WARNING: Exiting before consuming"),
]
"""Where Kafka's script has another end: the exit code, and something of what it prints."""
ELSEWHERE = {
    "analyze": "it needs Spark, and its clients get their options as these do",
    "console": "it goes on, and shows that a cluster does not answer",
    "demo": "in tests/spark/test_silent_clusters.py, as it needs Spark",
    "doctor": "what it finds is what it prints",
    "pipeline": "`init` in tests/spark/test_silent_clusters.py; the others have options of their client",
    "transactional-message-copier": "as Kafka's it takes no options of clients",
}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """Addresses of nobody: one refuses, one takes the connection and says nothing, one leaves it open whether
    there is a host (its queue of connections is full, so that packets are dropped).
    """
    folder = tmp_path_factory.mktemp("given")
    (folder / "records").write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 0}]}')
    (folder / "config").write_text("client.id=c\n")
    dead, silent, hole = (socket.socket() for _ in range(3))
    for one in (dead, silent, hole):
        one.bind(("127.0.0.1", 0))
    silent.listen(1000)
    hole.listen(0)
    waiting = [socket.socket() for _ in range(3)]
    for one in waiting:
        one.setblocking(False)
        one.connect_ex(hole.getsockname())
    there = {"refuses": dead, "silent": silent, "black hole": hole}
    files = {"records": folder / "records", "config": folder / "config"}
    yield {name: {"boot": f"127.0.0.1:{one.getsockname()[1]}", **files} for name, one in there.items()}
    for one in (dead, silent, hole, *waiting):
        one.close()


@pytest.fixture
def ended(barnabas, addresses):
    """What a command does at an address, which is to take its time and hardly more."""

    def run(command, address):
        started = time.monotonic()
        done = barnabas(*command.format(**addresses[address]).split(), stdin="a line\n")
        assert time.monotonic() - started < GIVEN_MS / 1000 + MORE_S
        return done

    return run


@pytest.mark.parametrize("address", ["refuses", "silent", "black hole"])
@pytest.mark.parametrize("command", TOOLS, ids=[one.split(" --")[0] for one in TOOLS])
def test_a_tool_ends_in_its_time_with_one_line(ended, command, address):
    done = ended(command, address)
    assert done.exit_code == 1
    *before, line = done.stderr.splitlines()
    assert "No broker of 127.0.0.1:" in line or "Timeout waiting for" in line
    # Where many attempts fail the client says so, and kafka-configs.sh has the command line before its error.
    assert all(
        one.startswith(("Warning: No broker answers yet", "Error while executing config")) for one in before
    )


@pytest.mark.parametrize(("command", "code", "said"), AS_KAFKA)
def test_a_tool_that_ends_as_kafkas_does(ended, command, code, said):
    done = ended(command, "silent")
    assert done.exit_code == code
    assert said in done.stdout + done.stderr


def test_no_tool_is_left_out():
    told = {command.split()[0] for command in [*TOOLS, *(one for one, _, _ in AS_KAFKA)]}
    assert asking_tools() - ELSEWHERE.keys() == told - ELSEWHERE.keys()
