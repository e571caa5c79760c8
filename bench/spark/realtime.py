"""Milliseconds through Spark: from topic to topic in its real-time mode, on Apache Kafka and on our broker.

python -m bench.spark.realtime [--sides kafka,pure] [--ways realtime,batches,ours] [--rates 200,1000]
[--seconds N] [--batch SECONDS] [--connector VERSION]

`realtime` is the official connector with ``trigger(realTime=...)``, whose time is only how often Spark writes
a checkpoint; `batches` is the official connector in batches as they come, `ours` our source and sink so. One
session with two cores, topics of two partitions, records of 100 B with the time at which they were sent. A
consumer reads both topics, so that each line has two latencies: of the topic that is read (the broker alone),
and of the one that is written. Records of a query's first seconds are not counted: the JVM compiles then.
"""

import argparse
import contextlib
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyspark
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from barnabas.spark import sessions
from bench.sides import DELETE_SOON, TITLES, Side, Trees, kafka_harness, running_sides
from bench.spark.world import add_connector, new_topic

PARTITIONS: Final = 2
WARM_S: Final = 15
_LATE_S: Final = 10
_SENT: Final = struct.Struct(">q")
_REST: Final = b"x" * (100 - _SENT.size)
HEAD: Final = (
    *("broker", "way", "records/s", "broker alone: p50, ms", "p99", "longest"),
    *("through Spark: p50, ms", "p99", "longest", "processor of the broker"),
)
_WAYS: Final = {"realtime": "kafka", "batches": "kafka", "ours": "barnabas"}
"""The format of each."""


@dataclass
class Latencies:
    """Of the records of one topic that were sent after the warm-up, in ms."""

    found: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        """What this share of them did not exceed."""
        ordered = sorted(self.found)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    def __str__(self) -> str:
        return " | ".join(f"{self.at(share):.1f}" for share in (0.5, 0.99, 1))


class Watch:
    """A consumer of both topics: when was each record sent, and when did it come?"""

    def __init__(self, address: str, topics: Sequence[str]) -> None:
        self.latencies = {topic: Latencies() for topic in topics}
        self.counted_from_ns = 0
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "watch",
                "fetch.wait.max.ms": 100,
                "fetch.min.bytes": 1,
            }
        )
        self._consumer.assign(
            [TopicPartition(one, number, 0) for one in topics for number in range(PARTITIONS)]
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            record = self._consumer.poll(0.1)
            if record is None or record.error():
                continue
            now_ns = time.time_ns()
            (sent_ns,) = _SENT.unpack_from(record.value() or b"")
            if sent_ns >= self.counted_from_ns > 0:
                self.latencies[str(record.topic())].found.append((now_ns - sent_ns) / 1e6)

    def stop(self) -> None:
        """Ends it."""
        self._ended.set()
        self._thread.join()
        self._consumer.close()


def send(address: str, topic: str, per_second: int, seconds: float) -> int:
    """Sends so many records a second, each by itself; how many."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    begun, number = time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        if number <= passed * per_second:
            producer.produce(topic, _SENT.pack(time.time_ns()) + _REST, partition=number % PARTITIONS)
            number += 1
        producer.poll(0 if number <= passed * per_second else 0.0005)
    producer.flush()
    return number


@contextlib.contextmanager
def started(
    spark: SparkSession, way: str, address: str, topics: tuple[str, str], batch_s: int, folder: Path
) -> Iterator[StreamingQuery]:
    """The query from the first topic to the second."""
    kind, bootstrap = _WAYS[way], {"kafka.bootstrap.servers": address}
    read = spark.readStream.format(kind).options(**bootstrap, subscribe=topics[0]).load().select("value")
    writer = read.writeStream.format(kind).options(**bootstrap, topic=topics[1])
    writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{time.time_ns()}"))
    if way == "realtime":
        writer = writer.outputMode("update").trigger(realTime=f"{batch_s} seconds")
    query = writer.start()
    try:
        yield query
    finally:
        query.stop()


def measure(
    spark: SparkSession, side: Side, way: str, rate: int, asked: argparse.Namespace, folder: Path
) -> str:
    """A line of the table."""
    address = side.running.bootstrap
    topics = new_topic(address, "in", PARTITIONS), new_topic(address, "out", PARTITIONS)
    watch = Watch(address, topics)
    try:
        with started(spark, way, address, topics, asked.batch, folder) as query:
            send(address, topics[0], rate, WARM_S)
            watch.counted_from_ns = time.time_ns()
            used = side.processor_time().total_s
            sent = send(address, topics[0], rate, asked.seconds)
            share = (side.processor_time().total_s - used) / asked.seconds
            deadline = time.monotonic() + _LATE_S
            while len(watch.latencies[topics[1]].found) < sent and time.monotonic() < deadline:
                if query.awaitTermination(0.1):
                    raise RuntimeError("the query has ended")
    finally:
        watch.stop()
    before, behind = (watch.latencies[topic] for topic in topics)
    if len(behind.found) < sent:
        raise RuntimeError(f"{side.name}, {way}: {len(behind.found)} of {sent} records came")
    title = TITLES.get(side.name, side.name)
    return f"| {title} | {way} | {rate:,} | {before} | {behind} | {100 * share:.0f} % |"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark.realtime", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--sides", default="kafka,pure", help="which brokers (default: %(default)s)")
    parser.add_argument("--ways", default=",".join(_WAYS), help="which ways (default: %(default)s)")
    parser.add_argument("--rates", default="200,1000", help="records a second (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="of each line (default: %(default)s)")
    parser.add_argument(
        "--batch", type=int, default=300, help="seconds of real-time mode's batch (default: %(default)s)"
    )
    add_connector(parser)
    return parser.parse_args()


def main() -> int:
    """Prints the table."""
    asked = arguments()
    config = {"spark.driver.memory": "2g", "spark.jars": kafka_harness.connector_jars(asked.connector)}
    print(f"PySpark {pyspark.__version__}, connector {asked.connector}, {asked.seconds} s a line")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name:
        folder = Path(name)
        spark = sessions.make("realtime", master="local[2]", config=config, log_file=folder / "spark.log")
        try:
            with running_sides(folder / "sides", asked.sides.split(","), Trees(), DELETE_SOON) as sides:
                for way in asked.ways.split(","):
                    for rate in asked.rates.split(","):
                        for side in sides:
                            print(measure(spark, side, way, int(rate), asked, folder), flush=True)
        finally:
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
