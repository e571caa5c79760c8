"""Codecs and batch sizes: sizes are those of the batches that a plain packing of the same records makes."""

import json
import random
import struct
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from barnabas.cli.main import cli
from barnabas.records.batch import batch_headers, build_batch, decode_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.spark.analyses import codecs, directories
from barnabas.spark.analyses.codec_packing import choice, pack_again
from barnabas.spark.analyses.codec_sample import sample
from barnabas.spark.errors import OptionError
from barnabas.spark.logs.options import log_options
from barnabas.spark.logs.segments import find_segments, plan_tasks

pytestmark = pytest.mark.timeout(180)
SIZES = (1_000, 6_000)


def records_of(rng, count, first=0):
    """Records that compress, as those of topics do; one is larger than the smaller batches."""
    for offset in range(first, first + count):
        value = {
            "order": offset,
            "city": rng.choice(["Berlin", "Paris", "Warsaw"]),
            "sum": rng.randrange(1000),
        }
        text = json.dumps(value).encode() * (20 if offset == first + 7 else 1)
        yield Record(offset, 1_700_000_000_000 + offset * 7, b"k%d" % rng.randrange(50), text, [("h", b"1")])


def write_segment(folder, records, *, size, codec=Codec.NONE, behind=b"", index=True):
    """A segment of batches of `size` records, with an index of every second batch."""
    folder.mkdir(parents=True, exist_ok=True)
    data, entries = b"", b""
    for number, at in enumerate(range(0, len(records), size)):
        if number % 2:
            entries += struct.pack(">ii", records[at].offset - records[0].offset, len(data))
        data += build_batch(records[at : at + size], codec=codec)
    (folder / f"{records[0].offset:020d}.log").write_bytes(data + behind)
    if index:
        (folder / f"{records[0].offset:020d}.index").write_bytes(entries)


def packed(records, size, codec, level):
    """The sizes of batches of these records, each as full as it may be before compression."""
    sizes, held = [], []
    for record in records:
        if held and len(build_batch([*held, record])) > size:
            sizes.append(len(build_batch(held, codec=codec, level=level)))
            held = []
        held.append(record)
    return [*sizes, len(build_batch(held, codec=codec, level=level))]


def data_batches(data, start=0, end=None):
    """(Bytes of each whole batch of data there, its records)."""
    part = data[start:end]
    return [
        (header.size, decode_batch(part, header.position))
        for header in batch_headers(part)
        if not header.is_control
    ]


@pytest.mark.spark
def test_a_small_topic_is_packed_as_a_whole_and_its_sizes_are_counted(spark, tmp_path):
    rng, logs = random.Random(3), tmp_path / "logs"
    marker = build_batch(
        [Record(120, 1_700_000_000_000, b"\0\0\0\1", bytes(6))], transactional=True, control=True
    )
    write_segment(logs / "plain-0", list(records_of(rng, 120)), size=5, behind=marker)
    write_segment(logs / "plain-0", list(records_of(rng, 60, 121)), size=5)
    write_segment(logs / "gz-0", list(records_of(rng, 90)), size=30, codec=Codec.GZIP)

    found = codecs(spark, logs, codecs=("none", "snappy", "zstd", "zstd:12"), batch_sizes=SIZES)

    rows = {(row["topic"], row["codec"], row["batchSize"]): row for row in found.tables["choices"].rows}
    assert len(rows) == 2 * 4 * len(SIZES)
    best = {row["topic"]: row for row in found.tables["topics"].rows}
    for topic in ("plain", "gz"):
        segments = [data_batches(file.read_bytes()) for file in sorted(logs.glob(f"{topic}-0/*.log"))]
        now = sum(size for batches in segments for size, _ in batches)
        count = sum(len(records) for batches in segments for _, records in batches)
        assert best[topic]["nowRecordSize"] == pytest.approx(now / count)
        assert best[topic]["sampledBytes"] == now
        for (of_topic, name, size), row in rows.items():
            if of_topic == topic:
                one = choice(name)
                sizes = [
                    packed_size
                    for batches in segments
                    for packed_size in packed(
                        [r for _, own in batches for r in own], size, one.codec, one.level
                    )
                ]
                assert (row["batches"], row["records"], row["packedBytes"]) == (len(sizes), count, sum(sizes))
                assert row["recordSize"] == pytest.approx(sum(sizes) / count)
                assert row["toNow"] == pytest.approx(sum(sizes) / now)
                assert row["savedBytes"] == now - sum(sizes)
                assert row["sampledShare"] is None
                assert row["compressMs"] >= 0
                assert row["decompressMs"] >= 0
        smallest = min(row["packedBytes"] for row in rows.values() if row["topic"] == topic)
        chosen = rows[topic, best[topic]["bestCodec"], best[topic]["bestBatchSize"]]
        assert chosen["packedBytes"] <= smallest + 0.05 * now
    assert best["plain"]["nowCodec"] == "none"
    assert best["gz"]["nowCodec"] == "gzip"
    assert found.lead.startswith("plain: ")
    assert "about" not in found.lead

    page = found.write(tmp_path / "out")
    assert page.read_text(encoding="utf-8").count('class="chart"') == 2
    for name, table in found.tables.items():
        assert pq.read_table(tmp_path / "out" / f"{name}.parquet").num_rows == len(table.rows)


@pytest.mark.spark
def test_what_a_sample_says_of_the_whole_is_scaled_up_and_called_so(spark, tmp_path):
    rng, logs = random.Random(4), tmp_path / "logs"
    for first in (0, 1_000):
        write_segment(logs / "t-0", list(records_of(rng, 1_000, first)), size=4)
    pieces = sample("t", directories(logs).segments(), 30_000, 2_000).pieces
    total = sum(file.stat().st_size for file in logs.glob("t-0/*.log"))

    found = codecs(spark, logs, codecs=["zstd"], batch_sizes=[2_000], sample_bytes=30_000)

    assert len(pieces) > 1
    (row,) = found.tables["choices"].rows
    read = [
        data_batches(
            (logs / "t-0" / f"{piece.segment.base_offset:020d}.log").read_bytes(), piece.start, piece.end
        )
        for piece in pieces
    ]
    now = sum(size for batches in read for size, _ in batches)
    sizes = [
        size
        for batches in read
        for size in packed([r for _, own in batches for r in own], 2_000, Codec.ZSTD, None)
    ]
    assert 20_000 < now <= 30_000
    assert row["packedBytes"] == sum(sizes)
    assert row["sampledShare"] == pytest.approx(now / total)
    assert row["savedBytes"] == round(total * (1 - sum(sizes) / now))
    assert ", about " in found.lead


@pytest.mark.spark
def test_corrupt_batches_are_left_out_and_counted(spark, tmp_path):
    records = list(records_of(random.Random(5), 20))
    write_segment(tmp_path / "logs" / "t-0", records, size=10)
    (log,) = (tmp_path / "logs" / "t-0").glob("*.log")
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)

    found = codecs(spark, tmp_path / "logs", codecs=["lz4"], batch_sizes=[6_000])

    assert [row["records"] for row in found.tables["choices"].rows] == [10]
    assert found.notes == ["Left out: corrupt batches, 1 of what was packed."]


@pytest.mark.parametrize("index", [True, False])
def test_pieces_of_a_sample_begin_at_batches_overlap_nowhere_and_are_bounded(tmp_path, index):
    rng = random.Random(6)
    for first in (0, 500, 1_000):
        write_segment(tmp_path / "t-0", list(records_of(rng, 500, first)), size=3, index=index)
    segments = directories(tmp_path).segments()

    found = sample("t", segments, 40_000, 2_000)

    assert 30_000 < found.sampled_bytes <= 40_000
    assert not found.is_whole
    assert {piece.segment for piece in found.pieces} == set(segments)
    for segment in segments:
        data = (tmp_path / "t-0" / f"{segment.base_offset:020d}.log").read_bytes()
        starts = {header.position for header in batch_headers(data)}
        own = sorted(piece for piece in found.pieces if piece.segment == segment)
        assert {piece.start for piece in own} <= starts
        assert all(before.end <= after.start for before, after in pairwise(own))


def test_a_piece_has_room_for_a_batch_that_is_larger_than_the_sample(tmp_path):
    write_segment(tmp_path / "t-0", list(records_of(random.Random(7), 200)), size=100)
    (segment,) = directories(tmp_path).segments()

    (piece,) = sample("t", [segment], 100, 1_000).pieces

    assert piece.end == next(batch_headers((tmp_path / "t-0" / f"{0:020d}.log").read_bytes())).end


def test_what_cannot_be_tried_is_refused_in_one_line(tmp_path):
    def refusal(*arguments):
        return CliRunner().invoke(cli, ["analyze", "codecs", str(tmp_path), *arguments])

    assert str(refusal("--codecs", "brotli").exception).startswith(
        "'brotli' is no codec; there are none, gzip"
    )
    assert str(refusal("--codecs", "snappy:3").exception) == "snappy has no levels"
    for level in ("gzip:0", "gzip:ten"):
        assert (
            str(refusal("--codecs", level).exception) == f"{level}: the level of gzip is a number from 1 to 9"
        )
    assert "one batch size" in str(refusal("--batch-sizes", "0").exception)
    assert "'16k' is no list of bytes" in refusal("--batch-sizes", "16k").output
    assert isinstance(refusal().exception, OptionError)
    assert str(choice("zstd:-5")) == "zstd:-5"


def test_a_piece_counts_the_batches_that_its_records_make(tmp_path):
    """Without Spark: what one of its tasks finds."""
    records = list(records_of(random.Random(1), 60))
    write_segment(tmp_path / "t-0", records, size=10)
    options = log_options({"path": str(tmp_path)})
    ((piece,),) = plan_tasks(find_segments(options), options)

    found = pack_again(piece, [choice("zstd:3")], SIZES).to_pylist()

    for size in SIZES:
        (row,) = [each for each in found if (each["codec"], each["batchSize"]) == ("zstd:3", size)]
        expected = packed(records, size, Codec.ZSTD, 3)
        assert (row["batches"], row["packedBytes"], row["records"]) == (len(expected), sum(expected), 60)
