"""Commits and lag out of directories and brokers, without Spark: decoded, placed in time, counted."""

from pathlib import Path

import pyarrow as pa
import pytest

from barnabas.admin import Admin, NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from barnabas.operations.group_lag import Standing
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.spark.errors import OptionError
from barnabas.spark.groups.commits import commit_rows
from barnabas.spark.groups.history import lag_history
from barnabas.spark.groups.lag import lag_rows, one_record_at_a_time, rounds, standings
from barnabas.spark.groups.options import group_options, of_offsets_topic
from barnabas.spark.groups.source import HistoryReader, HistoryTask
from barnabas.spark.kafka import shared_fetcher
from barnabas.spark.logs.segments import find_segments, plan_tasks
from barnabas.spark.logs.views import read_pieces

GOLDEN = Path(__file__).parents[1] / "golden" / "logdir" / "broker0"
START = 1_700_000_000_000
T0 = TopicPartition("t", 0)


def key(group="g", partition=0, kind=OffsetCommitKey):
    return kind(group=group, topic="t", partition=partition).to_bytes()


def value(offset, seconds, version=3, **extra):
    commit = OffsetCommitValue(
        offset=offset, leader_epoch=2, metadata="m", commit_timestamp=START + seconds * 1000, **extra
    )
    return commit.to_bytes(version)


@pytest.fixture
def directory(tmp_path):
    """Writes partitions: by name, a list of batches, each a list of (offset, seconds, key, value)."""

    def write(**partitions):
        for name, batches in partitions.items():
            folder = tmp_path / name.replace("__dash__", "-")
            folder.mkdir()
            data = [
                build_batch([Record(offset, START + seconds * 1000, k, v) for offset, seconds, k, v in batch])
                for batch in batches
            ]
            (folder / f"{batches[0][0][0]:020d}.log").write_bytes(b"".join(data))
        return tmp_path

    return write


def commits(path, **given):
    options = group_options({"path": str(path), **given}, "barnabas-offsets")
    logs = of_offsets_topic(options.logs)
    records = [batch for task in plan_tasks(find_segments(logs), logs) for batch in read_pieces(task, logs)]
    return pa.Table.from_batches([commit_rows(batch, options) for batch in records]).to_pylist()


def history(path, **given):
    options = group_options({"path": str(path), **given}, "barnabas-lag")
    return pa.Table.from_batches(lag_history([T0], options)).to_pylist()


def test_the_commits_that_kafka_wrote():
    found = commits(GOLDEN)

    assert found
    assert all(row["commitTimestamp"].year >= 2025 and row["offset"] >= 0 for row in found)
    assert commits(GOLDEN, groups="no-such-group") == []


def test_every_form_of_a_commit(directory):
    records = [
        (0, 1, key(), value(5, 1)),
        (1, 2, key("g2", 1), value(6, 2, version=1, expire_timestamp=START + 9000)),
        (2, 3, key("g3", kind=LegacyOffsetCommitKey), value(7, 3, version=0)),
        (3, 4, key(), None),
        (4, 5, b"\x00\x02\x00\x01g", None),  # a group's own record
        (5, 6, b"\x00\x63", b""),  # of a later Kafka
        (6, 7, b"\x00\x01\x00\x09g", b"\x00"),  # cut off
    ]
    found = commits(directory(__consumer_offsets__dash__7=[records]))

    assert [(row["group"], row["partition"], row["offset"], row["leaderEpoch"]) for row in found] == [
        ("g", 0, 5, 2), ("g2", 1, 6, -1), ("g3", 0, 7, -1), ("g", 0, None, None),
    ]  # fmt: skip
    assert [row["recordOffset"] for row in found] == [0, 1, 2, 3]
    assert {row["recordPartition"] for row in found} == {7}
    assert found[1]["expireTimestamp"].timestamp() == START / 1000 + 9
    assert [row["commitTimestamp"] and row["commitTimestamp"].timestamp() for row in found] == [
        START / 1000 + 1, START / 1000 + 2, START / 1000 + 3, None,
    ]  # fmt: skip


def records_of(*times, start=0):
    return [(start + index, seconds, None, b"v") for index, seconds in enumerate(times)]


def test_the_lag_at_each_commit(directory):
    """Records at 0, 10, ... 90 s; a group that reads them, falls behind, goes back and catches up."""
    path = directory(
        t__dash__0=[records_of(*range(0, 50, 10)), records_of(*range(50, 100, 10), start=5)],
        __consumer_offsets__dash__0=[
            [(0, 25, key(), value(3, 25)), (1, 55, key(), value(4, 55))],
            [(2, 75, key(), value(2, 75)), (3, 99, key(), value(10, 99))],
        ],
    )
    found = history(path)

    assert [(row["committedOffset"], row["logEndOffset"], row["lag"]) for row in found] == [
        (3, 3, 0), (4, 6, 2), (2, 8, 6), (10, 10, 0),
    ]  # fmt: skip
    assert [row["lagSeconds"] for row in found] == [0, 10, 50, 0]
    assert [row["rewound"] for row in found] == [0, 0, 2, 0]
    assert [row["secondsSinceCommit"] for row in found] == [None, 30, 20, 24]


def test_times_that_go_back_and_offsets_that_are_gone(directory):
    path = directory(
        t__dash__0=[[(10, 0, None, b"v"), (12, 30, None, b"v")], records_of(20, 60, start=13)],
        __consumer_offsets__dash__0=[
            [
                (0, 35, key("late"), value(4, 35)),
                (1, 35, key("gap"), value(11, 35)),
                (2, 70, key("ahead"), value(20, 70)),
            ]
        ],
    )
    late, gap, ahead = history(path)

    # The third record is older than the second: what is newest at 35 s is the second, and the log ends behind
    # the third.
    assert (late["logEndOffset"], late["lag"], late["lagSeconds"]) == (14, 10, None)
    assert (gap["logEndOffset"], gap["lag"], gap["lagSeconds"]) == (14, 3, 0)
    assert (ahead["logEndOffset"], ahead["lag"], ahead["lagSeconds"]) == (20, 0, 0)


def test_groups_are_told_apart_and_chosen(directory):
    path = directory(
        t__dash__0=[records_of(0, 10, 20)],
        __consumer_offsets__dash__0=[
            [
                (0, 21, key("a"), value(3, 21)),
                (1, 22, key("b"), value(1, 22)),
                (2, 23, key("a"), value(3, 23)),
            ]
        ],
    )

    assert [(row["group"], row["rewound"]) for row in history(path)] == [("a", 0), ("b", 0), ("a", 0)]
    assert [row["group"] for row in history(path, groups="b")] == ["b"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs either kafka.bootstrap.servers or log directories"),
        ({"path": "/x", "kafka.bootstrap.servers": "h:1"}, "needs either"),
        ({"path": "/x", "subscribe": "t"}, "has no option subscribe"),
        ({"path": "/x", "group": "g"}, "has no option group"),
    ],
)
def test_wrong_options(given, words):
    with pytest.raises(OptionError, match=words):
        group_options(given, "barnabas-lag")


def standing(tp=T0, committed=5, start=0, end=9):
    return Standing("g", tp, committed, start, end, newest_ms=START, retention_ms=-1)


def test_a_place_is_looked_at_once():
    other = TopicPartition("t", 1)
    wanted = [
        standing(),
        standing(),
        standing(committed=7),
        standing(other, committed=9),
        standing(other, 2, 4),
    ]

    found = [[(piece.tp.partition, piece.start) for piece in one] for one in rounds(wanted)]

    assert sorted(place for one in found for place in one) == [(0, 5), (0, 7), (1, 4)]
    assert all(len({partition for partition, _ in one}) == len(one) for one in found)


@pytest.fixture
def topic(broker, topic_name):
    """Ten records, ten seconds apart, of which the first four are removed."""
    name = topic_name("lag")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(name, partitions=2, configs={"retention.ms": str(10**15)})])
    with Producer(broker) as producer:
        for number in range(10):
            producer.send_and_wait(name, b"v", partition=0, timestamp_ms=START + number * 10_000)
    return name


def commit(admin, group, topic, offset, partition=0):
    admin.groups.alter_offsets(group, {TopicPartition(topic, partition): OffsetAndMetadata(offset)})


def fetcher(options):
    return shared_fetcher(one_record_at_a_time(options.brokers.client))


def test_the_lag_that_a_broker_says(broker, topic):
    slow, done, empty = (f"{topic}-{name}" for name in ("slow", "done", "empty"))
    options = group_options(
        {"kafka.bootstrap.servers": broker, "groups": f"{slow},{done},{empty}"}, "barnabas-lag"
    )
    with Admin(broker) as admin:
        commit(admin, slow, topic, 3)
        commit(admin, done, topic, 10)
        commit(admin, empty, topic, 0, partition=1)
        found = standings(admin, options)

    rows = {row["group"]: row for row in lag_rows(found, fetcher(options), 30_000).to_pylist()}
    assert rows.keys() == {slow, done, empty}
    assert (rows[slow]["committedOffset"], rows[slow]["logEndOffset"], rows[slow]["lag"]) == (3, 10, 7)
    assert (rows[slow]["lagSeconds"], rows[slow]["lost"]) == (60, 0)
    assert rows[slow]["nextTimestamp"].timestamp() == START / 1000 + 30
    assert rows[slow]["newestTimestamp"].timestamp() == START / 1000 + 90
    assert rows[slow]["secondsToDataLoss"] > 10**9
    assert (rows[done]["lag"], rows[done]["lagSeconds"], rows[done]["secondsToDataLoss"]) == (0, 0, None)
    assert (rows[empty]["lag"], rows[empty]["lagSeconds"], rows[empty]["newestTimestamp"]) == (0, 0, None)


def test_what_retention_took_from_a_group_is_lost(broker):
    options = group_options({"kafka.bootstrap.servers": broker}, "barnabas-lag")
    (row,) = lag_rows([standing(committed=2, start=6, end=6)], fetcher(options), 30_000).to_pylist()

    assert (row["lag"], row["lost"], row["lagSeconds"]) == (4, 4, 0)


def test_a_history_has_a_task_for_each_partition_and_an_empty_one_where_there_is_none(directory, tmp_path):
    def tasks():
        return HistoryReader(group_options({"path": str(tmp_path)}, "barnabas-lag")).partitions()

    records = [[(0, 0, b"k", b"v")]]
    directory(__consumer_offsets__dash__0=records)
    assert tasks() == [HistoryTask([])]  # Spark asks for one at least
    directory(t__dash__0=records, t__dash__1=records)
    assert sorted(tp for task in tasks() for tp in task.partitions) == [T0, TopicPartition("t", 1)]
