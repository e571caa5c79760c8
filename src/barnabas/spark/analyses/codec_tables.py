"""The tables of `barnabas.spark.analyses.codec_choices`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.analyses import pictures
from barnabas.spark.analyses.columns import bytes_text, size_text
from barnabas.spark.analyses.sums import grouped
from barnabas.spark.analyses.table import AnalysisTable, Row, Rows
from barnabas.spark.pages import charts
from barnabas.spark.pages.charts import Bar, Series, Tick

if TYPE_CHECKING:
    from barnabas.spark.analyses.codec_sample import Sample

NEAR: Final = 0.05
"""Of what a topic takes now:
a choice that comes so near to the smallest one, and costs less time, is better.
"""
NOW: Final = 0
"""The batch size in rows about the batches as they are."""
_SUMMED: Final = ("batches", "records", "plainBytes", "packedBytes", "compressNs", "decompressNs")
_COLOURS: Final = ("c1", "c2", "c3", "c5", "c4")


def choices(samples: Sequence["Sample"], packed: Rows) -> Rows:
    """A row for each topic, codec and batch size, the smallest first in its topic; topics as in `samples`."""
    rows = []
    for one in samples:
        own = [row for row in packed if row["topic"] == one.topic and row["codec"] is not None]
        now = _sums([row for row in own if row["batchSize"] == NOW])
        if not now["records"]:
            continue
        packs = grouped([row for row in own if row["batchSize"] != NOW], ["codec", "batchSize"])
        found = [
            {
                "topic": one.topic, "codec": codec, "batchSize": size, **_measured(sums),
                "toNow": sums["packedBytes"] / now["packedBytes"],
                "savedBytes": _saved(one, now["packedBytes"], sums["packedBytes"]),
                "sampledShare": _share(one, now["packedBytes"]),
            }
            for (codec, size), members in packs.items()
            for sums in [_sums(members)]
        ]  # fmt: skip
        rows += sorted(found, key=lambda row: (row["packedBytes"], row["codec"], row["batchSize"]))
    return rows


def best(samples: Sequence["Sample"], packed: Rows, made: Rows) -> Rows:
    """A row for each topic, as it is and with its best choice: the one that saves most first."""
    of_topic = grouped(made, ["topic"])
    rows = []
    for one in samples:
        if (own := of_topic.get((one.topic,))) is None:
            continue
        was = [
            row
            for row in packed
            if row["topic"] == one.topic and row["codec"] is not None and row["batchSize"] == NOW
        ]
        now = _sums(was)
        chosen = _best(own, now["packedBytes"])
        times = _measured(now)
        rows.append(
            {
                **chosen, "bestCodec": chosen["codec"], "bestBatchSize": chosen["batchSize"],
                "sizeInBytes": one.size, "sampledBytes": now["packedBytes"],
                "nowCodec": ", ".join(sorted({row["codec"] for row in was})),
                "batchBytes": now["packedBytes"] / now["batches"], "nowRecordSize": times["recordSize"],
                "nowCompressMs": times["compressMs"], "nowDecompressMs": times["decompressMs"],
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: (-row["savedBytes"], row["topic"]))


def _best(own: Rows, now: int) -> Row:
    """Of the choices near the smallest one, the smallest batches of the codec that compresses in the least
    time.
    """
    smallest = min(row["packedBytes"] for row in own)
    near = [row for row in own if row["packedBytes"] <= smallest + NEAR * now]
    codec = min(near, key=lambda row: row["compressMs"])["codec"]
    return min((row for row in near if row["codec"] == codec), key=lambda row: row["batchSize"])


def topics(rows: Rows) -> AnalysisTable:
    """Each topic as it is, and its best choice."""
    return AnalysisTable(
        "Topics and their best choices",
        (
            "topic", "sizeInBytes", "sampledShare", "nowCodec", "batchBytes", "nowRecordSize", "bestCodec",
            "bestBatchSize",
            "recordSize", "toNow", "savedBytes", "compressMs", "decompressMs",
        ),
        rows,
        f"Of the choices that come within {NEAR:.0%} of now to the smallest one, the best are the smallest "
        "batches of the codec that takes "
        "the least processor time to compress. A topic that is not sampled was packed as a whole, and what "
        "it saves is counted; of "
        "the others it is scaled up from the sample to all segments of the topic. Times are of one process "
        "on the machine of "
        "the task, beside what else ran there. To compress as now is measured with the codec's default "
        "level, as batches do not "
        "say theirs.",
        _saved_bars(rows),
        hidden=("records", "sampledBytes", "nowCompressMs", "nowDecompressMs"),
    )  # fmt: skip


def choices_table(rows: Rows, best_rows: Rows) -> AnalysisTable:
    """Every choice for every topic, those topics first that would save most."""
    order = {row["topic"]: place for place, row in enumerate(best_rows)}
    rows = sorted(rows, key=lambda row: order[row["topic"]])
    first = best_rows[0]["topic"] if best_rows else ""
    return AnalysisTable(
        "All choices",
        (
            "topic", "codec", "batchSize", "batches", "recordSize", "toNow", "savedBytes", "sampledShare",
            "compressMs",
            "decompressMs",
        ),
        rows,
        "The size of a batch is that of its records before compression, and its header; Java's producer "
        "fills a batch of batch.size by an estimate of its compressed size, so with compression its batches "
        "hold more than these. Batches and sizes are those of the sample. "
        + (f"The chart is of {first}: what it would take of now, by codec and batch size." if first else ""),
        _lines([row for row in rows if row["topic"] == first]),
        hidden=("records", "packedBytes", "plainBytes"),
    )  # fmt: skip


def _sums(rows: Rows) -> dict[str, int]:
    return {name: sum(row[name] for row in rows) for name in _SUMMED}


def _measured(sums: dict[str, int]) -> dict[str, Any]:
    """The sums with what follows from them: bytes of a record, and milliseconds a MiB before compression."""
    mebibytes = sums["plainBytes"] / (1 << 20)
    return {
        **sums,
        "recordSize": sums["packedBytes"] / sums["records"],
        "compressMs": sums["compressNs"] / 1e6 / mebibytes,
        "decompressMs": sums["decompressNs"] / 1e6 / mebibytes,
    }


def _saved(one: "Sample", now: int, packed: int) -> int:
    """Bytes of the topic: counted where all of it was packed, else scaled up."""
    return now - packed if one.is_whole else round(one.size * (1 - packed / now))


def _share(one: "Sample", now: int) -> float | None:
    """What of the topic was packed; None for all."""
    return None if one.is_whole else now / one.size


def _saved_bars(rows: Sequence[Row]) -> str:
    bars = [
        Bar(
            pictures.short(row["topic"]),
            [
                (row["sizeInBytes"] - row["savedBytes"], "c1", f"{row['topic']}: {row['bestCodec']}"),
                (max(row["savedBytes"], 0), "c4", f"{row['topic']}: {bytes_text(row['savedBytes'])} less"),
            ],
            f"{bytes_text(row['sizeInBytes'])} · {row['toNow']:.0%} with {row['bestCodec']}",
        )
        for row in rows[: pictures.SHOWN]
    ]
    if not bars:
        return ""
    return charts.bars(bars, label_width=pictures.LABEL_WIDTH) + charts.legend(
        [("with the best choice", "c1"), ("saved", "c4")]
    )


def _lines(rows: Rows) -> str:
    """A line for each codec over the batch sizes, in percent of now."""
    if not rows:
        return ""
    sizes = sorted({row["batchSize"] for row in rows})
    series = [
        Series(
            codec,
            _COLOURS[place % len(_COLOURS)],
            sorted((sizes.index(row["batchSize"]), row["toNow"] * 100) for row in members),
        )
        for place, ((codec,), members) in enumerate(sorted(grouped(rows, ["codec"]).items()))
    ]
    return charts.lines(
        series,
        height=280,
        x_ticks=[Tick(place, size_text(size)) for place, size in enumerate(sizes)],
        unit="%",
        hint=lambda name, x, y: f"{name}, {size_text(sizes[int(x)])}: {y:.1f}% of now",
    )
