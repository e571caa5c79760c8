"""Skew and hot keys: how records and bytes spread over partitions, which keys weigh most, and what more
partitions change.

The records are read once, and all counts are exact. Bytes are those of keys and values, before compression. A
record counts once where several directories have replicas. The measure of a spread is the largest partition
to the mean of all: 1 is even, and a topic with 2 needs twice the room and the consumer that its size asks
for.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.core.ids import INTERNAL_TOPICS
from barnabas.spark.analyses import key_skew_tables as tables
from barnabas.spark.analyses.analysis import Analysis
from barnabas.spark.analyses.columns import bytes_text, key_text
from barnabas.spark.analyses.directories import Directories, damage, directories
from barnabas.spark.analyses.key_skew_passes import count_keys
from barnabas.spark.analyses.key_skew_tables import SKEWED, Topic
from barnabas.spark.analyses.table import Row, Rows
from barnabas.spark.errors import OptionError
from barnabas.spark.logs.options import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.client.config import Given

HOT_KEYS: Final = 20
NAMED_MAX: Final = 3
"""The first sentences name as many topics."""


def partition_counts(brokers: "Given", topics: Iterable[str]) -> dict[str, int]:
    """How many partitions topics have, as their brokers say; topics that they do not know are left out.

    `brokers` are servers, or options of the admin client. Raises BarnabasError where they cannot be asked.
    """
    from barnabas.admin import Admin

    with Admin(brokers) as admin:
        known = admin.topics.describe_all(internal=True)
    return {name: len(known[name].partitions) for name in topics if name in known}


def skew(
    spark: "SparkSession",
    paths: str | Path | Iterable[str | Path] | Directories,
    *,
    topics: Sequence[str] = (),
    partitions: Mapping[str, int] | None = None,
    more_partitions: int | None = None,
    hot_keys: int = HOT_KEYS,
) -> Analysis:
    """How the records of topics spread over their partitions, in log directories of Apache Kafka or ours.

    `partitions` says how many a topic has (`partition_counts` asks brokers); of the others it is the highest
    number in the directories that counts. `more_partitions` is how many each topic gets in the what-if, as
    many as it has unless given. The `hot_keys` largest keys of each topic are named. Raises OptionError where
    the directories cannot be read.
    """
    if hot_keys < 1 or (more_partitions is not None and more_partitions < 1):
        raise OptionError("hot_keys and more_partitions must be 1 or more")
    found = paths if isinstance(paths, Directories) else directories(paths, topics=topics)
    held = _topics(found, partitions or {}, more_partitions)
    counts = count_keys(
        found.read(spark, View.RECORDS),
        {topic.name: topic.count for topic in held},
        {topic.name: topic.later for topic in held},
        hot_keys,
    )
    spreads = tables.spreads(held, counts)
    made = {
        "topics": tables.topics(held, counts),
        "partitions": tables.partitions(held, counts),
        "hot_keys_by_bytes": tables.hot_keys(counts, "recordBytes"),
        "hot_keys_by_records": tables.hot_keys(counts, "records"),
        "split_keys": tables.split_keys(counts),
        "spreads": spreads,
    }
    segments = found.read(spark, View.SEGMENTS).toArrow().to_pylist()
    rows = made["topics"].rows
    lead = _answer(rows, spreads.rows, counts.by_bytes)
    return Analysis("Skew and hot keys", lead, _figures(rows, counts.by_bytes), made, _notes(held, segments))


def _topics(found: Directories, counts: Mapping[str, int], more: int | None) -> list[Topic]:
    held: dict[str, set[int]] = {}
    for tp in found.partitions:
        held.setdefault(tp.topic, set()).add(tp.partition)
    topics = []
    for name, numbers in held.items():
        count = max(counts.get(name, 0), max(numbers) + 1)
        topics.append(Topic(name, sorted(numbers), count, count + (count if more is None else more)))
    return topics


def _answer(topics: Sequence[Row], others: Sequence[Row], hot_keys: Rows) -> str:
    """Which topic is skewed, and why; which keys have lost their order; which are not placed by default."""
    if not topics:
        return "There are no records."
    # Where the records of Kafka's own topics go is its own choice.
    own = [row for row in topics if row["topic"] not in INTERNAL_TOPICS]
    spread = [row for row in own if row["partitions"] > 1]
    skewed = [row for row in spread if row["byteSkew"] >= SKEWED]
    if skewed:
        words = _skewed(max(skewed, key=_excess), others, hot_keys)
    elif spread:
        highest = max(row["byteSkew"] for row in spread)
        words = [
            f"No topic is skewed: the largest partition of each has at most {highest:.2f} times the mean."
        ]
    else:
        words = ["No topic has several partitions here."]
    words += _order(topics)
    elsewhere = [row for row in own if row["keys"] and row["defaultKeyShare"] < 1]
    if elsewhere:
        named = ", ".join(f"{row['topic']} {1 - row['defaultKeyShare']:.0%}" for row in elsewhere[:NAMED_MAX])
        words.append(
            "Keys with records where Java's default partitioner would not put them: "
            f"{named}{_others(elsewhere)}."
        )
    return " ".join(words)


def _excess(row: Row) -> float:
    """Bytes that the largest partition has above the mean."""
    return float(row["recordBytes"] / row["partitions"] * (row["byteSkew"] - 1))


def _skewed(worst: Row, others: Sequence[Row], hot_keys: Rows) -> list[str]:
    """The sentences about the topic whose largest partition is farthest above the mean."""
    words = (
        f"{worst['topic']} is skewed: partition {worst['largest']} has {worst['largestShare']:.0%} of its "
        f"{bytes_text(worst['recordBytes'])}, {worst['byteSkew']:.1f} times the mean"
    )
    own = [row for row in hot_keys if row["topic"] == worst["topic"] and row["partition"] == worst["largest"]]
    # Without it the partition would be below the mean, or nearly.
    if own and own[0]["recordBytes"] >= _excess(worst) / 2:
        share = own[0]["recordBytes"] / worst["recordBytes"]
        words += f"; the key {key_text(own[0]['keyBytes'])} alone has {share:.0%}"
    later = [
        f"With {row['partitions']} partitions the largest would have {row['largestShare']:.0%}, "
        f"{row['byteSkew']:.1f} times the mean."
        for row in others
        if row["topic"] == worst["topic"] and row["spread"] == tables.MORE
    ]
    return [f"{words}.", *later]


def _order(topics: Sequence[Row]) -> list[str]:
    split = [row for row in topics if row["splitKeys"]]
    if not split:
        return []
    count = sum(row["splitKeys"] for row in split)
    named = ", ".join(row["topic"] for row in split[:NAMED_MAX])
    lies = "key lies" if count == 1 else "keys lie"
    return [f"{count:,} {lies} in several partitions ({named}{_others(split)}): there their order is broken."]


def _others(rows: Sequence[Row]) -> str:
    return f" and {len(rows) - NAMED_MAX} more" if len(rows) > NAMED_MAX else ""


def _figures(topics: Sequence[Row], hot_keys: Rows) -> list[tuple[str, str]]:
    if not topics:
        return []
    records, keyless = (sum(row[name] for row in topics) for name in ("records", "keylessRecords"))
    figures = [
        (f"{records:,}", "records"),
        (f"{sum(row['keys'] for row in topics):,}", "keys"),
        (f"{max(row['byteSkew'] for row in topics):.2f}x", "the mean in the largest partition of a topic"),
        (f"{keyless / records:.1%}", "of records without key"),
        (f"{sum(row['splitKeys'] for row in topics):,}", "keys in several partitions"),
    ]
    if hot_keys:
        of_topic = {row["topic"]: row["recordBytes"] for row in topics}
        share = max(row["recordBytes"] / (of_topic[row["topic"]] or 1) for row in hot_keys)
        figures.insert(3, (f"{share:.1%}", "of a topic's bytes under its hottest key"))
    return figures


def _notes(topics: Sequence[Topic], segments: Rows) -> list[str]:
    """What is damaged, and topics of which the directories have a part."""
    return damage(segments) + [
        f"{topic.name}: {len(topic.held)} of {topic.count} partitions are in these directories. Its spread "
        "is that of these, and "
        "what more partitions would change is left out."
        for topic in topics
        if not topic.is_whole
    ]
