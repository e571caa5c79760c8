"""A Delta table, by delta-rs: each batch is one version, whose transaction identifier (``txn``) is the
batch's id.

The files that Spark has written are named to the log (`AddAction`); no row passes through the driver.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError, TransientError, first_line
from barnabas.spark.pipeline.tables.compaction import groups
from barnabas.spark.pipeline.tables.evolution import Growth
from barnabas.spark.pipeline.tables.logged import Held, LoggedTable, folder_values, shape
from barnabas.spark.pipeline.tables.rewriting import Keys
from barnabas.spark.pipeline.tables.stats import statistics
from barnabas.spark.pipeline.tables.synchronise import synchronise_files, synchronise_up
from barnabas.spark.pipeline.tables.table import Compacted, RewindRefusedError, State, Step

_ERRORS: Final = (DeltaError, OSError)
"""What delta-rs raises, the second one of object stores."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_ANSWER: Final = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
"""Of S3, in XML."""
_CAUSE_MAX: Final = 300
_ARRANGING: Final = frozenset({
    "OPTIMIZE", "VACUUM START", "VACUUM END", "ADD COLUMN", "ADD COLUMNS", "CHANGE COLUMN", "ADD FEATURE",
    "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "UPDATE FIELD METADATA", "UPDATE TABLE METADATA",
    "UPGRADE PROTOCOL", "ADD CONSTRAINT", "DROP CONSTRAINT", "CREATE TABLE",
})  # fmt: skip
"""Operations that leave the rows as they are. Many do not, such as STREAMING UPDATE of Spark's streams."""
_MEMORY_BYTES: Final = 256 << 20
"""What delta-rs may hold of the rows that it merges before it goes to the disk."""


class DeltaFolder(LoggedTable):
    """The table in a folder, or at an address."""

    types: ClassVar = frozenset({
        "boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string", "binary",
        "date", "timestamp",
        "timestamp_ntz",
    })  # fmt: skip
    # delta-rs has no typeWidening, and cannot compact files whose maps differ in their structs.
    growth: ClassVar = Growth(fields_in_structs=True)

    def __init__(self, folder: Path, address: str = "") -> None:
        super().__init__(folder, address=address)
        self._table: DeltaTable | None = None

    def state(self, query: str | None) -> State | None:
        """What the log's last version says."""
        table = self._newest()
        if table is None:
            return None
        batch = None if query is None else table.transaction_version(query)
        return State(batch, _columns(table), table.metadata().partition_columns)

    def sizes(self) -> list[int]:
        """By what the log says."""
        table = self._newest()
        assert table is not None
        return list(self._sizes(table).values())

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """By pyarrow, of the log's newest version."""
        table = self._newest()
        if table is not None:
            yield from table.to_pyarrow_dataset().to_batches(columns=list(columns))

    def _newest(self) -> DeltaTable | None:
        try:
            if self._table is not None:
                self._table.update_incremental()
            elif DeltaTable.is_deltatable(self.where):
                self._table = DeltaTable(self.where)
        except _ERRORS as error:
            raise TransientError(f"{self.where}: its log cannot be read: {reason_of(error)}") from error
        return self._table

    def _prepare(self, query: str, schema: dict[str, Any], layout: Sequence[str]) -> None:
        table, before = self._newest(), -1
        if table is None:
            # The identifier says whose table it is from its first version on.
            DeltaTable.create(
                self.where,
                _schema(schema["fields"]),
                partition_by=list(layout),
                commit_properties=_identified(query, -1),
            )
        else:
            before = table.version()
            have = {field["name"]: shape(field["type"]) for field in _columns(table)["fields"]}
            grown = [field for field in schema["fields"] if have.get(field["name"]) != shape(field["type"])]
            if not grown:
                return
            # Of a struct that is there delta-rs adds the fields that are not.
            table.alter.add_columns(_schema(grown).fields)
        self._synchronise_behind(before)

    def _commit(self, query: str, batch: int, files: Sequence[Path], removed: Sequence[Held]) -> None:
        # The version that the files were looked up in, and no try behind another one: delta-rs does not take
        # it for a conflict that a compaction of others has removed the same files.
        table = self._table if removed else self._newest()
        assert table is not None
        before, now_ms = table.version(), time.time_ns() // 1_000_000
        gone = [
            RemoveAction(
                path=held.name,
                data_change=True,
                deletion_timestamp=now_ms,
                size=held.entry["size_bytes"],
                partition_values=folder_values(Path(held.name)),
            )
            for held in removed
        ]
        try:
            table.create_write_transaction(
                [*map(self._action, files), *gone],
                "append",
                table.schema(),
                table.metadata().partition_columns,
                commit_properties=_identified(query, batch, tries=0 if removed else None),
            )
        except _ERRORS as error:
            raise TransientError(f"{self.where}: {reason_of(error)}") from error
        self._synchronise_behind(before)

    def _holding(self, keys: Keys) -> Iterator[Held]:
        table = self._newest()
        assert table is not None
        layout = table.metadata().partition_columns
        for entry in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            name = unquote(entry["path"])  # as an address has it
            values = folder_values(Path(name))
            if set(values) != set(layout):
                raise PipelineError(
                    f"{self.where}/{name} was written by others, to no folder of its partition"
                )
            if all(keys.may_be_in(one, *_bounds(entry, one, values)) for one in keys.names):
                with self._place.readable(name, self._ours) as path:
                    yield Held(name, path, _folders(Path(name)), values, entry)

    def require_rewind(self, query: str, batch: int) -> None:
        """There is a version of the batch, behind which others have no rows, and all its files are there."""
        table = self._newest()
        assert table is not None
        before = self._behind(table, query, batch)
        for path in sorted(self._sizes(self._version(before)).keys() - self._sizes(table).keys()):
            if not self._place.has(path.as_posix()):
                raise RewindRefusedError(
                    f"{self.where} cannot be taken back: {path} of version {before} was vacuumed"
                )

    def _behind(self, table: DeltaTable, query: str, batch: int) -> int:
        """The newest version in which the query had come to a batch or less far."""
        before: int = table.version()
        had = table.transaction_version(query)
        try:
            while had is not None and had > batch and before > 0:
                before -= 1
                older = self._version(before).transaction_version(query)
                if older == had:
                    self._require_no_rows(table, before + 1)
                had = older
        except _ERRORS as error:
            raise PipelineError(f"{self.where} cannot be taken back: {reason_of(error)}") from error
        if had is None or had > batch:
            raise RewindRefusedError(f"{self.where} has no version any more that is as old as batch {batch}")
        return before

    def rewind(self, query: str, batch: int) -> None:
        """One version more, which has the files of an older one, and its batch's id."""
        assert self._lock is not None
        table = self._newest()
        assert table is not None
        newest, before = table.version(), self._behind(table, query, batch)
        try:
            table.restore(before, commit_properties=_identified(query, batch))
        except _ERRORS as error:
            raise PipelineError(f"{self.where} cannot be taken back: {reason_of(error)}") from error
        self._synchronise_behind(newest)

    def _version(self, version: int) -> DeltaTable:
        """An older one. Raises RewindRefusedError where it has been forgotten."""
        try:
            return DeltaTable(self.where, version=version)
        except DeltaError as error:
            self._place.has(f"_delta_log/{version:020d}.json")  # raises for a store that is away
            raise RewindRefusedError(
                f"{self.where} has no version {version} any more: {reason_of(error)}"
            ) from error

    def _require_no_rows(self, table: DeltaTable, version: int) -> None:
        """Raises RewindRefusedError for a version by which others may have changed rows."""
        said = [one.get("operation") for one in table.history() if one.get("version") == version]
        operation = str(said[0]) if said else "unknown"
        if operation.upper() not in _ARRANGING:
            raise RewindRefusedError(
                f"{self.where}: version {version} ({operation}) was written by others, and would be taken "
                "back too"
            )

    def compact(self, target_bytes: int, step: Step, *, dry_run: bool = False) -> Compacted:
        """One version that adds the merged files and removes their sources, by delta-rs;
        it keeps each identifier.
        """
        assert self._lock is not None
        table = self._newest()
        assert table is not None
        before, old = table.version(), self._sizes(table)
        done = Compacted(files_before=len(old), bytes_before=sum(old.values()))
        if dry_run:
            planned = _planned(old, target_bytes)
            done.files_after = len(old) - sum(map(len, planned)) + len(planned)
            done.bytes_after = None
            done.folders = len({_folders(group[0]) for group in planned})
            return done
        step(0, len(old))
        try:
            metrics = table.optimize.compact(
                target_size=target_bytes, max_concurrent_tasks=1, max_spill_size=_MEMORY_BYTES
            )
        except _ERRORS as error:
            raise PipelineError(f"{self.where} was not compacted: {reason_of(error)}") from error
        table = self._newest()
        assert table is not None
        new = self._sizes(table)
        added = new.keys() - old.keys()
        if added and self._objects is None:
            synchronise_files(self.folder, map(str, added), self.folder)
        if added:
            self._synchronise_behind(before)
        step(len(old), len(old))
        done.files_after, done.bytes_after = len(new), sum(new.values())
        done.folders = metrics["partitionsOptimized"]
        return done

    def _sizes(self, table: DeltaTable) -> dict[Path, int]:
        """The files of the table's version by their paths in it, and their bytes."""
        actions = pa.table(table.get_add_actions(flatten=True)).select(["path", "size_bytes"]).to_pylist()
        return {Path(unquote(one["path"])): one["size_bytes"] for one in actions}

    def _synchronise_behind(self, version: int) -> None:
        """Spark commits the batch next:
        by then the log must be on the disk, which delta-rs leaves to the system.
        """
        table, log = self._newest(), self.folder / "_delta_log"
        assert table is not None
        if self._objects is not None:
            return  # a store has what it has answered for
        for newer in range(version + 1, table.version() + 1):
            synchronise(log / f"{newer:020d}.json")
        synchronise_up(log, self.folder)

    def _action(self, file: Path) -> AddAction:
        status, path = file.stat(), file.relative_to(self.folder)
        return AddAction(
            path=path.as_posix(),
            size=status.st_size,
            partition_values=folder_values(path),
            modification_time=status.st_mtime_ns // 1_000_000,
            data_change=True,
            stats=statistics(pq.read_metadata(file)),
        )


def reason_of(error: Exception) -> str:
    """What delta-rs says, in one line. Of a store it draws a chain of causes with arrows: the last one is the
    store's answer, such as that a token has expired.
    """
    first, *causes = _COLOUR.sub("", str(error)).split("\u21b3")
    if not causes:
        return first_line(error)
    answer = _ANSWER.search(causes[-1])
    last = f"{answer[1]}: {answer[2]}" if answer else " ".join(causes[-1].split())
    return f"{' '.join(first.split())}: {last[:_CAUSE_MAX]}"


def _bounds(entry: Mapping[str, Any], name: str, partition: Mapping[str, str | None]) -> tuple[Any, Any]:
    """The least and the greatest value of a column in a file, None where the log does not say."""
    if name in partition:
        return partition[name], partition[name]
    return entry.get(f"min.{name}"), entry.get(f"max.{name}")


def _planned(sizes: Mapping[Path, int], target_bytes: int) -> list[list[Path]]:
    """What can be merged; delta-rs plans by sizes too, and may draw other bounds."""
    partitions: dict[tuple[str, ...], list[tuple[Path, int]]] = {}
    for path in sorted(sizes):
        partitions.setdefault(_folders(path), []).append((path, sizes[path]))
    return [group for files in partitions.values() for group in groups(files, target_bytes)]


def _folders(path: Path) -> tuple[str, ...]:
    """The folders with partition values: behind a batch's own in its files, alone in those of delta-rs."""
    return tuple(folder for folder in path.parent.parts if "=" in folder)


def _columns(table: DeltaTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(table.schema().to_json())  # Delta's form is Spark's
    return found


def _schema(fields: Sequence[Mapping[str, Any]]) -> Schema:
    return Schema.from_json(json.dumps({"type": "struct", "fields": list(fields)}))


def _identified(query: str, batch: int, tries: int | None = None) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(query, batch)], max_commit_retries=tries)
