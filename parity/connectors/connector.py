"""What a job works with: one of the connectors, on one broker."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

Results = dict[str, Any]
"""What a job found, by name."""

STREAM_S: Final = 90
OURS: Final = "barnabas"
OFFICIAL: Final = "kafka"
SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)


@dataclass(frozen=True)
class Connector:
    """A connector on a broker, with a folder and names of its own for what a job makes."""

    spark: SparkSession
    format: str
    bootstrap: str
    folder: Path
    thorough: bool = True
    """Whether a job looks at all its cases, or at the fewest that say something (the short form)."""

    @property
    def other(self) -> str:
        """The other connector."""
        return OFFICIAL if self.format == OURS else OURS

    def read(self, **options: object) -> DataFrame:
        """A batch; an option's dots are written as two underscores."""
        return _with(self.spark.read.format(self.format), self.bootstrap, options).load()

    def stream(self, *, by: str | None = None, **options: object) -> DataFrame:
        """A stream, by the other connector where it is named."""
        return _with(self.spark.readStream.format(by or self.format), self.bootstrap, options).load()

    def write(self, frame: DataFrame, *, mode: str | None = "append", **options: object) -> None:
        """Writes a batch to a topic."""
        writer = _with(frame.write.format(self.format), self.bootstrap, options)
        (writer.mode(mode) if mode else writer).save()

    def write_stream(self, frame: DataFrame, **options: object) -> DataStreamWriter:
        """A writer of a stream to a topic, with a checkpoint of its own."""
        return _with(frame.writeStream.format(self.format), self.bootstrap, options)

    def rows(self, frame: DataFrame, name: str, checkpoint: str | None = None, **trigger: Any) -> list[Any]:
        """What a stream has when it ends by itself, by a table in memory."""
        writer = frame.writeStream.format("memory").queryName(name).outputMode("append")
        writer = writer.option("checkpointLocation", str(self.folder / (checkpoint or name)))
        finished(writer.trigger(**(trigger or {"availableNow": True})).start())
        return ordered(self.spark.table(name))


def _with(builder: Any, bootstrap: str, options: dict[str, object]) -> Any:
    builder = builder.option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        builder = builder.option(name.replace("__", "."), str(value))
    return builder


def finished(query: StreamingQuery) -> StreamingQuery:
    """The query, once it has ended; raises what it ended with."""
    try:
        if not query.awaitTermination(STREAM_S):
            raise TimeoutError(f"a stream did not end in {STREAM_S} s")
    finally:
        query.stop()
    return query


def batches(query: StreamingQuery) -> list[int]:
    """The rows of each batch that had any."""
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def ordered(frame: DataFrame) -> list[Any]:
    """All rows as plain tuples, in an order that does not depend on who read them."""
    return sorted((tuple(_plain(value) for value in row) for row in frame.collect()), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [tuple(_plain(one) for one in each) if isinstance(each, tuple) else each for each in value]
    return value


def words(job: Callable[[], object]) -> str:
    """The words of the error that a job ends with, or that it succeeded."""
    try:
        job()
    except SPARK_ERRORS as error:
        return _said(str(error))
    return "succeeded"


# The official connector names the condition in some places only; on all ways out it says what to set instead.
_LOSS: Final = re.compile(
    r"KAFKA_DATA_LOSS|[Dd]ata may have been lost|Cannot fetch offset .*failOnDataLoss", re.DOTALL
)
_CAUSE: Final = re.compile(r"^(?!\s+at ).*\b\w+(?:Error|Exception): (.+)$", re.MULTILINE)
_AROUND: Final = re.compile(
    r"^(?:\[[A-Z_.]+\] |Query \[.*?\] terminated with exception: )+|\s*SQLSTATE: \w+.*$"
)


def _said(text: str) -> str:
    """The kind of an error: a loss of data, or the first sentence of its innermost cause."""
    if _LOSS.search(text):
        return "data is lost"
    causes = _CAUSE.findall(text)
    line = causes[-1] if causes else next(line for line in text.splitlines() if line.strip())
    return _AROUND.sub("", line).strip().split(". ")[0].rstrip(".")


def stored(bootstrap: str, topic: str) -> list[Any]:
    """What a topic has, by neither connector: (partition, key, value, headers);
    no partition where there is no key.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False})
    try:
        numbers = consumer.list_topics(topic, 30).topics[topic].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), 30) for number in numbers
        }
        consumer.assign([TopicPartition(topic, number, low) for number, (low, _) in ends.items()])
        found: list[Any] = []
        total = sum(high - low for low, high in ends.values())
        while len(found) < total:
            # Exactly as many as are left: a consumer waits for the rest of what it is asked for.
            found += [_stored(message) for message in consumer.consume(min(500, total - len(found)), 30)]
        return sorted(found, key=repr)
    finally:
        consumer.close()


def _stored(message: Any) -> tuple[Any, ...]:
    if message.error():
        raise RuntimeError(str(message.error()))
    key = message.key()
    partition = None if key is None else message.partition()
    return partition, key, message.value(), message.headers() or []
