"""What a pipeline appends its batches to: a folder that one process writes, which knows its last batch.

The kinds of tables are in `parquet` (plain files), `delta` and `iceberg`. None of them knows Spark's frames:
`sink` hands them a function that writes the files of a batch.
"""

import datetime as dt
import fcntl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final, Self

from barnabas.spark.errors import PipelineError, TransientError
from barnabas.spark.pipeline.tables.evolution import Growth

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.spark.pipeline.tables.rewriting import Changes

OURS: Final = "_barnabas"
"""The folder in a table's folder that is not part of it; readers leave out all names that begin so."""

Write = Callable[[Path], Iterable[str]]
"""Fills a folder, which it must make, and returns the paths in it that become part of the table."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Files of a batch of changes, by their paths in its folder."""

    added: list[str]
    """They become part of the table."""
    deleted: list[str]
    """They have the keys of deleted rows, and are removed once they are read."""
    unsent: list[str] = field(default_factory=list)
    """They have rows with values that the database has not sent; see `unsent`."""
    truncated: dt.datetime | None = None
    """When the table was emptied first, None where it was not."""


WriteChanges = Callable[[Path], Staged]
"""Fills a folder, which it must make."""


@dataclass(frozen=True, slots=True)
class State:
    """What a table holds before a batch."""

    batch: int | None
    """The query's last batch in it, -1 before the first; None where the table belongs to something else."""
    schema: dict[str, Any]
    """Its columns, as Spark's JSON has them."""
    layout: list[str]
    """Its partition columns."""


Step = Callable[[int, int], None]
"""Is called with the number of files that are merged, and of those that will be."""


@dataclass(slots=True)
class Compacted:
    """What a compaction has done, or would do; files and bytes are those of the whole table."""

    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int | None = 0
    """None where it is not known, as nothing was written."""
    folders: int = 0
    """Partition folders in which files were merged."""

    def __add__(self, other: "Compacted") -> "Compacted":
        """Of two tables."""
        unknown = self.bytes_after is None or other.bytes_after is None
        return Compacted(
            self.files_before + other.files_before,
            self.files_after + other.files_after,
            self.bytes_before + other.bytes_before,
            None if unknown else (self.bytes_after or 0) + (other.bytes_after or 0),
            self.folders + other.folders,
        )


class RewindRefusedError(PipelineError):
    """A table cannot be taken back. Nothing of it was changed."""


class Table(ABC):
    """A table, for the one process that writes to it: ``with`` takes its lock."""

    keeps_partition_columns: ClassVar = False
    """Whether files hold the columns that they are partitioned by;
    else only the names of their folders do.
    """
    has_each_batch: ClassVar = False
    """Whether a batch without rows is written down, too."""
    growth: ClassVar = Growth()
    """What the columns of the table may become."""

    def __init__(self, folder: Path, address: str = "") -> None:
        """With an address the table is in an object store, and `folder` is where batches are written first:
        a part of the checkpoint.
        """
        self.folder = folder
        self.address = address.rstrip("/")
        self._ours = folder / OURS
        self._lock: IO[bytes] | None = None

    @property
    def where(self) -> str:
        """Where the table is, for people."""
        return self.address or str(self.folder)

    def __enter__(self) -> Self:
        """Raises PipelineError where another process writes, the folder holds something else or cannot be
        written to.
        """
        try:
            self._open()
        except OSError as error:
            self.__exit__()
            raise TransientError(f"{error.filename or self.folder}: {error.strerror or error}") from error
        return self

    def _open(self) -> None:
        others = self.folder.exists() and any(one.name != OURS for one in self.folder.iterdir())
        if others and not self._ours.exists():
            raise PipelineError(
                f"{self.where} is not empty, and no pipeline has written it: give another path"
            )
        self._ours.mkdir(parents=True, exist_ok=True)
        lock = (self._ours / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lock = lock
            self.recover()
        except BlockingIOError:
            lock.close()
            raise TransientError(f"{self.where} is being written by another process") from None
        except BaseException:
            self._lock = None
            lock.close()
            raise

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @abstractmethod
    def state(self, query: str | None) -> State | None:
        """What the table holds, None where there is none. Needs no lock.
        Raises PipelineError for a damaged one.
        """

    def has(self, query: str, batch: int) -> bool:
        """Whether a batch of the query is in the table already."""
        state = self.state(query)
        return state is not None and state.batch is not None and batch <= state.batch

    def takes(self, field: dict[str, Any]) -> bool:
        """Whether tables of this kind can have a column of this type."""
        del field
        return True

    @abstractmethod
    def sizes(self) -> list[int]:
        """The bytes of each file of the table, of one that is there. Needs no lock."""

    @abstractmethod
    def rows(self, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """Some columns of all rows, none where there is no table. Needs no lock."""

    @abstractmethod
    def recover(self) -> None:
        """Finishes what was committed.
        Comes behind an append that has failed, as it may have committed or not.
        """

    @abstractmethod
    def append(
        self, query: str, batch: int, schema: dict[str, Any], layout: Sequence[str], write: Write
    ) -> None:
        """Appends a batch that the table does not have; the query is the table's, or there is no table."""

    def merge(
        self,
        query: str,
        batch: int,
        schema: dict[str, Any],
        layout: Sequence[str],
        changes: "Changes",
        write: WriteChanges,
    ) -> None:
        """As `append`, and of the rows that are there those with a key of the batch go, or are closed.
        Raises PipelineError where tables of the kind only grow.
        """
        del query, batch, schema, layout, changes, write
        raise PipelineError("plain Parquet files only grow: give sink.kind delta or iceberg")

    @abstractmethod
    def require_rewind(self, query: str, batch: int) -> None:
        """Raises RewindRefusedError where the table cannot be taken back to a batch of the query, or rows of
        others would be lost. Needs no lock; without one it changes nothing.
        """

    @abstractmethod
    def rewind(self, query: str, batch: int) -> None:
        """Has the table as it was behind a batch of the query, -1 for before its first. Raises
        RewindRefusedError as `require_rewind` does.
        """

    @abstractmethod
    def compact(self, target_bytes: int, step: Step, *, dry_run: bool = False) -> Compacted:
        """Makes large files of the small ones of each partition;
        rows and the last batch's id stay as they are.
        """
