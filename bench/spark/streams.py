"""Rows of the Spark bench about streams:
how long a batch takes, and what a session takes that has one connector.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from pyspark.sql.streaming import StreamingQuery

from bench.figures import Measure
from bench.processes import processor_time
from bench.rounds import FULL, Effort, Row, Turn
from bench.spark.world import PARTITIONS, Connector, new_topic

TRIGGER_MS: Final = 250
TRICKLE_PER_S: Final = 400
WARM_BATCHES: Final = 12
_BATCHES_WAIT_S: Final = 120


@contextlib.contextmanager
def trickle(address: str, topic: str) -> Iterator[None]:
    """Records of 100 B, a few at a time, for as long as the block."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    ended = threading.Event()

    def run() -> None:
        number = 0
        while not ended.wait(PARTITIONS / TRICKLE_PER_S):
            for partition in range(PARTITIONS):
                producer.produce(topic, b"x" * 100, b"%08d" % number, partition)
                number += 1
            producer.poll(0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush()


@contextlib.contextmanager
def started(side: Connector, topic: str) -> Iterator[StreamingQuery]:
    """The topic as a stream to noop, a batch each `TRIGGER_MS`."""
    checkpoint = side.world.folder / f"checkpoint-{time.time_ns()}"
    writer = side.stream(topic).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime=f"{TRIGGER_MS} milliseconds").start()
    try:
        yield query
    finally:
        query.stop()


def batches_of(query: StreamingQuery, count: int) -> list[dict[str, Any]]:
    """The progress of the next `count` batches that had rows.
    Raises what ended the query, or TimeoutError.
    """
    last, found = query.lastProgress, {}
    first = last["batchId"] + 1 if last else 0
    deadline = time.monotonic() + _BATCHES_WAIT_S
    while len(found) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(found)} of {count} batches in {_BATCHES_WAIT_S} s")
        if query.awaitTermination(0.1):
            raise RuntimeError("the stream has ended")
        for progress in query.recentProgress:
            if progress["numInputRows"] and progress["batchId"] >= first:
                found[progress["batchId"]] = progress
    return list(found.values())[:count]


@contextlib.contextmanager
def _latency(side: Connector, effort: Effort) -> Iterator[Turn]:
    topic = new_topic(side.world.address, "trickle")
    count = 40 if effort is FULL else 12

    def turn() -> list[float]:
        with trickle(side.world.address, topic), started(side, topic) as query:
            batches_of(query, WARM_BATCHES)
            used = processor_time(os.getpid()).total_s
            batches = batches_of(query, count)
            cost_ms = (processor_time(os.getpid()).total_s - used) * 1000 / count
        took = sorted(batch["durationMs"]["triggerExecution"] for batch in batches)
        return [took[count // 2], took[count * 99 // 100], cost_ms]

    turn()
    yield turn


@dataclass(frozen=True)
class _Alone:
    """What `bench.spark.alone` prints."""

    processes: list[str]
    first_batch_s: float
    jvm_mb: float
    driver_mb: float
    workers_mb: float


def alone(side: Connector, format_name: str) -> _Alone:
    """A session of its own that starts a stream and reads the topic. Raises CalledProcessError."""
    world = side.world
    command = [sys.executable, "-m", "bench.spark.alone", format_name, world.address, world.topic]
    command += [str(world.folder), world.jars]
    here = {"cwd": Path(__file__).parents[2], "stdout": subprocess.PIPE, "text": True}
    shown = subprocess.run(command, check=True, **here).stdout
    return _Alone(**json.loads(shown.splitlines()[-1]))


@contextlib.contextmanager
def _session(side: Connector, _effort: Effort) -> Iterator[Turn]:
    """A session with this connector alone;
    beside ours one whose source does nothing: what PySpark takes by itself.
    """

    def turn() -> list[float]:
        found = alone(side, side.format)
        beyond = 0
        if found.processes:
            beyond = len(found.processes) - len(alone(side, "bare").processes)
            print(f"Python processes of {side.name}: {', '.join(found.processes)}", file=sys.stderr)
        memory = [found.jvm_mb, found.driver_mb, found.workers_mb]
        return [len(found.processes), beyond, found.first_batch_s, *memory]

    yield turn


ROWS: Final[dict[str, Row]] = {
    "latency": Row(
        f"batches of a stream with {TRICKLE_PER_S} records a second, one each {TRIGGER_MS} ms, to noop",
        [
            Measure("p50 of a batch", "ms", 40, is_ratio=False, is_difference=True),
            Measure("p99 of a batch", "ms"),
            Measure("processor time a batch, of all processes", "ms"),
        ],
        _latency,
        "long",
    ),
    "session": Row(
        "a session with one connector: the start of its first stream, then a batch read of all records",
        [
            Measure("Python processes that the start takes", "", any_mood=True),
            Measure("those above a source that does nothing", "", 0, is_ratio=False, any_mood=True),
            Measure("from start() to the end of the first batch", "s"),
            Measure("memory of the JVM", "MB", any_mood=True),
            Measure("memory of the Python driver", "MB", any_mood=True),
            Measure("memory of the Python workers", "MB", any_mood=True),
        ],
        _session,
        "once",
    ),
}
