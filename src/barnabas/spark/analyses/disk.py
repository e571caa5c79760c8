"""What fills the disk: by topic, partition, codec, age, size of a record and prefix of a key; and what goes
next.

Three passes over the directories: over segments (what is there, what is damaged), over batches (bytes as they
lie on the disk, and without their compression) and over records (their sizes and keys). Bytes of batches are
counted. What a record takes on the disk cannot be counted where it is compressed with others, so a group of
records gets the share of its topic's bytes that its keys and values have of all keys and values.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.spark.analyses import disk_tables
from barnabas.spark.analyses.analysis import Analysis
from barnabas.spark.analyses.columns import bytes_text, time_text
from barnabas.spark.analyses.directories import Directories, damage, directories
from barnabas.spark.analyses.disk_passes import KEY_PREFIX, batch_sums, record_sums
from barnabas.spark.analyses.retention import BY_DEFAULT, Retention, next_drops
from barnabas.spark.analyses.table import AnalysisTable
from barnabas.spark.logs.options import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def disk_usage(
    spark: "SparkSession",
    paths: str | Path | Iterable[str | Path] | Directories,
    *,
    topics: Sequence[str] = (),
    retention: Mapping[str, Retention] | None = None,
    default_retention: Retention = BY_DEFAULT,
    key_prefix: str = KEY_PREFIX,
    now: datetime | None = None,
) -> Analysis:
    """What fills log directories, Apache Kafka's or ours; every replica in them counts.

    `retention` by topic is for the segments that are dropped next (`retention_of` asks brokers),
    `default_retention` for the topics that are not in it. `key_prefix` is a regular expression of Java whose
    match in a key is its prefix. Raises OptionError where the directories cannot be read.
    """
    found = paths if isinstance(paths, Directories) else directories(paths, topics=topics)
    now = now or datetime.now(UTC)
    segments = found.read(spark, View.SEGMENTS).toArrow().to_pylist()
    batches = batch_sums(found.read(spark, View.BATCHES, uncompressedBytes="true"), now)
    sizes, prefixes = record_sums(found.read(spark, View.RECORDS), key_prefix)
    drops = next_drops(segments, retention or {}, default_retention, now)
    tables = {
        "topics": disk_tables.topics(batches, segments),
        "partitions": disk_tables.partitions(batches),
        "codecs": disk_tables.codecs(batches),
        "ages": disk_tables.ages(batches),
        "record_sizes": disk_tables.record_sizes(sizes, batches),
        "key_prefixes": disk_tables.key_prefixes(prefixes, sizes, batches),
        "next_drops": disk_tables.next_drops(drops, now),
    }
    size = sum(one["sizeInBytes"] for one in segments)
    return Analysis("What fills the disk", *_answer(tables, size, now), tables, damage(segments))


def _answer(
    tables: Mapping[str, AnalysisTable], size: int, now: datetime
) -> tuple[str, list[tuple[str, str]]]:
    """The sentence above the tables, and the figures."""
    topics, drops = tables["topics"].rows, tables["next_drops"].rows
    if not topics:
        return f"{bytes_text(size)} of segments, without a whole batch.", []
    plain = sum(row["uncompressedBytes"] for row in topics)
    held = sum(row["sizeInBytes"] for row in topics)
    largest = topics[0]
    lead = (
        f"{largest['topic']} takes {largest['share']:.0%} of {bytes_text(held)}, compressed "
        f"{largest['ratio']:.1f} "
        f"to 1. {_upcoming(drops, now)}"
    )
    day = sum(
        one["sizeInBytes"] for one in drops if one["dropsAt"] and one["dropsAt"] <= now + timedelta(days=1)
    )
    figures: list[tuple[str, str]] = [
        (bytes_text(held), "in batches on the disk"),
        (bytes_text(plain), "without compression"),
        (f"{plain / held:.2f}x", "ratio of the two"),
        (f"{sum(row['records'] for row in topics):,}", "records"),
        (bytes_text(day), "may go within a day"),
    ]
    return lead, figures


def _upcoming(drops: Sequence[Mapping[str, Any]], now: datetime) -> str:
    due = sum(one["sizeInBytes"] for one in drops if one["dropsAt"] == now)
    following = [one for one in drops if one["dropsAt"] and one["dropsAt"] > now]
    words = [f"Retention may drop {bytes_text(due)} now."] if due else []
    if following:
        one = following[0]
        words.append(
            f"The next segment, {bytes_text(one['sizeInBytes'])} of {one['topic']}-{one['partition']}, goes "
            f"at {time_text(one['dropsAt'])} UTC."
        )
    return " ".join(words) or "Retention drops nothing of it."
