"""What `barnabas.spark.analyses.key_skew` asks of Spark: exact counts by partition and by key.

The records are read once. They are counted by topic, key and partition, which is kept while the questions are
asked; each further count is one over these rows. Keys are compared as bytes.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from barnabas.spark.analyses.table import Rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.pandas._typing import ArrowMapIterFunction

_PLACED: Final = (
    "topic string, key binary, partition int, records bigint, recordBytes bigint, home int, later int"
)


class KeyCounts(NamedTuple):
    """Rows of sums; `recordBytes` are those of keys and values."""

    partitions: Rows
    """By topic and partition: records, recordBytes, keylessRecords, keylessBytes, and keys."""
    topics: Rows
    """By topic: keys, keyRecords, splitKeys (in several partitions), defaultKeys (all of whose records are in
    the partition of the default partitioner), defaultRecords, and movedKeys (that another number of
    partitions moves).
    """
    by_records: Rows
    """The keys of each topic that have most records: keyBytes, records, recordBytes, heldIn (how many
    partitions) and partition (the one with most of its records).
    """
    by_bytes: Rows
    """Those that have most bytes."""
    split: Rows
    """Those of them in several partitions that have most records."""
    default: Rows
    """By topic and home: records and recordBytes with keys, had the default partitioner placed all."""
    more: Rows
    """The same with another number of partitions, by topic and later."""


def count_keys(
    records: "DataFrame", counts: Mapping[str, int], later: Mapping[str, int], hot_keys: int
) -> KeyCounts:
    """The sums over records of topics that have `counts` partitions, and may have `later` ones;
    `hot_keys` a topic.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    counted = records.groupBy("topic", "key", "partition").agg(
        F.count("*").alias("records"), F.sum(size.cast("long")).alias("recordBytes")
    )
    placed = counted.mapInArrow(_placing(counts, later), _PLACED).cache()
    try:
        with_key = placed.where("key is not null")
        keys = _keys(with_key).cache()
        try:
            return KeyCounts(
                partitions=_partitions(placed),
                topics=_topics(keys),
                by_records=_largest(keys, hot_keys, "records"),
                by_bytes=_largest(keys, hot_keys, "recordBytes"),
                split=_largest(keys.where("heldIn > 1"), hot_keys, "records"),
                default=_spread(with_key, "home"),
                more=_spread(with_key, "later"),
            )
        finally:
            keys.unpersist()
    finally:
        placed.unpersist()


def _placing(counts: Mapping[str, int], later: Mapping[str, int]) -> "ArrowMapIterFunction":
    """Adds `home` and `later` to rows:
    where Java's default partitioner puts their keys, null where there is none.
    """

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from barnabas.records.columnar_encoder import key_hashes

        for rows in batches:
            hashes = key_hashes(rows["key"].cast(pa.binary()))
            topics = rows["topic"].dictionary_encode()
            names, row_topics = topics.dictionary.to_pylist(), topics.indices.to_numpy()
            columns = list(rows.columns)
            for of_topics in (counts, later):
                partitions = np.array([of_topics[name] for name in names], np.int64)[row_topics]
                columns.append(pa.array((hashes % partitions).astype(np.int32), mask=hashes < 0))
            yield pa.RecordBatch.from_arrays(columns, [*rows.schema.names, "home", "later"])

    return place


def _keys(with_key: "DataFrame") -> "DataFrame":
    """A row for each key of a topic."""
    from pyspark.sql import functions as F  # noqa: N812

    at_home = F.col("partition") == F.col("home")
    return with_key.groupBy("topic", "key").agg(
        F.sum("records").alias("records"),
        F.sum("recordBytes").alias("recordBytes"),
        F.count("*").alias("heldIn"),
        F.max_by("partition", F.struct("records", -F.col("partition"))).alias("partition"),
        F.sum(F.when(at_home, F.col("records")).otherwise(0)).alias("defaultRecords"),
        F.bool_and(at_home).alias("isDefault"),
        F.bool_and(F.col("partition") == F.col("later")).alias("stays"),
    )


def _partitions(placed: "DataFrame") -> Rows:
    from pyspark.sql import functions as F  # noqa: N812

    without = F.col("key").isNull()
    return _rows(
        placed.groupBy("topic", "partition").agg(
            F.sum("records").alias("records"),
            F.sum("recordBytes").alias("recordBytes"),
            _sum_where(without, "records").alias("keylessRecords"),
            _sum_where(without, "recordBytes").alias("keylessBytes"),
            F.count("key").alias("keys"),
        )
    )


def _topics(keys: "DataFrame") -> Rows:
    from pyspark.sql import functions as F  # noqa: N812

    return _rows(
        keys.groupBy("topic").agg(
            F.count("*").alias("keys"),
            F.sum("records").alias("keyRecords"),
            F.count_if(F.col("heldIn") > 1).alias("splitKeys"),
            F.count_if("isDefault").alias("defaultKeys"),
            F.sum("defaultRecords").alias("defaultRecords"),
            F.count_if(~F.col("stays")).alias("movedKeys"),
        )
    )


def _largest(keys: "DataFrame", count: int, by: str) -> Rows:
    """The largest keys of each topic by a column, the largest first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    order = Window.partitionBy("topic").orderBy(F.desc(by), "key")
    ranked = keys.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= count)
    columns = ("topic", F.col("key").alias("keyBytes"), "partition", "heldIn", "records", "recordBytes")
    return sorted(_rows(ranked.select(*columns)), key=lambda row: (-row[by], row["topic"], row["keyBytes"]))


def _spread(with_key: "DataFrame", place: str) -> Rows:
    from pyspark.sql import functions as F  # noqa: N812

    return _rows(
        with_key.groupBy("topic", place).agg(
            F.sum("records").alias("records"), F.sum("recordBytes").alias("recordBytes")
        )
    )


def _sum_where(condition: "Column", name: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    return F.sum(F.when(condition, F.col(name)).otherwise(0))


def _rows(frame: "DataFrame") -> Rows:
    found: Rows = frame.toArrow().to_pylist()
    return found
