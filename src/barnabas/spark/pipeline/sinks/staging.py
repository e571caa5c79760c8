"""The files of a batch, which the executors write to a folder before a table takes them.

The driver looks at the files' footers and at no rows. Of many tables all files are written by one job, in a
folder for each of them, and moved to where their table wants them.
"""

import errno
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Observation
from pyspark.sql.types import DataType, StringType, StructField, StructType

from barnabas.spark.ddl import quoted
from barnabas.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EXCLUDED: Final = "spark.sql.adaptive.optimizer.excludedRules"
_EMPTIES: Final = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
"""It takes what counts the rows out of the plan of a batch that has none left, such as one of a truncate."""

Apart = tuple[StructField, "Column"]
"""A column that is in no table: each of its values has a folder."""


class FileLayout(NamedTuple):
    """How the files of a table are laid out."""

    schema: StructType
    partition_by: tuple[str, ...]
    in_files: bool
    """Whether files hold the columns that they are partitioned by."""


def write_files(
    frame: "DataFrame", folder: Path, layout: FileLayout, apart: Sequence[Apart] = ()
) -> Iterator[tuple[str, int]]:
    """Writes the rows; the files that have some, by their paths in the folder, and how many.
    The folders of `apart` are above those of partitions.
    """
    from pyspark.sql import functions as sql

    schema, folders = layout.schema, list(layout.partition_by)
    for field, column in apart:
        frame = frame.withColumn(field.name, column)
    # By name: null where the rows have no such column or field, and narrower numbers as the table's.
    frame = frame.to(StructType([*schema.fields, *(field for field, _ in apart)]))
    columns = [_readable(sql.col(quoted(one.name)), one.dataType).alias(one.name) for one in schema.fields]
    if layout.in_files:  # Spark takes the columns of folders out of the files: it gets copies
        columns += [_told_apart(schema[name]).alias(f"_{name}") for name in folders]
        folders = [f"_{name}" for name in folders]
    columns += [sql.col(field.name) for field, _ in apart]
    folders = [*(field.name for field, _ in apart), *folders]
    # Spark's own INT96 has neither statistics nor a place in the formats with a log.
    settings = frame.sparkSession.conf
    settings.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rules = settings.get(_EXCLUDED, "") or ""
    if _EMPTIES not in rules:
        settings.set(_EXCLUDED, ",".join(filter(None, [rules, _EMPTIES])))
    seen = Observation()
    counted = frame.select(*columns).observe(seen, sql.count(sql.lit(1)).alias("rows"))
    counted.write.partitionBy(*folders).parquet(f"file://{folder}")
    yield from complete(folder, seen.get["rows"])


def complete(folder: Path, written: int) -> Iterator[tuple[str, int]]:
    """The files of a folder that have rows, and how many.

    Raises PipelineError unless all rows are in them.
    """
    import pyarrow.parquet as pq

    found = 0
    for path in folder.rglob("*.parquet"):
        rows = pq.read_metadata(path).num_rows
        found += rows
        if rows:
            yield path.relative_to(folder).as_posix(), rows
    if found != written:
        raise PipelineError(
            f"of {written:,} rows that were written to {folder} {found:,} are there: the driver and all "
            "executors must share the file system of sink.path"
        )


def move(written: Path, folder: Path) -> None:
    """Moves a folder of files to one that is not there yet, which may be on another disk."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        written.rename(folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(written, folder)


def _readable(column: "Column", kind: DataType) -> "Column":
    """The column with U+FFFD for what is no UTF-8 in its texts and in those of its structs, such as a key
    that was cast: Spark writes such bytes as they are, and readers of Arrow refuse the whole table.
    """
    from pyspark.sql import functions as sql

    if isinstance(kind, StringType):
        return sql.make_valid_utf8(column)
    if isinstance(kind, StructType):
        for field in kind.fields:
            if isinstance(field.dataType, (StringType, StructType)):
                inner = _readable(column[field.name], field.dataType)
                column = column.withField(quoted(field.name), inner)
    return column


def _told_apart(field: StructField) -> "Column":
    """A column for folders of its values:
    Spark takes an empty text for null there, and both would be in one file.
    """
    from pyspark.sql import functions as sql

    column = _readable(sql.col(quoted(field.name)), field.dataType)
    return sql.concat(sql.lit("="), column) if isinstance(field.dataType, StringType) else column
