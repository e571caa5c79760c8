"""Writing DataFrames to topics: columns topic, key, value, headers and partition, at least once.

Rows reach a task as Arrow and are encoded into record batches by partition (`records.columnar_encoder`). A
task sends them through one producer, several requests at a time, and is done when all of them are stored. A
task that is tried again sends its rows again, as with the official connector: the idempotent producer guards
its own retries, not Spark's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas.client import Producer
from barnabas.client.config import PRODUCER_CONFIG
from barnabas.spark.errors import OptionError, in_one_line
from barnabas.spark.kept import KeptClients
from barnabas.spark.options import SinkOptions, client_options

_DEFAULTS: Final = {"client.id": "barnabas-spark", "batch.size": 256 << 10, "linger.ms": 5}
_PIECE_BYTES: Final = 8 << 20
"""How much is encoded at a time: 256 KB for each of 32 partitions."""
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
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a "
            "topic."
        )
    for name, allowed in _TYPES.items():
        if name == "topic" and topic is not None:
            continue  # the option wins, and the column is not looked at
        if name in types and types[name] not in allowed:
            raise OptionError(
                f"{name} attribute unsupported type {types[name]}. {name} must be a(n) {' or '.join(allowed)}"
            )


def by_topic(rows: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic; the option wins over the column (``KafkaWriter.topicExpression``).
    Raises OptionError.
    """
    if topic is not None:
        yield topic, rows
        return
    topics = rows.column("topic").cast(pa.string())
    if topics.null_count:
        raise OptionError(
            "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains a null topic. "
            "Use the `topic` option for setting a default topic."
        )
    names = topics.unique().to_pylist()
    for name in names:
        yield name, rows if len(names) == 1 else rows.filter(pc.equal(topics, name))


def producer_client(client: dict[str, str]) -> Producer:
    """A producer with these ``kafka.*`` options, which are taken out of the dictionary."""
    servers = client.pop("bootstrap.servers")
    chosen = {**_DEFAULTS, **client_options(client, PRODUCER_CONFIG)}
    return Producer({**chosen, "bootstrap.servers": servers})


_producers: Final = KeptClients(producer_client)


class _TopicWriter:
    """What batch and stream share: everything but the base class."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        """Sends the rows of one task and waits until they are stored; raises what the producer raises."""
        with in_one_line():
            producer = _producers.get(self._options.client)
            return RowsWritten(send_all(producer, iterator, self._options.topic))

    def commit(self, messages: Iterable[Any], *batch: int) -> None:
        """Nothing: what a task reported is stored."""

    def abort(self, messages: Iterable[Any], *batch: int) -> None:
        """Nothing can be taken back: the promise is at least once."""


def send_all(producer: Producer, batches: Iterable[pa.RecordBatch], topic: str | None) -> int:
    """Sends all rows, waits until they are stored and gives their number."""
    from barnabas.records.columnar_encoder import encode  # numba: only tasks need it

    rows = 0
    for batch in _pieces(batches):
        for name, members in by_topic(batch, topic):
            sections = encode(
                members,
                partitions=len(producer.partitions_for(name)),
                section_bytes=producer.section_bytes,
                available=producer.available_partitions(name),
            )
            for section in sections:
                producer.send_section(name, section.partition, section.records, section.record_count)
        rows += batch.num_rows
    producer.flush()
    return rows


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in larger pieces:
    what Spark hands over at a time would make small batches of many partitions.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.nbytes for one in held) >= _PIECE_BYTES:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held = []
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


class BatchTopicWriter(_TopicWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write``."""


class StreamTopicWriter(_TopicWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream``."""
