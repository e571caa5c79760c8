"""An Iceberg table, by PyIceberg: each batch is one snapshot, committed together with its id as a property of
the table.

The files that Spark has written are named to the table (``add_files``); no row passes through the driver.
PyIceberg takes the values of partition columns from the files, so they hold those columns too.
"""

import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import DataScan
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from barnabas.spark.errors import PipelineError, first_line
from barnabas.spark.pipeline.tables.compaction import groups, merge
from barnabas.spark.pipeline.tables.evolution import Growth
from barnabas.spark.pipeline.tables.logged import Held, LoggedTable, shape
from barnabas.spark.pipeline.tables.rewriting import Keys
from barnabas.spark.pipeline.tables.synchronise import synchronise, synchronise_up
from barnabas.spark.pipeline.tables.table import Compacted, State, Step

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
_PASSWORD: Final = re.compile(r"(://[^:/@\s]*):\S*@")
"""Of a catalog's address, which PyIceberg and the clients of its catalogs put into their errors."""


class IcebergFolder(LoggedTable):
    """The table, whose location is a folder; its catalog may be anywhere."""

    keeps_partition_columns: ClassVar = True
    types: ClassVar = frozenset({*_TYPES, "decimal"})
    growth: ClassVar = Growth(fields_in_structs=True, fields_in_maps=True, wider_types=True)

    def __init__(self, folder: Path, table: str, catalog: Mapping[str, str]) -> None:
        super().__init__(folder, files=folder / "data")
        self._name = table
        self._properties = dict(catalog)
        self._catalog_name = self._properties.pop("name", "default")
        self._catalog: Catalog | None = None
        self._looked_up: IcebergTable | None = None
        """The table as it was when files were looked up in it."""

    def state(self, query: str | None) -> State | None:
        """What the table's newest metadata say."""
        table = self._newest()
        if table is None:
            return None
        place = table.location().removeprefix(_FILE)
        if place != str(self.folder):
            raise PipelineError(f"sink.path is {self.folder}, but the table {self._name} is in {place}")
        batch = int(table.properties[_BATCH]) if query and table.properties.get(_QUERY) == query else None
        return State(batch, _spark(table.schema().as_struct()), [field.name for field in table.spec().fields])

    def sizes(self) -> list[int]:
        """By what the newest metadata say."""
        table = self._newest()
        assert table is not None
        return [task.file.file_size_in_bytes for task in table.scan().plan_files()]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of the table, none where there is no table."""
        table = self._newest()
        if table is not None:
            yield from table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader()

    def _connected(self) -> Catalog:
        if self._catalog is None:
            self._catalog = load_catalog(self._catalog_name, **self._properties)
        return self._catalog

    def _newest(self) -> IcebergTable | None:
        kind, _, file = self._properties.get("uri", "").partition("sqlite:///")
        if not kind and file and Path(file).parent.is_dir() and not Path(file).exists():
            return None  # to look into it would make it
        with _in_one_line("sink.catalog"):
            try:
                return self._connected().load_table(self._name)
            except NoSuchTableError:
                return None

    def _prepare(self, query: str, schema: dict[str, Any], layout: Sequence[str]) -> None:
        table, columns = self._newest(), pa.schema(_arrow(schema))
        if table is not None:
            if shape(_spark(table.schema().as_struct())) != shape(schema):
                with table.update_schema() as update:
                    update.union_by_name(columns)
            return
        catalog = self._connected()
        catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        # The properties say whose table it is from its first version on.
        properties = {**_TIDY, _QUERY: query, _BATCH: "-1"}
        creation = catalog.create_table_transaction(
            self._name, columns, location=f"{_FILE}{self.folder}", properties=properties
        )
        with creation, creation.update_spec() as partitions:
            for name in layout:
                partitions.add_identity(name)

    def _commit(self, query: str, batch: int, files: Sequence[Path], removed: Sequence[Held]) -> None:
        # The state that the files were looked up in: a later commit of others has the catalog refuse this.
        table = self._looked_up if removed else self._newest()
        assert table is not None
        identity = {_QUERY: query, _BATCH: str(batch)}
        names = [f"{_FILE}{file}" for file in files]
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
            yield Held(_path(file), (), {}, file)

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
        return done

    def _data_files(self, scan: DataScan) -> list[DataFile]:
        tasks = list(scan.plan_files())
        if any(task.delete_files for task in tasks):
            raise PipelineError(
                f"{self._name} has files of deletes, which others wrote: compact it with rewrite_data_files "
                "of Spark"
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
            merge([_path(file) for file in group], path)
            paths.append(f"{_FILE}{path}")
            done += len(group)
            step(done, merging)
        synchronise_up(folder, self.folder)
        return list(parquet_files_to_data_files(table.io, table.metadata, iter(paths)))

    def _remove_leftovers(self, table: IcebergTable) -> None:
        """Merged files that no snapshot has, of a compaction that was killed before its commit."""
        left = list(self._files.glob(f"{_COMPACTED}*"))
        if left:
            files = table.inspect.all_data_files()["file_path"].to_pylist()
            known = {Path(file).parent.name for file in files}
            for folder in left:
                if folder.name not in known:
                    shutil.rmtree(folder)

    def _take_place(self, table: IcebergTable, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        with (
            _in_one_line(f"{self._name} was not compacted"),
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
        snapshot = table.current_snapshot()
        assert snapshot is not None
        new = [one for one in snapshot.manifests(table.io) if one.added_snapshot_id == snapshot.snapshot_id]
        for path in (table.metadata_location, snapshot.manifest_list, *(one.manifest_path for one in new)):
            synchronise(Path(path.removeprefix(_FILE)))
        synchronise_up(self.folder / "metadata", self.folder)


@contextmanager
def _in_one_line(words: str) -> Iterator[None]:
    """Has a catalog's errors in one line and without a password; each catalog has those of its own client."""
    try:
        yield
    except Exception as error:
        reason = _PASSWORD.sub(r"\1:***@", first_line(error))
        raise PipelineError(f"{words}: {type(error).__name__}: {reason}") from None


def _range(name: str, values: Sequence[Any]) -> tuple[BooleanExpression, ...]:
    """Which rows may have one of the values in a column, for leaving files out."""
    if len(values) <= _VALUES_MAX:
        return (In(name, values),)
    return GreaterThanOrEqual(name, values[0]), LessThanOrEqual(name, values[-1])


def _planned(table: IcebergTable, files: Sequence[DataFile], target_bytes: int) -> list[list[DataFile]]:
    """What can be merged: files that the pipeline has written, of one partition and of the table's layout."""
    ours = re.compile(rf".*/data/(batch-|{_COMPACTED})[^/]*/.*")
    partitions: dict[tuple[object, ...], list[DataFile]] = {}
    for file in sorted(files, key=lambda file: file.file_path):
        if file.spec_id == table.spec().spec_id and ours.fullmatch(file.file_path):
            partitions.setdefault(_values(file), []).append(file)
    by_path = {_path(file): file for file in files}
    return [
        [by_path[path] for path in group]
        for same in partitions.values()
        for group in groups(((_path(file), file.file_size_in_bytes) for file in same), target_bytes)
    ]


def _values(file: DataFile) -> tuple[object, ...]:
    """Those of the partition columns."""
    return tuple(file.partition[at] for at in range(len(file.partition)))


def _path(file: DataFile) -> Path:
    return Path(file.file_path.removeprefix(_FILE))


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
