"""``barnabas serve --store`` and ``barnabas store`` on the store that its broker uses."""

import json
import socket
import subprocess
import sys

import pytest

from barnabas.admin import Admin, NewTopic

TREE = ["/consumers", "/controller", "/controller_epoch"]


@pytest.fixture
def ls(barnabas):
    return lambda *flags: barnabas("store", "ls", *map(str, flags))


@pytest.fixture
def get(barnabas):
    return lambda *flags: barnabas("store", "get", *map(str, flags))


def one_line(result):
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    return line


def test_znodes_of_a_running_broker_and_of_one_that_ended(serve, tmp_path, ls, get):
    store = tmp_path / "store"
    server = serve(tmp_path / "data", "--store", str(store))
    server.wait_until_ready()
    assert not (tmp_path / "data" / "metadata.sqlite").exists()
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("orders", 1, 1))

    assert ls("/brokers/topics", "--store", store).stdout == "orders\n"
    everything = ls("--recursive", "--store", store / "metadata.sqlite").stdout.splitlines()
    assert "/brokers/topics/orders/partitions/0/state" in everything
    assert set(TREE) <= set(everything)
    lines = get("/brokers/ids/0", "--store", store).stdout.splitlines()
    assert lines[0] == "path              /brokers/ids/0"
    assert lines[4].startswith("ephemeral owner   session 0x")
    assert json.loads("\n".join(lines[6:]))["port"] == server.port
    state = json.loads(get("/brokers/topics/orders/partitions/0/state", "--json", "--store", store).stdout)
    assert state["data"] == {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 0, "isr": [0]}
    assert (state["version"], state["ephemeral_owner"], state["children"]) == (0, 0, 0)
    assert get("/controller_epoch", "--store", store).stdout.splitlines()[-1] == "1"
    assert get("/brokers/ids", "--store", store).stdout.splitlines()[-1] == "null"

    # The znodes of a broker that died stay until another begins: looking at them does not end its session.
    server.kill()
    for _ in range(2):
        assert get("/controller", "--store", store).exit_code == 0


def test_what_is_not_there_is_one_line(serve, tmp_path, ls, get):
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    data = tmp_path / "data"
    assert one_line(get("/nope", "--store", data)) == "Error: There is no znode /nope"
    assert one_line(ls("/nope", "--store", data)) == "Error: There is no znode /nope"
    assert one_line(get("nope", "--store", data)) == "Error: 'nope' is not the path of a znode"
    assert one_line(ls("--store", tmp_path / "elsewhere")).startswith(
        f"Error: {tmp_path / 'elsewhere'} is not there"
    )
    (tmp_path / "text").write_text("no database, but longer than the head of one " * 9)
    assert one_line(ls("--store", tmp_path / "text")).endswith("cannot be read: file is not a database")
    assert (
        one_line(ls())
        == "Error: Name the store: either --store or --zookeeper (see barnabas store ls --help)"
    )
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        line = one_line(ls("--zookeeper", address, "--timeout", "200"))
    assert line.startswith(f"Error: no ZooKeeper server of {address} answered within 200 ms")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--store", "x", "--zookeeper", "y"), "--store and --zookeeper name two metadata stores"),
        (("--zookeeper", ""), "--zookeeper names no server"),
        (("--zookeeper", "127.0.0.1:x"), "Invalid value 127.0.0.1:x for configuration zookeeper.connect"),
        # This one was a traceback.
        (
            ("--zookeeper", "127.0.0.1:2181/a//b"),
            "Invalid value 127.0.0.1:2181/a//b for configuration zookeeper",
        ),
    ],
)
def test_a_store_that_cannot_be_one_stops_the_start_with_one_line(tmp_path, flags, words):
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "serve",
        "--data",
        str(tmp_path / "d"),
        "--port",
        "0",
    ]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {words}")
