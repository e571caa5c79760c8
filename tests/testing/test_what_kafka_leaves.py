"""What is left of a Kafka in a test: nothing, however the test ends. And what comes in its way outside."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from barnabas.client import Producer
from barnabas.core.errors import BarnabasError
from barnabas.testing import Kafka
from barnabas.testing.kafka import own_folder
from barnabas.testing.kafka.own_folder import OwnFolder, remove_left
from waiting import until

KILLED = """
import time
from barnabas.testing import Kafka

kafka = Kafka(2).start()
kafka.create_topic()
print(kafka._folder, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_test_that_is_killed_leaves_no_process_and_no_folder(end):
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as killed:
        folder = Path(killed.stdout.readline().strip())
        assert folder.is_dir()
        remove_left(own_folder.MEMORY)
        assert folder.is_dir(), "it runs still"
        killed.send_signal(end)
    with pytest.raises(ProcessLookupError):
        os.killpg(killed.pid, 0)
    with Kafka():
        assert not folder.exists()


FORKED = """
import os, sys
from barnabas.testing.kafka.own_folder import OwnFolder

folder = OwnFolder()
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
print(folder.path.is_dir())
"""


def test_a_forked_child_that_ends_leaves_the_folder_to_its_parent():
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "True\n"


def test_folders_go_with_their_owner_and_not_before(tmp_path):
    first = OwnFolder(tmp_path)
    second = OwnFolder(tmp_path)
    assert first.path.is_dir()
    first.remove()
    first.remove()
    assert [*tmp_path.iterdir()] == [second.path]
    path = second.path
    del second
    assert not path.exists()


def test_a_folder_that_is_not_ours_stays(tmp_path):
    (tmp_path / "barnabas-kafka-by-hand").mkdir()
    (tmp_path / "owner").touch()
    remove_left(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"barnabas-kafka-by-hand", "owner"}


def test_without_room_in_memory_the_data_lies_on_the_disk(tmp_path, monkeypatch):
    """A container has 64 MB in memory, which one test may fill."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(own_folder, "ROOM", 1 << 60)
    assert OwnFolder().path.parent == tmp_path
    assert OwnFolder(tmp_path / "nowhere").path.parent == tmp_path


def test_a_port_that_another_took_meanwhile_is_named_and_taken_again():
    with Kafka() as kafka:
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        topic = kafka.create_topic()
        kafka.kill(0)
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
            with pytest.raises(BarnabasError, match=f"127.0.0.1:{port}"):
                kafka.restart(0)
            assert kafka.brokers == ()
        kafka.restart(0)
        with Producer(kafka.bootstrap_servers) as producer:
            producer.send(topic, b"").result(timeout=30)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MB in memory, and what fills it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(tmp_path), b"tmpfs", 0, b"size=%d" % (24 << 20)):
        pytest.skip(f"no file system can be mounted here: {os.strerror(ctypes.get_errno())}")
    yield tmp_path
    lazily = 2  # MNT_DETACH
    libc.umount2(os.fsencode(tmp_path), lazily)


def fill(folder):
    with (folder / "much").open("wb", buffering=0) as much:
        try:
            while True:
                much.write(bytes(1 << 16))
        except OSError:
            return


def test_the_disk_below_it_is_full_and_has_room_again(small_disk):
    """Not by `fill_disk`: the metadata store has no room either."""
    with Kafka(data=small_disk) as kafka:
        topic = kafka.create_topic()
        with Producer(kafka.bootstrap_servers) as producer:
            producer.send(topic, b"before").result(timeout=30)
            fill(small_disk)
            waits = producer.send(topic, bytes(10_000))
            until(kafka.admin.topics.list, "the broker answers")
            assert not waits.done()
            (small_disk / "much").unlink()
            waits.result(timeout=60)
        assert [len(record.value) for record in kafka.records(topic)] == [6, 10_000]


def test_a_disk_that_is_full_from_the_start_is_said_in_one_line(small_disk):
    fill(small_disk)
    with pytest.raises(BarnabasError, match=r"(?i)no space|full") as refused, Kafka(data=small_disk):
        pass
    assert "\n" not in str(refused.value)
    (small_disk / "much").unlink()
    with Kafka(data=small_disk) as kafka:
        assert kafka.create_topic()
