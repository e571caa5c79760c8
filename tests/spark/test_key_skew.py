"""Skew and hot keys: every figure against a count of the same records in plain Python, and what is said of
them.
"""

import struct
from collections import Counter, defaultdict

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from barnabas.admin import Admin, NewTopic
from barnabas.cli.main import cli
from barnabas.client.partitioner import murmur2
from barnabas.records.batch import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.spark.analyses import partition_counts, skew
from barnabas.spark.analyses.columns import key_text
from barnabas.spark.errors import OptionError

pytestmark = pytest.mark.timeout(180)
HOT, BINARY = b"hot", struct.pack(">q", 7)


def home(key, count):
    return (murmur2(key) & 0x7FFFFFFF) % count


def records_of_topics():
    """(topic, partition, key, value) of each record."""
    keys = [HOT] * 60 + [b"key-%d" % (n % 40) for n in range(100)]
    yield from (("hot", home(key, 4), key, b"v" * (n % 7)) for n, key in enumerate(keys))
    # Placed by a number in the key, and the first ones by another rule: not as the default partitioner does.
    yield from (("own", n % 3, struct.pack(">q", n % 9), b"value") for n in range(90))
    yield from (("own", 2, BINARY, b"value" * 100) for _ in range(5))
    # The longest key is not the most frequent one.
    yield from (("mixed", 0, None if n % 4 else b"k" * 30, b"x" * n) for n in range(80))


@pytest.fixture
def written(tmp_path):
    """The records, in log directories; the second partition of `mixed` is empty."""
    records = list(records_of_topics())
    logs = {
        (topic, partition): []
        for topic, count in (("hot", 4), ("own", 3), ("mixed", 2))
        for partition in range(count)
    }
    for topic, partition, key, value in records:
        logs[topic, partition].append(Record(len(logs[topic, partition]), 1_000, key, value))
    for (topic, partition), held in logs.items():
        folder = tmp_path / "logs" / f"{topic}-{partition}"
        folder.mkdir(parents=True)
        batches = [build_batch(held[at : at + 16], codec=Codec.LZ4) for at in range(0, len(held), 16)]
        (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    return tmp_path / "logs", records


def spread(sizes, count):
    """The largest of so many partitions to the mean."""
    return max(sizes.values()) * count / sum(sizes.values())


@pytest.mark.spark
def test_every_figure_is_that_of_a_count_in_plain_python(spark, written, tmp_path):
    folder, records = written
    found = skew(spark, folder, hot_keys=5)

    topics = {row["topic"]: row for row in found.tables["topics"].rows}
    for topic, count in (("hot", 4), ("own", 3), ("mixed", 2)):
        own = [one for one in records if one[0] == topic]
        counts, sizes, places = Counter(), Counter(), defaultdict(Counter)
        for _, partition, key, value in own:
            counts[partition] += 1
            sizes[partition] += len(key or b"") + len(value)
            if key is not None:
                places[key][partition] += 1
        row = topics[topic]
        assert row["partitions"] == count
        assert (row["records"], row["recordBytes"]) == (len(own), sum(sizes.values()))
        assert row["recordSkew"] == pytest.approx(spread(counts, count))
        assert row["byteSkew"] == pytest.approx(spread(sizes, count))
        assert row["largestShare"] == pytest.approx(sizes[row["largest"]] / sum(sizes.values()))
        assert row["keys"] == len(places)
        assert row["keylessRecords"] == sum(key is None for _, _, key, _ in own)
        assert row["splitKeys"] == sum(len(where) > 1 for where in places.values())
        at_home = [key for key, where in places.items() if set(where) == {home(key, count)}]
        assert row["defaultKeyShare"] == pytest.approx(len(at_home) / len(places))
        kept = sum(where[home(key, count)] for key, where in places.items())
        assert row["defaultRecordShare"] == pytest.approx(kept / sum(map(Counter.total, places.values())))

        shown = {one["partition"]: one for one in found.tables["partitions"].rows if one["topic"] == topic}
        assert {number: one["records"] for number, one in shown.items()} == {
            n: counts[n] for n in range(count)
        }
        assert {number: one["recordBytes"] for number, one in shown.items()} == {
            n: sizes[n] for n in range(count)
        }

        of_keys, bytes_of_keys = Counter(), Counter()
        for _, _, key, value in own:
            if key is not None:
                of_keys[key] += 1
                bytes_of_keys[key] += len(key) + len(value)
        for table, expected, name in (
            ("hot_keys_by_records", of_keys, "records"),
            ("hot_keys_by_bytes", bytes_of_keys, "recordBytes"),
        ):
            rows = [one for one in found.tables[table].rows if one["topic"] == topic]
            largest = sorted(expected, key=lambda key: (-expected[key], key))[:5]
            assert [(one["keyBytes"], one[name]) for one in rows] == [(key, expected[key]) for key in largest]
            assert [one["heldIn"] for one in rows] == [len(places[key]) for key in largest]
        split = {one["keyBytes"] for one in found.tables["split_keys"].rows if one["topic"] == topic}
        wanted = [
            key for key in sorted(of_keys, key=lambda key: (-of_keys[key], key)) if len(places[key]) > 1
        ]
        assert split == set(wanted[:5])

        spreads = {one["spread"]: one for one in found.tables["spreads"].rows if one["topic"] == topic}
        for name, partitions in (("default partitioner", count), ("more partitions", 2 * count)):
            placed = dict.fromkeys(range(partitions), 0)
            for _, _, key, value in own:
                for number in [home(key, partitions)] if key is not None else placed:
                    placed[number] += (len(key or b"") + len(value)) / (1 if key is not None else partitions)
            assert spreads[name]["partitions"] == partitions
            assert spreads[name]["byteSkew"] == pytest.approx(spread(placed, partitions))
        moved = sum(set(where) != {home(key, 2 * count)} for key, where in places.items())
        assert spreads["more partitions"]["movedShare"] == pytest.approx(moved / len(places))

    page = found.write(tmp_path / "out").read_text(encoding="utf-8")
    assert "0x0000000000000007" in page
    for name, table in found.tables.items():
        assert pq.read_table(tmp_path / "out" / f"{name}.parquet").num_rows == len(table.rows)


@pytest.mark.spark
def test_the_answer_names_the_topic_its_key_and_what_more_partitions_change(spark, written):
    folder, _ = written
    found = skew(spark, folder, topics=["hot"], more_partitions=2)

    row = next(one for one in found.tables["topics"].rows if one["topic"] == "hot")
    later = next(one for one in found.tables["spreads"].rows if one["spread"] == "more partitions")
    assert found.lead.startswith(
        f"hot is skewed: partition {row['largest']} has {row['largestShare']:.0%} of its"
    )
    assert "the key hot alone has" in found.lead
    assert f"With 6 partitions the largest would have {later['largestShare']:.0%}" in found.lead
    assert "several partitions" not in found.lead


@pytest.mark.spark
def test_a_part_of_a_topic_has_no_what_if_and_is_said_to_be_one(spark, written):
    folder, _ = written
    found = skew(spark, [folder / "hot-1", folder / "hot-3"], partitions={"hot": 5})

    assert not found.tables["spreads"].rows
    assert [row["partitions"] for row in found.tables["topics"].rows] == [2]
    assert found.notes[0].startswith("hot: 2 of 5 partitions are in these directories.")


def test_no_two_keys_are_shown_alike():
    assert key_text(b"order-7") == "order-7"
    assert key_text(BINARY) == "0x0000000000000007"
    assert key_text(b"\xff\x00") == "0xff00"
    assert key_text(b"0xff00") == "0x307866663030"
    assert key_text(b"") == "0x"


def test_brokers_say_how_many_partitions_their_topics_have(broker):
    with Admin(broker) as admin:
        admin.topics.create([NewTopic("five", partitions=5)])

    assert partition_counts(broker, ["five", "unknown"]) == {"five": 5}


def test_directories_that_are_none_are_refused_in_one_line(tmp_path):
    shown = CliRunner().invoke(cli, ["analyze", "skew", str(tmp_path / "nowhere")])

    assert isinstance(shown.exception, OptionError)
    assert str(shown.exception).endswith("nowhere is not a directory")
