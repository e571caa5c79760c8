"""The tables of `barnabas.spark.analyses.disk`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from barnabas.spark.analyses import disk_charts, pictures
from barnabas.spark.analyses.disk_passes import AGES, LARGER, OLDER, SIZES, TIMELESS
from barnabas.spark.analyses.sums import by_topic, grouped
from barnabas.spark.analyses.table import AnalysisTable, Rows

OTHERS: Final = "(others)"
_COUNTED: Final = ("batches", "records", "sizeInBytes", "uncompressedBytes")


def topics(batches: Rows, segments: Rows) -> AnalysisTable:
    """What each topic takes, with its indexes."""
    rows = _sums(batches, ["topic"], _COUNTED)
    of_topic = grouped(segments, ["topic"])
    for row in rows:
        own = of_topic.get((row["topic"],), [])
        row["segments"] = len(own)
        row["partitions"] = len({one["partition"] for one in own})
        row["indexBytes"] = sum(one["indexBytes"] for one in own)
    return AnalysisTable(
        "Topics",
        ("topic", "partitions", "segments", "records", "sizeInBytes", "share", "uncompressedBytes", "ratio",
            "indexBytes"),
        rows,
        "Bytes of whole batches in the segments, and what they would take without their compression.",
        disk_charts.topics(rows),
        hidden=("batches", "oldest", "newest"),
    )  # fmt: skip


def partitions(batches: Rows) -> AnalysisTable:
    """The same by partition, with the times of its records."""
    return AnalysisTable(
        "Partitions",
        ("topic", "partition", "records", "sizeInBytes", "share", "ratio", "oldest", "newest"),
        _sums(batches, ["topic", "partition"], _COUNTED),
        "Times are those of records, by their producers' clocks unless the topic says LogAppendTime.",
        hidden=("batches", "uncompressedBytes"),
    )


def codecs(batches: Rows) -> AnalysisTable:
    """The same by codec, with the mean size of a batch."""
    rows = _sums(batches, ["topic", "codec"], _COUNTED)
    for row in rows:
        row["batchBytes"] = row["sizeInBytes"] / row["batches"]
    return AnalysisTable(
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
        "A topic has several codecs where producers differ and the topic keeps what they send "
        "(compression.type=producer).",
    )


def ages(batches: Rows) -> AnalysisTable:
    """The same by age, over all topics."""
    order = [*(name for _, name in AGES), OLDER, TIMELESS]
    rows = sorted(_sums(batches, ["age"], _COUNTED), key=lambda row: order.index(row["age"]))
    return AnalysisTable(
        "Age",
        ("age", "batches", "records", "sizeInBytes", "share", "uncompressedBytes", "ratio"),
        rows,
        "By the newest record of each batch.",
        pictures.shares([(row["age"], row["sizeInBytes"]) for row in rows]),
    )


def _with_disk(rows: Rows, sizes: Rows, batches: Rows) -> Rows:
    """The rows with their part of their topic's bytes on the disk."""
    plain, disk = (by_topic(held, name) for held, name in ((sizes, "recordBytes"), (batches, "sizeInBytes")))
    return [
        {
            **row,
            "diskBytes": round(disk.get(row["topic"], 0) * row["recordBytes"] / (plain[row["topic"]] or 1)),
        }
        for row in rows
    ]


def record_sizes(sizes: Rows, batches: Rows) -> AnalysisTable:
    """Records by their size."""
    order = [*(name for _, name in SIZES), LARGER]
    rows = sorted(
        _with_disk(sizes, sizes, batches), key=lambda row: (row["topic"], order.index(row["sizeClass"]))
    )
    return AnalysisTable(
        "Sizes of records",
        ("topic", "sizeClass", "records", "recordBytes", "diskBytes"),
        rows,
        "Keys and values as they are, without headers; on the disk, their part of the topic's bytes. A "
        "record counts once where several directories have replicas.",
    )


def key_prefixes(prefixes: Rows, sizes: Rows, batches: Rows) -> AnalysisTable:
    """Records by the prefix of their key."""
    rows = _with_disk(prefixes + _others(prefixes, sizes), sizes, batches)
    rows.sort(key=lambda row: (-row["recordBytes"], row["topic"], row["keyPrefix"]))
    return AnalysisTable(
        "Keys by prefix",
        ("topic", "keyPrefix", "records", "recordBytes", "diskBytes"),
        rows,
        "The prefix of a key is what stands before its first separator, at most eight characters, unless "
        "another rule was given.",
        pictures.largest([(f"{row['topic']} {row['keyPrefix']}", row["diskBytes"]) for row in rows]),
    )


def _others(prefixes: Rows, sizes: Rows) -> Rows:
    """What the topics have beside the largest prefixes, so that the rows of each add up."""
    left = []
    records, sums = by_topic(sizes, "records"), by_topic(sizes, "recordBytes")
    shown, shown_sums = by_topic(prefixes, "records"), by_topic(prefixes, "recordBytes")
    for topic, count in records.items():
        rest = count - shown.get(topic, 0)
        if rest:
            left.append(
                {
                    "topic": topic,
                    "keyPrefix": OTHERS,
                    "records": rest,
                    "recordBytes": sums[topic] - shown_sums.get(topic, 0),
                }
            )
    return left


def next_drops(drops: Rows, now: datetime) -> AnalysisTable:
    """The segments, the one that goes next first (`retention.next_drops`)."""
    return AnalysisTable(
        "What retention drops next",
        ("topic", "partition", "baseOffset", "records", "sizeInBytes", "dropsAt", "reason"),
        drops,
        "The earliest time, in UTC; a broker looks every five minutes (log.retention.check.interval.ms). The "
        "newest segment is rolled "
        "first when its time comes.",
        pictures.shares(disk_charts.by_time(drops, now)),
        hidden=("file",),
    )


def _sums(rows: Rows, by: Sequence[str], names: Sequence[str]) -> Rows:
    """The rows added up by some columns, the largest on the disk first;
    with the oldest and the newest time.
    """
    total = sum(row["sizeInBytes"] for row in rows) or 1
    found = []
    for key, members in grouped(rows, by).items():
        one = dict(zip(by, key, strict=True))
        one |= {name: sum(row[name] for row in members) for name in names}
        one["ratio"] = one["uncompressedBytes"] / one["sizeInBytes"]
        one["share"] = one["sizeInBytes"] / total
        for name, choose in (("oldest", min), ("newest", max)):
            one[name] = choose((row[name] for row in members if row[name]), default=None)
        found.append(one)
    return sorted(found, key=lambda one: (-one["sizeInBytes"], *(one[name] for name in by)))
