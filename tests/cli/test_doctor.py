"""``barnabas doctor``: what it finds on this machine and at a cluster's addresses, and what it says to do."""

import json
import re
import resource
import socket
import time
from pathlib import Path

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from barnabas.operations import address_checks, machine_checks
from barnabas.operations.machine_checks import Rating
from barnabas.protocol.api import ApiKey
from serving import free_port

GOLDEN = Path(__file__).parents[1] / "golden"


def by_check(output):
    return {one["check"]: one for one in json.loads(output)["diagnoses"]}


@pytest.fixture
def doctor(barnabas, tmp_path):
    """Runs it for a free port and an empty folder, with further options."""

    def run(*options):
        return barnabas("doctor", "--data", str(tmp_path), "--port", str(free_port()), *options)

    return run


def test_a_line_for_each_thing(doctor):
    result = doctor()
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert {line[0] for line in lines} <= {"ok", "warning"}
    assert [line[1] for line in lines] == [
        "python",
        "descriptors",
        "machine",
        "disk",
        "file-system",
        "sync",
        "clock",
        "java",
        "port",
        "bootstrap",
    ]


def test_the_same_for_a_program(doctor):
    found = json.loads(doctor("--json").stdout)
    assert found["healthy"] is True
    assert found["diagnoses"][0].keys() == {"check", "rating", "found", "advice"}


def test_a_port_that_is_taken(barnabas, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = barnabas("doctor", "--data", str(tmp_path), "--port", str(port), "--json")
    found = by_check(result.stdout)["port"]
    assert (found["rating"], found["found"]) == ("warning", f"127.0.0.1:{port} is taken")
    assert found["advice"].startswith(f"ss -ltnp 'sport = :{port}' says by whom")
    assert result.exit_code == 0


def test_an_address_of_another_machine(doctor):
    result = doctor("--host", "192.0.2.1", "--json")
    assert by_check(result.stdout)["port"]["rating"] == "error"
    assert result.exit_code == 1


def test_a_folder_that_is_none_or_cannot_be_written(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    (found,) = machine_checks.disk(file / "below")
    assert (found.rating, found.found) == (Rating.ERROR, f"{file} is no folder")

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(machine_checks.tempfile, "TemporaryFile", refuse)
    (found,) = machine_checks.disk(tmp_path)
    assert found.found == f"{tmp_path} cannot be written: Permission denied"


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path):
    first, *_ = machine_checks.disk(tmp_path / "a" / "b")
    assert first.found.startswith(f"{tmp_path}: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "rating"), [("nfs4", "warning"), ("tmpfs", "warning"), ("ext4", "ok"), ("xfs", "ok")]
)
def test_file_systems(tmp_path, monkeypatch, kind, rating):
    monkeypatch.setattr(machine_checks, "_file_system_of", lambda _place: kind)
    _, found, _ = machine_checks.disk(tmp_path)
    assert (found.check, found.rating) == ("file-system", rating)


def test_the_mount_nearest_to_the_folder_counts(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    spaced = tmp_path / "a b"
    spaced.mkdir()
    escaped = str(spaced).replace(" ", "\\040")
    mounts.write_text(f"root / ext4 rw 0 0\nserver:/x {escaped} nfs4 rw 0 0\nother /elsewhere xfs rw 0 0\n")
    monkeypatch.setattr(machine_checks, "MOUNTS", mounts)
    assert [one.found for one in machine_checks.disk(spaced)][1].startswith("nfs4")
    assert [one.found for one in machine_checks.disk(tmp_path)][1] == "ext4"


def test_little_room(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_checks, "FREE_BYTES_MIN", 1 << 60)
    first, *_ = machine_checks.disk(tmp_path)
    assert first.rating is Rating.WARNING
    assert "log.retention.bytes" in first.advice


def test_few_descriptors(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, 1024))
    found = machine_checks.descriptors()
    assert (found.rating, found.found) == (Rating.WARNING, "a process may open 1,024 files and sockets")
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, 4096))
    assert machine_checks.descriptors().rating is Rating.OK


def test_clocks(monkeypatch):
    monkeypatch.setattr(machine_checks, "_kernel_clock", lambda: 5)
    assert machine_checks.clock().rating is Rating.WARNING
    monkeypatch.setattr(machine_checks, "_kernel_clock", lambda: 0)
    assert machine_checks.clock().rating is Rating.OK
    monkeypatch.setattr(time, "time", lambda: 86_400.0 * 365)
    found = machine_checks.clock()
    assert (found.rating, found.found) == (Rating.ERROR, "it is 1971-01-01 here")


def test_java_is_asked_for_where_spark_is(doctor, monkeypatch, tmp_path):
    from barnabas.cli.commands import doctor as command
    from barnabas.spark import java

    monkeypatch.setattr(java, "_homes_of_the_machine", lambda _environment: iter(()))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(command, "find_spec", lambda _name: object())
    found = by_check(doctor("--json").stdout)["java"]
    assert (found["rating"], found["found"]) == ("warning", "Spark needs Java 17 or newer and none was found")
    assert found["advice"] == "install one and set JAVA_HOME, or run: pip install 'barnabas[jvm]'"
    monkeypatch.setattr(command, "find_spec", lambda _name: None)
    assert by_check(doctor("--json").stdout)["java"]["rating"] == "ok"


def test_a_cluster_that_is_well(serve, doctor, tmp_path):
    server = serve(tmp_path / "broker-data")
    result = doctor("--bootstrap-server", server.wait_until_ready().bootstrap, "--json")
    found = by_check(result.stdout)
    assert result.exit_code == 0, result.output
    assert found["bootstrap"]["found"].startswith(f"{server.bootstrap} answers: cluster ")
    assert found["controller"]["found"] == "broker 0"
    assert found["broker"]["found"].startswith(f"broker 0 at {server.bootstrap} answers like Kafka ")
    assert found["leaders"]["rating"] == "ok"


def test_an_advertised_address_that_leads_nowhere(serve, doctor, tmp_path):
    """The commonest trouble: the bootstrap server answers, and sends clients elsewhere."""
    nobody = free_port()
    server = serve(tmp_path / "broker-data", "--advertise", f"localhost:{nobody}")
    server.wait_until_ready()
    result = doctor("--bootstrap-server", server.bootstrap, "--timeout", "3000", "--json")
    found = by_check(result.stdout)["broker"]
    assert result.exit_code == 1
    assert found["found"] == f"broker 0 at localhost:{nobody}: nothing listens there"
    assert found["advice"].endswith("localhost means each client's own machine")


def test_nobody_answers(doctor):
    result = doctor("--bootstrap-server", "127.0.0.1:1", "--timeout", "300", "--json")
    found = by_check(result.stdout)
    assert result.exit_code == 1
    assert "nothing listens there" in found["bootstrap"]["found"]
    assert "broker" not in found


def test_partitions_without_a_leader(cluster, doctor):
    cluster.add_topic("orders", partitions=7)
    for partition in range(7):
        cluster.leaders["orders", partition] = -1
    found = by_check(doctor("--bootstrap-server", cluster.bootstrap, "--json").stdout)["leaders"]
    assert found["rating"] == "error"
    assert found["found"] == ("no leader: orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more")


@pytest.mark.parametrize(
    ("highest", "release"),
    [(18, "4.1 or newer"), (17, "3.9 or 4.0"), (13, "3.1 to 3.4"), (3, "older than 0.11")],
)
def test_which_kafka_answers(highest, release):
    assert address_checks.release_of({1: (0, highest)}) == release


def test_which_kafka_answers_is_what_others_know_of_each_release():
    """kafka-python's table of releases, and what genuine brokers of 3.9.2 and 4.4.0 have answered."""
    known = {
        release: versions[ApiKey.FETCH][1]
        for release, versions in BROKER_API_VERSIONS.items()
        if ApiKey.FETCH in versions and release >= (0, 11)
    }
    for name in ("3.9.2", "4.4.0"):
        answered = (GOLDEN / f"api-versions-{name}.txt").read_text()
        line = re.search(r"^Fetch\(1\): \d+ to (\d+)$", answered, re.MULTILINE)
        known[tuple(map(int, name.split(".")[:2]))] = int(line[1])
    assert len(known) > 15
    for release, highest in known.items():
        said = address_checks.release_of({ApiKey.FETCH: (0, highest)})
        first, _, last = said.replace(" or newer", " to 99.9").replace(" or ", " to ").partition(" to ")
        assert numbers(first) <= release[:2] <= numbers(last or first), (release, said)


def numbers(text):
    return tuple(map(int, text.split(".")))


def test_it_leaves_nothing_behind(doctor, tmp_path):
    doctor()
    assert list(tmp_path.iterdir()) == []
