"""The rows of the table: what is measured, how, and what it may cost relative to Apache Kafka."""

import itertools
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import kafka_harness
from confluent_kafka import Producer

from bench import wire
from bench.raw import RawClient
from bench.rounds import Effort, alternate, warm
from bench.sides import ONE_RECORD, Side, wait_until_serving

MEGABYTE = wire.batch(b"y" * 1024, 1000)
MEMORY_AFTER_BYTES = 3 * 10**9

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    row: int
    measure: str
    unit: str
    kafka: float
    ours: float
    budget: float
    higher_is_better: bool = False

    @property
    def ratio(self) -> float:
        """Ours to theirs."""
        return self.ours / self.kafka

    @property
    def met(self) -> bool:
        """Whether the budget is met."""
        return self.ratio >= self.budget if self.higher_is_better else self.ratio <= self.budget


Sides = Sequence[Side]  # Apache Kafka first


def _new_topic(client: RawClient, stem: str) -> str:
    topic = f"{stem}-{next(_numbers)}"
    client.create_topic(topic)
    return topic


def _speed(side: Side, seconds: float, loop: Callable[..., tuple[int, float]]) -> float:
    with side.connect() as client:
        topic = _new_topic(client, "raw")
        requests, took = loop(client, topic, ONE_RECORD, seconds)
        client.ask(wire.delete_topic(topic))
        return requests / took


def _raw_produce(sides: Sides, effort: Effort, loop: Callable[..., tuple[int, float]]) -> tuple[float, float]:
    for side in sides:
        warm(side, effort, lambda one, seconds: _speed(one, seconds, loop))
    found = alternate(sides, effort.rounds, lambda side: [_speed(side, effort.seconds, loop)])
    return found[sides[0].name][0], found[sides[1].name][0]


def one_in_flight(sides: Sides, effort: Effort) -> list[Figure]:
    """One-record produce, one in flight."""
    kafka, ours = _raw_produce(sides, effort, RawClient.produce_in_turn)
    return [
        Figure(
            1,
            "one-record produce, acks=1, one in flight",
            "requests/s",
            kafka,
            ours,
            2.0,
            higher_is_better=True,
        )
    ]


def many_in_flight(sides: Sides, effort: Effort) -> list[Figure]:
    """One-record produce, 200 in flight."""
    kafka, ours = _raw_produce(sides, effort, RawClient.produce_in_flight)
    return [Figure(2, "the same, 200 in flight", "requests/s", kafka, ours, 2.0, higher_is_better=True)]


def _latencies_us(side: Side, topic: str, samples: int) -> list[float]:
    producer = Producer({"bootstrap.servers": side.running.bootstrap, "linger.ms": 0, "acks": 1})
    value, taken = b"z" * 100, []
    for _ in range(samples + 50):
        started = time.perf_counter()
        producer.produce(topic, value)
        if producer.flush(30):
            raise RuntimeError(f"{side.name} did not acknowledge within 30 s")
        taken.append((time.perf_counter() - started) * 1e6)
    return sorted(taken[50:])  # the first ones find the broker and connect


def librdkafka_latency(sides: Sides, effort: Effort) -> list[Figure]:
    """Time from produce() to an empty queue with librdkafka."""
    topics = {}
    for side in sides:
        with side.connect() as client:
            topic = topics[side.name] = _new_topic(client, "latency")

        def window(one: Side, seconds: float, topic: str = topic) -> float:
            started, count = time.perf_counter(), 0
            while time.perf_counter() - started < seconds:
                count += len(_latencies_us(one, topic, 2000)) + 50
            return count / (time.perf_counter() - started)

        warm(side, effort, window)

    def percentiles(side: Side) -> list[float]:
        taken = _latencies_us(side, topics[side.name], effort.latency_samples)
        return [taken[len(taken) // 2], taken[len(taken) * 99 // 100]]

    found = alternate(sides, effort.rounds, percentiles)
    kafka, ours = found[sides[0].name], found[sides[1].name]
    return [
        Figure(3, "librdkafka produce + flush, p50", "us", kafka[0], ours[0], 0.5),
        Figure(3, "librdkafka produce + flush, p99", "us", kafka[1], ours[1], 1.0),
    ]


def _perf_test(side: Side, records: int) -> float:
    with side.connect() as client:
        topic = _new_topic(client, "perf")
    producer = [f"bootstrap.servers={side.running.bootstrap}", "acks=1", "batch.size=131072", "linger.ms=5"]
    arguments = [
        "--topic",
        topic,
        "--num-records",
        str(records),
        "--record-size",
        "100",
        "--throughput",
        "-1",
    ]
    command = kafka_harness.tool_command(
        "kafka-producer-perf-test", *arguments, "--producer-props", *producer, options=["-Xmx512M"]
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    with side.connect() as client:
        client.ask(wire.delete_topic(topic))
    last = re.findall(r"records sent, ([\d.]+) records/sec", done.stdout)[-1]
    if f"{records} records sent" not in done.stdout:
        raise RuntimeError(f"not every record was acknowledged by {side.name}:\n{done.stdout[-2000:]}")
    return float(last)


def perf_test(sides: Sides, effort: Effort) -> list[Figure]:
    """Kafka's own load generator."""
    for side in sides:
        _perf_test(side, effort.perf_records)
    found = alternate(sides, effort.rounds, lambda side: [_perf_test(side, effort.perf_records)])
    name = "kafka-producer-perf-test, acks=1, 100 B, batches of 128 KB"
    kafka, ours = found[sides[0].name][0], found[sides[1].name][0]
    return [Figure(4, name, "records/s", kafka, ours, 1.0, higher_is_better=True)]


def _cost(side: Side, work: Callable[[], int]) -> float:
    """Processor seconds of the broker for each GB (10**9 bytes) of `work`, which returns bytes."""
    before = side.cpu_seconds()
    done = work()
    return (side.cpu_seconds() - before) / (done / 1e9)


def _produce_and_consume(side: Side, total: int) -> list[float]:
    with side.connect() as client:
        topic = _new_topic(client, "bulk")
        produced = _cost(side, lambda: client.produce_bytes(topic, MEGABYTE, total))
        consumed = _cost(side, lambda: client.consume_bytes(topic, total))
        client.ask(wire.delete_topic(topic))
    return [produced, consumed]


def cost_of_bytes(sides: Sides, effort: Effort) -> list[Figure]:
    """Processor time of the broker for each GB in and out."""
    for side in sides:
        _produce_and_consume(side, effort.round_bytes)
    found = alternate(sides, effort.rounds, lambda side: _produce_and_consume(side, effort.round_bytes))
    kafka, ours = found[sides[0].name], found[sides[1].name]
    name = "broker CPU per GB {}, 1 KB records, 1 MB batches"
    return [
        Figure(5, name.format("produced"), "s", kafka[0], ours[0], 0.8),
        Figure(6, name.format("consumed"), "s", kafka[1], ours[1], 0.5),
    ]


def memory(sides: Sides, effort: Effort) -> list[Figure]:
    """Resident memory of a broker that was just started, after 3 GB went in and came out again."""
    del effort  # the row says how much

    def measure(side: Side) -> float:
        side.stop()
        side.start()
        with side.connect() as client:
            topic = _new_topic(client, "memory")
            client.produce_bytes(topic, MEGABYTE, MEMORY_AFTER_BYTES)
            client.consume_bytes(topic, MEMORY_AFTER_BYTES)
            used = side.memory_mb()
            client.ask(wire.delete_topic(topic))
        return used

    kafka, ours = (measure(side) for side in sides)
    return [Figure(7, "memory after 3 GB in and 3 GB out", "MB", kafka, ours, 0.1)]


def _first_produce_seconds(side: Side) -> float:
    started = time.perf_counter()
    server = side.launch(side.new_folder())
    try:
        wait_until_serving(server)
        return time.perf_counter() - started
    finally:
        server.kill()


def start(sides: Sides, effort: Effort) -> list[Figure]:
    """From the start of the process to the first acknowledged record in a topic that was just created."""
    found = alternate(sides, effort.rounds, lambda side: [_first_produce_seconds(side)])
    kafka, ours = found[sides[0].name][0], found[sides[1].name][0]
    return [Figure(8, "start to first produce (ZooKeeper is up already)", "s", kafka, ours, 0.1)]


# In the order of the table; memory comes last because it starts both brokers again, and cold.
ROWS: dict[str, Callable[[Sides, Effort], list[Figure]]] = {
    "one": one_in_flight,
    "many": many_in_flight,
    "latency": librdkafka_latency,
    "perf": perf_test,
    "cpu": cost_of_bytes,
    "start": start,
    "memory": memory,
}
