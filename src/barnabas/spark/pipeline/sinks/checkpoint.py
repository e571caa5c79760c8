"""What Spark's checkpoint of a query says: its id, which batches have ended, and where each of them ended.

``offsets/17`` is written before batch 17 is read: a version, what Spark knows of the batch, and the end of
each source, of which a pipeline has one. ``commits/17`` is written when the batch has ended.
"""

import datetime as dt
import json
from pathlib import Path

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError
from barnabas.spark.offsets import Positions, SourceOffset
from barnabas.spark.pipeline.tables.notes import damaged, read_note


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
                (folder / str(number)).unlink()
                (folder / f".{number}.crc").unlink(missing_ok=True)
        if folder.is_dir():
            synchronise(folder)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())
