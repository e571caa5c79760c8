"""Rows of the Spark bench about whole pipelines: joins with a table, and topics that have a schema each."""

import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from deltalake import write_deltalake
from rich.console import Console

from barnabas.spark.pipeline.file.settings import Pipeline, load
from barnabas.spark.pipeline.joined import joined_tables, joins
from barnabas.spark.pipeline.running import supervisor
from bench.figures import Measure
from bench.processes import processor_time
from bench.rounds import Row
from bench.spark.world import Connector, each_case, new_topic

SIZES: Final = (0, 1_000, 100_000, 1_000_000)
"""Rows of the table; 0: no join."""
BATCHES: Final = 4
"""Of which the first one is left out: it copies the table, and Spark is cold."""
TOPICS: Final = (1, 10, 50)
_FILE: Final = """
checkpoint = "checkpoint"
events = "events"
[source]
kafka.bootstrap.servers = "{address}"
subscribe = "{topics}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = {batch}
{parts}
"""
_UNJOINED: Final = """
[transform]
sql = "SELECT CAST(value AS STRING) AS text FROM source"
[sink]
kind = "parquet"
path = "table"
"""
_JOINED: Final = """
[[join]]
table = "names"
kind = "{kind}"
on = {{ id = "CAST(CAST(key AS STRING) AS INT) % {size}" }}
[transform]
sql = "SELECT CAST(value AS STRING) AS text, names.name FROM source"
[sink]
kind = "parquet"
path = "table"
"""
_OF_TOPICS: Final = """
[format]
kind = "json"
{schemas}
[transform]
sql = "SELECT value.* FROM source"
[sink]
kind = "delta"
path = "lake/{{topic}}"
"""
_RECORDS_A_BATCH: Final = 1_000


def join_cost(side: Connector, kind: str, size: int) -> list[float]:
    """A pipeline of the topic in `BATCHES` batches, joined with a table of so many rows: its records a
    second, what the copy of the table takes, and its bytes.
    """
    world = side.world
    batch = world.records // BATCHES
    with tempfile.TemporaryDirectory(dir=world.folder) as place:
        folder = Path(place)
        if not size:
            return [batch / _run(side, folder, [world.topic], batch, _UNJOINED)[1]]
        _make(folder / "names", kind, size)
        parts = _JOINED.format(kind=kind, size=size)
        pipeline, took = _run(side, folder, [world.topic], batch, parts)
        settled = joins.with_types(pipeline)
        used, started = processor_time(os.getpid()).total_s, time.monotonic()
        (copy,) = joined_tables.Copies(folder / "copied", settled.joins).of(0)
        copied, spent = time.monotonic() - started, processor_time(os.getpid()).total_s - used
        return [batch / took, copied, spent, copy.stat().st_size / 1e6]


def topics_cost(side: Connector, count: int) -> list[float]:
    """A pipeline of so many topics, each with a schema and a table of its own: the seconds of a batch."""
    address = side.world.address
    topics = [new_topic(address, f"topic{number}", 1) for number in range(count)]
    producer = Producer({"bootstrap.servers": address})
    for number in range(BATCHES * _RECORDS_A_BATCH):
        which = number % count
        producer.produce(topics[which], json.dumps({"id": number, f"text{which}": "x" * 80}).encode())
    producer.flush()
    schemas = "\n".join(
        f'[format.topics."{topic}"]\nschema = "id INT, text{number} STRING"'
        for number, topic in enumerate(topics)
    )
    with tempfile.TemporaryDirectory(dir=side.world.folder) as folder:
        parts = _OF_TOPICS.format(schemas=schemas)
        return [_run(side, Path(folder), topics, _RECORDS_A_BATCH, parts)[1]]


def _run(
    side: Connector, folder: Path, topics: Sequence[str], batch: int, parts: str
) -> tuple[Pipeline, float]:
    """Runs the pipeline of these topics; it, and what a batch of so many records takes, in seconds."""
    file = folder / "bench.toml"
    file.write_text(
        _FILE.format(address=side.world.address, topics=",".join(topics), batch=batch, parts=parts)
    )
    pipeline = load(file)
    supervisor.run(side.world.spark, pipeline, Console(file=io.StringIO()))
    told = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
    batches = [one["batch_s"] for one in told if one["event"] == "batch"]
    if len(batches) < BATCHES:
        raise RuntimeError(f"{len(batches)} batches, not {BATCHES}")
    return pipeline, statistics.median(batches[1:])


def _make(folder: Path, kind: str, size: int) -> None:
    names = pa.table(
        {
            "id": pa.array(range(size), pa.int32()),
            "name": [f"the name of number {number}" for number in range(size)],
        }
    )
    if kind == "delta":
        write_deltalake(str(folder), names)
    else:
        folder.mkdir()
        pq.write_table(names, folder / "0.parquet")


def _row(kind: str) -> Row:
    def of_join(side: Connector, size: int) -> list[float]:
        return join_cost(side, kind, size)

    measures = [Measure("records a second without a join", "")]
    for size in SIZES[1:]:
        measures += [
            Measure(f"records a second, {size:,} rows", ""),
            Measure(f"a copy of {size:,} rows", "s"),
            Measure(f"processor time of a copy of {size:,} rows", "s"),
            Measure(f"a copy of {size:,} rows", "MB"),
        ]
    return Row(
        f"a quarter of the records joined with a table of {kind.capitalize()}",
        measures,
        each_case(of_join, SIZES),
        "longest",
        without=("connector",),
    )


ROWS: Final[dict[str, Row]] = {
    **{f"joins-{kind}": _row(kind) for kind in ("delta", "parquet")},
    "topics": Row(
        f"{_RECORDS_A_BATCH:,} records of topics that have a schema and a table of Delta each",
        [Measure(f"a batch, {count} topics", "s") for count in TOPICS],
        each_case(topics_cost, TOPICS),
        "longest",
        without=("connector",),
    ),
}
