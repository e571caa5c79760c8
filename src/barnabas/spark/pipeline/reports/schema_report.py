"""What a topic holds, and what the table would become: ``barnabas pipeline schema``. Nothing is written."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from barnabas.operations.schemas.registry import schema_id
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.drafts.draft import newest
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.formats.reader_schema import settled
from barnabas.spark.pipeline.formats.registry import RegistrySchemas
from barnabas.spark.pipeline.joined import joins
from barnabas.spark.pipeline.many_tables.named_tables import known
from barnabas.spark.pipeline.rows import changes, frames
from barnabas.spark.pipeline.sinks.sink import open_table, table_schema
from barnabas.spark.pipeline.tables.evolution import merged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """One column of the table, of the rows or of both; types as Spark's DDL has them."""

    name: str
    in_table: str | None
    in_rows: str | None
    becomes: str | None
    """None where the table cannot take it."""

    @property
    def sign(self) -> str:
        """``+`` for a new one, ``~`` for one that becomes wider, ``!`` for one that is refused."""
        if self.becomes is None:
            return "!"
        if self.in_table is None:
            return "+"
        return " " if self.in_table == self.becomes else "~"


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """What the command prints."""

    reads_by: str
    """The schema that values are read by."""
    values: dict[str, int]
    """How many of the newest values are of which schema."""
    columns: list[ColumnReport]
    refused: str | None
    """Why the table cannot become what the rows need."""


def report(spark: "SparkSession", pipeline: Pipeline, records: int) -> SchemaReport:
    """Looks at about as many of the newest records of each topic. Raises PipelineError."""
    pipeline = replace(pipeline, format=settled(pipeline.format, pipeline.checkpoint))
    pipeline = joins.with_types(pipeline)
    # Of many tables each has the columns of the rows: one that is there says what becomes of them.
    pipeline = replace(pipeline, sink=next(iter(known(pipeline.sink)), pipeline.sink))
    form, sink = pipeline.format, pipeline.sink
    table = open_table(sink)
    rows = frames.build(spark, pipeline).rows.schema
    refused, after = None, StructType()
    try:
        after = table_schema(table, sink, pipeline.checkpoint, rows)
    except PipelineError as error:
        refused = str(error)
    state = table.state(None)
    before = StructType.fromJson(state.schema) if state is not None else StructType()
    there = changes.kept(rows, sink.changes, sink.layout, in_files=table.keeps_partition_columns)
    columns = []
    for name in dict.fromkeys([*before.names, *there.names]):
        becomes = after if refused is None else _alone(before, there, name, pipeline)
        columns.append(ColumnReport(name, _kind(before, name), _kind(there, name), _kind(becomes, name)))
    reads_by = str(form.version) if form.version is not None else f"the file's {form.kind}"
    values = dict(_schemas(pipeline, records)) if form.decoder is not None or form.framed else {}
    return SchemaReport(reads_by, values, columns, refused)


def _alone(before: StructType, there: StructType, name: str, pipeline: Pipeline) -> StructType:
    """What a column becomes by itself, nothing where it is the one that is refused."""

    def only(kind: StructType) -> StructType:
        return StructType([field for field in kind.fields if field.name.lower() == name.lower()])

    try:
        return merged(only(before), only(there), open_table(pipeline.sink).growth, pipeline.sink.layout)
    except PipelineError:
        return StructType()


def _kind(of: StructType, name: str) -> str | None:
    return of[name].dataType.simpleString() if name in of.names else None


def _schemas(pipeline: Pipeline, records: int) -> Iterator[tuple[str, int]]:
    """The ids of the newest values, with what the registry says of each."""
    found: Counter[int | None] = Counter()
    for topic in pipeline.source_options.topics:
        for _, value in newest(pipeline.source_options.client, topic, records):
            if value is not None:
                try:
                    found[schema_id(value)] += 1
                except ValueError:
                    found[None] += 1
    ids = pipeline.format.ids
    for number, count in sorted(found.items(), key=lambda pair: -pair[1]):
        if number is None:
            yield "without a frame", count
            continue
        words = f"id {number}"
        if isinstance(ids, RegistrySchemas):
            schema = ids.registry.schema(number)
            words += ", which the registry does not have" if schema is None else f", {schema.kind}"
        yield words, count
