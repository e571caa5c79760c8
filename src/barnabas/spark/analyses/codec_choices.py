"""Codecs and batch sizes: what the records of each topic would take, by packing real batches again.

A topic of at most `sample_bytes` is packed as a whole, and its figures are counted. Of a larger one pieces
are packed that are spread evenly over its segments; what they say of the whole topic is scaled up, and called
so. Times are processor time of one thread, on the machine of the task. What another codec would cost brokers
and consumers is their decompression; the network is not looked at.

A batch holds records that follow one another in a partition: a producer reaches such batches where its
``linger.ms`` is long enough for them. The size of a batch is that before compression.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from barnabas.spark.analyses import codec_tables as tables
from barnabas.spark.analyses.analysis import Analysis
from barnabas.spark.analyses.columns import bytes_text, size_text
from barnabas.spark.analyses.directories import Directories, directories
from barnabas.spark.analyses.table import Row, Rows
from barnabas.spark.errors import OptionError, in_one_line
from barnabas.spark.ranges import pack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.analyses.codec_packing import Choice
    from barnabas.spark.analyses.codec_sample import Sample

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BATCH_SIZES: Final = (16 << 10, 64 << 10, 256 << 10)
SAMPLE_BYTES: Final = 8 << 20
WORTHWHILE: Final = 0.05
"""Less is not worth a change."""
NAMED_MAX: Final = 3
TASK_BYTES: Final = 1 << 20
"""All codecs and sizes over so much take seconds."""
_PACKED: Final = (
    "topic string, codec string, batchSize bigint, batches bigint, records bigint, plainBytes bigint, "
    "packedBytes bigint, "
    "compressNs bigint, decompressNs bigint"
)
"""The columns of `codec_packing.PACKED`, which would load numba here."""


def check_choices(codecs: Sequence[str], batch_sizes: Sequence[int]) -> tuple[list["Choice"], list[int]]:
    """The codecs with their levels, and the sizes, each once. Raises OptionError."""
    from barnabas.spark.analyses.codec_packing import choice

    choices, sizes = list(dict.fromkeys(choice(text) for text in codecs)), sorted(set(batch_sizes))
    if not choices or not sizes or sizes[0] < 1:
        raise OptionError("name at least one codec and one batch size, of 1 byte or more")
    return choices, sizes


def codecs(
    spark: "SparkSession",
    paths: str | Path | Iterable[str | Path] | Directories,
    *,
    topics: Sequence[str] = (),
    codecs: Sequence[str] = CODECS,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    sample_bytes: int = SAMPLE_BYTES,
) -> Analysis:
    """What topics would take with other codecs and batch sizes, in log directories of Apache Kafka or ours.

    `codecs` may have levels, as ``zstd:9``. `batch_sizes` are bytes before compression. Of each topic at most
    `sample_bytes` are packed, as they lie on the disk. Raises OptionError where the directories cannot be
    read.
    """
    from barnabas.spark.analyses.codec_sample import sample

    choices, sizes = check_choices(codecs, batch_sizes)
    if sample_bytes < 1:
        raise OptionError("sample_bytes must be 1 or more")
    found = paths if isinstance(paths, Directories) else directories(paths, topics=topics)
    by_topic = groupby(found.segments(), key=lambda segment: segment.tp.topic)
    samples = [sample(name, list(segments), sample_bytes, sizes[-1]) for name, segments in by_topic]
    packed = _packed(spark, samples, choices, sizes)
    made = tables.choices(samples, packed)
    best = tables.best(samples, packed, made)
    shown = {
        "topics": tables.topics(best),
        "choices": tables.choices_table(made, best),
    }
    return Analysis("Codecs and batch sizes", _answer(best), _figures(best), shown, _notes(packed))


def _packed(
    spark: "SparkSession", samples: Sequence["Sample"], choices: Sequence["Choice"], sizes: Sequence[int]
) -> Rows:
    """The sums of every piece; a task has some megabyte of them."""
    pieces = [piece for one in samples for piece in one.pieces]
    tasks = pack(pieces, -(-sum(piece.size for piece in pieces) // TASK_BYTES))

    def packing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from barnabas.spark.analyses.codec_packing import pack_again

        with in_one_line():
            for rows in batches:
                for number in rows["id"].to_pylist():
                    for piece in tasks[number]:
                        yield pack_again(piece, choices, sizes)

    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    found: Rows = numbers.mapInArrow(packing, _PACKED).toArrow().to_pylist()
    return found


def _answer(best: Sequence[Row]) -> str:
    """Which codec and batch size would save how much for which topic, and what that costs."""
    if not best:
        return "There are no records to pack."
    worthwhile = [row for row in best if row["toNow"] <= 1 - WORTHWHILE]
    if not worthwhile:
        return f"No topic would save {WORTHWHILE:.0%} by another of these codecs and batch sizes."
    row = worthwhile[0]
    saves = (
        f"{row['topic']}: {row['bestCodec']} in batches of {size_text(row['bestBatchSize'])} would save "
        f"{1 - row['toNow']:.0%}, {_about(row)}{bytes_text(row['savedBytes'])} of "
        f"{bytes_text(row['sizeInBytes'])} (now "
        f"{row['nowCodec']}, {bytes_text(row['batchBytes'])} a batch)."
    )
    costs = (
        f"It takes {row['compressMs']:.1f} ms of processor time to compress a MiB, now "
        f"{row['nowCompressMs']:.1f}, and "
        f"{row['decompressMs']:.1f} ms to decompress it, now {row['nowDecompressMs']:.1f}."
    )
    words = [saves, costs]
    others = [
        f"{one['topic']} {1 - one['toNow']:.0%} with {one['bestCodec']} and {size_text(one['bestBatchSize'])}"
        for one in worthwhile[1 : 1 + NAMED_MAX]
    ]
    if others:
        words.append(f"Next: {', '.join(others)}.")
    return " ".join(words)


def _about(row: Row) -> str:
    return "" if row["sampledShare"] is None else "about "


def _figures(best: Sequence[Row]) -> list[tuple[str, str]]:
    if not best:
        return []
    held, saved = (sum(row[name] for row in best) for name in ("sizeInBytes", "savedBytes"))
    read = sum(row["sampledBytes"] for row in best)
    words = "less" if all(row["sampledShare"] is None for row in best) else "less, scaled up,"
    return [
        (bytes_text(held), "in segments on the disk"),
        (bytes_text(read), "of them packed again"),
        (bytes_text(saved), f"{words} with the best choice of each topic"),
        (f"{saved / held:.0%}", "of all"),
    ]


def _notes(packed: Rows) -> list[str]:
    damaged = sum(row["batches"] for row in packed if row["codec"] is None)
    return [f"Left out: corrupt batches, {damaged:,} of what was packed."] if damaged else []
