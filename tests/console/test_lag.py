"""The lag that a snapshot has: what is not known is told from zero, value by value."""

from dataclasses import replace

import pytest

from barnabas.admin import ClusterDescription, OffsetAndMetadata, TopicDescription
from barnabas.client.metadata import PartitionMetadata
from barnabas.console.lag import group_lag, partition_lags
from barnabas.console.reading import Freshness, Observation, merged, read
from barnabas.console.snapshot import ClusterSnapshot, NextRecord
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import ZERO_UUID, TopicPartition

NOW = 1_000_000
TP = TopicPartition("t", 0)


def a_topic(leader=1, isr=(1,)):
    return TopicDescription("t", ZERO_UUID, False, [PartitionMetadata(0, leader, 3, [1, 2], isr, [])])


def standing(position=5, end=9, **more):
    snapshot = ClusterSnapshot(
        cluster=read(ClusterDescription("c", None, []), NOW),
        topics=read({"t": a_topic()}, NOW),
        starts={TP: read(0, NOW)},
        ends={TP: read(end, NOW)},
        positions={"g": read({TP: None if position is None else OffsetAndMetadata(position)}, NOW)},
        newest_ms={TP: read(90_000, NOW)},
    )
    return replace(snapshot, **more)


def part(snapshot, now=NOW):
    (found,) = partition_lags(snapshot, "g", now)
    return found


def test_a_group_that_has_read_all_is_not_behind():
    found = part(standing(position=9))
    assert (found.lag.value, found.seconds.value, found.lag.state) == (0, 0.0, Freshness.OK)


def test_seconds_are_from_the_next_record_to_the_newest():
    found = part(standing(next_records={(TP, 5): read(NextRecord(5, 9, 30_000), NOW)}))
    assert (found.lag.value, found.seconds.value) == (4, 60.0)


def test_markers_alone_are_no_time():
    found = part(standing(next_records={(TP, 5): read(NextRecord(5, 9, None), NOW)}))
    assert (found.lag.value, found.seconds.value, found.seconds.state) == (4, 0.0, Freshness.OK)


@pytest.mark.parametrize(
    ("snapshot", "why"),
    [
        (standing(position=None), "no position was committed"),
        (
            standing(ends={TP: Observation().failed("the partition has no leader")}),
            "the partition has no leader",
        ),
        (standing(topics=read({}, NOW)), "the topic was deleted"),
    ],
    ids=["no commit", "no leader", "no topic"],
)
def test_what_is_not_known_is_no_zero(snapshot, why):
    found = part(snapshot)
    assert (found.lag.value, found.lag.state, found.lag.why) == (None, Freshness.UNKNOWN, why)
    assert group_lag([found]).lag.state is Freshness.UNKNOWN


def test_a_record_that_was_not_looked_at_leaves_the_seconds_unknown():
    found = part(standing())
    assert (found.lag.value, found.seconds.state) == (4, Freshness.UNKNOWN)


def test_what_was_read_before_is_stale_with_the_error():
    positions = merged(standing().positions, {"g": BarnabasError("no answer")}, NOW)
    found = part(standing(position=9, positions=positions))
    assert (found.lag.value, found.lag.state, found.lag.why) == (4, Freshness.STALE, "no answer")


def test_what_is_old_is_stale():
    assert part(standing(position=9), now=NOW + 61_000).lag.state is Freshness.STALE


def test_an_old_end_makes_an_old_lag():
    ends = {TP: read(9, NOW).failed("no answer")}
    found = part(standing(ends=ends))
    assert (found.committed.state, found.lag.state) == (Freshness.OK, Freshness.STALE)


def test_a_sum_without_a_part_is_stale_and_says_so():
    other = TopicPartition("t", 1)
    positions = read({TP: OffsetAndMetadata(5), other: OffsetAndMetadata(1)}, NOW)
    whole = group_lag(partition_lags(standing(positions={"g": positions}), "g", NOW))
    assert (whole.lag.value, whole.lag.state) == (4, Freshness.STALE)
    assert whole.lag.why.startswith("without 1 that are not known")


def test_of_what_has_gone_nothing_is_kept():
    assert merged({"a": read(1, NOW), "b": read(2, NOW)}, {}, NOW, ["b"]) == {"b": read(2, NOW)}
