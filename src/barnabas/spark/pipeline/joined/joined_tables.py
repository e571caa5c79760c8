"""The tables that records are joined with: when they are read, and what a batch sees of them.

Theory of operation
-------------------
A join is a look-up: of each record the row of a table with the same key, whose columns are a struct of the
view ``source`` (``airline.name``), before the transformation. The table changes while the pipeline runs, and
a streaming query of Spark would see it as it was when the query began. So each batch is joined and
transformed by itself, as with dead letters, and each begins with a look at every table:

- What is new is told by Delta's version, Iceberg's snapshot, of Parquet by the names, sizes and times of the
  files.
- A table that is new is copied: its columns that are used, without the rows that have null in the key, into
  one Parquet file of the checkpoint. The batch reads that file, however the table changes meanwhile, is
  vacuumed or goes away. The driver carries the rows, so a table in an object store needs no jar; the
  executors read the copy, and Spark broadcasts it when it is small.
- Which copies a batch has is written down before it begins::

      checkpoint/joins/batch.json             {"batch": 17, "copies": ["airline-09f3a81c...parquet"]}
      checkpoint/joins/airline-09f3a81c...parquet

  A batch that is done again, behind a kill or a failure, sees the tables as it saw them first, once a table
  of the sink or of the letters has rows of it: a row whose table is named by a joined column is not in two
  tables. A batch that nothing has rows of sees the tables of today, as a row of theirs may be why it has
  failed. A rewind removes the note, as batches that it takes back are to see the tables of today. Copies that
  the note does not name are removed.

The columns and their types are those that the table has when a run begins, for the same reason as those of a
registry's newest schema: the columns of the rows are fixed then. New columns come with the next run; one that
is missing or has another type ends the query with a line.

Two rows of a key would make two rows of one record. Whether there are is asked of each copy, and refused
unless the file says ``many = true``: it is a fault of the table that nobody sees in the rows.

A table that is away - not there, without a file yet, in a store that does not answer, or rewritten while it
is read - is no fault of the pipeline: `TableAwayError` has the supervisor wait, as it does for a registry.
There is no going on with an older copy: nobody would see that the rows are wrong.

This module knows nothing of Spark's sessions; `joins` makes DataFrames of the copies.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from barnabas.core.config import neighbour
from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError, first_line
from barnabas.spark.pipeline.file.join_settings import Join
from barnabas.spark.pipeline.file.section import unknown
from barnabas.spark.pipeline.tables.notes import damaged, read_note, replace_note
from barnabas.spark.pipeline.tables.places import store_of
from barnabas.spark.pipeline.tables.synchronise import synchronise_up

if TYPE_CHECKING:
    from barnabas.spark.pipeline.tables.catalog_entry import CatalogEntry

AWAY: Final = "[JOINED_TABLE_AWAY]"
_NOTE: Final = "batch.json"
_WHAT: Final = "note of the copies of joined tables"
_READS_MAX: Final = 5
"""How many times a folder is read that changes while it is read."""
_LOG: Final = "_delta_log"
_SHOWN_MAX: Final = 100
"""Signs of a key."""
_DIGITS_MAX: Final = 38
"""Of Spark's decimals."""


class TableAwayError(PipelineError):
    """A table that is joined cannot be read now."""

    def __init__(self, join: Join, reason: str, *, is_missing: bool = False) -> None:
        """`is_missing` where it is known that there is none."""
        self.is_missing = is_missing
        self.reason = f"{join.key}: the table {join.table} cannot be read: {reason}"
        super().__init__(f"{AWAY} {self.reason}")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A table as it was at one moment."""

    version: str
    """Another one for other rows."""
    schema: pa.Schema
    batches: Callable[[Sequence[str], pc.Expression], Iterator[pa.RecordBatch]]
    """Some columns of the rows for which something is true."""


def _of_dataset(version: str, dataset: ds.Dataset) -> _Seen:
    return _Seen(
        version, dataset.schema, lambda columns, rows: dataset.to_batches(columns=columns, filter=rows)
    )


def settled(joins: Sequence[Join]) -> tuple[Join, ...]:
    """The joins with the columns that their tables have now. Raises TableAwayError, and PipelineError for
    columns that are not there.
    """
    return tuple(replace(one, types=_types(one, _reader(one)().schema)) for one in joins)


class Copies:
    """What each batch sees of the tables."""

    def __init__(self, checkpoint: Path, joins: Sequence[Join]) -> None:
        """`joins` are settled ones."""
        self._checkpoint = checkpoint
        self._folder = folder_of(checkpoint)
        self._joins = joins
        self._readers = [_reader(one) for one in joins]

    def of(self, batch: int) -> list[Path]:
        """A file for each join: those that the batch has had already, else of the tables as they are now.
        Raises TableAwayError, and PipelineError for a table that no batch can be joined with.
        """
        note = read_note(self._folder / _NOTE, _WHAT)
        kept = _noted(self._folder / _NOTE, note, batch)
        self._folder.mkdir(parents=True, exist_ok=True)
        found = [self._copy(*one, kept) for one in zip(self._joins, self._readers, strict=True)]
        names = [path.name for path in found]
        if note is None or (note["batch"], note["copies"]) != (batch, names):
            replace_note(self._folder / _NOTE, {"batch": batch, "copies": names})
            synchronise_up(self._folder, self._checkpoint)
        for path in self._folder.iterdir():  # those of earlier batches, and what a kill has left
            if path.name not in {*names, _NOTE}:
                path.unlink(missing_ok=True)
        return found

    def _copy(self, join: Join, read: Callable[[], _Seen], kept: Sequence[str]) -> Path:
        asked = _digest(json.dumps([join.table, join.kind, join.catalog, [*join.on], join.many, _json(join)]))
        for name in kept:
            # A file of the pipeline that was changed meanwhile needs others.
            if name.startswith(f"{join.name}-{asked}-") and (self._folder / name).exists():
                return self._folder / name
        for _ in range(_READS_MAX):
            seen = read()
            path = self._folder / f"{join.name}-{asked}-{_digest(seen.version)}.parquet"
            if path.exists():
                return path
            new = self._folder / f"{uuid.uuid4().hex}.new"
            try:
                if self._is_copied(join, read, seen, new):
                    new.replace(path)
                    return path
            finally:
                new.unlink(missing_ok=True)  # a table that is refused, or waited for, is copied many times
        raise TableAwayError(join, f"it has changed each of {_READS_MAX} times while it was read")

    @staticmethod
    def _is_copied(join: Join, read: Callable[[], _Seen], seen: _Seen, new: Path) -> bool:
        """Whether the table stood still while it was copied."""
        try:
            _write(join, seen, new)
            failure = None
        except (pa.ArrowException, OSError) as error:
            failure = error
        if read().version != seen.version:
            return False
        if isinstance(failure, OSError):
            raise TableAwayError(join, first_line(failure)) from failure
        if failure is not None:
            raise PipelineError(f"{join.key}: {join.table}: {first_line(failure)}") from failure
        if not join.many:
            _require_one(join, new)
        synchronise(new)
        return True


def folder_of(checkpoint: Path) -> Path:
    """Where the copies of a pipeline are."""
    return checkpoint / "joins"


def noted_batch(checkpoint: Path) -> int | None:
    """The last batch that has copies. Raises PipelineError for a note that is damaged."""
    path = folder_of(checkpoint) / _NOTE
    note = read_note(path, _WHAT)
    _noted(path, note, 0)
    return None if note is None else int(note["batch"])


def forget_batch(checkpoint: Path) -> None:
    """Has the next batch see the tables as they are then, also if it was done before."""
    (folder_of(checkpoint) / _NOTE).unlink(missing_ok=True)


def _noted(path: Path, note: dict[str, Any] | None, batch: int) -> list[str]:
    """The copies that the batch has had. Raises PipelineError for a note that is damaged."""
    if note is None:
        return []
    copies = note.get("copies")
    if type(note.get("batch")) is not int or not isinstance(copies, list):
        raise damaged(path, _WHAT, ValueError("it has no batch or no copies"))
    return [str(name) for name in copies] if note["batch"] == batch else []


def _json(join: Join) -> str:
    assert join.types is not None
    return str(join.types.json())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write(join: Join, seen: _Seen, path: Path) -> None:
    """Copies the rows that have a key."""
    assert join.types is not None
    used = replace(join, columns=tuple(join.types.names))  # of a table that has more by now
    if (found := _types(used, seen.schema)) != join.types:
        raise PipelineError(
            f"{join.key}: {join.table} has other types than when the run began ({found.simpleString()} now, "
            f"{join.types.simpleString()} then): start the pipeline again"
        )
    has_key = pc.scalar(True)
    for name in join.on:
        has_key = has_key & pc.field(name).is_valid()
    schema = to_arrow_schema(join.types, timezone="UTC")
    with pq.ParquetWriter(path, schema) as writer:
        for batch in seen.batches(schema.names, has_key):
            # Unsafe only for nanoseconds, which Spark does not have.
            writer.write_table(pa.Table.from_batches([batch]).cast(schema, safe=False))


def _require_one(join: Join, path: Path) -> None:
    """Raises PipelineError where two rows have one key."""
    counts = pq.read_table(path, columns=list(join.on)).group_by(list(join.on)).aggregate([([], "count_all")])
    several = counts.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist()
    for one in several:
        count = one.pop("count_all")
        key = ", ".join(f"{name} = {value!r:.{_SHOWN_MAX}}" for name, value in one.items())
        raise PipelineError(
            f"{join.key}: {join.table} has {count:,} rows with {key}: a record would become as many. Make "
            "them one, or say many = true"
        )


def _types(join: Join, schema: pa.Schema) -> spark.StructType:
    """The columns that are used, as Spark's types, all of them nullable. Raises PipelineError."""
    for key, names in (("on", tuple(join.on)), ("columns", join.columns)):
        for name in names:
            if name not in schema.names:
                raise PipelineError(
                    f"{join.key}.{key}: column {name} of {join.table} {unknown(name, schema.names)}"
                )
    wanted = join.columns or tuple(schema.names)
    fields = []
    used: dict[str, str] = {}
    for name in dict.fromkeys([*wanted, *join.on]):
        other = used.setdefault(name.lower(), name)
        if other != name:
            raise PipelineError(
                f"{join.key}: {join.table} has the columns {other} and {name}, which Spark takes for one: "
                f"name those that are needed in {join.key}.columns"
            )
        try:
            field = from_arrow_schema(pa.schema([schema.field(name)]), prefer_timestamp_ntz=True).fields[0]
        except PySparkException:
            raise _untyped(join, name, str(schema.field(name).type)) from None
        if _is_odd(field.dataType):
            raise _untyped(join, name, str(schema.field(name).type))
        fields.append(spark.StructField(name, field.dataType))
    return spark.StructType(fields).toNullable()


def _is_odd(kind: spark.DataType) -> bool:
    """Whether no file of Spark has such a type, or one inside it."""
    if isinstance(kind, spark.StructType):
        return any(_is_odd(field.dataType) for field in kind)
    if isinstance(kind, spark.ArrayType):
        return _is_odd(kind.elementType)
    if isinstance(kind, spark.MapType):
        return _is_odd(kind.keyType) or _is_odd(kind.valueType)
    if isinstance(kind, spark.DecimalType):
        return bool(kind.precision > _DIGITS_MAX)
    return kind.typeName() in {"void", "time"}  # the second one is refused by most of Spark 4.1


def _untyped(join: Join, name: str, kind: str) -> PipelineError:
    return PipelineError(
        f"{join.key}: column {name} of {join.table} is {kind}, which Spark does not have: leave it out by "
        f"{join.key}.columns"
    )


def _reader(join: Join) -> Callable[[], _Seen]:
    """What looks at the table, as often as it is called."""
    if join.kind == "parquet":
        return lambda: _parquet(join)
    try:
        if join.kind == "iceberg":
            from barnabas.spark.pipeline.tables.catalog_entry import CatalogEntry

            entry = CatalogEntry(join.table, join.catalog, "s3://")  # where it is, is known by the catalog
            return lambda: _iceberg(join, entry)
        import deltalake  # noqa: F401
    except ImportError as error:
        raise PipelineError(
            f"{join.key}.kind: {join.kind} needs packages that are not here ({error.name}): pip install "
            "'barnabas[lake]'"
        ) from error
    return lambda: _delta(join)


def _delta(join: Join) -> _Seen:
    """The newest version. The table is opened each time: one that is kept would not see that another one was
    made in its place.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    from barnabas.spark.pipeline.tables.delta import reason_of

    try:
        table = DeltaTable(join.table)
        about = table.metadata()
        # Of a table whose protocol has no list of features delta-rs does not look for it, and reads nulls.
        if about.configuration.get("delta.columnMapping.mode", "none") != "none":
            raise PipelineError(f"{join.key}: {join.table} has column mapping, which delta-rs does not read")
        return _of_dataset(f"{about.id} {table.version()}", table.to_pyarrow_dataset())
    except TableNotFoundError:
        raise TableAwayError(
            join, f"there is no Delta table{_hint(join)}", is_missing=_is_missing(join)
        ) from None
    except OSError as error:
        raise TableAwayError(join, reason_of(error)) from error
    except DeltaError as error:  # a log that is damaged, or has what delta-rs does not read
        raise PipelineError(f"{join.key}: {join.table}: {reason_of(error)}") from error


def _iceberg(join: Join, entry: "CatalogEntry") -> _Seen:
    """The newest snapshot. A log-in that is refused is a fault of the file; else a catalog that does not
    answer is away.
    """
    from pyiceberg.exceptions import ForbiddenError, RESTError, UnauthorizedError
    from sqlalchemy.exc import OperationalError

    from barnabas.spark.pipeline.tables.catalog_entry import reason_of

    try:
        table = entry.table()
    except Exception as error:  # each catalog has those of its own client
        away = (OSError, RESTError, OperationalError)
        if isinstance(error, away) and not isinstance(error, (ForbiddenError, UnauthorizedError)):
            raise TableAwayError(join, reason_of(error)) from error
        raise PipelineError(f"{join.key}.catalog: {reason_of(error)}") from None
    if table is None:
        raise TableAwayError(join, f"its catalog has no such table{_hint_of(entry)}", is_missing=True)
    snapshot = table.current_snapshot()
    number = None if snapshot is None else snapshot.snapshot_id

    def batches(columns: Sequence[str], rows: pc.Expression) -> Iterator[pa.RecordBatch]:
        try:
            for batch in table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader():
                yield from pa.Table.from_batches([batch]).select(columns).filter(rows).to_batches()
        except (pa.ArrowException, OSError):
            raise
        except Exception as error:  # what PyIceberg does not read, such as deletes by equality
            raise PipelineError(f"{join.key}: {join.table}: {reason_of(error)}") from error

    version = f"{table.metadata.table_uuid} {number} {table.schema().schema_id}"
    return _Seen(version, table.schema().as_arrow(), batches)


def _hint_of(entry: "CatalogEntry") -> str:
    """What else the file may have meant, of a name that the catalog does not have."""
    try:
        meant = neighbour(entry.name, entry.beside())
    except Exception:  # it has not even the namespace
        return ""
    return f"; did you mean {meant}?" if meant is not None else ""


def _parquet(join: Join) -> _Seen:
    try:
        if "://" in join.table:
            store, base = store_of(join.table)
        else:  # a link that is turned to another folder is another table, also while it is read
            store, base = fs.LocalFileSystem(), os.path.realpath(join.table)
        if store.get_file_info(f"{base.rstrip('/')}/{_LOG}").type == fs.FileType.Directory:
            # Its folder has the files of earlier versions too.
            raise PipelineError(f'{join.key}.kind: {join.table} is a Delta table: it must be "delta"')
        files = sorted(_files(store, base), key=lambda one: one.path)
        if not files:
            raise TableAwayError(join, f"it has no files{_hint(join)}", is_missing=_is_missing(join))
        version = json.dumps([[one.path, one.size, one.mtime_ns] for one in files])
        partitions = ds.HivePartitioning.discover()
        options = ds.FileSystemFactoryOptions(partition_base_dir=base, partitioning=partitions)
        paths = [one.path for one in files]
        factory = ds.FileSystemDatasetFactory(store, paths, ds.ParquetFileFormat(), options)
        return _of_dataset(version, factory.finish(factory.inspect()))
    except OSError as error:
        raise TableAwayError(join, first_line(error)) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the second one of a file's name
        raise PipelineError(f"{join.key}: {join.table}: {first_line(error)}") from error


def _files(store: fs.FileSystem, base: str) -> Iterator[fs.FileInfo]:
    """The file itself, or those of the folder, without what begins with a dot or a low line."""
    (top,) = store.get_file_info([base])
    if top.type == fs.FileType.File:
        yield top
        return
    for one in store.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True)):
        parts = one.path.removeprefix(base).strip("/").split("/")
        if one.type == fs.FileType.File and not any(part.startswith(("_", ".")) for part in parts):
            yield one


def is_new(away: TableAwayError, join: Join, checkpoint: Path) -> bool:
    """Whether there is no table, and no batch has been joined with it."""
    return away.is_missing and not any(folder_of(checkpoint).glob(f"{join.name}-*.parquet"))


def _is_missing(join: Join) -> bool:
    """Whether nothing is where the table of this machine should be."""
    return "://" not in join.table and not Path(join.table).exists()


def _hint(join: Join) -> str:
    """What else the file may have meant, of a table of this machine that is not there."""
    path = Path(join.table)
    if "://" in join.table:
        return ""
    if path.is_dir():
        return ', and there are Parquet files: is its kind "parquet"?' if any(path.glob("*.parquet")) else ""
    beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    meant = neighbour(path.name, [name for name in beside if name != path.name])
    return f"; did you mean {path.parent / meant}?" if meant is not None else ""
