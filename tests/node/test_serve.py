"""`barnabas serve` as a user meets it: a process, its ready line, its exit code, its one line of error."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic


def run_serve(*options, timeout=20):
    command = [sys.executable, "-m", "barnabas", "serve", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def one_line_of(result):
    assert result.returncode == 1
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_ready_line_names_listener_broker_and_data(tmp_path, serve):
    server = serve(tmp_path / "data")
    broker = server.wait_until_ready()
    assert server.ready_line == f"ready PLAINTEXT://127.0.0.1:{broker.port} broker=0 data={tmp_path / 'data'}"
    assert server.stop() == 0


def test_ctrl_c_is_a_clean_stop_too(tmp_path, serve):
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(10) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    server.kill()


def test_topics_and_cluster_id_survive_a_restart(tmp_path, serve):
    first = serve(tmp_path / "data")
    with Admin(first.wait_until_ready().bootstrap) as admin:
        admin.topics.create(NewTopic("kept", partitions=2))
        cluster_id = admin.cluster.describe().cluster_id
    assert first.stop() == 0

    second = serve(tmp_path / "data")
    with Admin(second.wait_until_ready().bootstrap) as admin:
        assert len(admin.topics.describe(["kept"])["kept"].partitions) == 2
        assert admin.cluster.describe().cluster_id == cluster_id
    assert second.stop() == 0


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            "num.partitions=many",
            r"Invalid value many for configuration num\.partitions: Not a number of type INT",
        ),
        ("listeners=NOWHERE", r"Unable to parse NOWHERE to a broker endpoint"),
        (
            "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            r"configuration ssl\.keystore\.location: a TLS",
        ),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9", r"cannot use the nonroutable meta-address"),
        ("zookeeper.connect=host:port", r"Invalid value host:port for configuration zookeeper\.connect"),
        ("ssl.engine.factory.class=Mine", r"ssl\.engine\.factory\.class"),
        ("novalue", r"--set novalue: write it as key=value"),
    ],
)
def test_a_bad_setting_stops_the_start_with_one_line(tmp_path, setting, expected):
    assert re.search(
        expected, one_line_of(run_serve("--data", tmp_path / "d", "--port", "0", "--set", setting))
    )


def test_a_zookeeper_that_does_not_answer_is_one_line(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        settings = (f"zookeeper.connect={address}/chroot", "zookeeper.connection.timeout.ms=300")
        options = [part for setting in settings for part in ("--set", setting)]
        line = one_line_of(run_serve("--data", tmp_path / "d", "--port", "0", *options))
    assert f"no ZooKeeper server of {address} let this broker in within 300 ms" in line


def test_a_taken_port_is_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = one_line_of(run_serve("--data", tmp_path / "d", "--port", port))
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line


def test_a_data_folder_in_use_is_one_line(tmp_path, serve):
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    line = one_line_of(run_serve("--data", tmp_path / "data", "--port", "0", "--id", "0"))
    assert str(tmp_path / "data") in line
    assert server.stop() == 0


def test_a_folder_of_another_broker_is_one_line(tmp_path, serve):
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    assert server.stop() == 0
    line = one_line_of(run_serve("--data", tmp_path / "data", "--port", "0", "--id", "5"))
    assert "Configured broker.id 5 doesn't match stored broker.id 0" in line


def test_the_id_of_a_live_broker_is_one_line_and_harms_nobody(tmp_path, join_cluster):
    server = join_cluster(1)
    server.wait_until_ready()
    store = f"barnabas.metadata.path={tmp_path / 'metadata.sqlite'}"
    refused = run_serve("--data", tmp_path / "other", "--port", "0", "--id", "1", "--set", store)
    address = f"127.0.0.1:{server.port}"
    assert f"broker.id 1 is already registered in this cluster, by a broker at {address}" in one_line_of(
        refused
    )
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("after", partitions=1))
        assert [each.port for each in admin.cluster.describe().brokers] == [server.port]
    assert server.stop() == 0


def test_an_unwritable_folder_is_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert str(tmp_path / "file") in one_line_of(run_serve("--data", tmp_path / "file", "--port", "0"))


def test_an_unknown_key_is_a_warning(tmp_path, serve):
    settings = ("no.such.key=1", "log.retention.hour=1", "broker.heartbeat.interval.ms=1", "num.io.threads=8")
    server = serve(tmp_path / "data", *(part for each in settings for part in ("--set", each)))
    server.wait_until_ready()
    log = server.tail()
    assert "config.unknown key=no.such.key meaning=" in log
    assert "config.unknown key=log.retention.hour did_you_mean=log.retention.hours" in log
    assert 'config.not_obeyed key=broker.heartbeat.interval.ms reason="Of KRaft mode' in log
    assert "num.io.threads" not in log
    assert server.stop() == 0


def test_a_properties_file_is_obeyed(tmp_path, serve):
    port_free = socket.socket()
    port_free.bind(("127.0.0.1", 0))
    port = port_free.getsockname()[1]
    port_free.close()
    properties = tmp_path / "server.properties"
    properties.write_text(f"broker.id=7\nlisteners=PLAINTEXT://127.0.0.1:{port}\nnum.partitions=3\n")
    command = [sys.executable, "-m", "barnabas", "serve", "--config", str(properties)]
    process = subprocess.Popen([*command, "--data", str(tmp_path / "d")], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith(f"ready PLAINTEXT://127.0.0.1:{port} broker=7")
        with Admin(f"127.0.0.1:{port}") as admin:
            admin.topics.create(NewTopic("of-defaults"))
            assert len(admin.topics.describe(["of-defaults"])["of-defaults"].partitions) == 3
    finally:
        process.terminate()
        assert process.wait(10) == 0
        process.stdout.close()


def test_an_idle_broker_has_no_child_process(tmp_path, serve):
    server = serve(tmp_path / "data")
    broker = server.wait_until_ready()
    assert Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text() == ""
    assert server.stop() == 0
