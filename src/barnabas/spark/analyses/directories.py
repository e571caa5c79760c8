"""Log directories as the analyses read them: checked before Spark starts, and opened as DataFrames."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import OptionError
from barnabas.spark.logs.options import View, log_options
from barnabas.spark.logs.segments import Segment, find_segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Directories:
    """Log directories that can be read, and the partitions in them."""

    paths: tuple[str, ...]
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]

    @property
    def names(self) -> list[str]:
        """The topics that are there."""
        return sorted({tp.topic for tp in self.partitions})

    def segments(self) -> list[Segment]:
        """The segments whose records are read, of one replica of each partition. Raises OptionError."""
        return find_segments(
            log_options(
                {
                    "path": ",".join(self.paths),
                    "subscribe": ",".join(self.topics),
                    "corruptBatches": "skip",
                }
            )
        )

    def read(self, spark: "SparkSession", view: View, **options: Any) -> "DataFrame":
        """A view of ``barnabas-log``; corrupt batches are left out, `damage` counts them."""
        options |= {"view": view.value, "corruptBatches": "skip"}
        if self.topics:
            options["subscribe"] = ",".join(self.topics)
        return spark.read.format("barnabas-log").options(**options).load(list(self.paths))


def directories(paths: str | Path | Iterable[str | Path], *, topics: Sequence[str] = ()) -> Directories:
    """The log directories, where each file of the `topics` (all of them, unless given) can be read.

    Raises OptionError, in one line: for a directory that is missing or none of a log, one without segments of
    these topics, and a file that cannot be read.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    names = tuple(str(path) for path in given)
    if not names:
        raise OptionError("name at least one log directory")
    options = log_options(
        {"path": ",".join(names), "view": "segments", "subscribe": ",".join(topics), "corruptBatches": "skip"}
    )
    try:
        segments = find_segments(options)
        for segment in segments:
            with Path(segment.path).open("rb") as file:
                file.read(1)
    except FileNotFoundError as error:
        raise OptionError(
            f"{error.filename} was removed while the directories were looked through"
        ) from error
    except OSError as error:
        raise OptionError(f"cannot read {error.filename}: {error.strerror}") from error
    if not segments:
        of_topics = f" of {', '.join(topics)}" if topics else ""
        raise OptionError(f"{', '.join(names)} has no segment{of_topics}")
    return Directories(names, tuple(topics), tuple(sorted({segment.tp for segment in segments})))


def damage(segments: Sequence[Any]) -> list[str]:
    """Lines about what of the segments (rows of their view) is damaged; none where nothing is."""
    torn = sum(one["tornBytes"] for one in segments)
    corrupt, corrupt_bytes = (
        sum(one[name] for one in segments) for name in ("corruptBatches", "corruptBytes")
    )
    lines = []
    if torn:
        files = sum(one["tornBytes"] > 0 for one in segments)
        lines.append(f"Left out: torn tails, {torn:,} bytes at the end of {_segments(files)}.")
    if corrupt:
        files = sum(one["corruptBatches"] > 0 for one in segments)
        lines.append(
            f"Left out: corrupt batches, {corrupt:,} with {corrupt_bytes:,} bytes in {_segments(files)}."
        )
    return lines


def _segments(count: int) -> str:
    return f"{count:,} segment{'' if count == 1 else 's'}"
