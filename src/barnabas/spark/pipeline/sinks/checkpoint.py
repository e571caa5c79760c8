"""What Spark's checkpoint of a query says: its id, which batches have ended, and where each of them ended.

``offsets/17`` is written before batch 17 is read: a version, what Spark knows of the batch, and the end of
each source, of which a pipeline has one. ``commits/17`` is written when the batch has ended.
"""

import datetime as dt
import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError
from barnabas.spark.offsets import Positions, SourceOffset
from barnabas.spark.pipeline.tables.notes import damaged, read_note

_log = logging.getLogger("barnabas.spark")


@contextmanager
def held(checkpoint: Path, name: str, refusal: str) -> Iterator[IO[bytes]]:
    """Holds a lock in the checkpoint, which is made where it is not there. Raises PipelineError with the
    words of `refusal` where another process holds it.
    """
    checkpoint.mkdir(parents=True, exist_ok=True)
    with (checkpoint / name).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(refusal) from None
        yield lock


@contextmanager
def used(checkpoint: Path) -> Iterator[Callable[[], None]]:
    """Keeps other runs from the checkpoint, also those of another file: of two queries each would leave out
    the batches that the other one has done. Gives what raises PipelineError once the checkpoint is gone or
    another one: a query that is started then begins anew, and reads all records again.
    """
    with held(checkpoint, "run.lock", f"{checkpoint} is being used by another process") as lock:

        def require_same() -> None:
            try:
                same = os.path.samestat(os.fstat(lock.fileno()), Path(lock.name).stat())
            except FileNotFoundError:
                same = False
            if not same:
                raise gone(checkpoint)

        yield require_same


def gone(checkpoint: Path) -> PipelineError:
    """The error for a checkpoint that is not there any more."""
    return PipelineError(
        f"{checkpoint} was removed or replaced while the pipeline ran: put it back, or give the pipeline "
        "another checkpoint and another path, and all is read again"
    )


def query_id(checkpoint: Path) -> str | None:
    """The id of the query that a checkpoint belongs to, None before its first start."""
    path, what = checkpoint / "metadata", "checkpoint's"
    found = read_note(path, what)
    if found is not None and "id" not in found:
        raise damaged(path, what, ValueError("it has no id"))
    return None if found is None else str(found["id"])


def ended(checkpoint: Path) -> list[int]:
    """The batches that have ended, in order; Spark forgets all but the last hundred or so."""
    return _numbers(checkpoint / "commits")


def begun(checkpoint: Path) -> list[int]:
    """The batches that were begun, in order, as far back as Spark remembers."""
    return _numbers(checkpoint / "offsets")


def end_of(checkpoint: Path, batch: int) -> SourceOffset:
    """Where a batch ended that was begun. Raises PipelineError where Spark has forgotten it, or for a file
    that is damaged.
    """
    path = checkpoint / "offsets" / str(batch)
    try:
        return SourceOffset.decode(json.loads(path.read_text(encoding="utf-8").splitlines()[2]))
    except (OSError, ValueError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise PipelineError(f"{path} cannot be read: {error}") from None


def moments(checkpoint: Path, batch: int) -> tuple[dt.datetime, dt.datetime, Positions]:
    """When a batch was begun, when it had ended, and where. Raises PipelineError as `end_of` does."""
    positions = end_of(checkpoint, batch).positions
    path = checkpoint / "offsets" / str(batch)
    try:
        said = json.loads(path.read_text(encoding="utf-8").splitlines()[1])
        begun = dt.datetime.fromtimestamp(said["batchTimestampMs"] / 1000, dt.UTC)
        end = dt.datetime.fromtimestamp((checkpoint / "commits" / str(batch)).stat().st_mtime, dt.UTC)
    except (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise PipelineError(f"{path} cannot be read: {error}") from None
    return begun, end, positions


def go_back(checkpoint: Path, batch: int) -> None:
    """Has Spark do a batch again that it has begun, with the same records, and then those behind it."""
    for name, first in (("commits", batch), ("offsets", batch + 1)):
        folder = checkpoint / name
        for number in reversed(_numbers(folder)):
            if number >= first:
                _remove(folder, number)
        if folder.is_dir():
            synchronise(folder)


def mend(checkpoint: Path, has: Callable[[int], bool]) -> None:
    """Removes the newest files where a loss of power has left them empty or cut, with which Spark would not
    start: it does not have them on the disk before it goes on. `has` says whether a table has rows of a
    batch.

    A batch without its commit is done again, and the tables pass over it. Its offsets were on the disk before
    a table had it; where they are damaged no table does, and it is planned anew. Raises PipelineError where
    one does.
    """
    for number in reversed(ended(checkpoint)):
        if _is_whole(checkpoint / "commits" / str(number)):
            break
        _log.warning("%s is damaged: batch %s is done again", checkpoint / "commits" / str(number), number)
        _remove(checkpoint / "commits", number)
    last = max(begun(checkpoint), default=None)
    if last is None or _is_whole(checkpoint / "offsets" / str(last)):
        return
    if last in ended(checkpoint) or (query_id(checkpoint) is not None and has(last)):
        raise PipelineError(
            f"{checkpoint / 'offsets' / str(last)} is damaged, and batch {last} is done: put it back from a"
            " copy, or give the pipeline another checkpoint and another path"
        )
    _log.warning("%s is damaged: batch %s is planned anew", checkpoint / "offsets" / str(last), last)
    _remove(checkpoint / "offsets", last)


def _is_whole(path: Path) -> bool:
    """Whether a file is one of Spark's: a version, then lines of JSON, or "-" for a source without an
    offset.
    """
    try:
        version, *lines = path.read_text(encoding="utf-8").splitlines()
        for line in lines:
            if line != "-":
                json.loads(line)
    except (OSError, ValueError, RecursionError):
        return False
    return version.startswith("v") and bool(lines)


def _remove(folder: Path, number: int) -> None:
    """Has Spark forget a file of a batch."""
    (folder / str(number)).unlink()
    (folder / f".{number}.crc").unlink(missing_ok=True)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())
