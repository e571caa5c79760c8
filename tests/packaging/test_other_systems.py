"""Client, tools and broker where Linux's own calls are missing, as on macOS: the names are taken away."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = [sys.executable, str(Path(__file__).with_name("without_linux.py"))]
ROUND = """
from barnabas.admin import Admin, NewTopic
from barnabas.client import Consumer, Producer
at = {at!r}
with Admin(at) as admin:
    admin.topics.create(NewTopic("t", partitions=2))
with Producer(at) as producer:
    for number in range(100):
        producer.send("t", bytes(100_000), key=str(number))
    producer.flush()
with Consumer(at, group_id="g", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["t"])
    count = 0
    while count < 100:
        count += len(consumer.poll(timeout_ms=1000))
    consumer.commit()
print(count)
"""


def begin(*arguments):
    process = subprocess.Popen(
        [*WITHOUT, "barnabas", "serve", "--port", "0", *arguments], stdout=subprocess.PIPE, text=True
    )
    ready = process.stdout.readline()
    assert ready.startswith("ready PLAINTEXT://"), ready
    return process, ready.split()[1].removeprefix("PLAINTEXT://")


@pytest.fixture
def running(tmp_path):
    """Brokers of one store, by their numbers: processes and addresses."""
    begun = []

    def more():
        number = str(len(begun))
        store = ("--store", str(tmp_path / "store"))
        begun.append(begin("--id", number, "--data", str(tmp_path / number), *store))
        return begun[-1]

    yield more
    for process, _ in begun:
        process.kill()
        process.wait()
        process.stdout.close()


def test_records_make_the_round_and_the_broker_stops(running):
    process, at = running()
    script = [*WITHOUT, "script", ROUND.format(at=at)]
    done = subprocess.run(script, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "100\n", "")
    tool = [*WITHOUT, "barnabas", "topics", "--list", "--bootstrap-server", at]
    assert "t" in subprocess.run(tool, check=True, capture_output=True, text=True, timeout=30).stdout.split()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_brokers_of_one_store_wake_and_bury_each_other(running):
    _, at = running()
    other, _ = running()
    count = [*WITHOUT, "barnabas", "broker-api-versions", "--bootstrap-server", at]

    def brokers():
        shown = subprocess.run(count, check=True, capture_output=True, text=True, timeout=30).stdout
        return shown.count(" -> (")

    while brokers() < 2:
        pass
    other.kill()
    while brokers() > 1:
        pass
