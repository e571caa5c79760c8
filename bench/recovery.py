"""Has copies of one data directory recovered by Apache Kafka and by ours, one after the other, as after a
kill.

python -m bench.recovery [--megabytes 1024] [--partitions 1]

Records of 1 KB in segments of 128 MB. No recovery point was ever written, so everything is scanned. Kafka's
own line in its log says how long it took to load its logs; ours is timed from the first look at the directory
until all are loaded, in this process.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.core.offload import InPlace
from barnabas.log.config import LogConfig
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.manager import LogManager
from barnabas.testing.clock import VirtualClock
from bench.sides import UnavailableError, kafka_harness

TOPIC = "bench-recovery"
BUDGET_RATIO = 2.0
SECONDS = 300
_LINE = re.compile(r"Loaded \d+ logs in (\d+)ms")
_NO_CHECKPOINTS = {"log.flush.offset.checkpoint.interval.ms": 2**31 - 1}


def fill(bootstrap: str, megabytes: int, partitions: int) -> None:
    """A topic of so many bytes."""
    settings = {"segment.bytes": str(1 << 27)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, partitions, 1, config=settings)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1 << 18})
    value = os.urandom(1024)
    for number in range(megabytes * 1024):
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def recover_with_kafka(folder: Path, zookeeper: str) -> float:
    """Seconds, as Kafka's log manager says."""
    os.environ["JAVA_TOOL_OPTIONS"] = "-Dorg.slf4j.simpleLogger.log.kafka.log.LogManager=info"
    log = folder / f"kafka-{kafka_harness.ZOOKEEPER_ERA}.log"
    before = len(log.read_text()) if log.exists() else 0
    server = kafka_harness.start_broker(
        folder, zookeeper, settings=_NO_CHECKPOINTS, options=kafka_harness.BROKER_OPTIONS
    )
    try:
        deadline = time.monotonic() + SECONDS
        while not (found := _LINE.search(log.read_text()[before:] if log.exists() else "")):
            if time.monotonic() > deadline:
                raise UnavailableError("Kafka has loaded nothing")
            time.sleep(0.2)
        return int(found[1]) / 1000
    finally:
        server.kill()


def recover_with_ours(data: Path) -> float:
    """Seconds."""
    config = LogConfig(segment_bytes=1 << 27)
    logs = LogManager(
        [str(data)],
        filesystem=OsFilesystem(),
        clock=VirtualClock(),
        offload=InPlace(),
        log_config=lambda _topic: config,
    )
    meta = logs.open_directories()
    assert meta is not None
    assert meta.broker_id is not None
    assert meta.cluster_id is not None
    began = time.perf_counter()
    logs.start(broker_id=meta.broker_id, cluster_id=meta.cluster_id).result()
    took_s = time.perf_counter() - began
    logs.shutdown()
    return took_s


def print_rate(name: str, megabytes: float, seconds: float) -> None:
    """One side's line."""
    print(f"{name:10} {megabytes:7.0f} MiB in {seconds:6.2f} s, {megabytes / seconds:6.1f} MiB/s")


def compare(folder: Path, megabytes: int, partitions: int) -> float:
    """Prints both; how many times as long ours takes."""
    zookeeper = kafka_harness.wait_until_serving(kafka_harness.start_zookeeper(folder / "zookeeper"))
    try:
        connect = f"{zookeeper.bootstrap}/recovery"
        server = kafka_harness.start_broker(
            folder, connect, settings=_NO_CHECKPOINTS, options=kafka_harness.BROKER_OPTIONS
        )
        try:
            fill(server.wait_until_listening().bootstrap, megabytes, partitions)
        finally:
            server.kill()
        shutil.copytree(folder / "data", folder / "ours")
        theirs = recover_with_kafka(folder, connect)
    finally:
        zookeeper.kill()
    ours = recover_with_ours(folder / "ours")
    for name, seconds in (("Kafka 3.9", theirs), ("Barnabas", ours)):
        print_rate(name, megabytes, seconds)
    return ours / theirs


def main() -> int:
    """Compares in a folder that goes afterwards;
    0 when the budget is met, 1 otherwise, 2 when there is nothing to compare with.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--partitions", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-", ignore_cleanup_errors=True) as folder:
        try:
            ratio = compare(Path(folder), asked.megabytes, asked.partitions)
        except UnavailableError as missing:
            print(f"bench: nothing to compare with: {missing}", file=sys.stderr)
            return 2
    print(f"ours takes {ratio:.1f} times as long (budget {BUDGET_RATIO})")
    return 0 if ratio <= BUDGET_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
