"""Tables whose format has a log: the files of a batch are written where they stay, and one commit adds them.

A batch has a folder of its own, ``batch-0000000017-9f...``. A kill before the commit leaves one that the log
does not know; it is removed before the batch is appended again. The log keeps the batch's id in the same
commit as its files, so they are in the table together or not at all, and no reader sees a part of a batch.

In an object store the folder is put under the same name, file by file, before the commit. What a kill has
left there is removed behind the next commit and not before: a request of the process that was killed may
still be on its way, and its commit with it. Once another commit has its place, the store refuses it.
"""

import os
import re
import shutil
import uuid
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from pyspark.sql.types import StructType

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.tables.evolution import merged
from barnabas.spark.pipeline.tables.places import COPY, Disk, Objects, TablePlace
from barnabas.spark.pipeline.tables.rewriting import Changes, Keys, keys_of
from barnabas.spark.pipeline.tables.synchronise import synchronise_files
from barnabas.spark.pipeline.tables.table import Table, Write, WriteChanges
from barnabas.spark.pipeline.tables.unsent import Unsent

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""How Spark names the folder of null."""

_BATCH_FOLDER: Final = re.compile(r"batch-(\d{10,})-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Held:
    """A file of the table that a batch may change."""

    name: str
    """Its path in the table."""
    path: Path
    """Where it can be read until the next one is asked for."""
    folders: tuple[str, ...]
    """Those in which the rows that are left belong, below a batch's own."""
    partition: dict[str, str | None]
    """The values of the partition columns that it lacks."""
    entry: Any
    """What the log has of it."""


class LoggedTable(Table):
    """What Delta and Iceberg share."""

    types: ClassVar[frozenset[str]]
    """Spark's names of the simple types that the format has."""

    def __init__(self, folder: Path, files: str = "", address: str = "") -> None:
        """`files` is where in the table batches have their folders."""
        super().__init__(folder, address)
        self._files = folder / files
        self._objects = self._store() if address else None
        self._place: TablePlace = self._objects or Disk(folder)

    def takes(self, field: dict[str, Any]) -> bool:
        """Whether the format has the type, and those in it."""
        return all(name.partition("(")[0] in self.types for name in _simple_types(field["type"]))

    def recover(self) -> None:
        """Nothing: a commit to the log is whole, and the next append removes what it does not know."""

    def append(
        self, query: str, batch: int, schema: dict[str, Any], layout: Sequence[str], write: Write
    ) -> None:
        """Appends a batch that the table does not have; one without rows leaves the log as it is."""
        folder = self._begin(query, batch, schema, layout)
        files = [folder / file for file in sorted(write(folder))]
        self._put_through(query, batch, folder, files, [])

    def merge(
        self,
        query: str,
        batch: int,
        schema: dict[str, Any],
        layout: Sequence[str],
        changes: Changes,
        write: WriteChanges,
    ) -> None:
        """One commit removes the files that have a key of the batch, and adds those of the batch with those
        that have the other rows of the removed ones. A batch that changes nothing leaves the log as it is.
        Files of `Staged.unsent` are in a folder of their own below the batch's.
        """
        folder = self._begin(query, batch, schema, layout)
        staged = write(folder)
        folders = set(layout)

        def placed(files: Sequence[str]) -> list[tuple[Path, Mapping[str, str | None]]]:
            return [(folder / file, self._partition(file, folders)) for file in files]

        written = placed([*staged.added, *staged.deleted, *staged.unsent])
        keys = Keys(keys_of(written, changes), changes, staged.truncated)
        unsent = Unsent(placed(staged.unsent), changes)
        for file in staged.deleted:
            (folder / file).unlink()
        added, removed = [folder / file for file in sorted(staged.added)], []
        for number, held in enumerate(self._holding(keys) if keys else ()):
            target = folder.joinpath(*held.folders, f"kept-{number:05d}.parquet")
            target.parent.mkdir(parents=True, exist_ok=True)
            if unsent and staged.truncated is None:
                unsent.look_into(held.path, held.partition)
            rows = keys.rewrite(held.path, target, held.partition)
            if rows is None:
                continue
            removed.append(held)
            if rows:
                added.append(target)
        for number, (path, partition) in enumerate(placed(staged.unsent)):
            target = folder.joinpath(*path.relative_to(folder).parts[1:-1], f"filled-{number:05d}.parquet")
            unsent.fill(path, partition, target)
            path.unlink()
            added.append(target)
        self._put_through(query, batch, folder, added, removed)

    def _put_through(
        self, query: str, batch: int, folder: Path, added: Sequence[Path], removed: Sequence[Held]
    ) -> None:
        """Has the files where readers of the log find them, then commits. A batch that changes nothing leaves
        the log as it is.
        """
        if added or removed:
            self._publish(added)
            self._commit(query, batch, added, removed)
            if self._objects is not None:
                self._clear(batch, folder, self._objects)
        else:
            shutil.rmtree(folder)  # Spark writes a file without rows

    def _publish(self, files: Sequence[Path]) -> None:
        """What the next commit names is on the disk, or in the store, when this returns."""
        if self._objects is not None:
            self._objects.put({file: self._name_of(file) for file in files})
        elif files:
            synchronise_files(self.folder, map(self._name_of, files), self.folder)

    def _name_of(self, file: Path) -> str:
        """The path in the table of a file that was written below `folder`."""
        return file.relative_to(self.folder).as_posix()

    def _clear(self, batch: int, folder: Path, objects: Objects) -> None:
        """Removes what is on the disk of batches that are in the store, and there what other tries left."""
        for left in self._batch_folders():
            if left != folder and _batch_of(left) == batch:
                objects.remove(map(self._name_of, left.rglob("*.parquet")))
            shutil.rmtree(left)

    def _begin(self, query: str, batch: int, schema: dict[str, Any], layout: Sequence[str]) -> Path:
        """The folder of a batch, which is not there yet; what a kill has left of it is gone."""
        assert self._lock is not None
        state = self.state(query)
        if state is not None and state.batch is None:
            # In a store nothing kept another pipeline from making it since this one has looked.
            raise PipelineError(f"{self.where} was written with another checkpoint")
        if state is not None:  # others may have changed its columns since the run began
            merged(_struct(state.schema), _struct(schema), self.growth, tuple(layout))
        assert state is None or state.batch is None or batch > state.batch
        for left in self._batch_folders():
            if _batch_of(left) >= batch:
                if self._objects is None:
                    shutil.rmtree(left)
                else:  # by their names `_clear` finds them in the store
                    for path in left.rglob("*.parquet"):
                        os.truncate(path, 0)
        for copy in self._ours.glob(f"{COPY}*"):
            copy.unlink()
        self._prepare(query, schema, layout)
        return self._files / f"batch-{batch:010d}-{uuid.uuid4().hex}"

    def _store(self) -> Objects:
        return Objects(self.address)

    def _batch_folders(self) -> list[Path]:
        """Those that are on the disk."""
        return [path for path in self._files.glob("batch-*") if _BATCH_FOLDER.fullmatch(path.name)]

    def _partition(self, file: str, columns: Collection[str]) -> dict[str, str | None]:
        """The values of the partition columns that a file in a batch's folder lacks."""
        if self.keeps_partition_columns:
            return {}
        return {name: value for name, value in folder_values(Path(file)).items() if name in columns}

    @abstractmethod
    def _holding(self, keys: Keys) -> Iterator[Held]:
        """The files of the table that may have one of the keys, by what the log says of them."""

    @abstractmethod
    def _prepare(self, query: str, schema: dict[str, Any], layout: Sequence[str]) -> None:
        """Makes the table where there is none, and adds the columns that it does not have."""

    @abstractmethod
    def _commit(self, query: str, batch: int, files: Sequence[Path], removed: Sequence[Held]) -> None:
        """The commit point: the files are in the table from here on, the removed ones are not, and the
        batch's id is with them.
        """


def _struct(schema: dict[str, Any]) -> StructType:
    return StructType.fromJson(schema)


def _batch_of(folder: Path) -> int:
    named = _BATCH_FOLDER.fullmatch(folder.name)
    assert named is not None
    return int(named[1])


def folder_values(path: Path) -> dict[str, str | None]:
    """The values in the names of folders such as ``day=2013-01-01``."""
    pairs = (folder.partition("=") for folder in path.parent.parts if "=" in folder)
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}


def _simple_types(kind: Any) -> Iterator[str]:
    """The names in a type of Spark's JSON."""
    if isinstance(kind, str):
        yield kind
    elif kind["type"] == "struct":
        for field in kind["fields"]:
            yield from _simple_types(field["type"])
    elif kind["type"] == "array":
        yield from _simple_types(kind["elementType"])
    elif kind["type"] == "map":
        yield from _simple_types(kind["keyType"])
        yield from _simple_types(kind["valueType"])
    else:
        yield kind["type"]  # one of a user's own


def shape(kind: Any) -> Any:
    """A type of Spark's JSON without what may be null in it: those of one shape hold the same values."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return tuple((field["name"], shape(field["type"])) for field in kind["fields"])
    if kind["type"] == "array":
        return ("array", shape(kind["elementType"]))
    return ("map", shape(kind["keyType"]), shape(kind["valueType"]))
