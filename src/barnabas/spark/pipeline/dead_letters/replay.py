"""Sends dead letters through again: each goes back to the partition of the topic that it came from.

What was sent is remembered behind it, so that a kill sends some twice and leaves none out: of a topic of
letters as the offsets of a group, of a table as the last offset of each partition that it has letters of.
Offsets of letters only grow, batch by batch, and a batch is in a table of Delta or Iceberg whole. The files
of plain Parquet appear one after the other, so the pipeline must not run then: a letter whose file comes last
would be passed over. Letters of a table are sent in the order of their topics, partitions and offsets: its
files come in any order, of Delta the newest first.
"""

import logging
import operator
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from barnabas.client import Consumer, Producer
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import PipelineError
from barnabas.spark.kafka import consumer_client
from barnabas.spark.pipeline.dead_letters.letters import PREFIX
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.sinks.checkpoint import held
from barnabas.spark.pipeline.sinks.sink import open_table
from barnabas.spark.pipeline.tables.notes import damaged, read_note, replace_note
from barnabas.spark.pipeline.tables.synchronise import synchronise_up
from barnabas.spark.pipeline.tables.table import OURS
from barnabas.spark.sink import producer_client

_log = logging.getLogger("barnabas.spark")

_WHOSE: Final = f"{PREFIX}connector.name"
"""The header with the name of the pipeline. Several may share a topic, and each sends its own."""
_POLL_MS: Final = 500
_PLACE: Final = ("topic", "partition", "offset")
_COLUMNS: Final = (*_PLACE, "key", "value", "headers")
_HELD_MAX: Final = 100_000
"""Letters of a table that are in memory at once; for each so many the table is read once more."""
_UNSENT_MAX: Final = 1000
"""Letters that are sent before it is remembered that they were."""


_Place: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset."""


class Letter(NamedTuple):
    """A record as it came."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def replay(pipeline: Pipeline) -> int:
    """Sends the letters that were not sent yet; how many. Raises PipelineError, and what clients raise."""
    limits = pipeline.letters
    if limits is None:
        raise PipelineError("[deadLetter] is missing: no letters are kept")
    if pipeline.sink.changes is not None:
        raise PipelineError(
            "sink.mode: an old record that is sent again would count as the newest of its key. Write what is "
            "to be mended to the topic yourself"
        )
    client = pipeline.source_options.client
    busy = f"{pipeline.name}: its letters are being sent by another process"
    with held(pipeline.checkpoint, "replay.lock", busy), closing(producer_client(dict(client))) as producer:
        if limits.table is None:
            with closing(
                consumer_client({**client, "group.id": f"barnabas-replay-{pipeline.name}"})
            ) as consumer:
                return _from_topic(consumer, producer, limits.topic, pipeline.name)
        return _from_table(producer, limits.table)


def _from_topic(consumer: Consumer, producer: Producer, topic: str, name: str) -> int:
    partitions = [TopicPartition(topic, number) for number in producer.partitions_for(topic)]
    ends, begins = consumer.end_offsets(partitions), consumer.beginning_offsets(partitions)
    committed = consumer.committed(partitions)
    consumer.assign(partitions)
    at: dict[TopicPartition, int] = {}
    for tp in partitions:
        known = committed[tp]
        at[tp] = max(begins[tp], known.offset if known is not None else 0)
        consumer.seek(tp, at[tp])
    sent = others = 0
    # Those that come while it runs are of records that were sent again and still do not fit.
    while any(at[tp] < ends[tp] for tp in partitions):
        for record in consumer.poll(_POLL_MS, _UNSENT_MAX):
            tp = TopicPartition(record.topic, record.partition)
            if record.offset >= ends[tp]:
                continue
            if dict(record.headers).get(_WHOSE, name.encode()) != name.encode():
                others += 1
                continue
            _send(producer, _letter(record.topic, record.offset, record))
            sent += 1
        for tp in partitions:
            at[tp] = consumer.position(tp)
        producer.flush()
        consumer.commit({tp: min(at[tp], ends[tp]) for tp in partitions})
    if others:
        _log.warning("%s: %d letters on %s are of other pipelines and were passed over", name, others, topic)
    return sent


def _letter(topic: str, offset: int, record: Any) -> Letter:
    """The record of a letter of Kafka Connect's form. Raises PipelineError."""
    said = {key: value for key, value in record.headers if key.startswith(PREFIX)}
    try:
        came, partition = said[f"{PREFIX}topic"].decode(), int(said[f"{PREFIX}partition"])
    except (KeyError, ValueError, AttributeError) as error:
        raise PipelineError(
            f"{topic}-{record.partition} offset {offset} is no dead letter: it has no headers {PREFIX}topic "
            f"and {PREFIX}partition"
        ) from error
    own = [(key, value) for key, value in record.headers if not key.startswith(PREFIX)]
    return Letter(came, partition, record.key, record.value, own)


def _from_table(producer: Producer, letters: Sink) -> int:
    folder = letters.path
    marker = folder / OURS / "replayed.json"
    done = read_note(marker, "note of a replay") or {}
    if not all(type(offset) is int for offset in done.values()):
        raise damaged(marker, "note of a replay", ValueError("it has no offsets"))
    if not folder.exists():
        return 0  # no record has ever not fitted
    last: dict[str, int] = {}
    unsent: set[_Place] = set()
    with open_table(letters) if letters.kind == "parquet" else nullcontext():
        for batch in open_table(letters).rows(_PLACE):
            for place in _places(batch):
                topic, partition, offset = place
                # Partitions of which there is no letter any more are forgotten.
                name = f"{topic}-{partition}"
                if offset > done.get(name, -1):
                    unsent.add(place)
                last[name] = max(offset, last.get(name, done.get(name, -1)))
        # Of the letters that were seen here only: a pipeline that runs may add others meanwhile.
        ordered = sorted(unsent)
        for at in range(0, len(ordered), _HELD_MAX):
            for letter in _letters_at(letters, set(ordered[at : at + _HELD_MAX])):
                _send(producer, letter)
        producer.flush()
        replace_note(marker, last)
        synchronise_up(marker.parent, folder)
    return len(ordered)


def _places(batch: pa.RecordBatch) -> Iterator[_Place]:
    """Where the letters of a table came from."""
    return zip(*(batch.column(name).to_pylist() for name in _PLACE), strict=True)


def _letters_at(letters: Sink, places: set[_Place]) -> list[Letter]:
    """The letters of these places, in their order."""
    found: list[tuple[_Place, Letter]] = []
    for batch in open_table(letters).rows(_COLUMNS):
        wanted = batch.filter(pa.array([place in places for place in _places(batch)], pa.bool_()))
        for place, row in zip(_places(wanted), wanted.to_pylist(), strict=True):
            headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
            found.append((place, Letter(*place[:2], row["key"], row["value"], headers)))
    return [letter for _, letter in sorted(found, key=operator.itemgetter(0))]


def _send(producer: Producer, letter: Letter) -> None:
    producer.send(letter.topic, letter.value, letter.key, partition=letter.partition, headers=letter.headers)
