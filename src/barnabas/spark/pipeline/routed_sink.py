"""The sink of a query whose rows go to many tables, by the values of their columns; see `routes`.

Theory of operation
-------------------
There is one writer, and a `BatchSink` for each table. The rules are asked of the whole batch first: a row
that is dropped need not name a table, and makes none. Then the writer asks which tables the rows name. New
ones are opened and written into the note; then each table that is named takes its rows under the batch's id,
one after the other. So each of them keeps what one table does: a batch that comes again, behind a kill
between two tables, is passed over by those that have it and written to the others. A table that a batch has
no rows for does not hear of it.

The locks of all tables are held while the pipeline runs, and one more that keeps a second run of the file
out while there are none. A row whose values name no table ends the query, or is a dead letter.
"""

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from pyspark.sql import types as spark

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline import expectations, named_tables, routes
from barnabas.spark.pipeline.routes import TableRoute
from barnabas.spark.pipeline.sink import (
    BatchSink,
    Destination,
    every_row,
    open_table,
    reason_of,
    table_schema,
)
from barnabas.spark.pipeline.sink_settings import Sink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NAMES: tuple[type[spark.DataType], ...] = (
    spark.StringType, spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType, spark.DateType,
)  # fmt: skip
"""Types of which each value has one text."""


class RoutedSink:
    """Takes batches from ``foreachBatch``, as `BatchSink` does; ``with`` holds the locks of its tables."""

    def __init__(self, to: Destination) -> None:
        assert to.sink.route is not None
        self._to = to
        self._sink = to.sink
        self._route: TableRoute = to.sink.route
        self._tables: dict[tuple[str, ...], BatchSink] = {}
        self._open = ExitStack()
        self._last = -1
        """The last batch of which the dropped rows are counted: one that comes again is not counted twice."""
        self.batches = 0
        """Those that ended well."""
        self.schema = to.rows
        """The columns of each table, once they are open."""
        self._tally = expectations.Tally()
        self._told: dict[tuple[str, ...], int] = {}
        """The rows of each table that `rows_since` has told of."""
        self.failure: str | None = None
        """Why the last batch failed, in one line."""

    @property
    def rows_written(self) -> int:
        """In all tables."""
        return sum(one.rows_written for one in self._tables.values())

    @property
    def rows_dropped(self) -> int:
        """Those that violate a rule whose violation is to be dropped."""
        return self._tally.rows_dropped

    @property
    def violations(self) -> Counter[str]:
        """How many rows have violated each rule."""
        return self._tally.violations

    def rows_since(self) -> dict[str, int]:
        """How many rows each table has got since the last call, by its place, of those that have got any."""
        written = {values: table.rows_written for values, table in list(self._tables.items())}
        new = {values: rows - self._told.get(values, 0) for values, rows in written.items()}
        self._told = written
        return {self._sink.of(values).where: rows for values, rows in new.items() if rows}

    def __enter__(self) -> Self:
        with ExitStack() as held:
            root = held.enter_context(open_table(self._sink))
            # What no table could take is refused before the first record is read.
            require_columns(self._sink, self._to.rows)
            self.schema = table_schema(root, self._sink, self._to.checkpoint, self._to.rows)
            for values in named_tables.values_of(self._sink, self._route):
                self._tables[values] = held.enter_context(self._table(values))
            self._open = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def write(self, frame: "DataFrame", batch: int) -> None:
        """Appends a batch's rows to their tables, unless these have it already."""
        self.failure = None
        try:
            with self._to.fitting(frame, batch) as rows:
                self._take(rows, batch)
        except Exception as error:
            self.failure = self.failure or reason_of(error)
            raise
        self.batches += 1

    def _take(self, rows: "DataFrame", batch: int) -> None:
        rows.persist()  # each table takes its part of them
        try:
            kept, found = expectations.kept(rows, self._to.rules)
            names = named(kept, self._route)
            for values in names:
                self._require(values)
            for values in names:
                table = self._tables[values]
                try:
                    table.write(kept.filter(_has(self._route, values)), batch)
                except Exception:
                    where, failure = self._sink.of(values).where, str(table.failure)
                    self.failure = failure if where in failure else f"{where}: {failure}"
                    raise
        finally:
            rows.unpersist()
        for values in self._tables.keys() - set(names):
            self._tables[values].tidy(batch)
        if batch > self._last:
            self._tally.add(self._to.rules, found)
            self._last = batch

    def _require(self, values: tuple[str, ...]) -> None:
        """Opens a table of which the rows are the first."""
        if values in self._tables:
            return
        if len(self._tables) == routes.TABLES_MAX:
            raise PipelineError(too_many(self._route))
        with ExitStack() as held:
            table = held.enter_context(self._table(values))
            # Behind it: a folder that others have files in is refused now, and not at each start from now on.
            named_tables.remember(self._sink, self._route, [*self._tables, values])
            self._open.enter_context(held.pop_all())
        self._tables[values] = table

    def _table(self, values: tuple[str, ...]) -> BatchSink:
        return BatchSink(replace(self._to, sink=self._sink.of(values), rules=(), fitting=every_row))


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


def named(rows: "DataFrame", route: TableRoute) -> list[tuple[str, ...]]:
    """What names the tables of the rows, in order. Raises PipelineError for a row that names none."""
    found = rows.select(*_texts(route)).distinct().limit(routes.TABLES_MAX + 1).collect()
    for one in found:
        for name, value in zip(route.columns, one, strict=True):
            if not routes.is_name(value, route):
                shown = "null" if value is None else repr(value[:100])
                raise PipelineError(f"a row has {shown} in {name}, which names no table: {must(route)}")
    if len(found) > routes.TABLES_MAX:
        raise PipelineError(too_many(route))
    return sorted(tuple(one) for one in found)


def unnamed(route: TableRoute) -> "Column":
    """Whether a row names no table."""
    from pyspark.sql import functions as sql

    found = sql.lit(False)
    for text in _texts(route):
        found = found | text.isNull() | ~text.rlike(rf"\A{route.name}\z")
    return found


def _texts(route: TableRoute) -> "list[Column]":
    from pyspark.sql import functions as sql

    return [sql.col(f"`{name}`").cast("string") for name in route.columns]


def _has(route: TableRoute, values: tuple[str, ...]) -> "Column":
    """Whether a row is one of the table's."""
    from pyspark.sql import functions as sql

    found = sql.lit(True)
    for text, value in zip(_texts(route), values, strict=True):
        found = found & (text == sql.lit(value))
    return found


def must(route: TableRoute) -> str:
    """What a value must be to name a table, for people."""
    signs = "'_' and '-'" if route.table else "'.', '_' and '-'"
    return f"letters of ASCII, digits, {signs} do, up to 200, of which the first is a letter or a digit"


def too_many(route: TableRoute) -> str:
    """The words for more tables than there may be."""
    return f"sink.path: {', '.join(route.columns)} have more than {routes.TABLES_MAX} values, a table each"
