"""The sink of a query whose rows go to many tables, by the values of their columns; see `routes`.

Theory of operation
-------------------
There is one writer, and a `BatchSink` for each table. The rules are asked of the whole batch first: a row
that is dropped need not name a table, and makes none. Then the writer asks which tables the rows name. New
ones are opened and written into the note. One job of Spark then writes the files of all tables that do not
have the batch yet, to a folder of the checkpoint with one folder for each of them; and each table takes its
own under the batch's id, one after the other. So each of them keeps what one table does: a batch that comes
again, behind a kill between two tables, is passed over by those that have it and written to the others. What
a kill has left in the checkpoint is removed before the next batch. A table that a batch has no rows for does
not hear of it.

Tables whose columns differ, as some were made before the query had them all, are written by a job for each
list of columns.

A row whose values name no table ends the query, or is a dead letter.
"""

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import Observation
from pyspark.sql import types as spark

from barnabas.spark.ddl import quoted
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.many_tables import routes
from barnabas.spark.pipeline.many_tables.many_sinks import ManySinks, Values, too_many
from barnabas.spark.pipeline.many_tables.routes import TableRoute
from barnabas.spark.pipeline.rows import changes, expectations
from barnabas.spark.pipeline.sinks.sink import (
    BatchSink,
    Destination,
    every_row,
    keep_offsets,
    table_schema,
)
from barnabas.spark.pipeline.sinks.staging import FileLayout, write_files
from barnabas.spark.pipeline.tables.table import OURS, Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NAMES: tuple[type[spark.DataType], ...] = (
    spark.StringType, spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType, spark.DateType,
)  # fmt: skip
"""Types of which each value has one text."""
_STAGED: Final = "staged-"
"""How folders begin in which a batch's files wait for their tables."""
_TABLE: Final = "_barnabas_table_"
"""How columns begin whose folders keep the tables apart."""
_ROWS_A_TASK: Final = 250_000
"""A task writes a file for each table that it has rows of: a small batch has few tasks."""

Files = dict[Values, tuple[Path, list[tuple[str, int]]]]
"""The folder that has a table's files, their paths in it, and how many rows they have."""


class RoutedSink(ManySinks):
    """Of rows that name their table."""

    def __init__(self, to: Destination) -> None:
        super().__init__(to.sink)
        self._to = to

    def _schema(self, root: Table) -> spark.StructType:
        require_columns(self._sink, self._to.rows)
        return table_schema(root, self._sink, self._to.checkpoint, self._to.rows)

    def _begin(self, values: Values, held: ExitStack) -> BatchSink:
        to = replace(self._to, sink=self._sink.of(values), rules=(), fitting=every_row)
        return held.enter_context(BatchSink(to))

    def _take(self, frame: "DataFrame", batch: int) -> None:
        with self._to.fitting(frame, batch) as rows:
            rows.persist()  # they are counted, and written
            try:
                kept, found = expectations.kept(rows, self._to.rules)
                counts = named(kept, self._route)
                self._require(counts)
                waiting = {name: count for name, count in counts.items() if not self._tables[name].has(batch)}
                if waiting:
                    keep_offsets(self._to.checkpoint, batch)
                    self._append(kept, waiting, batch)
            finally:
                rows.unpersist()
            self._tidy_others(counts, batch)
            self.tally.add(self._to.rules, found, batch)

    def _append(self, rows: "DataFrame", counts: Mapping[Values, int], batch: int) -> None:
        with self._staging() as folder:
            found = self._files(rows, counts, folder)
            for values in counts:
                with self._at(values) as table:
                    table.take(*found[values], batch)

    @contextmanager
    def _staging(self) -> Iterator[Path]:
        """A folder for the files of a batch; of those that kills have left none is there any more."""
        ours = self._sink.path / OURS
        for left in ours.glob(f"{_STAGED}*"):
            shutil.rmtree(left)
        # Of a new name: tasks of a driver that was killed may still write to the last one.
        folder = ours / f"{_STAGED}{uuid.uuid4().hex}"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _files(self, rows: "DataFrame", counts: Mapping[Values, int], folder: Path) -> Files:
        """Writes the rows of some tables, and how many they are, to files of their own."""
        alike: dict[str, list[Values]] = {}
        for values in counts:
            alike.setdefault(self._tables[values].layout.schema.json(), []).append(values)
        found: Files = {}
        for number, tables in enumerate(alike.values()):
            theirs = rows.filter(_of_one(self._route, tables))
            tasks = -(-sum(counts[values] for values in tables) // _ROWS_A_TASK)
            layout = self._tables[tables[0]].layout
            found |= self._write(theirs.coalesce(tasks), layout, folder / str(number))
        if found.keys() != counts.keys():
            # Rows are made anew when an executor is lost. Those of rand() may then name other tables.
            raise PipelineError(
                f"sink.path: the rows of a batch have another {', '.join(self._route.columns)} each time "
                "that they are read"
            )
        return found

    def _write(self, rows: "DataFrame", layout: FileLayout, folder: Path) -> Files:
        apart = [
            (spark.StructField(f"{_TABLE}{number}", spark.StringType()), text)
            for number, text in enumerate(_texts(self._route))
        ]
        how, seen = self._sink.changes, Observation()
        if how is not None:
            rows = changes.ordered(rows.observe(seen, *changes.without_key(rows, how)), how)
            apart.append(changes.gone_apart())
        found: Files = {}
        depth = len(self._route.columns)
        for file, count in write_files(rows, folder, layout, apart):
            parts = Path(file).parts
            values = tuple(part.partition("=")[2] for part in parts[:depth])
            _, files = found.setdefault(values, (folder.joinpath(*parts[:depth]), []))
            files.append((str(Path(*parts[depth:])), count))
        if how is not None:
            changes.require_keys(seen.get, how)
        return found


def require_columns(sink: Sink, rows: spark.StructType) -> None:
    """Raises PipelineError where the rows lack a column that names their table."""
    if sink.route is None:
        return
    for name in sink.route.columns:
        if name not in rows.names:
            raise PipelineError(
                f"sink.path: the rows have no column {name}; they have {', '.join(rows.names)}"
            )
        kind = rows[name].dataType
        if not isinstance(kind, _NAMES):
            raise PipelineError(
                f"sink.path: column {name} is {kind.simpleString()}, which names no table: CAST it"
            )


def named(rows: "DataFrame", route: TableRoute) -> dict[Values, int]:
    """What names the tables of the rows, in order, and how many rows each has.
    Raises PipelineError for a row that names none.
    """
    counted = rows.groupBy(*_texts(route)).count()
    found = [tuple(one) for one in counted.limit(routes.TABLES_MAX + 1).collect()]
    for *values, _ in found:
        for name, value in zip(route.columns, values, strict=True):
            if not routes.is_name(value, route):
                shown = "null" if value is None else repr(value[:100])
                raise PipelineError(
                    f"a row has {shown} in {name}, which names no table: {may_name_a_table(route)}"
                )
    if len(found) > routes.TABLES_MAX:
        raise PipelineError(too_many(route))
    return {tuple(values): count for *values, count in sorted(found)}


def unnamed(route: TableRoute) -> "Column":
    """Whether a row names no table."""
    from pyspark.sql import functions as sql

    found = sql.lit(False)
    for text in _texts(route):
        found = found | text.isNull() | ~text.rlike(rf"\A{route.name}\z")
    return found


def _texts(route: TableRoute) -> "list[Column]":
    from pyspark.sql import functions as sql

    return [sql.col(quoted(name)).cast("string") for name in route.columns]


def _of_one(route: TableRoute, tables: Sequence[Values]) -> "Column":
    """Whether a row is of one of the tables."""
    from pyspark.sql import functions as sql

    # No value has a slash in it.
    return sql.concat_ws("/", *_texts(route)).isin(*map("/".join, tables))


def may_name_a_table(route: TableRoute) -> str:
    """What a value must be to name a table, for people."""
    signs = "'_' and '-'" if route.table else "'.', '_' and '-'"
    return f"letters of ASCII, digits, {signs} do, up to 200, of which the first is a letter or a digit"
