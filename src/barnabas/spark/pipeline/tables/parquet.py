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

In an object store the steps are the same. ``_barnabas`` is then on the disk of the checkpoint, with the batch
that is being written and the commit; a move is a PUT of the whole file under its final name, which is done
again, to the same bytes, if a kill came in between. ``_barnabas/claim-9f....json`` in the store says whose
the table is: it is put before the first commit, and what is there then besides it has the batch refused.
"""

import itertools
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.tables.compaction import groups, merge
from barnabas.spark.pipeline.tables.notes import damaged, read_note, replace_note
from barnabas.spark.pipeline.tables.places import Disk, Objects, TablePlace
from barnabas.spark.pipeline.tables.synchronise import synchronise_files, synchronise_up
from barnabas.spark.pipeline.tables.table import (
    OURS,
    Compacted,
    RewindRefusedError,
    State,
    Step,
    Table,
    Write,
)

_STAGING: Final = "staging-"
_CLAIM: Final = "claim.json"
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
    """The folder, or what is at an address; ``with`` takes the lock and finishes what was committed."""

    has_each_batch: ClassVar = True

    def __init__(self, folder: Path, address: str = "") -> None:
        super().__init__(folder, address)
        self._place: TablePlace = Objects(self.address) if address else Disk(folder)
        self.last: TableCommit | None = None

    def state(self, query: str | None) -> State | None:
        """What the last commit says."""
        last = read_commit(self.folder)
        if last is None:
            return None
        return State(last.batch if last.query == query else None, last.schema, last.layout)

    def sizes(self) -> list[int]:
        """By what is there now."""
        return list(self._listed(read_commit(self.folder)).values())

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """File by file."""
        last = read_commit(self.folder)
        for name in sorted(self._listed(last)) if last is not None else ():
            with self._place.readable(str(name), self._ours) as path, pq.ParquetFile(path) as file:
                yield from file.iter_batches(columns=list(columns))

    def _open(self) -> None:
        self._require_own()
        super()._open()

    def _require_own(self) -> None:
        """Raises PipelineError where others have files in a store, which a first batch might replace."""
        place = self._place
        if isinstance(place, Objects) and read_commit(self.folder) is None:
            claim = read_note(self._ours / _CLAIM, "claim of a table")
            if not place.is_empty(_claimed(claim) if claim is not None else ""):
                raise PipelineError(
                    f"{self.where} is not empty, and nothing there was written with this checkpoint: "
                    "give another path"
                )

    def _claim(self) -> None:
        """Says in the store whose the table is, before its first commit. Of two pipelines that begin at once
        at least one finds the other's name behind its own, and gives up.
        """
        if not isinstance(self._place, Objects) or read_commit(self.folder) is not None:
            return
        path = self._ours / _CLAIM
        claim = read_note(path, "claim of a table") or {"id": uuid.uuid4().hex}
        replace_note(path, claim)
        self._place.put({path: _claimed(claim)})
        try:
            self._require_own()
        except PipelineError:
            self._place.remove([_claimed(claim)])
            raise

    def _listed(self, last: TableCommit | None) -> dict[PurePosixPath, int]:
        """The files of the table by their paths in it, and their bytes; those of others too, if they are
        named as ours.
        """
        depth = len(last.layout) if last is not None else 0
        found = self._place.sizes("*/" * depth + "batch-*.parquet")
        return {path: size for path, size in found.items() if OURS not in path.parts}

    def recover(self) -> None:
        """Moves what the last commit has not moved yet, then removes all that nothing refers to.

        What is on the disk counts: where an append has failed, it may have committed or not.
        """
        found, last = read_commit(self.folder), self.last
        if last is not None and (found is None or found.query != last.query or found.batch < last.batch):
            raise PipelineError(
                f"{self.where} was removed or put back from an older copy while the pipeline ran: rows would "
                "be missing. Put it back, or give the pipeline another checkpoint and another path"
            )
        self.last = found
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
        if self.last is not None and self.last.query != query:
            raise PipelineError(f"{self.where} was written with another checkpoint")
        staging = self._ours / f"{_STAGING}{uuid.uuid4().hex}"
        files = {
            staged: str(PurePosixPath(staged).with_name(f"batch-{batch:010d}-{number:05d}.parquet"))
            for number, staged in enumerate(sorted(write(staging)))
        }
        synchronise_files(staging, files, self._ours)
        self._claim()
        commit = TableCommit(query, batch, schema, list(layout), staging.name, files)
        self._replace("commit.json", commit)
        self.recover()

    def compact(self, target_bytes: int, step: Step, *, dry_run: bool = False) -> Compacted:
        """Merges the files of each partition folder, in the order of their batches."""
        assert self._lock is not None
        self.recover()
        listed = self._listed(self.last)
        files = self._by_folder(listed)
        planned = [
            group
            for folder in sorted(files)
            for group in groups(((path, listed[path]) for path in files[folder]), target_bytes)
        ]
        done, merging = 0, sum(map(len, planned))
        step(done, merging)
        before = [path for found in files.values() for path in found]
        for group in [] if dry_run else planned:
            self._merge(group)
            done += len(group)
            step(done, merging)
        after = None if dry_run else self._listed(self.last)
        return Compacted(
            files_before=len(before),
            files_after=len(before) - merging + len(planned),
            bytes_before=sum(listed[path] for path in before),
            bytes_after=None
            if after is None
            else sum(after[path] for found in self._by_folder(after).values() for path in found),
            folders=len({group[0].parent for group in planned}),
        )

    def require_rewind(self, query: str, batch: int) -> None:
        """No file may have rows of both sides."""
        self._since(query, batch)

    def _since(self, query: str, batch: int) -> tuple[TableCommit, list[PurePosixPath]]:
        """The last commit, and the files of the batches behind one."""
        if self._lock is not None:  # who only asks has none, and changes nothing
            self.recover()
        last = read_commit(self.folder)
        assert last is not None
        assert last.query == query
        ours = [name for name in self._listed(last) if _FILE.fullmatch(name.name)]
        for name in ours:
            (begin, _), (end, _) = _span(name)
            if begin <= batch < end:
                raise RewindRefusedError(
                    f"{self.where}/{name} was merged of batches {begin} to {end}, and only those up to "
                    f"{batch} are to stay: give an earlier time"
                )
        return last, [name for name in ours if _span(name)[0][0] > batch]

    def rewind(self, query: str, batch: int) -> None:
        """Removes the files of later batches, then says so. Readers see a part of it for a moment."""
        assert self._lock is not None
        last, newer = self._since(query, batch)
        self._place.remove(map(str, newer))
        # No files: they are where they belong.
        self._replace("commit.json", replace(last, batch=batch, files={}))
        self.last = None
        self.recover()

    def _by_folder(self, listed: Iterable[PurePosixPath]) -> dict[PurePosixPath, list[PurePosixPath]]:
        """Our files by their partition folders, each in the order of batches."""
        found: dict[PurePosixPath, list[PurePosixPath]] = {}
        for path in listed:
            if _FILE.fullmatch(path.name):
                found.setdefault(path.parent, []).append(path)
        for paths in found.values():
            paths.sort(key=_span)
            for path, following in itertools.pairwise(paths):
                if _span(following)[0] <= _span(path)[1]:
                    raise PipelineError(
                        f"{self.where}/{following} has rows that {path.name} has too, as if it was put back "
                        "from a copy: remove one of them"
                    )
        return found

    def _merge(self, sources: Sequence[PurePosixPath]) -> None:
        (batch, number), (last, last_number) = _span(sources[0])[0], _span(sources[-1])[1]
        name = f"batch-{batch:010d}-{number:05d}-to-{last:010d}-{last_number:05d}.parquet"
        staging = self._ours / f"{_STAGING}{uuid.uuid4().hex}"
        staging.mkdir()
        with ExitStack() as held:
            found = [held.enter_context(self._place.readable(str(one), staging)) for one in sources]
            merge(found, staging / name)
        synchronise_up(staging, self._ours)
        file = sources[0].with_name(name)
        self._replace("compaction.json", Merge(staging.name, str(file), list(map(str, sources))))
        self.recover()

    def _take_place(self, change: Merge) -> None:
        """Puts the merged file into the table and removes its sources."""
        source = self._ours / change.staging / PurePosixPath(change.file).name
        self._move({source: change.file}, "a merged file whose sources were not removed yet")
        self._place.remove(change.sources)
        (self._ours / "compaction.json").unlink()
        synchronise(self._ours)

    def _move(self, files: Mapping[Path, str], what: str) -> None:
        """Has staged files at their places in the table, of which some may be there already.
        Raises PipelineError for `what` is neither here nor there.
        """
        staged = {source: name for source, name in files.items() if source.exists()}
        for source, name in files.items():
            if source not in staged and not self._place.has(name):
                raise PipelineError(f"{self.where}/{name} is gone, {what}")
        self._place.put(staged)

    def _replace(self, name: str, commit: TableCommit | Merge) -> None:
        """The commit point."""
        replace_note(self._ours / name, asdict(commit))

    def _publish(self, commit: TableCommit) -> None:
        files = {self._ours / commit.staging / staged: final for staged, final in commit.files.items()}
        self._move(files, f"a file of batch {commit.batch} that was not published yet")

    def __repr__(self) -> str:
        return f"<ParquetFolder {self.where} batch={self.last.batch if self.last else None}>"


def _span(path: PurePath) -> tuple[tuple[int, int], tuple[int, int]]:
    """The batch and the number in it of the first and of the last file that a file of ours was made of."""
    named = _FILE.fullmatch(path.name)
    assert named is not None
    first = int(named[1]), int(named[2])
    return first, (int(named[3]), int(named[4])) if named[3] else first


def _claimed(claim: Mapping[str, Any]) -> str:
    """The name of a claim in the store."""
    return f"{OURS}/claim-{claim.get('id')}.json"


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
