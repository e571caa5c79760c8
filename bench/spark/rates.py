"""Rows of the Spark bench that count rows a second: batch reads, writes to a topic, log directories."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from barnabas.admin import Admin
from barnabas.core.ids import TopicPartition
from barnabas.spark.logs.options import log_options
from barnabas.spark.logs.segments import find_segments, plan_tasks
from barnabas.spark.logs.views import read_pieces
from bench.figures import Measure
from bench.processes import processor_time
from bench.rounds import Effort, Row, Turn
from bench.spark.world import PARTITIONS, Connector, fill, new_topic

COST: Final = Measure("processor time a row, of all processes", "us")
PLANNED_PARTITIONS: Final = 1000


def _count(frame: DataFrame, records: int) -> None:
    ((found, _),) = frame.selectExpr("count(1)", "sum(length(value))").collect()
    if found != records:
        raise RuntimeError(f"{found} of {records} records were read")


def _all_columns(frame: DataFrame, _records: int) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _timed(work: Callable[[], None], records: int) -> list[float]:
    """Rows a second, and microseconds of processor time a row:
    of this process, the JVM, its workers and the broker.
    """
    used, started = processor_time(os.getpid()).total_s, time.monotonic()
    work()
    took = time.monotonic() - started
    return [records / took, (processor_time(os.getpid()).total_s - used) / records * 1e6]


def _reading(query: Callable[[DataFrame, int], None]) -> Callable[[Connector, Effort], object]:
    @contextlib.contextmanager
    def opened(side: Connector, _effort: Effort) -> Iterator[Turn]:
        world = side.world

        def turn() -> list[float]:
            return _timed(lambda: query(side.read(world.topic), world.records), world.records)

        turn()
        yield turn

    return opened


@contextlib.contextmanager
def _writing(side: Connector, _effort: Effort) -> Iterator[Turn]:
    """A quarter of the records, kept in memory so that making them costs neither sink, to a new topic each
    time.
    """
    world, records = side.world, side.world.records // 4
    key = "cast(lpad(cast(id as string), 8, '0') as binary)"
    value = "cast(concat(lpad(cast(id as string), 8, '0'), repeat('x', 92)) as binary)"
    rows = world.spark.range(records).selectExpr(f"{key} key", f"{value} value").cache()
    rows.count()

    def turn() -> list[float]:
        topic = new_topic(world.address, "sink")
        found = _timed(lambda: side.write(rows, topic), records)
        with Admin(world.address) as admin:
            ends = admin.offsets.list({TopicPartition(topic, number): -1 for number in range(PARTITIONS)})
            admin.topics.delete(topic)
        stored = sum(one.offset for one in ends.values())
        if stored < records:
            raise RuntimeError(f"{side.name} stored {stored} of {records} records")
        return found

    turn()
    yield turn
    rows.unpersist()


@contextlib.contextmanager
def _log(side: Connector, _effort: Effort) -> Iterator[Turn]:
    """The broker's directories without the broker, from the page cache:
    decoded in this process, then through Spark.
    """
    world = side.world

    def turn() -> list[float]:
        decoded = decoded_once(world.directory, world.topic)
        frame = world.spark.read.format("barnabas-log").option("subscribe", world.topic)
        return [*decoded, *_timed(lambda: _all_columns(frame.load(str(world.directory)), 0), world.records)]

    turn()
    yield turn


def decoded_once(directory: Path, topic: str) -> list[float]:
    """The rows of all tasks to Arrow, one after the other in this thread:
    rows a second, microseconds a row.
    """
    options = log_options({"path": str(directory), "subscribe": topic})
    used, started = time.thread_time(), time.monotonic()
    tasks = plan_tasks(find_segments(options), options)
    rows = sum(batch.num_rows for task in tasks for batch in read_pieces(task, options))
    return [rows / (time.monotonic() - started), (time.thread_time() - used) / rows * 1e6]


@contextlib.contextmanager
def _planning(side: Connector, _effort: Effort) -> Iterator[Turn]:
    """From `load()` until Spark has the tasks of a topic with a record in each partition."""
    topic = new_topic(side.world.address, "wide", PLANNED_PARTITIONS)
    fill(side.world.address, topic, PLANNED_PARTITIONS, PLANNED_PARTITIONS)

    def turn() -> list[float]:
        started = time.monotonic()
        # Spark tells it no other way.
        tasks = side.read(topic)._jdf.queryExecution().toRdd().getNumPartitions()  # noqa: SLF001
        took = time.monotonic() - started
        if tasks != PLANNED_PARTITIONS:
            raise RuntimeError(f"{side.name} planned {tasks} tasks for {PLANNED_PARTITIONS} partitions")
        return [took]

    turn()
    yield turn


def _read_row(title: str, query: Callable[[DataFrame, int], None]) -> Row:
    rate = Measure("rows", "1/s", 2.5, higher_is_better=True)
    return Row(title, [rate, COST], _reading(query), "long")


ROWS: Final[dict[str, Row]] = {
    "count": _read_row("a batch read of a topic, count + sum(length)", _count),
    "columns": _read_row("a batch read of a topic, all columns to noop", _all_columns),
    "sink": Row(
        "a batch write to a new topic",
        [Measure("rows", "1/s", 1, higher_is_better=True), COST],
        _writing,
        "long",
    ),
    "log": Row(
        "log directories, from the page cache",
        [
            Measure("rows decoded in one process", "1/s", 4e6, higher_is_better=True, is_ratio=False),
            Measure("processor time a row, decoding", "us"),
            Measure("rows through Spark, all columns to noop", "1/s"),
            COST,
        ],
        _log,
        "long",
        without=("connector",),
    ),
    "plan": Row(
        f"planning a batch read of {PLANNED_PARTITIONS:,} partitions",
        [Measure("load() to the tasks", "s", 2, is_ratio=False)],
        _planning,
        "long",
    ),
}
