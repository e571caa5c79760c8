"""What takes the batches of a query whose rows go to many tables, a `BatchSink` for each.

A table is opened, then written into the note (`named_tables`), then gets rows. The locks of all tables are
held while the pipeline runs, and one more that keeps a second run of the file out while there are none.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

from pyspark.sql.types import StructType

from barnabas.spark.errors import Failure, PipelineError
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.many_tables import named_tables, routes
from barnabas.spark.pipeline.many_tables.routes import TableRoute
from barnabas.spark.pipeline.rows.expectations import Tally
from barnabas.spark.pipeline.sinks.sink import BatchSink, failure_of, open_table
from barnabas.spark.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Values = tuple[str, ...]
"""What names a table."""


class ManySinks(ABC):
    """Takes batches from ``foreachBatch``, as `BatchSink` does; ``with`` holds the locks of its tables."""

    def __init__(self, sink: Sink) -> None:
        assert sink.route is not None
        self._sink = sink
        self._route: TableRoute = sink.route
        self._tables: dict[Values, BatchSink] = {}
        self._open = ExitStack()
        self.batches = 0
        """Those that ended well."""
        self.schema = StructType()
        """The columns of each table, once they are open; none where each has its own."""
        self.tally = Tally()
        self.failure: Failure | None = None
        """Why the last batch failed."""

    @property
    def rows_written(self) -> int:
        """In all tables."""
        return sum(one.rows_written for one in self._tables.values())

    @property
    def rows_by_table(self) -> dict[str, int]:
        """The same of each table, by its place. Any thread may ask."""
        return {self._sink.of(values).where: one.rows_written for values, one in [*self._tables.items()]}

    def __enter__(self) -> Self:
        with ExitStack() as held:
            self.schema = self._schema(held.enter_context(open_table(self._sink)))
            for values in named_tables.values_of(self._sink, self._route):
                self._tables[values] = self._begin(values, held)
            self._open = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def has(self, batch: int) -> bool:
        """Whether one of the tables has its rows of the batch already."""
        return any(table.has(batch) for table in self._tables.values())

    def write(self, frame: "DataFrame", batch: int) -> None:
        """Appends a batch's rows to their tables, unless these have it already."""
        self.failure = None
        try:
            self._take(frame, batch)
        except Exception as error:
            self.failure = self.failure or failure_of(error)
            raise
        self.batches += 1

    @abstractmethod
    def _take(self, frame: "DataFrame", batch: int) -> None:
        """Does what `write` says."""

    @abstractmethod
    def _begin(self, values: Values, held: ExitStack) -> BatchSink:
        """The table of some values, which is opened and held."""

    def _schema(self, _root: Table) -> StructType:
        """The columns of each table, by `_root`, which stands for those that there are not yet. Raises
        PipelineError for what no table could take.
        """
        return StructType()

    def _require(self, named: Collection[Values]) -> None:
        """Opens those tables of which the rows are the first."""
        for values in named:
            if values in self._tables:
                continue
            if len(self._tables) == routes.TABLES_MAX:
                raise PipelineError(too_many(self._route))
            with ExitStack() as held:
                table = self._begin(values, held)
                # Behind it: a folder that others have files in is refused now, and not at each start.
                named_tables.remember(self._sink, self._route, [*self._tables, values])
                self._open.enter_context(held.pop_all())
            self._tables[values] = table

    @contextmanager
    def _at(self, values: Values) -> Iterator[BatchSink]:
        """One table, which a failure is told of."""
        table = self._tables[values]
        try:
            yield table
        except Exception:
            self.failure = table.failure_and_table
            raise

    def _tidy_others(self, named: Collection[Values], batch: int) -> None:
        """Has the tables that a batch has no rows for do what they do behind it."""
        for values in self._tables.keys() - set(named):
            self._tables[values].tidy(batch)


def too_many(route: TableRoute) -> str:
    """The words for more tables than there may be."""
    return f"sink.path: {', '.join(route.columns)} have more than {routes.TABLES_MAX} values, a table each"
