"""An Iceberg table, by PyIceberg: each batch is one snapshot, committed together with its id as a property of
the table.

The files that Spark has written are named to the table (``add_files``); no row passes through the driver.
PyIceberg takes the values of partition columns from the files, so they hold those columns too.
"""

import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.io.pyarrow import PyArrowFileIO, parquet_files_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import DataScan
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError, TransientError
from barnabas.spark.pipeline.tables.catalog_entry import CatalogEntry, reason_of
from barnabas.spark.pipeline.tables.compaction import groups, merge
from barnabas.spark.pipeline.tables.evolution import Growth
from barnabas.spark.pipeline.tables.logged import Held, LoggedTable, shape
from barnabas.spark.pipeline.tables.places import Objects
from barnabas.spark.pipeline.tables.rewriting import Keys
from barnabas.spark.pipeline.tables.synchronise import synchronise_up
from barnabas.spark.pipeline.tables.table import Compacted, RewindRefusedError, State, Step

_QUERY: Final = "barnabas.query"
_BATCH: Final = "barnabas.batch"
_TIDY: Final = {"write.metadata.delete-after-commit.enabled": "true", "commit.manifest-merge.enabled": "true"}
"""Each commit writes the metadata as a new file and its files as a new manifest;
a long stream must not keep them all.
"""
_TYPES: Final = {
    "boolean": pa.bool_(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(), "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
"""Spark's types that Iceberg has too; PyIceberg takes columns as Arrow's."""
_SPARKS: Final = {"int": "integer", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
"""Spark's names where Iceberg's are others."""
_FILE: Final = "file://"
_COMPACTED: Final = "compacted-"
"""How folders of merged files begin."""
_VALUES_MAX: Final = 200
"""With more values PyIceberg compares no file's bounds with each of them."""


class IcebergFolder(LoggedTable):
    """The table, whose location is a folder or an address; its catalog may be anywhere."""

    keeps_partition_columns: ClassVar = True
    types: ClassVar = frozenset({*_TYPES, "decimal"})
    growth: ClassVar = Growth(fields_in_structs=True, fields_in_maps=True, wider_types=True)

    def __init__(self, folder: Path, table: str, catalog: Mapping[str, str], address: str = "") -> None:
        super().__init__(folder, "data", address)
        self._location = self.address or f"{_FILE}{folder}"
        self._entry = CatalogEntry(table, catalog, self.address)
        self._looked_up: IcebergTable | None = None
        """The table as it was when files were looked up in it."""

    def state(self, query: str | None) -> State | None:
        """What the table's newest metadata say."""
        table = self._newest()
        if table is None:
            return None
        place = table.location().rstrip("/")
        if place != self._location:
            place = place.removeprefix(_FILE)
            raise PipelineError(f"sink.path is {self.where}, but the table {self._entry.name} is in {place}")
        batch = int(table.properties[_BATCH]) if query and table.properties.get(_QUERY) == query else None
        return State(batch, _spark(table.schema().as_struct()), [field.name for field in table.spec().fields])

    def sizes(self) -> list[int]:
        """By what the newest metadata say."""
        table = self._newest()
        assert table is not None
        return [task.file.file_size_in_bytes for task in table.scan().plan_files()]

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """By PyIceberg."""
        table = self._newest()
        if table is not None:
            yield from table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader()

    def _newest(self) -> IcebergTable | None:
        with _in_one_line("sink.catalog"):
            return self._entry.table()

    def _prepare(self, query: str, schema: dict[str, Any], layout: Sequence[str]) -> None:
        with _in_one_line("sink.catalog"):
            self._grow(query, pa.schema(_arrow(schema)), schema, layout)

    def _grow(self, query: str, columns: pa.Schema, schema: dict[str, Any], layout: Sequence[str]) -> None:
        table = self._newest()
        if table is not None:
            if shape(_spark(table.schema().as_struct())) != shape(schema):
                with table.update_schema() as update:
                    update.union_by_name(columns)
            return
        catalog = self._entry.catalog()
        catalog.create_namespace_if_not_exists(self._entry.name.rpartition(".")[0])
        # The properties say whose table it is from its first version on.
        properties = {**_TIDY, _QUERY: query, _BATCH: "-1"}
        creation = catalog.create_table_transaction(
            self._entry.name, columns, location=self._location, properties=properties
        )
        with creation, creation.update_spec() as partitions:
            for name in layout:
                partitions.add_identity(name)

    def _commit(self, query: str, batch: int, files: Sequence[Path], removed: Sequence[Held]) -> None:
        # The state that the files were looked up in: a later commit of others has the catalog refuse this.
        table = self._looked_up if removed else self._newest()
        assert table is not None
        identity = {_QUERY: query, _BATCH: str(batch)}
        names = [self._uri(file) for file in files]
        with _in_one_line("sink.catalog"), table.transaction() as change:
            if removed:
                new = list(parquet_files_to_data_files(table.io, table.metadata, iter(names)))
                with change.update_snapshot(identity).overwrite() as snapshot:
                    for held in removed:
                        snapshot.delete_data_file(held.entry)
                    for file in new:
                        snapshot.append_data_file(file)
            else:
                # Nothing refers to the files yet: their folder has a name of its own.
                change.add_files(names, identity, check_duplicate_files=False)
            change.set_properties(identity)
        self._synchronise(table)

    def _holding(self, keys: Keys) -> Iterator[Held]:
        table = self._looked_up = self._newest()
        assert table is not None
        if keys.truncated is not None:
            scan = table.scan()
        else:
            bounds = [each for name in keys.names for each in _range(name, keys.values(name))]
            scan = table.scan(And(AlwaysTrue(), *bounds))
        for file in self._data_files(scan):
            name = self._in_table(file)
            with self._place.readable(name, self._ours) as path:
                yield Held(name, path, (), {}, file)

    def _uri(self, file: Path) -> str:
        """Where the log finds a file that was written below `folder`."""
        return f"{self._location}/{self._name_of(file)}"

    def _in_table(self, file: DataFile) -> str:
        """The path of a file in the table. Raises PipelineError for one that others have elsewhere."""
        if not file.file_path.startswith(f"{self._location}/"):
            raise PipelineError(f"{file.file_path} was written by others, to no folder of {self.where}")
        return str(file.file_path).removeprefix(f"{self._location}/")

    def _store(self) -> Objects:
        """With what the catalog says of it, such as credentials."""

        def connect(address: str) -> tuple[fs.FileSystem, str]:
            io, at = PyArrowFileIO(dict(self._entry.catalog().properties)), urlsplit(address)
            return io.fs_by_scheme(at.scheme, at.netloc), f"{at.netloc}{at.path}"

        return Objects(self.address, connect)

    def require_rewind(self, query: str, batch: int) -> None:
        """There is a snapshot of the batch, behind which others have written nothing."""
        table = self._newest()
        assert table is not None
        self._now_and_then(table, query, batch)

    def _now_and_then(
        self, table: IcebergTable, query: str, batch: int
    ) -> tuple[dict[str, DataFile], dict[str, DataFile]]:
        """The files that the table has, and those that it had behind a batch."""
        older = self._snapshot_behind(table, query, batch)
        try:
            now = {file.file_path: file for file in self._data_files(table.scan())}
            then = (
                {}
                if older is None
                else {file.file_path: file for file in self._data_files(table.scan(snapshot_id=older))}
            )
        except PipelineError as error:  # others have files of deletes
            raise RewindRefusedError(str(error)) from None
        ours = _ours()
        for path in now.keys() - then.keys():
            if not ours.fullmatch(path):
                raise RewindRefusedError(f"{path} was written by others, and would be taken back too")
        return now, then

    def rewind(self, query: str, batch: int) -> None:
        """One snapshot more, which has the files of an older one; the batch's id is set with it."""
        assert self._lock is not None
        table = self._newest()
        assert table is not None
        now, then = self._now_and_then(table, query, batch)
        identity = {_QUERY: query, _BATCH: str(batch)}
        with _in_one_line(f"{self._entry.name} was not taken back"), table.transaction() as change:
            with change.update_snapshot(identity).overwrite() as snapshot:
                for path in sorted(now.keys() - then.keys()):
                    snapshot.delete_data_file(now[path])
                for path in sorted(then.keys() - now.keys()):
                    snapshot.append_data_file(then[path])
            change.set_properties(identity)
        self._synchronise(table)

    def _snapshot_behind(self, table: IcebergTable, query: str, batch: int) -> int | None:
        """The newest snapshot in which the query had come to a batch or less far, None where the table had no
        rows then. Raises PipelineError where it has been forgotten.
        """
        snapshot = table.current_snapshot()
        while snapshot is not None:
            summary = snapshot.summary
            said = summary.additional_properties if summary is not None else {}
            if said.get(_QUERY) == query and int(said[_BATCH]) <= batch:
                return int(snapshot.snapshot_id)
            if _QUERY not in said and summary is not None and summary.operation is Operation.DELETE:
                raise RewindRefusedError(
                    f"{self._entry.name}: snapshot {snapshot.snapshot_id} has rows deleted by others, which "
                    "would come back"
                )
            parent = snapshot.parent_snapshot_id
            snapshot = table.snapshot_by_id(parent) if parent is not None else None
            if parent is not None and snapshot is None:
                raise RewindRefusedError(f"{self._entry.name} has forgotten the snapshot of batch {batch}")
        return None

    def compact(self, target_bytes: int, step: Step, *, dry_run: bool = False) -> Compacted:
        """One snapshot that adds the merged files and removes their sources;
        the batch's id is the table's property.
        """
        assert self._lock is not None
        table = self._newest()
        assert table is not None
        old = self._data_files(table.scan())
        planned = _planned(table, old, target_bytes)
        merging = sum(map(len, planned))
        size = sum(file.file_size_in_bytes for file in old)
        done = Compacted(
            files_before=len(old),
            files_after=len(old) - merging + len(planned),
            bytes_before=size,
            bytes_after=None if dry_run else size,
            folders=len({_values(group[0]) for group in planned}),
        )
        step(0, merging)
        if planned and not dry_run:
            merged = self._merged(table, planned, step)
            self._take_place(table, [file for group in planned for file in group], merged)
            done.bytes_after = sum(file.file_size_in_bytes for file in self._data_files(table.scan()))
            if self._objects is not None:  # the merged files are in the store
                for folder in self._files.glob(f"{_COMPACTED}*"):
                    shutil.rmtree(folder)
        return done

    def _data_files(self, scan: DataScan) -> list[DataFile]:
        tasks = list(scan.plan_files())
        if any(task.delete_files for task in tasks):
            raise PipelineError(
                f"{self._entry.name} has files of deletes, which others wrote: compact it with "
                "rewrite_data_files of Spark"
            )
        return [task.file for task in tasks]

    def _merged(
        self, table: IcebergTable, planned: Sequence[Sequence[DataFile]], step: Step
    ) -> list[DataFile]:
        """Writes a file for each group, to a folder that nothing refers to yet."""
        self._remove_leftovers(table)
        folder = self._files / f"{_COMPACTED}{uuid.uuid4().hex}"
        folder.mkdir()
        done, merging, paths = 0, sum(map(len, planned)), []
        for number, group in enumerate(planned):
            path = folder / f"{number:05d}.parquet"
            with ExitStack() as held:
                names = map(self._in_table, group)
                merge([held.enter_context(self._place.readable(name, self._ours)) for name in names], path)
            paths.append(path)
            done += len(group)
            step(done, merging)
        self._publish(paths)
        return list(parquet_files_to_data_files(table.io, table.metadata, map(self._uri, paths)))

    def _remove_leftovers(self, table: IcebergTable) -> None:
        """Merged files that no snapshot has, of a compaction that was killed before its commit."""
        left = list(self._files.glob(f"{_COMPACTED}*"))
        if left:
            files = table.inspect.all_data_files()["file_path"].to_pylist()
            known = {Path(file).parent.name for file in files}
            for folder in left:
                if folder.name in known and self._objects is None:
                    continue
                if folder.name not in known and self._objects is not None:
                    self._objects.remove(map(self._name_of, folder.glob("*.parquet")))
                shutil.rmtree(folder)

    def _take_place(self, table: IcebergTable, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        with (
            _in_one_line(f"{self._entry.name} was not compacted"),
            table.transaction() as change,
            change.update_snapshot().overwrite() as snapshot,
        ):
            for file in old:
                snapshot.delete_data_file(file)
            for file in new:
                snapshot.append_data_file(file)
        self._synchronise(table)

    def _synchronise(self, table: IcebergTable) -> None:
        """Spark commits the batch next:
        by then the metadata must be on the disk, which PyIceberg leaves to the system.
        """
        if self._objects is not None:
            return  # a store has what it has answered for
        snapshot = table.current_snapshot()
        assert snapshot is not None
        new = [one for one in snapshot.manifests(table.io) if one.added_snapshot_id == snapshot.snapshot_id]
        for path in (table.metadata_location, snapshot.manifest_list, *(one.manifest_path for one in new)):
            synchronise(Path(path.removeprefix(_FILE)))
        synchronise_up(self.folder / "metadata", self.folder)


@contextmanager
def _in_one_line(words: str) -> Iterator[None]:
    """Has a catalog's errors in one line."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        raise TransientError(f"{words}: {reason_of(error)}") from None


def _range(name: str, values: Sequence[Any]) -> tuple[BooleanExpression, ...]:
    """Which rows may have one of the values in a column, for leaving files out."""
    if len(values) <= _VALUES_MAX:
        return (In(name, values),)
    return GreaterThanOrEqual(name, values[0]), LessThanOrEqual(name, values[-1])


def _ours() -> re.Pattern[str]:
    """The names of files that a pipeline has written."""
    return re.compile(rf".*/data/(batch-|{_COMPACTED})[^/]*/.*")


def _planned(table: IcebergTable, files: Sequence[DataFile], target_bytes: int) -> list[list[DataFile]]:
    """What can be merged: files that the pipeline has written, of one partition and of the table's layout."""
    ours = _ours()
    partitions: dict[tuple[object, ...], list[DataFile]] = {}
    for file in sorted(files, key=lambda file: file.file_path):
        if file.spec_id == table.spec().spec_id and ours.fullmatch(file.file_path):
            partitions.setdefault(_values(file), []).append(file)
    by_path = {Path(file.file_path): file for file in files}
    return [
        [by_path[path] for path in group]
        for same in partitions.values()
        for group in groups(((Path(file.file_path), file.file_size_in_bytes) for file in same), target_bytes)
    ]


def _values(file: DataFile) -> tuple[object, ...]:
    """Those of the partition columns."""
    return tuple(file.partition[at] for at in range(len(file.partition)))


def _arrow(kind: Any) -> Any:
    """A type of Spark's JSON as Arrow's."""
    if isinstance(kind, str):
        decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _TYPES[kind]
    if kind["type"] == "array":
        return pa.list_(_arrow(kind["elementType"]))
    if kind["type"] == "map":
        return pa.map_(_arrow(kind["keyType"]), _arrow(kind["valueType"]))
    return pa.struct([(field["name"], _arrow(field["type"])) for field in kind["fields"]])


def _spark(kind: IcebergType) -> Any:
    """A type of Iceberg's as Spark's JSON has it."""
    if isinstance(kind, StructType):
        fields = [
            {"name": field.name, "type": _spark(field.field_type), "nullable": True, "metadata": {}}
            for field in kind.fields
        ]
        return {"type": "struct", "fields": fields}
    if isinstance(kind, ListType):
        return {"type": "array", "elementType": _spark(kind.element_type), "containsNull": True}
    if isinstance(kind, MapType):
        keys, values = _spark(kind.key_type), _spark(kind.value_type)
        return {"type": "map", "keyType": keys, "valueType": values, "valueContainsNull": True}
    name = str(kind).replace(" ", "")
    return _SPARKS.get(name, name)
