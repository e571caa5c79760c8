"""A machine of three brokers with one address and one endpoint of metrics, and what is done to it.

One machine for all tests, since processes are dear.
"""

import base64
import contextlib
import ctypes
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections import Counter

import click
import pytest
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from barnabas.admin import Admin, NewTopic
from barnabas.cli import machine_service
from barnabas.client import ClientTimeoutError
from barnabas.client.types import LATEST_TIMESTAMP
from barnabas.core.broker_config import broker_config
from barnabas.core.ids import TopicPartition
from barnabas.node.environment import METADATA_FILE
from machine_parent import MachineParent
from serving import READY_SECONDS, free_port
from waiting import eventually, until

SESSION_MS = 2000
ROOM = 64 << 20
DETACH = 2


@pytest.fixture(scope="module")
def port():
    return free_port()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder of the machine, in which broker 2 has a small disk of its own where one can be mounted."""
    libc, folder = ctypes.CDLL(None, use_errno=True), tmp_path_factory.mktemp("machine") / "data"
    (folder / "2").mkdir(parents=True)
    mounted = not libc.mount(b"tmpfs", os.fsencode(folder / "2"), b"tmpfs", 0, b"size=%d" % ROOM)
    yield folder
    if mounted:
        libc.umount2(os.fsencode(folder / "2"), DETACH)


@pytest.fixture(scope="module")
def machine(data, port):
    settings = ["metrics.port=0", "metrics.password=hunter2", f"zookeeper.session.timeout.ms={SESSION_MS}"]
    options = [word for each in settings for word in ("--set", each)]
    started = MachineParent(data, "--brokers", "3", "--port", "0", "--bootstrap", str(port), *options)
    yield started.wait_until_ready()
    assert started.end() == 0, started.errors.read_text()


@pytest.fixture(scope="module")
def address(machine, port):
    assert f" bootstrap=PLAINTEXT://127.0.0.1:{port} " in machine.ready_line
    with Admin(f"127.0.0.1:{port}") as admin:
        admin.topics.create(NewTopic("copied", 3, assignment={0: [1, 2], 1: [2, 3], 2: [3, 1]}))
    return f"127.0.0.1:{port}"


def scraped(machine):
    """Samples of the machine: (name, broker, other labels) to the value."""
    url = re.search(r"metrics=(\S+)", machine.ready_line)[1]
    words = base64.b64encode(b"metrics:hunter2").decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {words}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    families = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(families) == len(set(families)), "the format has each metric once"
    return {
        (sample.name, labels.pop("broker"), *sorted(labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for labels in [dict(sample.labels)]
    }


def leader_counts(samples):
    """What each broker says that it leads, where it leads anything."""
    name = "kafka_server_replicamanager_leadercount"
    return Counter({each: int(samples[name, str(each)]) for each in (1, 2, 3) if samples[name, str(each)]})


def partitions(admin):
    """Of all topics: the tests come in any order, and some make topics or move leaders."""
    described = admin.topics.describe([each.name for each in admin.topics.list()])
    return [partition for topic in described.values() for partition in topic.partitions]


def test_metadata_names_the_brokers_own_ports(machine, address):
    brokers = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).brokers
    assert sorted(f"{each.host}:{each.port}" for each in brokers.values()) == sorted(machine.addresses)


def test_one_endpoint_has_the_metrics_of_all_brokers(machine, address):
    with Admin(address) as admin:
        until(lambda: leader_counts(scraped(machine)) == Counter(each.leader for each in partitions(admin)))
    found = scraped(machine)
    assert [found["barnabas_machine_broker_up", each] for each in "123"] == [1, 1, 1]
    assert ("kafka_log_log_size", "1", ("partition", "0"), ("topic", "copied")) in found
    assert ("kafka_log_log_size", "3", ("partition", "0"), ("topic", "copied")) not in found


def test_status_shows_processes_and_lag_of_all(machine, address):
    command = [sys.executable, "-m", "barnabas", "status", "--json", "--bootstrap-server", address]

    def shown():
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["brokers"]

    with Admin(address) as admin:
        leads = Counter(each.leader for each in partitions(admin))
        replicas = Counter(broker for each in partitions(admin) for broker in each.replicas)
    brokers = shown()
    assert {each["broker"]["node_id"]: each["pid"] for each in brokers} == machine.children()
    assert [(each["leads"], each["replicas"]) for each in brokers] == [
        (leads[each], replicas[each]) for each in (1, 2, 3)
    ]
    until(lambda: [each["lag"] for each in shown()] == [0, 0, 0])
    assert all(each["processor_share"] >= 0 for each in brokers)


def produce(address, **options):
    """Thirty records by librdkafka, which knows nothing but this address."""
    producer = LibrdkafkaProducer({"bootstrap.servers": address, "acks": "all", **options})
    said = []
    for number in range(30):
        producer.produce("copied", b"%d" % number, on_delivery=lambda error, _: said.append(error))
    assert producer.flush(60) == 0
    assert said == [None] * 30


def in_sync(admin):
    return [len(each.isr) for each in admin.topics.describe(["copied"])["copied"].partitions]


def test_each_of_the_brokers_is_killed_and_the_one_address_works(machine, address):
    for broker in (1, 2, 3):
        pid = machine.children()[broker]
        os.kill(pid, signal.SIGKILL)
        produce(address)
        until(lambda was=pid, which=broker: machine.children().get(which) not in (None, was))
        with Admin(address) as admin:
            eventually(lambda asked=admin: in_sync(asked), [2, 2, 2])
    found = scraped(machine)
    assert [found["barnabas_machine_broker_restarts_total", each] for each in "123"] == [1, 1, 1]


def test_a_broker_that_hangs_keeps_nobody_from_the_others(machine, address):
    pid = machine.children()[2]
    os.kill(pid, signal.SIGSTOP)
    try:
        # A connection to the one that hangs is given up, and the next goes elsewhere.
        quick = {"socket.connection.setup.timeout.ms": 1000, "socket.timeout.ms": 1500}
        produce(address, **quick, **{"topic.metadata.refresh.interval.ms": 500})
    finally:
        os.kill(pid, signal.SIGCONT)
    with Admin(address) as admin:
        eventually(
            lambda: {len(each.isr) for each in admin.topics.describe(["copied"])["copied"].partitions}, {2}
        )
    assert machine.children()[2] == pid


def test_a_full_disk_of_one_broker_is_that_brokers_alone(machine, address, data):
    if not (data / "2").is_mount():
        pytest.skip("no file system can be mounted here")
    with Admin(address) as admin:
        admin.topics.create([NewTopic(f"of-{broker}", assignment={0: [broker]}) for broker in (1, 2)])
        said = []
        producer = LibrdkafkaProducer({"bootstrap.servers": address, "message.timeout.ms": 60_000})
        with (data / "2" / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(bytes(1 << 16)):
                pass

        def send(topic):
            producer.produce(
                topic, bytes(100_000), on_delivery=lambda error, record: said.append(record.topic())
            )

        send("of-2")
        send("of-1")
        until(lambda: producer.poll(0.1) is None or "of-1" in said)
        until(lambda: "directory.full" in machine.errors.read_text())
        assert said == ["of-1"]
        (data / "2" / "ballast").unlink()
        assert producer.flush(60) == 0
        assert said == ["of-1", "of-2"]
        assert (
            admin.offsets.list({TopicPartition("of-2", 0): LATEST_TIMESTAMP})[
                TopicPartition("of-2", 0)
            ].offset
            == 1
        )


def test_a_second_parent_is_refused_with_the_reason_and_harms_nobody(machine, address, data):
    second = subprocess.run(
        [sys.executable, "-m", "barnabas", "serve", "--brokers", "3", "--port", "0", "--data", str(data)],
        capture_output=True, text=True, timeout=READY_SECONDS, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert re.search(r"^Error: .*lock", second.stderr, re.MULTILINE), second.stderr
    assert sorted(machine.children()) == [1, 2, 3]
    with Admin(address) as admin:
        assert len(admin.cluster.describe().brokers) == 3


def test_ids_that_another_machine_has_are_refused(machine, data, tmp_path):
    options = [
        "--brokers",
        "2",
        "--id",
        "3",
        "--port",
        "0",
        "--store",
        str(data),
        "--data",
        str(tmp_path / "other"),
    ]
    second = subprocess.run(
        [sys.executable, "-m", "barnabas", "serve", *options],
        capture_output=True, text=True, timeout=READY_SECONDS, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert re.search(
        r"^Error: broker 3 ended with exit code 1: broker\.id 3 is already registered in this cluster, by a"
        rf" broker at {re.escape(machine.addresses[2])}: give",
        second.stderr,
        re.MULTILINE,
    )
    assert "registration_waits" not in second.stderr  # the one that has it answers
    assert sorted(machine.children()) == [1, 2, 3]


LISTENING = "is asked for twice: brokers listen on 9092-9094"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bootstrap": 9093}, f"port 9093 {LISTENING}, --bootstrap is 9093"),
        ({"metrics": 9091}, f"port 9092 {LISTENING}, metrics take 9091-9094"),
        ({"port": 65534}, "--brokers 3: the last of their ports would be 65536"),
        (
            {"bootstrap": 7000, "port": 0, "metrics": 6999},
            "port 7000 is asked for twice: brokers listen on free",
        ),
    ],
)
def test_ports_that_cannot_be_are_said_before_any_broker_starts(tmp_path, given, said):
    options = machine_service.MachineOptions(
        brokers="3",
        data=tmp_path,
        store=None,
        zookeeper=None,
        first_id=None,
        port=given.get("port"),
        bootstrap=given.get("bootstrap"),
        rack=None,
        same=[],
        config=broker_config({"metrics.port": str(given.get("metrics", -1))}),
        folder=None,
    )
    with pytest.raises(click.ClickException, match=re.escape(said)):
        machine_service.run(options)
    assert list(tmp_path.iterdir()) == []


def test_a_broker_has_from_its_parent_what_it_needs_and_loads_nothing_by_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    started = MachineParent(tmp_path / "data", "--brokers", "1", "--port", "0")
    try:
        started.wait_until_ready()
    finally:
        assert started.end() == 0
    loaded = re.findall(
        r"^(\[1\] )?import time:[ \d]+\|[ \d]+\| +(\S+)$", started.errors.read_text(), re.MULTILINE
    )
    assert ("", "barnabas.node.broker_node") in loaded
    assert [module for broker, module in loaded if broker] == []


def test_a_store_that_nobody_can_write_to_keeps_no_record_waiting(machine, address, data):
    """As while a process stands still in the middle of a write."""
    ends = {TopicPartition("copied", each): LATEST_TIMESTAMP for each in range(3)}
    with Admin(address) as admin:
        before = sum(each.offset for each in admin.offsets.list(ends).values())
        with contextlib.closing(
            sqlite3.connect(data / METADATA_FILE, timeout=30, isolation_level=None)
        ) as lock:
            lock.execute("BEGIN IMMEDIATE")
            produce(address)
            with pytest.raises(ClientTimeoutError):
                admin.topics.create(NewTopic("late", 1), timeout_ms=SESSION_MS / 4)
            lock.execute("ROLLBACK")
        admin.topics.create(NewTopic("prompt", 1))
        after = sum(each.offset for each in admin.offsets.list(ends).values())
    assert after == before + 30
