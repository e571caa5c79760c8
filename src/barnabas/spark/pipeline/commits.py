"""The folder of a table to which each batch is appended once, however often its writer is killed.

Theory of operation
-------------------
Spark gives a batch the same id and the same offsets each time that it plans it, until the checkpoint has the batch's
commit. So a batch whose id is not above that of the table's last commit is in the table already. Everything of ours is
in ``_barnabas``, which readers of tables leave out, as they do with all names that begin so::

    table/_barnabas/lock                      held by the one process that writes
    table/_barnabas/commit.json               the last commit: query, batch, columns, and which files it publishes
    table/_barnabas/staging-9f.../...parquet  a batch that is being written
    table/day=2013-01-01/batch-0000000017-00000.parquet

An append has these steps, and a kill between any two of them is mended by the next start:

1. Write the rows to a staging folder of a new name. Killed here: nothing refers to the folder, and it is removed.
2. Synchronise the files, then replace commit.json in one rename: the batch is in the table from here on.
3. Move each file to its place, under a name that has the batch's id. Killed here: the moves are done to their end
   from what commit.json says, before anything else is.
4. Remove the staging folder, which says that 3 is finished.

A reader sees the files of a batch one after the other, as it does with any plain folder of Parquet files. The module
knows neither Spark nor Parquet: who appends hands it a function that fills the staging folder.
"""

import json
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.table import (
    OURS,
    State,
    Table,
    Write,
    synchronise,
    synchronise_files,
    synchronise_up,
)

_STAGING: Final = "staging-"


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch that is in the table."""

    query: str
    """The id of the query, which its checkpoint keeps: batch ids are unique only in one."""
    batch: int
    schema: dict[str, Any]
    """The columns of the table, as Spark's JSON has them."""
    layout: list[str]
    """The partition columns."""
    staging: str
    files: dict[str, str]
    """Where each staged file belongs."""


class TableFolder(Table):
    """The folder; ``with`` takes its lock and finishes what was committed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.last: Commit | None = None

    def state(self, query: str | None) -> State | None:
        """What the last commit says."""
        last = read_commit(self.folder)
        if last is None:
            return None
        return State(last.batch if last.query == query else None, last.schema, last.layout)

    def recover(self) -> None:
        """Moves what the last commit has not moved yet, then removes all that nothing refers to.

        What is on the disk counts: where an append has failed, it may have committed or not.
        """
        self.last = read_commit(self.folder)
        if self.last is not None and (self._ours / self.last.staging).exists():
            self._publish(self.last)
        for left in self._ours.glob(f"{_STAGING}*"):
            shutil.rmtree(left)

    def append(
        self, query: str, batch: int, schema: dict[str, Any], layout: Sequence[str], write: Write
    ) -> None:
        """Appends a batch that the table does not have; behind an append that has failed, `recover` comes first."""
        assert self._lock is not None
        assert not self.has(query, batch)
        staging = self._ours / f"{_STAGING}{uuid.uuid4().hex}"
        files = {
            staged: str(PurePosixPath(staged).with_name(f"batch-{batch:010d}-{number:05d}.parquet"))
            for number, staged in enumerate(sorted(write(staging)))
        }
        synchronise_files(staging, files, self._ours)
        commit = Commit(query, batch, schema, list(layout), staging.name, files)
        self._replace(commit)
        self.recover()

    def _replace(self, commit: Commit) -> None:
        """The commit point."""
        new = self._ours / "commit.json.new"
        new.write_text(json.dumps(asdict(commit)), encoding="utf-8")
        synchronise(new)
        new.replace(self._ours / "commit.json")
        synchronise(self._ours)

    def _publish(self, commit: Commit) -> None:
        folders = set()
        for staged, final in commit.files.items():
            source, target = self._ours / commit.staging / staged, self.folder / final
            target.parent.mkdir(parents=True, exist_ok=True)
            folders.add(target.parent)
            if source.exists():
                source.replace(target)
            elif not target.exists():
                raise PipelineError(
                    f"{target} is gone, a file of batch {commit.batch} that was not published yet"
                )
        for folder in sorted(folders):
            synchronise_up(folder, self.folder)

    def __repr__(self) -> str:
        return f"<TableFolder {self.folder} batch={self.last.batch if self.last else None}>"


def read_commit(folder: Path) -> Commit | None:
    """The last commit of a table, None where there is none. Raises PipelineError for a file that is no commit."""
    path = folder / OURS / "commit.json"
    try:
        return Commit(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise PipelineError(f"{path} is no commit of a pipeline: {error}") from None
