"""The folder of a table to which each batch is appended once, however often its writer is killed.

Theory of operation
-------------------
Spark gives a batch the same id and the same offsets each time that it plans it, until the checkpoint has the
batch's commit. So a batch whose id is not above that of the table's last commit is in the table already.
Everything of ours is in ``_barnabas``, which readers of tables leave out, as they do with all names that
begin so::

    table/_barnabas/lock                      held by the one process that writes
    table/_barnabas/commit.json               the last commit: query, batch, columns, and which files it
                                              publishes
    table/_barnabas/compaction.json           files whose place a merged one is taking, else there is none
    table/_barnabas/staging-9f.../...parquet  a batch or a merged file that is being written
    table/day=2013-01-01/batch-0000000017-00000.parquet

An append has these steps, and a kill between any two of them is mended by the next start:

1. Write the rows to a staging folder of a new name. Killed here: nothing refers to the folder, and it is
   removed.
2. Synchronise the files, then replace commit.json in one rename: the batch is in the table from here on.
3. Move each file to its place, under a name that has the batch's id. Killed here: the moves are done to their
   end from what commit.json says, before anything else is.
4. Remove the staging folder, which says that 3 is finished.

A reader sees the files of a batch one after the other, as it does with any plain folder of Parquet files. The
module knows neither Spark nor Parquet: who appends hands it a function that fills the staging folder.

A compaction has these steps for each merged file, mended in the same way:

1. Write the rows of some files of one folder to a file in staging, and synchronise it. Killed here: it is
   removed.
2. Write compaction.json in one rename: the merged file holds the rows from here on.
3. Move the merged file next to its sources, then remove those. A reader that lists the folder in between sees
   their rows twice; it never misses one. Killed here: the next start does both to their end.
4. Remove compaction.json, then the staging folder.

A merged file is called ``batch-0000000003-00000-to-0000000017-00002.parquet`` after its first and last
source. Names that are not of this form are somebody else's, and are left alone.
"""

import itertools
import re
import shutil
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.tables.compaction import groups, merge
from barnabas.spark.pipeline.tables.notes import damaged, read_note, replace_note
from barnabas.spark.pipeline.tables.synchronise import synchronise, synchronise_files, synchronise_up
from barnabas.spark.pipeline.tables.table import OURS, Compacted, State, Step, Table, Write

_STAGING: Final = "staging-"
_FILE: Final = re.compile(r"batch-(\d{10,})-(\d{5,})(?:-to-(\d{10,})-(\d{5,}))?\.parquet")
"""The names of our files: of one batch, or merged of those from one batch to another."""


@dataclass(frozen=True, slots=True)
class TableCommit:
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


@dataclass(frozen=True, slots=True)
class Merge:
    """A merged file that takes the place of its sources."""

    staging: str
    file: str
    """Its path in the table, and its name in staging."""
    sources: list[str]


class ParquetFolder(Table):
    """The folder; ``with`` takes its lock and finishes what was committed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.last: TableCommit | None = None

    def state(self, query: str | None) -> State | None:
        """What the last commit says."""
        last = read_commit(self.folder)
        if last is None:
            return None
        return State(last.batch if last.query == query else None, last.schema, last.layout)

    def sizes(self) -> list[int]:
        """By what is in the folder now."""
        last = read_commit(self.folder)
        depth = len(last.layout) if last is not None else 0
        found = self.folder.glob("*/" * depth + "batch-*.parquet")
        return [path.stat().st_size for path in found if OURS not in path.relative_to(self.folder).parts]

    def recover(self) -> None:
        """Moves what the last commit has not moved yet, then removes all that nothing refers to.

        What is on the disk counts: where an append has failed, it may have committed or not.
        """
        self.last = read_commit(self.folder)
        if self.last is not None and (self._ours / self.last.staging).exists():
            self._publish(self.last)
        unfinished = _read_merge(self.folder)
        if unfinished is not None:
            self._take_place(unfinished)
        for left in self._ours.glob(f"{_STAGING}*"):
            shutil.rmtree(left)

    def append(
        self, query: str, batch: int, schema: dict[str, Any], layout: Sequence[str], write: Write
    ) -> None:
        """Appends a batch that the table does not have;
        behind an append that has failed, `recover` comes first.
        """
        assert self._lock is not None
        assert not self.has(query, batch)
        staging = self._ours / f"{_STAGING}{uuid.uuid4().hex}"
        files = {
            staged: str(PurePosixPath(staged).with_name(f"batch-{batch:010d}-{number:05d}.parquet"))
            for number, staged in enumerate(sorted(write(staging)))
        }
        synchronise_files(staging, files, self._ours)
        commit = TableCommit(query, batch, schema, list(layout), staging.name, files)
        self._replace("commit.json", commit)
        self.recover()

    def compact(self, target_bytes: int, step: Step, *, dry_run: bool = False) -> Compacted:
        """Merges the files of each partition folder, in the order of their batches."""
        assert self._lock is not None
        self.recover()
        files = self._files()
        planned = [
            group
            for folder in sorted(files)
            for group in groups(((path, path.stat().st_size) for path in files[folder]), target_bytes)
        ]
        done, merging = 0, sum(map(len, planned))
        step(done, merging)
        before = [path for found in files.values() for path in found]
        size = sum(path.stat().st_size for path in before)
        for group in [] if dry_run else planned:
            self._merge(group)
            done += len(group)
            step(done, merging)
        return Compacted(
            files_before=len(before),
            files_after=len(before) - merging + len(planned),
            bytes_before=size,
            bytes_after=None if dry_run else sum(p.stat().st_size for f in self._files().values() for p in f),
            folders=len({group[0].parent for group in planned}),
        )

    def _files(self) -> dict[Path, list[Path]]:
        """Our files by their partition folders, each in the order of batches."""
        depth = len(self.last.layout) if self.last is not None else 0
        found: dict[Path, list[Path]] = {}
        for path in self.folder.glob("*/" * depth + "batch-*.parquet"):
            if _FILE.fullmatch(path.name) and OURS not in path.relative_to(self.folder).parts:
                found.setdefault(path.parent, []).append(path)
        for paths in found.values():
            paths.sort(key=_span)
            for path, following in itertools.pairwise(paths):
                if _span(following)[0] <= _span(path)[1]:
                    raise PipelineError(
                        f"{following} has rows that {path.name} has too, as if it was put back from a copy: "
                        "remove one of them"
                    )
        return found

    def _merge(self, sources: Sequence[Path]) -> None:
        (batch, number), (last, last_number) = _span(sources[0])[0], _span(sources[-1])[1]
        name = f"batch-{batch:010d}-{number:05d}-to-{last:010d}-{last_number:05d}.parquet"
        staging = self._ours / f"{_STAGING}{uuid.uuid4().hex}"
        staging.mkdir()
        merge(sources, staging / name)
        synchronise_up(staging, self._ours)
        file = sources[0].with_name(name).relative_to(self.folder)
        names = [str(source.relative_to(self.folder)) for source in sources]
        self._replace("compaction.json", Merge(staging.name, str(file), names))
        self.recover()

    def _take_place(self, change: Merge) -> None:
        """Puts the merged file into the table and removes its sources."""
        target = self.folder / change.file
        source = self._ours / change.staging / target.name
        if source.exists():
            source.replace(target)
        elif not target.exists():
            raise PipelineError(f"{target} is gone, a merged file whose sources were not removed yet")
        for old in change.sources:
            (self.folder / old).unlink(missing_ok=True)
        synchronise(target.parent)
        (self._ours / "compaction.json").unlink()
        synchronise(self._ours)

    def _replace(self, name: str, commit: TableCommit | Merge) -> None:
        """The commit point."""
        replace_note(self._ours / name, asdict(commit))

    def _publish(self, commit: TableCommit) -> None:
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
        return f"<ParquetFolder {self.folder} batch={self.last.batch if self.last else None}>"


def _span(path: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """The batch and the number in it of the first and of the last file that a file of ours was made of."""
    named = _FILE.fullmatch(path.name)
    assert named is not None
    first = int(named[1]), int(named[2])
    return first, (int(named[3]), int(named[4])) if named[3] else first


def _read_merge(folder: Path) -> Merge | None:
    path = folder / OURS / "compaction.json"
    note = read_note(path, "compaction of a pipeline")
    if note is None:
        return None
    try:
        found = Merge(**note)
        # What it names is removed: files of ours in this folder, and nothing else.
        _require_ours(found.staging, [found.file, *found.sources])
        if found.file in found.sources:
            raise ValueError(f"it removes {found.file}, which it adds")
        return found
    except (ValueError, TypeError) as error:
        raise damaged(path, "compaction of a pipeline", error) from None


def read_commit(folder: Path) -> TableCommit | None:
    """The last commit of a table, None where there is none.
    Raises PipelineError for a file that is no commit.
    """
    path = folder / OURS / "commit.json"
    note = read_note(path, "commit of a pipeline")
    if note is None:
        return None
    try:
        found = TableCommit(**note)
        _require_ours(found.staging, found.files.values())
        if not (
            isinstance(found.batch, int) and isinstance(found.schema, dict) and isinstance(found.layout, list)
        ):
            raise TypeError("it has no batch, no columns or no layout")
        return found
    except (ValueError, TypeError, AttributeError) as error:
        raise damaged(path, "commit of a pipeline", error) from None


def _require_ours(staging: str, files: Iterable[str]) -> None:
    """Raises ValueError unless these are a staging folder and files that a pipeline writes into its table."""
    names = [PurePosixPath(file) for file in files]
    inside = not any(name.is_absolute() or ".." in name.parts for name in names)
    if not (
        re.fullmatch(rf"{_STAGING}[0-9a-f]{{32}}", staging)
        and inside
        and all(_FILE.fullmatch(name.name) for name in names)
    ):
        raise ValueError("it names files that are no pipeline's")
