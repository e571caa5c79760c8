"""The rows of the table: what is driven, how, and what it may cost relative to Apache Kafka.

A function with `Turn` in its type is the `open` of a row: it warms a side and yields its turn. The small
requests share one, and differ in the `Load` that sends them.
"""

import contextlib
import itertools
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import Producer

from bench import wire
from bench.figures import Measure
from bench.raw import produce_in_flight, produce_in_turn
from bench.rounds import Effort, Row, Turn
from bench.sides import ONE_RECORD, Side, kafka_harness, wait_until_serving

MEGABYTE: Final = wire.batch(b"y" * 1024, 1000)
LEAD_IN_S: Final = 0.1
"""What a side is driven before its turn is timed: it has idled while the others were driven."""

_numbers = itertools.count(1)


@contextlib.contextmanager
def new_topic(side: Side, stem: str, partitions: int = 1) -> Iterator[str]:
    """A topic for a while."""
    name = f"{stem}-{next(_numbers)}"
    with side.connect() as client:
        client.create_topic(name, partitions)
    try:
        yield name
    finally:
        with side.connect() as client:
            client.ask(wire.delete_topic(name))


# --- small requests ---------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """What a load did."""

    requests: int
    seconds: float
    latencies_us: Sequence[float] = ()


Drive = Callable[[float], Sample]
"""Sends requests for so many seconds."""
Load = Callable[[Side], AbstractContextManager[Drive]]


@contextlib.contextmanager
def _small_requests(load: Load, side: Side, effort: Effort) -> Iterator[Turn]:
    """Turns of one-record produce requests:
    the figures of the sample, then processor time a request in us.
    """
    with load(side) as drive:

        def turn() -> Sequence[float]:
            drive(LEAD_IN_S)
            before = side.processor_time()
            sample = drive(effort.seconds)
            after = side.processor_time()
            used = [(end - start) / sample.requests * 1e6 for start, end in zip(before, after, strict=True)]
            return [*_figures(sample), *used]

        _warm(side, drive, effort)
        yield turn


def _warm(side: Side, drive: Drive, effort: Effort) -> None:
    """Drives a side that compiles as it runs until it had enough requests and its speed has settled.

    A JVM is three times slower cold than warm. The others only open their files.
    """
    if not side.compiles_as_it_runs:
        drive(effort.seconds)
        return
    speeds: list[float] = []
    requests = 0
    while requests < effort.warm_requests or len(speeds) < effort.windows_max:
        sample = drive(effort.window_seconds)
        requests += sample.requests
        speeds.append(sample.requests / sample.seconds)
        last = speeds[-3:]
        if requests >= effort.warm_requests and len(last) == 3 and min(last) >= 0.95 * max(last):
            return


def _figures(sample: Sample) -> Sequence[float]:
    if not sample.latencies_us:
        return [sample.requests / sample.seconds]
    taken = sorted(sample.latencies_us)
    return [taken[len(taken) // 2], taken[len(taken) * 99 // 100]]


@contextlib.contextmanager
def _raw(loop: Callable[..., tuple[int, float]], side: Side, connections: int = 1) -> Iterator[Drive]:
    """Raw connections with a topic of their own."""
    with new_topic(side, "raw") as topic, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(side.connect()) for _ in range(connections)]
        yield lambda seconds: Sample(*loop(clients, topic, ONE_RECORD, seconds))


@contextlib.contextmanager
def _librdkafka(side: Side) -> Iterator[Drive]:
    """From produce() to an empty queue."""
    with new_topic(side, "latency") as topic:
        config = {"linger.ms": 0, "acks": 1, "enable.metrics.push": False}
        producer = Producer({"bootstrap.servers": side.running.bootstrap, **config})
        value = b"z" * 100

        def drive(seconds: float) -> Sample:
            taken = []
            started = now = time.perf_counter()
            while now - started < seconds:
                before = now
                producer.produce(topic, value)
                if producer.flush(30):
                    raise RuntimeError(f"{side.name} did not acknowledge within 30 s")
                now = time.perf_counter()
                taken.append((now - before) * 1e6)
            return Sample(len(taken), now - started, taken)

        yield drive


# --- bytes and lives --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _perf_test(side: Side, effort: Effort) -> Iterator[Turn]:
    """Kafka's own load generator: records/s, and processor time of the broker in us a record."""

    def turn() -> Sequence[float]:
        with new_topic(side, "perf") as topic:
            before = side.processor_time()
            speed = _run_perf_test(side, topic, effort.perf_records)
            return [speed, (side.processor_time().total_s - before.total_s) / effort.perf_records * 1e6]

    turn()
    yield turn


def _run_perf_test(side: Side, topic: str, records: int) -> float:
    properties = [f"bootstrap.servers={side.running.bootstrap}", "acks=1", "batch.size=131072", "linger.ms=5"]
    arguments = f"--topic {topic} --num-records {records} --record-size 100 --throughput -1 --producer-props"
    command = kafka_harness.tool_command(
        "kafka-producer-perf-test", *arguments.split(), *properties, options=["-Xmx512M"]
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    if f"{records} records sent" not in done.stdout:
        raise RuntimeError(f"not every record was acknowledged by {side.name}:\n{done.stdout[-2000:]}")
    return float(re.findall(r"records sent, ([\d.]+) records/sec", done.stdout)[-1])


@contextlib.contextmanager
def _bytes(side: Side, effort: Effort) -> Iterator[Turn]:
    """Processor seconds of the broker for each GB (10**9 bytes) in, and out."""

    def cost(work: Callable[[], int]) -> float:
        before = side.processor_time().total_s
        done = work()
        return (side.processor_time().total_s - before) / (done / 1e9)

    def turn() -> Sequence[float]:
        with new_topic(side, "bulk") as topic, side.connect() as client:
            produced = cost(lambda: client.produce_bytes(topic, MEGABYTE, effort.round_bytes))
            return [produced, cost(lambda: client.consume_bytes(topic, effort.round_bytes))]

    turn()
    yield turn


@contextlib.contextmanager
def _start(side: Side, _effort: Effort) -> Iterator[Turn]:
    """From the start of the process to the first acknowledged record in a topic that was just created."""

    def turn() -> Sequence[float]:
        started = time.perf_counter()
        server = side.launch()
        try:
            wait_until_serving(server)
            return [time.perf_counter() - started]
        finally:
            server.kill()

    yield turn


@contextlib.contextmanager
def _memory(side: Side, effort: Effort) -> Iterator[Turn]:
    """Resident memory of a broker that was just started, after so much went in and came out again."""

    def turn() -> Sequence[float]:
        side.stop()
        side.start()
        with new_topic(side, "memory") as topic, side.connect() as client:
            client.produce_bytes(topic, MEGABYTE, effort.memory_bytes)
            client.consume_bytes(topic, effort.memory_bytes)
            return [side.memory_mb()]

    yield turn


# --- the table --------------------------------------------------------------------------------------------


def _one_record(title: str, load: Load, rate: Measure, cost_budget: float | None = None) -> Row:
    return Row(title, [rate, *_processor_time(cost_budget)], partial(_small_requests, load))


def _processor_time(budget: float | None = None) -> list[Measure]:
    return [
        Measure("broker processor time a request", "us", budget),
        Measure("of it in the system", "us"),
    ]


def _rate(budget: float | None = None, ahead_of: str | None = None) -> Measure:
    return Measure("requests", "1/s", budget, higher_is_better=True, ahead_of=ahead_of)


def _in_flight(window: int, refill: int = 1, connections: int = 1) -> Load:
    loop = partial(produce_in_flight, window=window, refill=refill)
    return lambda side: _raw(loop, side, connections)


# In the order of the table; memory comes last because it starts the brokers again, and cold.
ROWS: Final[dict[str, Row]] = {
    "one": _one_record(
        "one-record produce, acks=1, one in flight", partial(_raw, produce_in_turn), _rate(1.5), 0.5
    ),
    "many": _one_record(
        "200 in flight, sent again as answers come", _in_flight(200), _rate(2.5, "kfake"), 0.4
    ),
    "halves": _one_record(
        "200 in flight, sent again by the hundred", _in_flight(200, 100), _rate(2.5, "kfake"), 0.4
    ),
    "eight": _one_record("eight connections, 25 in flight on each", _in_flight(25, connections=8), _rate()),
    "latency": Row(
        "librdkafka produce + flush",
        [Measure("p50", "us", 0.6), Measure("p99", "us", 0.8), *_processor_time()],
        partial(_small_requests, _librdkafka),
        without=("floor",),
    ),
    "perf": Row(
        "kafka-producer-perf-test, acks=1, 100 B, batches of 128 KB",
        [
            Measure("records", "1/s", 1.3, higher_is_better=True),
            Measure("broker processor time a record", "us"),
        ],
        _perf_test,
        "long",
        without=("floor",),
    ),
    "bytes": Row(
        "1 KB records, 1 MB batches, five in flight",
        [
            Measure("broker processor time per GB produced", "s", 0.8),
            Measure("broker processor time per GB consumed", "s", 0.5),
        ],
        _bytes,
        without=("kfake",),
    ),
    "start": Row(
        "start to first produce (ZooKeeper is up already)",
        [Measure("time", "s", 0.1, any_mood=True)],
        _start,
        "long",
        without=("kfake", "floor"),
    ),
    "memory": Row(
        "resident memory after 3 GB in and 3 GB out",
        [Measure("memory", "MB", 0.1, any_mood=True)],
        _memory,
        "once",
        without=("kfake", "floor"),
    ),
}
