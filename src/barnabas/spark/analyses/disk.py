"""What fills the disk: by topic, partition, codec, age, size of a record and prefix of a key; and what goes next.

Three passes over the directories: over segments (what is there, what is damaged), over batches (bytes as they lie on
the disk, and without their compression) and over records (their sizes and keys). Bytes of batches are counted. What a
record takes on the disk cannot be counted where it is compressed with others, so groups of records get the part of
their topic's bytes that their keys and values have of all.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.analyses import disk_charts
from barnabas.spark.analyses.analysis import Analysis, Table
from barnabas.spark.analyses.columns import bytes_text, time_text
from barnabas.spark.analyses.directories import Directories, damage, directories
from barnabas.spark.analyses.retention import BY_DEFAULT, Retention, next_drops
from barnabas.spark.logs.options import View

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Rows = list[dict[str, Any]]

KEY_PREFIX: Final = r"^[^:/._|#-]{0,8}"
"""What stands before the first separator, at most eight characters of it."""
PREFIXES_MAX: Final = 1000
NO_KEY: Final = "(no key)"
OTHERS: Final = "(others)"
AGES: Final = (
    (timedelta(hours=1), "under an hour"),
    (timedelta(days=1), "under a day"),
    (timedelta(days=7), "under a week"),
    (timedelta(days=30), "under 30 days"),
    (timedelta(days=365), "under a year"),
)
OLDER, TIMELESS = "a year and more", "without a time"
SIZES: Final = (
    (100, "under 100 B"),
    (1 << 10, "under 1 KB"),
    (10 << 10, "under 10 KB"),
    (100 << 10, "under 100 KB"),
    (1 << 20, "under 1 MB"),
)
LARGER: Final = "1 MB and more"


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

    `retention` by topic is for the segments that are dropped next (`retention_of` asks brokers), `default_retention`
    for the topics that it has not. `key_prefix` is a regular expression of Java whose match in a key is its prefix.
    Raises OptionError where the directories cannot be read.
    """
    found = paths if isinstance(paths, Directories) else directories(paths, topics=topics)
    now = now or datetime.now(UTC)
    segments = found.read(spark, View.SEGMENTS).toArrow().to_pylist()
    batches = _batches(found.read(spark, View.BATCHES, uncompressedBytes="true"), now)
    sizes, prefixes = _records(found.read(spark, View.RECORDS), key_prefix)
    drops = next_drops(segments, retention or {}, default_retention, now)
    tables = {
        "topics": _topics(batches, segments),
        "partitions": _partitions(batches),
        "codecs": _codecs(batches),
        "ages": _ages(batches),
        "record_sizes": _record_sizes(sizes, batches),
        "key_prefixes": _key_prefixes(prefixes, sizes, batches),
        "next_drops": _next_drops(drops, now),
    }
    size = sum(one["sizeInBytes"] for one in segments)
    return Analysis("What fills the disk", *_answer(tables, size, now), tables, damage(segments))


def _batches(frame: "DataFrame", now: datetime) -> Rows:
    """Sums by topic, partition, codec and age. A marker of a transaction takes its bytes and is no record."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    age = F.lit(now) - F.col("maxTimestamp")
    named = F.when(F.col("maxTimestamp").isNull(), TIMELESS)
    for limit, name in AGES:
        named = named.when(age < F.lit(limit), name)
    grouped = frame.where("isValid").groupBy(
        "topic", "partition", "codec", named.otherwise(OLDER).alias("age")
    )
    found: Rows = (
        grouped.agg(
            F.count("*").alias("batches"),
            F.sum(F.when(F.col("isControl"), 0).otherwise(F.col("count"))).alias("records"),
            F.sum(F.col("sizeInBytes").cast("long")).alias("sizeInBytes"),
            # A batch that cannot be decompressed counts as it is.
            F.sum(F.coalesce("uncompressedBytes", F.col("sizeInBytes").cast("long"))).alias(
                "uncompressedBytes"
            ),
            F.min("baseTimestamp").alias("oldest"),
            F.max("maxTimestamp").alias("newest"),
        )
        .toArrow()
        .to_pylist()
    )
    return found


def _records(frame: "DataFrame", key_prefix: str) -> tuple[Rows, Rows]:
    """Sums by topic and size class, and by topic and prefix of the key, the largest prefixes only."""
    from pyspark.sql import functions as F  # noqa: N812

    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    keys = F.regexp_extract(F.make_valid_utf8(F.col("key").cast("string")), key_prefix, 0)
    grouped = (
        frame.select(
            "topic",
            _size_class(size).alias("sizeClass"),
            F.when(F.col("key").isNull(), NO_KEY).otherwise(keys).alias("keyPrefix"),
            size.cast("long").alias("bytes"),
        )
        .groupingSets([["topic", "sizeClass"], ["topic", "keyPrefix"]], "topic", "sizeClass", "keyPrefix")
        .agg(F.count("*").alias("records"), F.sum("bytes").alias("recordBytes"))
        .cache()
    )
    try:
        of_sizes = grouped.where("sizeClass is not null").drop("keyPrefix").toArrow().to_pylist()
        largest = (
            grouped.where("sizeClass is null").drop("sizeClass").orderBy(F.desc("recordBytes"), "keyPrefix")
        )
        return of_sizes, largest.limit(PREFIXES_MAX).toArrow().to_pylist()
    finally:
        grouped.unpersist()


def _size_class(size: "Column") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    named = F.when(size < SIZES[0][0], SIZES[0][1])
    for limit, name in SIZES[1:]:
        named = named.when(size < limit, name)
    return named.otherwise(LARGER)


def _sums(rows: Rows, by: Sequence[str], names: Sequence[str]) -> Rows:
    """The rows added up by some columns, the largest on the disk first; with the oldest and the newest time."""
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    total = sum(row["sizeInBytes"] for row in rows) or 1
    found = []
    for key, members in groups.items():
        one = dict(zip(by, key, strict=True))
        one |= {name: sum(row[name] for row in members) for name in names}
        one["ratio"] = one["uncompressedBytes"] / one["sizeInBytes"]
        one["share"] = one["sizeInBytes"] / total
        for name, choose in (("oldest", min), ("newest", max)):
            one[name] = choose((row[name] for row in members if row[name]), default=None)
        found.append(one)
    return sorted(found, key=lambda one: (-one["sizeInBytes"], *(one[name] for name in by)))


_COUNTED: Final = ("batches", "records", "sizeInBytes", "uncompressedBytes")


def _topics(batches: Rows, segments: Rows) -> Table:
    rows = _sums(batches, ["topic"], _COUNTED)
    by_topic: dict[str, Rows] = {}
    for one in segments:
        by_topic.setdefault(one["topic"], []).append(one)
    for row in rows:
        own = by_topic.get(row["topic"], [])
        row["segments"] = len(own)
        row["partitions"] = len({one["partition"] for one in own})
        row["indexBytes"] = sum(one["indexBytes"] for one in own)
    return Table(
        "Topics",
        ("topic", "partitions", "segments", "records", "sizeInBytes", "share", "uncompressedBytes", "ratio", "indexBytes"),
        rows,
        "Bytes of whole batches in the segments, and what they would take without their compression.",
        disk_charts.topics(rows),
        hidden=("batches", "oldest", "newest"),
    )  # fmt: skip


def _partitions(batches: Rows) -> Table:
    return Table(
        "Partitions",
        ("topic", "partition", "records", "sizeInBytes", "share", "ratio", "oldest", "newest"),
        _sums(batches, ["topic", "partition"], _COUNTED),
        "Times are those of records, by their producers' clocks unless the topic says LogAppendTime.",
        hidden=("batches", "uncompressedBytes"),
    )


def _codecs(batches: Rows) -> Table:
    rows = _sums(batches, ["topic", "codec"], _COUNTED)
    for row in rows:
        row["batchBytes"] = row["sizeInBytes"] / row["batches"]
    return Table(
        "Codecs",
        (
            "topic",
            "codec",
            "batches",
            "batchBytes",
            "records",
            "sizeInBytes",
            "share",
            "uncompressedBytes",
            "ratio",
        ),
        rows,
        "A topic has several codecs where producers differ and the topic keeps what they send (compression.type=producer).",
    )


def _ages(batches: Rows) -> Table:
    order = [*(name for _, name in AGES), OLDER, TIMELESS]
    rows = sorted(_sums(batches, ["age"], _COUNTED), key=lambda row: order.index(row["age"]))
    return Table(
        "Age",
        ("age", "batches", "records", "sizeInBytes", "share", "uncompressedBytes", "ratio"),
        rows,
        "By the newest record of each batch.",
        disk_charts.shares([(row["age"], row["sizeInBytes"]) for row in rows]),
    )


def _with_disk(rows: Rows, sizes: Rows, batches: Rows) -> Rows:
    """The rows with their part of their topic's bytes on the disk."""
    plain, disk = (_by_topic(held, name) for held, name in ((sizes, "recordBytes"), (batches, "sizeInBytes")))
    return [
        {
            **row,
            "diskBytes": round(disk.get(row["topic"], 0) * row["recordBytes"] / (plain[row["topic"]] or 1)),
        }
        for row in rows
    ]


def _by_topic(rows: Rows, name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[row["topic"]] = found.get(row["topic"], 0) + row[name]
    return found


def _record_sizes(sizes: Rows, batches: Rows) -> Table:
    order = [*(name for _, name in SIZES), LARGER]
    rows = sorted(
        _with_disk(sizes, sizes, batches), key=lambda row: (row["topic"], order.index(row["sizeClass"]))
    )
    return Table(
        "Sizes of records",
        ("topic", "sizeClass", "records", "recordBytes", "diskBytes"),
        rows,
        "Keys and values as they are, without headers; on the disk, their part of the topic's bytes. A record counts "
        "once where several directories have replicas.",
    )


def _key_prefixes(prefixes: Rows, sizes: Rows, batches: Rows) -> Table:
    rows = _with_disk(prefixes + _others(prefixes, sizes), sizes, batches)
    rows.sort(key=lambda row: (-row["recordBytes"], row["topic"], row["keyPrefix"]))
    return Table(
        "Keys by prefix",
        ("topic", "keyPrefix", "records", "recordBytes", "diskBytes"),
        rows,
        "The prefix of a key is what stands before its first separator, at most eight characters, unless another rule was given.",
        disk_charts.largest([(f"{row['topic']} {row['keyPrefix']}", row["diskBytes"]) for row in rows]),
    )


def _others(prefixes: Rows, sizes: Rows) -> Rows:
    """What the topics have beside the largest prefixes, so that the rows of each add up."""
    left = []
    records, sums = _by_topic(sizes, "records"), _by_topic(sizes, "recordBytes")
    shown, shown_sums = _by_topic(prefixes, "records"), _by_topic(prefixes, "recordBytes")
    for topic, count in records.items():
        rest = count - shown.get(topic, 0)
        if rest:
            left.append(
                {"topic": topic, "keyPrefix": OTHERS, "records": rest, "recordBytes": sums[topic] - shown_sums.get(topic, 0)}
            )  # fmt: skip
    return left


def _next_drops(drops: Rows, now: datetime) -> Table:
    return Table(
        "What retention drops next",
        ("topic", "partition", "baseOffset", "records", "sizeInBytes", "dropsAt", "reason"),
        drops,
        "The earliest time, in UTC; a broker looks every five minutes (log.retention.check.interval.ms). The newest segment is rolled "
        "first when its time comes.",
        disk_charts.shares(disk_charts.by_time(drops, now)),
        hidden=("file",),
    )


def _answer(tables: Mapping[str, Table], size: int, now: datetime) -> tuple[str, list[tuple[str, str]]]:
    """The sentence above the tables, and the figures."""
    topics, drops = tables["topics"].rows, tables["next_drops"].rows
    if not topics:
        return f"{bytes_text(size)} of segments, without a whole batch.", []
    plain = sum(row["uncompressedBytes"] for row in topics)
    held = sum(row["sizeInBytes"] for row in topics)
    largest = topics[0]
    lead = (
        f"{largest['topic']} takes {largest['share']:.0%} of {bytes_text(held)}, compressed {largest['ratio']:.1f} "
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
            f"The next segment, {bytes_text(one['sizeInBytes'])} of {one['topic']}-{one['partition']}, goes at "
            f"{time_text(one['dropsAt'])} UTC."
        )
    return " ".join(words) or "Retention drops nothing of it."
