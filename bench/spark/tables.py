"""Rows of the Spark bench about one topic into many tables: what a batch costs by their number."""

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.many_tables.routed_sink import RoutedSink
from barnabas.spark.pipeline.many_tables.routes import TableRoute
from barnabas.spark.pipeline.sinks.sink import Destination
from barnabas.spark.pipeline.tables.rewriting import Changes
from bench.figures import Measure
from bench.processes import processor_time
from bench.rounds import Row
from bench.spark.world import Connector, each_case

COUNTS: Final = (1, 10, 100)
CHANGED: Final = (1, 50)
"""How many tables there are whose rows are changed by key, all of them by each batch."""
BATCHES: Final = 4
"""Of which the first one makes the tables, and is left out."""
_CHANGE: Final = "'topic', topic, 'partition', partition, 'offset', offset, 'deleted', false"
_MEASURES: Final = (
    ("a batch", "s"),
    ("processor time a batch, of all processes", "s"),
    ("files a batch", ""),
)


def cost(side: Connector, kind: str, count: int, *, changes: bool = False) -> list[float]:
    """A stream of the topic in `BATCHES` batches into so many tables: what one costs, and its files. With
    `changes` each has the keys of the first one, so that all files are written again.
    """
    world, found = side.world, []
    with tempfile.TemporaryDirectory(dir=world.folder) as place:
        folder = Path(place)
        text = "cast(cast(key as string) as int)"
        more = []
        if changes:
            text = f"({text} % {world.records // BATCHES})"
            more = [f"named_struct({_CHANGE}) as _change"]
        rows = side.stream(world.topic, "earliest", world.records // BATCHES).selectExpr(
            f"{text} as id",
            f"concat('t', {text} div 8 % {count}) as shop",
            "cast(value as string) as text",
            *more,
        )
        checkpoint, lake = folder / "checkpoint", folder / "lake"
        name = "bench.{shop}" if kind == "iceberg" else ""
        sink = Sink(
            kind,
            checkpoint / "tables",
            table=name,
            catalog={"uri": f"sqlite:///{folder}/catalog.db"},
            changes=Changes(("id", "shop")) if changes else None,
            route=TableRoute(("shop",), f"{lake}/{{shop}}", name),
        )
        with RoutedSink(Destination(sink, checkpoint, rows.schema)) as tables:

            def write(frame: DataFrame, batch: int) -> None:
                before = _files(lake)
                used, started = processor_time(os.getpid()).total_s, time.monotonic()
                tables.write(frame, batch)
                took, spent = time.monotonic() - started, processor_time(os.getpid()).total_s - used
                found.append((took, spent, _files(lake) - before))

            query = (
                rows.writeStream.option("checkpointLocation", f"file://{checkpoint}")
                .trigger(availableNow=True)
                .foreachBatch(write)
                .start()
            )
            query.awaitTermination()
        if tables.rows_written != world.records or len(found) < BATCHES:
            raise RuntimeError(f"{tables.rows_written} of {world.records} rows in {len(found)} batches")
    return [statistics.median(values) for values in zip(*found[1:], strict=True)]


def _files(lake: Path) -> int:
    return sum(1 for _ in lake.rglob("*.parquet"))


def _row(kind: str, counts: Sequence[int], words: str, *, changes: bool = False) -> Row:
    def of_tables(side: Connector, count: int) -> list[float]:
        return cost(side, kind, count, changes=changes)

    measures = [
        Measure(f"{name}, {count} table{'s' * (count > 1)}", unit)
        for count in counts
        for name, unit in _MEASURES
    ]
    return Row(
        f"a quarter of the records {words} of {kind.capitalize()}",
        measures,
        each_case(of_tables, counts),
        "longest",
        without=("connector",),
    )


_KINDS: Final = ("delta", "iceberg")
ROWS: Final[dict[str, Row]] = {
    **{f"tables-{kind}": _row(kind, COUNTS, "into 1, 10 and 100 tables") for kind in _KINDS},
    **{
        f"changed-{kind}": _row(kind, CHANGED, "change all rows of 1 and 50 tables", changes=True)
        for kind in _KINDS
    },
}
