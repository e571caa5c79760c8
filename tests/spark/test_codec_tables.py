"""The tables of codecs and batch sizes, from sums that tasks have made."""

import re

import pytest

from barnabas.spark.analyses import codec_tables
from barnabas.spark.analyses.codec_sample import Sample
from barnabas.spark.logs.segments import Piece

MIB = 1 << 20


def sample(topic, *, sampled=1000, size=1000):
    piece = Piece("segment", 0, sampled)
    return Sample(topic, [piece], size)


def packed(topic, codec, batch_size, packed_bytes, *, compress_ns=1000, batches=10, records=100):
    """What one task has measured."""
    return {
        "topic": topic, "codec": codec, "batchSize": batch_size, "batches": batches, "records": records,
        "plainBytes": 2 * MIB, "packedBytes": packed_bytes, "compressNs": compress_ns, "decompressNs": 500,
    }  # fmt: skip


@pytest.fixture
def rows():
    """Two topics; the second one has a row about what could not be read, which has no codec."""
    return [
        packed("orders", "gzip", 0, 600),
        packed("orders", "none", 0, 400),
        packed("orders", "zstd", 4096, 300, compress_ns=9000),
        packed("orders", "zstd", 4096, 200, compress_ns=9000),
        packed("orders", "zstd", 8192, 490, compress_ns=9000),
        packed("orders", "lz4", 4096, 550, compress_ns=2000),
        packed("orders", "lz4", 8192, 540, compress_ns=2000),
        packed("orders", "gzip", 8192, 551, compress_ns=1),
        packed("clicks", "none", 0, 500),
        packed("clicks", None, 0, 7),
        packed("clicks", "lz4", 4096, 600),
    ]


SAMPLES = [sample("clicks", sampled=500, size=5000), sample("orders"), sample("empty")]


def test_a_choice_is_what_all_tasks_packed_of_its_topic(rows):
    made = codec_tables.choices(SAMPLES, rows)

    assert [(row["topic"], row["codec"], row["batchSize"], row["packedBytes"]) for row in made] == [
        ("clicks", "lz4", 4096, 600),
        ("orders", "zstd", 8192, 490),
        ("orders", "zstd", 4096, 500),
        ("orders", "lz4", 8192, 540),
        ("orders", "lz4", 4096, 550),
        ("orders", "gzip", 8192, 551),
    ]
    twice = made[2]
    assert (twice["batches"], twice["records"], twice["recordSize"], twice["toNow"]) == (20, 200, 2.5, 0.5)
    assert twice["compressMs"] == pytest.approx(18_000 / 1e6 / 4)
    assert twice["decompressMs"] == pytest.approx(1_000 / 1e6 / 4)


def test_what_a_topic_saves_is_counted_where_all_of_it_was_read_and_scaled_up_elsewhere(rows):
    clicks, orders, *_ = codec_tables.choices(SAMPLES, rows)

    assert (orders["savedBytes"], orders["sampledShare"]) == (510, None)
    assert (clicks["savedBytes"], clicks["sampledShare"]) == (-1000, 0.1)


def test_the_best_choice_is_cheap_and_near_the_smallest(rows):
    """5 % of 1,000 bytes above the smallest 490: lz4 with 540 is near, gzip with 551 is not."""
    orders, clicks = codec_tables.best(SAMPLES, rows, codec_tables.choices(SAMPLES, rows))

    assert (orders["topic"], orders["bestCodec"], orders["bestBatchSize"]) == ("orders", "lz4", 8192)
    assert (orders["nowCodec"], orders["batchBytes"], orders["nowRecordSize"]) == ("gzip, none", 50.0, 5.0)
    assert (orders["sizeInBytes"], orders["sampledBytes"]) == (1000, 1000)
    assert (clicks["topic"], clicks["nowCodec"], clicks["sampledBytes"]) == ("clicks", "none", 500)


def test_of_a_codec_the_smallest_batches_that_come_near_are_best(rows):
    rows[5] = packed("orders", "lz4", 4096, 540, compress_ns=2000)
    orders, _ = codec_tables.best(SAMPLES, rows, codec_tables.choices(SAMPLES, rows))

    assert (orders["bestCodec"], orders["bestBatchSize"]) == ("lz4", 4096)


def test_the_pictures_show_what_is_saved_and_the_first_topics_choices(rows):
    made = codec_tables.choices(SAMPLES, rows)
    best = codec_tables.best(SAMPLES, rows, made)
    topics, choices = codec_tables.topics(best), codec_tables.choices_table(made, best)

    assert "orders: 460 B less" in topics.chart
    assert "54% with lz4" in topics.chart
    assert [row["topic"] for row in choices.rows] == ["orders"] * 5 + ["clicks"]
    assert "The chart is of orders" in choices.words
    hints = re.findall(r"zstd, [^:]*: [\d.]+% of now", choices.chart)
    assert hints == ["zstd, 4 KB: 50.0% of now", "zstd, 8 KB: 49.0% of now"]


def test_tables_without_topics_have_no_pictures():
    assert codec_tables.topics([]).chart == codec_tables.choices_table([], []).chart == ""
