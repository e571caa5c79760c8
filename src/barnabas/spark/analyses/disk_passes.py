"""What `barnabas.spark.analyses.disk` asks of Spark: sums of batches, and of records."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from barnabas.spark.analyses.table import Rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY_PREFIX: Final = r"^[^:/._|#-]{0,8}"
"""What stands before the first separator, at most eight characters of it."""
PREFIXES_MAX: Final = 1000
NO_KEY: Final = "(no key)"
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


def batch_sums(frame: "DataFrame", now: datetime) -> Rows:
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


def record_sums(frame: "DataFrame", key_prefix: str) -> tuple[Rows, Rows]:
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
