"""Writing DataFrames to topics: columns topic, key, value, headers and partition, at least once.

A task sends its rows through one producer and is done when all of them are stored. A task that is tried
again sends its rows again, as with the official connector: the idempotent producer guards its own retries,
not Spark's.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas.client import Producer
from barnabas.client.config import PRODUCER_CONFIG
from barnabas.core.errors import BarnabasError
from barnabas.spark.errors import OptionError
from barnabas.spark.options import SinkOptions, client_options

_DEFAULTS: Final = {"client.id": "barnabas-spark", "batch.size": 256 << 10, "linger.ms": 5}
_TYPES: Final = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}


@dataclass
class RowsWritten(WriterCommitMessage):  # type: ignore[misc]
    """What one task reports."""

    rows: int


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuses rows that cannot become records, with the official words. Raises OptionError."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise OptionError("Required attribute 'value' not found")
    if topic is None and "topic" not in types:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    for name, allowed in _TYPES.items():
        if name in types and types[name] not in allowed:
            raise OptionError(
                f"{name} attribute unsupported type {types[name].upper()}. "
                f"{name} must be a(n) {' or '.join(kind.upper() for kind in allowed)}"
            )


def rows_of(
    batch: pa.RecordBatch, topic: str | None
) -> Iterator[tuple[str, Any, Any, int | None, list[Any]]]:
    """(Topic, value, key, partition, headers) of each row. Raises BarnabasError for a row without a topic."""
    names = set(batch.schema.names)

    def column(name: str, kind: pa.DataType | None = None) -> list[Any]:
        if name not in names:
            return [None] * batch.num_rows
        values = batch.column(name)
        return (values if kind is None else values.cast(kind)).to_pylist()  # type: ignore[no-any-return]

    # The option wins over the column (KafkaWriter.topicExpression).
    topics = column("topic") if topic is None else [topic] * batch.num_rows
    if None in topics:
        raise BarnabasError(
            "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains a null topic. "
            "Use the `topic` option for setting a default topic."
        )
    headers = [
        [(one["key"], one["value"]) for one in listed or () if one is not None]
        for listed in column("headers")
    ]
    keys, values = column("key", pa.binary()), column("value", pa.binary())
    return zip(topics, values, keys, column("partition"), headers, strict=True)


@functools.cache
def _shared_producer(client: tuple[tuple[str, str], ...]) -> Producer:
    """The producer of this worker process, for all its tasks."""
    given = dict(client)
    servers = given.pop("bootstrap.servers")
    chosen = {**_DEFAULTS, **client_options(given, PRODUCER_CONFIG)}
    return Producer(servers, **{name.replace(".", "_"): value for name, value in chosen.items()})


class _TopicWriter:
    """What batch and stream share: everything but the base class."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options.topic)
        client_options(options.client, PRODUCER_CONFIG)  # a mistake shows now, not in a task
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        """Sends the rows of one task and waits until they are stored; raises what the producer raises."""
        producer = _shared_producer(tuple(sorted(self._options.client.items())))
        return RowsWritten(send_all(producer, iterator, self._options.topic))

    def commit(self, messages: Iterable[Any], *batch: int) -> None:
        """Nothing: what a task reported is stored."""

    def abort(self, messages: Iterable[Any], *batch: int) -> None:
        """Nothing can be taken back: the promise is at least once."""


def send_all(producer: Producer, batches: Iterable[pa.RecordBatch], topic: str | None) -> int:
    """Sends all rows, waits until they are stored and gives their number."""
    rows = 0
    send = producer.send
    for batch in batches:
        for to, value, key, partition, headers in rows_of(batch, topic):
            send(to, value, key, partition=partition, headers=headers)
        rows += batch.num_rows
    producer.flush()
    return rows


class BatchTopicWriter(_TopicWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write``."""


class StreamTopicWriter(_TopicWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream``."""
