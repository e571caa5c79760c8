"""What fills the disk: each figure against a count of the same files in plain Python, what is due, and
refusals.
"""

import re
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from barnabas.admin import Admin, NewTopic
from barnabas.cli.main import cli
from barnabas.records.batch import HEADER_SIZE, batch_headers, decode_batch, records_section
from barnabas.spark.analyses import (
    Retention,
    directories,
    disk_charts,
    disk_passes,
    disk_usage,
    pictures,
    retention_of,
)
from barnabas.spark.analyses.retention import BY_DEFAULT, next_drops
from barnabas.spark.errors import OptionError

GOLDEN = Path(__file__).parents[1] / "golden" / "logdir" / "broker0"
TOPICS = ("plain", "gz", "zs", "txn")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def counted(folder):
    """By topic: bytes on the disk and uncompressed, batches, records;
    and what keys and values take by prefix.
    """
    found, prefixes = {}, Counter()
    for file in sorted(folder.glob("*/*.log")):
        topic, data = file.parent.name.rpartition("-")[0], file.read_bytes()
        sums = found.setdefault(topic, Counter())
        for header in batch_headers(data):
            sums["sizeInBytes"] += header.size
            sums["uncompressedBytes"] += HEADER_SIZE + len(records_section(data, header))
            sums["batches"] += 1
            if header.is_control:
                continue
            for record in decode_batch(data, header.position):
                sums["records"] += 1
                key = "(no key)" if record.key is None else record.key.decode().partition("-")[0][:8]
                prefixes[topic, key] += len(record.key or b"") + len(record.value or b"")
    return found, prefixes


@pytest.fixture
def folder(tmp_path):
    for topic in TOPICS:
        shutil.copytree(GOLDEN / f"{topic}-0", tmp_path / "logs" / f"{topic}-0")
    return tmp_path / "logs"


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_every_figure_is_that_of_a_count_in_plain_python(spark, folder, tmp_path):
    topics, prefixes = counted(folder)
    with (folder / "gz-0" / f"{0:020d}.log").open("ab") as log:
        log.write(b"\0" * 30)  # what a broker that was killed leaves

    usage = disk_usage(spark, folder, now=NOW)

    names = ("sizeInBytes", "uncompressedBytes", "batches", "records")
    for table in ("topics", "partitions", "codecs"):
        rows = usage.tables[table].rows
        assert {row["topic"]: {name: row[name] for name in names} for row in rows} == topics
    total = sum(sums["sizeInBytes"] for sums in topics.values())
    assert sum(row["sizeInBytes"] for row in usage.tables["ages"].rows) == total
    assert {row["topic"]: row["share"] for row in usage.tables["topics"].rows} == {
        topic: sums["sizeInBytes"] / total for topic, sums in topics.items()
    }
    found = usage.tables["key_prefixes"].rows
    assert {(row["topic"], row["keyPrefix"]): row["recordBytes"] for row in found} == prefixes
    sizes = usage.tables["record_sizes"].rows
    assert sum(row["recordBytes"] for row in sizes) == sum(prefixes.values())
    assert sum(row["diskBytes"] for row in sizes) == total
    assert usage.notes == ["Left out: torn tails, 30 bytes at the end of 1 segment."]

    page = usage.write(tmp_path / "out")
    assert page.read_text(encoding="utf-8").count('class="chart"') == 4
    for name, table in usage.tables.items():
        assert pq.read_table(tmp_path / "out" / f"{name}.parquet").num_rows == len(table.rows)


def segment(offset, size, age_hours, topic="t"):
    return {
        "topic": topic, "partition": 0, "baseOffset": offset, "sizeInBytes": size, "records": 1,
        "maxTimestamp": NOW - timedelta(hours=age_hours), "lastModified": NOW,
        "file": f"/logs/{topic}-0/{offset}.log",
    }  # fmt: skip


def due(segments, retention):
    found = next_drops(segments, {"t": retention}, BY_DEFAULT, NOW)
    return {one["baseOffset"]: (one["dropsAt"], one["reason"]) for one in found}


HOUR_MS = 3_600_000


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_directories_without_a_whole_batch_are_said_to_be_so(spark, tmp_path):
    log = tmp_path / "logs" / "torn-0" / f"{0:020d}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"\0" * 30)

    usage = disk_usage(spark, tmp_path / "logs", now=NOW)

    assert usage.lead == "30 B of segments, without a whole batch."
    assert "without a whole batch" in usage.write(tmp_path / "out").read_text(encoding="utf-8")


def test_a_chart_of_many_names_adds_up():
    names = [(f"name-{number}", number) for number in range(1, 301)]

    picture = pictures.largest(names)

    shown = [int(size.replace(",", "")) for size in re.findall(r'([\d,]+) bytes"', picture)]
    assert len(shown) == 13
    assert sum(shown) == sum(size for _, size in names)
    assert "288 others" in picture
    rows = [{"topic": name, "sizeInBytes": size, "uncompressedBytes": 2 * size} for name, size in names]
    assert "288 others: " in disk_charts.topics(rows)


def test_a_young_segment_holds_back_older_ones_behind_it():
    found = due([segment(0, 10, 1), segment(5, 10, 50)], Retention(ms=10 * HOUR_MS))

    assert found == dict.fromkeys((0, 5), (NOW + timedelta(hours=9), "retention.ms"))


def test_what_is_beyond_retention_bytes_goes_now_and_from_the_oldest_on():
    found = due([segment(offset, 10, 1) for offset in (0, 1, 2)], Retention(ms=-1, bytes=15))

    assert found == {0: (NOW, "retention.bytes"), 1: (None, "stays"), 2: (None, "stays")}


def test_compacted_topics_and_an_endless_retention_keep_their_segments():
    assert due([segment(0, 10, 9000)], Retention(deletes=False)) == {0: (None, "compaction")}
    assert due([segment(0, 10, 9000)], Retention(ms=2**63 - 1))[0][0] is None
    (own,) = next_drops([segment(0, 10, 9000, "__consumer_offsets")], {}, BY_DEFAULT, NOW)
    assert own["reason"] == "compaction"


def test_brokers_say_the_retention_of_their_topics(broker):
    configs = {"retention.ms": "5", "retention.bytes": "7", "cleanup.policy": "compact"}
    with Admin(broker) as admin:
        admin.topics.create([NewTopic("kept", configs=configs), NewTopic("usual")])

    assert retention_of(broker, ["kept", "usual", "unknown"]) == {
        "kept": Retention(5, 7, deletes=False),
        "usual": BY_DEFAULT,
    }


def test_directories_that_cannot_be_analysed_are_refused_in_one_line(tmp_path):
    def refusal(*arguments):
        shown = CliRunner().invoke(cli, ["analyze", "disk", *map(str, arguments)])
        assert isinstance(shown.exception, OptionError)
        return str(shown.exception)

    assert refusal(tmp_path / "nowhere").endswith("nowhere is not a directory")
    assert "neither a log directory" in refusal(tmp_path)
    assert refusal(GOLDEN, "--topics", "nope").endswith("has no segment of nope")
    (tmp_path / "t-0" / f"{0:020d}.log").mkdir(parents=True)
    assert refusal(tmp_path).startswith("cannot read ")
    with pytest.raises(OptionError, match="at least one"):
        directories([])


@pytest.mark.spark
def test_a_batch_at_a_limit_belongs_to_the_older_class(spark):
    """Of each class the youngest age and one that is a millisecond below it."""
    classes = {
        timedelta(): "under an hour",
        timedelta(hours=1): "under a day",
        timedelta(days=1): "under a week",
        timedelta(days=7): "under 30 days",
        timedelta(days=30): "under a year",
        timedelta(days=365): "a year and more",
    }
    names = list(classes.values())
    ages = {
        **classes,
        **{age - timedelta(milliseconds=1): names[i] for i, age in enumerate(list(classes)[1:])},
    }
    rows = [(f"{age}", 0, "none", NOW - age, NOW - age, 1, False, 10, 10, True) for age in ages]
    rows += [("timeless", 0, "none", None, None, 1, False, 10, 10, True)]
    columns = "topic string, partition int, codec string, baseTimestamp timestamp, maxTimestamp timestamp, "
    columns += "count int, isControl boolean, sizeInBytes int, uncompressedBytes long, isValid boolean"
    found = disk_passes.batch_sums(spark.createDataFrame(rows, columns), NOW)
    assert {row["topic"]: row["age"] for row in found} == {
        **{f"{age}": name for age, name in ages.items()},
        "timeless": "without a time",
    }


@pytest.mark.spark
def test_a_record_at_a_limit_belongs_to_the_larger_class(spark):
    sizes = {
        0: "under 100 B",
        100: "under 1 KB",
        1024: "under 10 KB",
        10_240: "under 100 KB",
        102_400: "under 1 MB",
        1_048_576: "1 MB and more",
    }
    names = list(sizes.values())
    all_sizes = {**sizes, **{size - 1: names[i] for i, size in enumerate(list(sizes)[1:])}}
    rows = [(str(size), b"k" * min(size, 7), b"v" * max(size - 7, 0)) for size in all_sizes]
    frame = spark.createDataFrame(rows, "topic string, key binary, value binary")
    found, _prefixes = disk_passes.record_sums(frame, disk_passes.KEY_PREFIX)
    assert {row["topic"]: row["sizeClass"] for row in found} == {
        str(size): name for size, name in all_sizes.items()
    }
