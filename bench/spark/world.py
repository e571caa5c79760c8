"""What the rows of the Spark bench work on:
a session, a broker's address and topics, and the two connectors.
"""

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from barnabas.admin import Admin, NewTopic
from bench.rounds import Effort, Turn
from bench.sides import kafka_harness

Case = TypeVar("Case")

PARTITIONS: Final = 4
_REST: Final = b"x" * 92


@dataclass(frozen=True)
class World:
    """Shared by both connectors."""

    spark: SparkSession
    address: str
    folder: Path
    """For checkpoints."""
    directory: Path | None
    """The broker's log directory, where it is ours."""
    jars: str
    """Of the official connector; empty without it."""
    records: int
    topic: str
    """Has `records` records of 100 B."""


@dataclass(frozen=True)
class Connector:
    """A side: the format that is read and written."""

    name: str
    format: str
    world: World

    def read(self, topic: str) -> DataFrame:
        """The topic from its first record to its last."""
        reader = self.world.spark.read.format(self.format)
        return reader.options(**self._options(topic)).load()

    def stream(self, topic: str, starting: str = "latest", offsets_max: int | None = None) -> DataFrame:
        """The topic as a stream, in batches of at most so many offsets."""
        reader = self.world.spark.readStream.format(self.format)
        if offsets_max is not None:
            reader = reader.option("maxOffsetsPerTrigger", offsets_max)
        return reader.options(**self._options(topic), startingOffsets=starting).load()

    def write(self, rows: DataFrame, topic: str) -> None:
        """Appends rows to the topic."""
        options = {"kafka.bootstrap.servers": self.world.address, "topic": topic}
        rows.write.format(self.format).options(**options).mode("append").save()

    def _options(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.world.address, "subscribe": topic}


def add_connector(parser: argparse.ArgumentParser) -> None:
    """The option that says which version of Spark's own connector is fetched."""
    parser.add_argument(
        "--connector",
        metavar="VERSION",
        default=kafka_harness.SPARK_CONNECTOR,
        help="of Maven (default: %(default)s)",
    )


def each_case(
    cost: Callable[[Connector, Case], Sequence[float]], cases: Sequence[Case]
) -> Callable[[Connector, Effort], AbstractContextManager[Turn]]:
    """How a row is opened whose turn measures each of these cases. The first one warms the session."""

    @contextlib.contextmanager
    def opened(side: Connector, _effort: Effort) -> Iterator[Turn]:
        cost(side, cases[0])
        yield lambda: [figure for case in cases for figure in cost(side, case)]

    return opened


def new_topic(address: str, prefix: str, partitions: int = PARTITIONS) -> str:
    """Creates a topic with a name of its own; the name."""
    topic = f"{prefix}-{time.time_ns()}"
    with Admin(address) as admin:
        admin.topics.create([NewTopic(topic, partitions=partitions)])
    return topic


def fill(address: str, topic: str, records: int, partitions: int = PARTITIONS) -> None:
    """Puts records of 100 B with keys of 8 B into the partitions in turn."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "batch.size": 1 << 18})
    for number in range(records):
        key = b"%08d" % number
        while True:
            try:
                producer.produce(topic, key + _REST, key, number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
