"""The tables of `barnabas.spark.analyses.key_skew`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.spark.analyses import pictures
from barnabas.spark.analyses.columns import bytes_text, key_text, plain_text
from barnabas.spark.analyses.key_skew_passes import KeyCounts
from barnabas.spark.analyses.sums import by_topic, grouped
from barnabas.spark.analyses.table import AnalysisTable, Row, Rows
from barnabas.spark.pages import charts
from barnabas.spark.pages.charts import Bar

SKEWED: Final = 1.5
"""A partition with at least this multiple of the mean stands out."""
NOW: Final = "now"
DEFAULT: Final = "default partitioner"
MORE: Final = "more partitions"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and how many partitions it has."""

    name: str
    held: Sequence[int]
    """Its partitions that are in the directories."""
    count: int
    later: int
    """In the what-if."""

    @property
    def is_whole(self) -> bool:
        """Whether all partitions are in the directories."""
        return len(self.held) == self.count


def topics(held: Sequence[Topic], counts: KeyCounts) -> AnalysisTable:
    """The spread and the keys of each topic that has records, the largest first."""
    of_partitions, of_keys = grouped(counts.partitions, ["topic"]), grouped(counts.topics, ["topic"])
    rows = []
    for topic in held:
        own = of_partitions.get((topic.name,), [])
        if not own:
            continue
        keys = of_keys.get((topic.name,), [{}])[0]
        records = sum(row["records"] for row in own)
        keyless = sum(row["keylessRecords"] for row in own)
        largest = max(own, key=lambda row: (row["recordBytes"], -row["partition"]))
        size = sum(row["recordBytes"] for row in own)
        rows.append(
            {
                "topic": topic.name, "partitions": len(topic.held), "records": records, "recordBytes": size,
                "largest": largest["partition"], "largestShare": largest["recordBytes"] / (size or 1),
                "recordSkew": _skew(own, "records", len(topic.held)),
                "byteSkew": _skew(own, "recordBytes", len(topic.held)),
                "keylessRecords": keyless, "keylessShare": keyless / records,
                "keys": keys.get("keys", 0), "splitKeys": keys.get("splitKeys", 0),
                "defaultKeyShare": keys["defaultKeys"] / keys["keys"] if keys else None,
                "defaultRecordShare": keys["defaultRecords"] / keys["keyRecords"] if keys else None,
            }
        )  # fmt: skip
    rows.sort(key=lambda row: (-row["recordBytes"], row["topic"]))
    return AnalysisTable(
        "Topics",
        (
            "topic", "partitions", "records", "recordBytes", "largest", "largestShare", "byteSkew",
            "recordSkew", "keys",
            "keylessShare", "splitKeys", "defaultKeyShare",
        ),
        rows,
        "Keys and values before compression. Largest to mean: the largest partition by the mean of all, 1 is "
        "even. A key is in "
        "its default place if all its records are in the partition where Java's default partitioner "
        "(murmur2) puts them; "
        "the records of the others went there by another partitioner, by a partition that the producer "
        "named, or before the "
        "topic got its partitions of today. A key in several partitions has no order among its records.",
        _skew_bars([row for row in rows if row["partitions"] > 1], lambda row: str(row["topic"])),
        hidden=("keylessRecords", "defaultRecordShare"),
    )  # fmt: skip


def partitions(held: Sequence[Topic], counts: KeyCounts) -> AnalysisTable:
    """Every partition with its part of its topic, empty ones too."""
    found = {(row["topic"], row["partition"]): row for row in counts.partitions}
    records, sizes = by_topic(counts.partitions, "records"), by_topic(counts.partitions, "recordBytes")
    nothing = {"records": 0, "recordBytes": 0, "keys": 0, "keylessRecords": 0}
    rows = []
    for topic in held:
        for number in topic.held:
            row = {"topic": topic.name, "partition": number, **found.get((topic.name, number), nothing)}
            row["recordShare"] = row["records"] / (records.get(topic.name) or 1)
            row["byteShare"] = row["recordBytes"] / (sizes.get(topic.name) or 1)
            rows.append(row)
    rows.sort(key=lambda row: (-row["recordBytes"], row["topic"], row["partition"]))
    return AnalysisTable(
        "Partitions",
        (
            "topic",
            "partition",
            "records",
            "recordShare",
            "recordBytes",
            "byteShare",
            "keys",
            "keylessRecords",
        ),
        rows,
        "The largest first; shares are of the topic.",
        _bars(rows, lambda row: f"{row['topic']}-{row['partition']}", "recordBytes", "byteShare"),
    )


def hot_keys(counts: KeyCounts, by: str) -> AnalysisTable:
    """The largest keys of each topic by `records` or `recordBytes`."""
    found, share, title = (
        (counts.by_records, "recordShare", "Hot keys by records")
        if by == "records"
        else (counts.by_bytes, "byteShare", "Hot keys by bytes")
    )
    rows = _key_rows(found, counts)
    rows.sort(key=lambda row: -row[share])
    return AnalysisTable(
        title,
        ("topic", "key", "records", "recordShare", "recordBytes", "byteShare", "partition", "heldIn"),
        rows,
        "The largest of each topic, by their part of it. Counts are exact, by the bytes of the keys; a key "
        "that is no text is "
        "shown as 0x and hexadecimal digits. The partition is the one that has most of the key's records.",
        _bars(rows, lambda row: f"{row['topic']} {row['key']}", share, share),
        hidden=("keyBytes",),
    )


def split_keys(counts: KeyCounts) -> AnalysisTable:
    """The keys in several partitions that have most records."""
    return AnalysisTable(
        "Keys in several partitions",
        ("topic", "key", "heldIn", "records", "recordShare", "recordBytes", "byteShare"),
        _key_rows(counts.split, counts),
        "The largest of each topic by records. No consumer sees the records of such a key in the order in "
        "which they were sent.",
        hidden=("keyBytes", "partition"),
    )


def spreads(held: Sequence[Topic], counts: KeyCounts) -> AnalysisTable:
    """How even each topic is, would be by the default partitioner, and with more partitions."""
    now, default, more = (
        grouped(rows, ["topic"]) for rows in (counts.partitions, counts.default, counts.more)
    )
    moved = {row["topic"]: row["movedKeys"] / row["keys"] for row in counts.topics}
    sizes = by_topic(counts.partitions, "recordBytes")
    rows = []
    for topic in sorted(held, key=lambda one: (-sizes.get(one.name, 0), one.name)):
        own = now.get((topic.name,), [])
        if not own or not topic.is_whole:
            continue
        for spread, count, keyed, share in (
            (NOW, topic.count, own, None),
            (DEFAULT, topic.count, default.get((topic.name,), []), None),
            (MORE, topic.later, more.get((topic.name,), []), moved.get(topic.name)),
        ):
            # Records without key go to all partitions alike.
            keyless = own if keyed is not own else []
            sums = {
                name: _spread(keyed, name, sum(row[part] for row in keyless), count)
                for name, part in (("records", "keylessRecords"), ("recordBytes", "keylessBytes"))
            }
            rows.append(
                {
                    "topic": topic.name, "spread": spread, "partitions": count,
                    "largestShare": sums["recordBytes"] / count, "byteSkew": sums["recordBytes"],
                    "recordSkew": sums["records"],
                    "movedShare": share,
                }
            )  # fmt: skip
    return AnalysisTable(
        "What another spread would be",
        ("topic", "spread", "partitions", "largestShare", "byteSkew", "recordSkew", "movedShare"),
        rows,
        "The same keys, were all of them placed by Java's default partitioner, in the partitions of now and "
        "in more; records without "
        "key are taken as spread evenly. A key is in one partition, so the largest never has less than its "
        "hottest key. Keys that "
        "move have records in another partition than their next ones: their order is broken at that place.",
        _skew_bars(rows, lambda row: f"{row['topic']}, {row['spread']}"),
    )  # fmt: skip


def _skew(rows: Rows, name: str, count: int) -> float:
    return _spread(rows, name, 0, count)


def _spread(rows: Rows, name: str, even: int, count: int) -> float:
    """The largest of `count` partitions to their mean;
    `even` is the part that all of them share evenly.
    """
    total = sum(row[name] for row in rows) + even
    largest = max((row[name] for row in rows), default=0) + even / count
    return largest * count / total if total else 1.0


def _key_rows(found: Rows, counts: KeyCounts) -> Rows:
    records, sizes = by_topic(counts.partitions, "records"), by_topic(counts.partitions, "recordBytes")
    return [
        {
            **row, "key": key_text(row["keyBytes"]), "recordShare": row["records"] / records[row["topic"]],
            "byteShare": row["recordBytes"] / (sizes[row["topic"]] or 1),
        }
        for row in found
    ]  # fmt: skip


def _skew_bars(rows: Sequence[Row], label: Callable[[Row], str]) -> str:
    bars = []
    for row in rows[: pictures.SHOWN]:
        name, times = label(row), row["byteSkew"]
        colour = "c2" if times >= SKEWED else "c1"
        bars.append(
            Bar(
                pictures.short(name),
                [(times, colour, f"{name}: {times:.2f} times the mean")],
                f"{times:.2f}x",
            )
        )
    return charts.bars(bars, label_width=pictures.LABEL_WIDTH) if bars else ""


def _bars(rows: Sequence[Row], label: Callable[[Row], str], length: str, share: str) -> str:
    """A bar for each of the first rows, with its share of the topic."""
    bars = []
    for row in rows[: pictures.SHOWN]:
        name = plain_text(label(row))
        words = f"{bytes_text(row['recordBytes'])}, {row['records']:,} records"
        bars.append(
            Bar(
                pictures.short(name),
                [(row[length], "c1", f"{name}: {words}")],
                f"{row[share]:.1%} of the topic",
            )
        )
    return charts.bars(bars, label_width=pictures.LABEL_WIDTH) if bars else ""
