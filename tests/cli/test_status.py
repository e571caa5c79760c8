"""``barnabas status``: brokers at a glance, on this machine with their processes."""

import json
import os
import signal
import time

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.cli.commands.status import _HEADINGS
from barnabas.client import Producer
from barnabas.operations import local_processes
from barnabas.testing import Fault, Kafka
from waiting import until


@pytest.fixture
def pair(serve, tmp_path):
    """Two brokers on one store, with a topic that both have: broker 1 leads two partitions, broker 2 one."""
    store = str(tmp_path / "store")
    brokers = [
        serve(tmp_path / f"data-{each}", "--id", str(each), "--store", store, "--set", f"broker.rack=r{each}")
        for each in (1, 2)
    ]
    for each in brokers:
        each.wait_until_ready()
    bootstrap = ",".join(each.bootstrap for each in brokers)
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [1, 2], 1: [1, 2], 2: [2, 1]}))
    with Producer(bootstrap, acks="all") as producer:
        producer.send("t", bytes(1000), partition=0).result()
    return brokers


def test_each_broker_with_what_it_has(barnabas, pair):
    bootstrap = ",".join(each.bootstrap for each in pair)
    found = json.loads(barnabas("status", "--bootstrap-server", bootstrap, "--json").stdout)
    first, second = found["brokers"]
    assert [each["broker"]["node_id"] for each in (first, second)] == [1, 2]
    assert [each["broker"]["rack"] for each in (first, second)] == ["r1", "r2"]
    assert [(each["leads"], each["replicas"]) for each in (first, second)] == [(2, 3), (1, 3)]
    assert [(each["out_of_sync"], each["error"]) for each in (first, second)] == [(0, None)] * 2
    assert first["size_bytes"] > 1000
    assert [each["pid"] for each in (first, second)] == [each.process.pid for each in pair]
    assert all(0 <= each["processor_share"] < 2 for each in (first, second))
    assert sorted(each["is_controller"] for each in (first, second)) == [False, True]
    assert (found["topics"], found["partitions"]) == (1, 3)
    assert (found["leaderless"], found["under_replicated"]) == (0, 0)


def test_the_lines(barnabas, pair):
    lines = barnabas("status", "--bootstrap-server", pair[0].bootstrap).stdout.splitlines()
    assert lines[0].split() == [*_HEADINGS]
    words = lines[1].split()
    assert (words[0].rstrip("*"), words[1:6]) == ("1", [pair[0].bootstrap, "r1", "2", "3", "0"])
    assert sum("*" in line.split()[0] for line in lines[1:3]) == 1
    assert lines[-1] == "1 topics, 3 partitions: 0 without a leader, 0 with replicas out of sync"


def test_what_a_broker_leaves_behind_that_dies(barnabas, pair):
    os.kill(pair[1].process.pid, signal.SIGKILL)
    pair[1].stop()

    def look():
        return json.loads(barnabas("status", "--bootstrap-server", pair[0].bootstrap, "--json").stdout)

    until(lambda: len(look()["brokers"]) == 1 and look()["under_replicated"] == 3)
    (left,) = look()["brokers"]
    assert (left["broker"]["node_id"], left["leads"], left["is_controller"]) == (1, 3, True)


def test_one_that_is_silent_does_not_cost_the_whole_time(barnabas):
    with Kafka(2) as kafka:
        kafka.plant(Fault("DescribeLogDirs", node=1, delay_ms=60_000, count=None))
        begun = time.monotonic()
        result = barnabas(
            "status", "--bootstrap-server", kafka.bootstrap_servers, "--timeout", "30000", "--json"
        )
        took_s = time.monotonic() - begun
    first, second = json.loads(result.stdout)["brokers"]
    assert first["error"] is None
    assert "silent" in second["error"]["message"]
    assert (second["lag"], second["size_bytes"]) == (None, None)
    assert took_s < 25


def test_nobody_answers(barnabas):
    result = barnabas("status", "--bootstrap-server", "127.0.0.1:1", "--timeout", "300")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nothing listens there" in result.stderr


def test_a_machine_without_proc(tmp_path, monkeypatch):
    monkeypatch.setattr(local_processes, "PROC", tmp_path / "none")
    assert local_processes.listeners({9092}) == {}
    assert local_processes.processor_shares([1], 0) == {}


def test_a_process_whose_name_has_parentheses(tmp_path, monkeypatch):
    folder = tmp_path / "7"
    folder.mkdir()
    fields = " ".join(["S", *["0"] * 10, "300", "200", *["0"] * 30])
    (folder / "stat").write_text(f"7 (a) b) {fields}\n")
    monkeypatch.setattr(local_processes, "PROC", tmp_path)
    monkeypatch.setattr(os, "sysconf", lambda _name: 100)
    assert local_processes.processor_shares([7], 0.001) == {7: 0.0}
    assert local_processes._processor_s(7) == 5.0
