"""Where reads begin and end, when data counts as lost, and what a stream's batches cover:
without Java or Kafka.
"""

import json
import logging
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import DataLossError, OffsetError
from barnabas.spark.limits import TriggerDelay, prorate
from barnabas.spark.offsets import UNRESOLVED, SourceOffset, from_nested, to_nested
from barnabas.spark.options import source_options
from barnabas.spark.planner import FoundTopics, Planner
from barnabas.spark.ranges import OffsetRange, Packing, pack, plan_tasks, split
from barnabas.spark.stream import TopicStream

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class FakeCatalog:
    """Partitions with a first and a last offset; the offset for a time is the time."""

    def __init__(self, logs):
        self.logs = dict(logs)
        self.ids = {}
        self.missing = {}
        self.groups = {}

    def topics(self, options):
        return FoundTopics(set(self.logs), self.ids, self.missing)

    def offsets(self, wanted):
        found = {}
        for tp, timestamp in wanted.items():
            first, end = self.logs[tp]
            found[tp] = {-2: first, -1: end}.get(timestamp, timestamp if timestamp < end else -1)
        return found

    def committed(self, group, partitions):
        return {tp: self.groups[group, tp] for tp in partitions if (group, tp) in self.groups}


def make(logs, *, streaming=False, **extra):
    strategy = {} if "assign" in extra else {"subscribe": "a"}
    options = source_options({"kafka.bootstrap.servers": "h:1", **strategy, **extra}, streaming=streaming)
    catalog = FakeCatalog(logs)
    return catalog, options, Planner(options, catalog)


def stream(logs, **extra):
    catalog, options, planner = make(logs, streaming=True, **extra)
    clock = [0.0]
    return catalog, clock, TopicStream(options, planner, lambda: clock[0])


class TestBatch:
    def test_everything_is_read_unless_told_otherwise(self):
        _, _, planner = make({A0: (3, 10), A1: (0, 0)})

        assert planner.batch_ranges() == [OffsetRange(A0, 3, 10), OffsetRange(A1, 0, 0)]

    def test_offsets_by_partition_with_earliest_and_latest(self):
        _, _, planner = make(
            {A0: (3, 10), A1: (0, 9)},
            startingOffsets='{"a":{"0":5,"1":-2}}',
            endingOffsets='{"a":{"0":-1,"1":4}}',
        )

        assert planner.batch_ranges() == [OffsetRange(A0, 5, 10), OffsetRange(A1, 0, 4)]

    def test_timestamps(self):
        _, _, planner = make({A0: (0, 10)}, startingTimestamp="4", endingTimestamp="99")

        assert planner.batch_ranges() == [OffsetRange(A0, 4, 10)]

    def test_a_group_says_where_to_begin(self):
        catalog, _, planner = make({A0: (3, 10), A1: (2, 9)}, startingOffsets="group:billing")
        with pytest.raises(OffsetError, match=r"The group billing has committed no offsets in \{a-0,a-1\}"):
            planner.batch_ranges()

        catalog.groups["billing", A0] = 7
        assert planner.batch_ranges() == [OffsetRange(A0, 7, 10), OffsetRange(A1, 2, 9)]

        catalog.groups["billing", A0] = 1
        with pytest.raises(DataLossError, match="Starting offset for a-0 was 1"):
            planner.batch_ranges()

    def test_a_start_behind_all_records_is_an_error_or_latest(self):
        _, _, planner = make({A0: (0, 10)}, startingTimestamp="99")
        with pytest.raises(
            OffsetError, match=r"No offset matched from request of topic-partition a-0 and timestamp 99."
        ):
            planner.batch_ranges()

        _, _, lenient = make(
            {A0: (0, 10)}, startingTimestamp="99", startingOffsetsByTimestampStrategy="latest"
        )
        assert lenient.batch_ranges() == [OffsetRange(A0, 10, 10)]

    @pytest.mark.parametrize("name", ["startingOffsets", "startingOffsetsByTimestamp"])
    def test_all_partitions_must_be_named(self, name):
        _, _, planner = make({A0: (0, 10), A1: (0, 9)}, **{name: '{"a":{"0":5}}'})

        with pytest.raises(
            OffsetError, match=r"DOES_NOT_MATCH_ASSIGNED.*Specified: {a-0} Assigned: {a-0,a-1}"
        ):
            planner.batch_ranges()

    def test_start_and_end_name_the_same_partitions(self):
        _, _, planner = make(
            {A0: (0, 10)}, startingOffsets='{"a":{"0":5}}', endingOffsets='{"a":{"0":5,"1":6}}'
        )

        with pytest.raises(
            OffsetError, match=r"starting offsets topics\[a-0\] and ending offsets topics\[a-0,a-1\]"
        ):
            planner.batch_ranges()

    def test_a_start_behind_the_end_is_an_error(self):
        _, _, planner = make({A0: (0, 10)}, startingOffsets='{"a":{"0":12}}')

        with pytest.raises(OffsetError, match=r"RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET.* 12 .* 10 "):
            planner.batch_ranges()

    def test_what_retention_removed_is_lost(self, caplog):
        logs = {A0: (50, 100)}
        _, _, planner = make(logs, startingOffsets='{"a":{"0":20}}')
        with pytest.raises(
            DataLossError, match="Starting offset for a-0 was 20 but consumer reset to 50"
        ) as caught:
            planner.batch_ranges()
        assert caught.value.condition == "START_OFFSET_RESET"
        assert "set the source option failOnDataLoss to false" in str(caught.value)

        _, _, lenient = make(logs, startingOffsets='{"a":{"0":20}}', failOnDataLoss="false")
        with caplog.at_level(logging.WARNING):
            assert lenient.batch_ranges() == [OffsetRange(A0, 50, 100)]
        assert "some data may have been lost" in caplog.text


class TestStream:
    def test_the_first_batch_pins_where_the_query_began(self):
        catalog, _, topics = stream({A0: (3, 10), B0: (0, 4)}, startingOffsets="earliest")

        end = topics.next_end(UNRESOLVED, None)
        assert SourceOffset.decode(end) == SourceOffset({A0: 10, B0: 4}, {}, start={A0: 3, B0: 0})

        # Killed before the batch was committed: a new process replays it from the log, whatever is new.
        catalog.logs = {A0: (3, 99), B0: (0, 99)}
        _, _, restarted = stream(catalog.logs, startingOffsets="latest")
        assert restarted.ranges(UNRESOLVED, json.loads(json.dumps(end))) == [
            OffsetRange(A0, 3, 10),
            OffsetRange(B0, 0, 4),
        ]

    def test_latest_skips_nothing_between_two_askings(self):
        catalog, _, topics = stream({A0: (0, 10)})
        first = topics.next_end(UNRESOLVED, None)
        assert topics.ranges(UNRESOLVED, first) == [OffsetRange(A0, 10, 10)]

        catalog.logs = {A0: (0, 17)}
        second = topics.next_end(first, None)
        assert topics.ranges(first, second) == [OffsetRange(A0, 10, 17)]

    def test_the_initial_offset_is_asked_twice_and_resolved_once(self):
        catalog, _, topics = stream({A0: (0, 10)})
        topics.next_end(UNRESOLVED, None)
        catalog.logs = {A0: (0, 15)}

        assert topics.ranges(UNRESOLVED, topics.next_end(UNRESOLVED, None)) == [OffsetRange(A0, 10, 15)]

    def test_no_news_is_the_same_offset(self):
        _, _, topics = stream({A0: (0, 10)}, startingOffsets="earliest")
        first = topics.next_end(UNRESOLVED, None)

        assert topics.next_end(first, None) is first
        settled = to_nested({A0: 10})
        assert topics.next_end(settled, None) is settled

    def test_new_partitions_are_read_from_their_beginning(self):
        catalog, _, topics = stream({A0: (0, 10)})
        start = topics.next_end(UNRESOLVED, None)
        catalog.logs[A1] = (0, 5)

        end = topics.next_end(start, None)
        assert topics.ranges(start, end) == [OffsetRange(A0, 10, 10), OffsetRange(A1, 0, 5)]

    def test_a_topic_that_appears_after_an_empty_start_is_read_whole(self):
        catalog, _, topics = stream({})
        start = topics.next_end(UNRESOLVED, None)
        assert start != UNRESOLVED
        catalog.logs[A0] = (0, 5)

        assert topics.ranges(start, topics.next_end(start, None)) == [OffsetRange(A0, 0, 5)]

    def test_the_official_connector_sees_no_partition_in_the_note(self):
        catalog, _, topics = stream({A0: (3, 10)}, startingOffsets="earliest")
        catalog.ids = {"a": "A"}
        end = topics.next_end(UNRESOLVED, None)

        # JsonUtils.partitionOffsets reads maps from topics to maps from partitions to offsets.
        assert {
            (topic, number): offset for topic, numbers in end.items() for number, offset in numbers.items()
        } == {("a", "0"): 10}

    def test_a_first_batch_that_another_connector_planned_begins_where_the_user_says(self):
        planned = {"a": {"0": 1_100}}
        _, _, topics = stream({A0: (0, 2_000)}, startingOffsets="latest")
        with pytest.raises(OffsetError, match="startingOffsets to the JSON text in the file sources/0/0"):
            topics.ranges(UNRESOLVED, planned)

        _, _, topics = stream({A0: (0, 2_000)}, startingOffsets='{"a":{"0":1000}}')
        assert topics.ranges(UNRESOLVED, planned) == [OffsetRange(A0, 1_000, 1_100)]

    def test_a_topic_that_was_created_again_is_told_by_its_id(self):
        """It may be longer than the one before: by offsets alone 100 records would be skipped in silence."""
        catalog, options, _ = make({A0: (0, 100)}, streaming=True, startingOffsets="earliest")
        catalog.ids = {"a": "A"}
        topics = TopicStream(options, Planner(options, catalog), lambda: 0.0)
        start = topics.next_end(UNRESOLVED, None)
        catalog.logs, catalog.ids = {A0: (0, 150)}, {"a": "B"}

        end = topics.next_end(start, None)
        with pytest.raises(DataLossError, match="Topic a has been deleted and created again"):
            topics.ranges(start, end)

        lenient = replace(options, fail_on_data_loss=False)
        topics = TopicStream(lenient, Planner(lenient, catalog), lambda: 0.0)
        assert topics.ranges(start, end) == [OffsetRange(A0, 0, 150)]
        limited = SourceOffset.decode(topics.next_end(start, 60))
        assert limited == SourceOffset({A0: 60}, {"a": "B"})

    def test_a_topic_that_was_created_again_as_long_as_before_is_a_new_batch(self):
        catalog, _, topics = stream({A0: (0, 100)}, startingOffsets="earliest")
        catalog.ids = {"a": "A"}
        start = topics.next_end(UNRESOLVED, None)
        catalog.ids = {"a": "B"}

        assert topics.next_end(start, None) != start

    def test_a_planned_batch_whose_topic_was_created_again_is_lost(self):
        start, end = SourceOffset({A0: 5}, {"a": "A"}).encode(), SourceOffset({A0: 9}, {"a": "A"}).encode()
        catalog, options, _ = make({A0: (0, 50)}, streaming=True)
        catalog.ids = {"a": "B"}
        topics = TopicStream(options, Planner(options, catalog), lambda: 0.0)
        with pytest.raises(DataLossError, match=r"Partitions {a-0} have been deleted"):
            topics.ranges(start, end)

        lenient = replace(options, fail_on_data_loss=False)
        assert TopicStream(lenient, Planner(lenient, catalog), lambda: 0.0).ranges(start, end) == []

    def test_a_planned_batch_of_which_a_lost_topic_had_nothing_is_no_loss(self):
        """The batch reads the other topic; all of the one that is gone was read before."""
        ids = {"a": "A", "b": "B"}
        start, end = SourceOffset({A0: 9, B0: 1}, ids).encode(), SourceOffset({A0: 9, B0: 4}, ids).encode()
        catalog, options, _ = make({A0: (0, 50), B0: (0, 4)}, streaming=True, subscribe="a,b")
        catalog.ids = {"a": "again", "b": "B"}

        topics = TopicStream(options, Planner(options, catalog), lambda: 0.0)
        assert topics.ranges(start, end) == [OffsetRange(B0, 1, 4)]
        one_more = SourceOffset({A0: 10, B0: 4}, ids).encode()
        with pytest.raises(DataLossError, match=r"Partitions {a-0} have been deleted"):
            topics.ranges(start, one_more)

    def test_a_range_that_retention_has_overtaken_wholly_is_empty_and_not_backwards(self):
        _, _, topics = stream({A0: (20, 30)}, failOnDataLoss="false")

        assert topics.ranges(SourceOffset({A0: 5}, {}).encode(), SourceOffset({A0: 10}, {}).encode()) == [
            OffsetRange(A0, 10, 10)
        ]
        assert topics.ranges(SourceOffset({A0: 5}, {}).encode(), SourceOffset({A0: 25}, {}).encode()) == [
            OffsetRange(A0, 20, 25)
        ]

    def test_a_topic_that_is_deleted_keeps_its_place_until_it_is_there_again(self):
        catalog, _, topics = stream(
            {A0: (0, 10), B0: (0, 4)}, subscribe="a,b", startingOffsets="earliest", failOnDataLoss="false"
        )
        catalog.ids = {"a": "A", "b": "B"}
        start = topics.next_end(UNRESOLVED, None)
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        catalog.logs, catalog.ids, catalog.missing = {A0: (0, 12)}, {"a": "A"}, {"b": unknown}
        end = topics.next_end(start, None)
        assert SourceOffset.decode(end) == SourceOffset({A0: 12, B0: 4}, {"a": "A", "b": "B"})
        assert topics.ranges(start, end) == [OffsetRange(A0, 10, 12)]

        catalog.logs, catalog.ids, catalog.missing = {A0: (0, 12), B0: (0, 9)}, {"a": "A", "b": "B"}, {}
        assert topics.ranges(end, topics.next_end(end, None)) == [
            OffsetRange(A0, 12, 12),
            OffsetRange(B0, 4, 9),
        ]

    def test_a_topic_that_is_no_longer_asked_for_is_not_called_deleted(self):
        start = SourceOffset({A0: 10, B0: 4}, {"a": "A", "b": "B"})
        with pytest.raises(DataLossError) as caught:
            make({A0: (0, 10)}, streaming=True)[2].latest_place(start)

        assert "b" in caught.value.reason
        assert "has been deleted" not in caught.value.reason

    def test_partitions_that_are_no_longer_assigned_fail_before_a_batch_is_written_down(self):
        catalog, _, topics = stream({A0: (0, 10)}, assign='{"a":[0]}')
        catalog.ids = {"a": "A"}
        both = SourceOffset({A0: 4, A1: 3}, {"a": "A"}).encode()
        with pytest.raises(DataLossError, match=r"do not ask for \{a-1\} any more"):
            topics.next_end(both, None)

        lenient = stream({A0: (0, 10)}, assign='{"a":[0]}', failOnDataLoss="false")
        lenient[0].ids = {"a": "A"}
        end = lenient[2].next_end(both, None)
        assert SourceOffset.decode(end) == SourceOffset({A0: 10}, {"a": "A"}), "it loses its place"
        assert lenient[2].ranges(both, end) == [OffsetRange(A0, 4, 10)]

    def test_partitions_that_one_broker_does_not_know_yet_keep_their_place(self):
        catalog, _, topics = stream({A0: (0, 12)})
        catalog.ids = {"a": "A"}
        start = SourceOffset({A0: 10, A1: 3}, {"a": "A"}).encode()
        end = topics.next_end(start, None)
        assert SourceOffset.decode(end) == SourceOffset({A0: 12, A1: 3}, {"a": "A"})

        catalog.logs[A1] = (0, 7)
        assert topics.ranges(end, topics.next_end(end, None)) == [
            OffsetRange(A0, 12, 12),
            OffsetRange(A1, 3, 7),
        ]
        catalog.topics = lambda _options: FoundTopics({A0}, {"a": "A"})
        planned = SourceOffset({A0: 12, A1: 7}, {"a": "A"}).encode()
        assert topics.ranges(end, planned)[1] == OffsetRange(A1, 3, 7), "planned again by what one knows"
        without_ids = stream({A0: (0, 12)})[2]
        with pytest.raises(DataLossError, match="Topic a has been deleted"):
            without_ids.next_end(SourceOffset({A0: 10, A1: 3}, {}).encode(), None)

    def test_a_topic_that_is_deleted_is_a_failure_unless_told_otherwise(self):
        catalog, _, topics = stream({A0: (0, 10)}, startingOffsets="earliest")
        start = topics.next_end(UNRESOLVED, None)
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        catalog.logs, catalog.missing = {}, {"a": unknown}
        with pytest.raises(DataLossError, match="Topic a has been deleted"):
            topics.next_end(start, None)

        other = stream({A0: (0, 10)}, startingOffsets="earliest", failOnDataLoss="false")
        other[0].logs, other[0].missing = {}, {"a": unknown}
        with pytest.raises(KafkaError):
            other[2].next_end(UNRESOLVED, None)

    @pytest.mark.parametrize(
        ("logs", "end", "condition", "left"),
        [
            ({A0: (0, 9)}, {"a": {"0": 9}}, "PARTITIONS_DELETED", [OffsetRange(A0, 5, 9)]),
            ({A0: (0, 9), A1: (0, 2)}, {"a": {"0": 9, "1": 2}}, "PARTITION_OFFSET_CHANGED",
                [OffsetRange(A0, 5, 9)]),
            (
                {A0: (7, 9), A1: (0, 5)}, {"a": {"0": 9, "1": 5}}, "START_OFFSET_RESET",
                [OffsetRange(A0, 7, 9), OffsetRange(A1, 5, 5)],
            ),
            (
                {A0: (0, 5), A1: (0, 5), B0: (2, 4)}, {"a": {"0": 5, "1": 5}, "b": {"0": 4}},
                "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                [OffsetRange(A0, 5, 5), OffsetRange(A1, 5, 5), OffsetRange(B0, 2, 4)],
            ),
        ],
    )  # fmt: skip
    def test_loss_is_reported_or_skipped(self, logs, end, condition, left):
        start = {"a": {"0": 5, "1": 5}}
        _, _, topics = stream(logs)
        with pytest.raises(DataLossError) as caught:
            topics.ranges(start, end)
        assert caught.value.condition == condition

        _, _, lenient = stream(logs, failOnDataLoss="false")
        assert lenient.ranges(start, end) == left

    def test_available_now_stops_at_what_was_there(self):
        catalog, _, topics = stream({A0: (0, 10)}, startingOffsets="earliest")
        topics.stop_at_latest()

        first = topics.next_end(UNRESOLVED, 6)
        catalog.logs = {A0: (0, 99)}
        second = topics.next_end(first, 6)
        assert [first["a"], second["a"]] == [{"0": 6}, {"0": 10}]
        assert topics.next_end(second, 6) is second

    @pytest.mark.parametrize("starting", ["latest", "earliest"])
    def test_available_now_begins_where_it_can_end(self, starting):
        """On a topic that grows while the query starts:
        an end before the start would be in the checkpoint for good.
        """
        catalog, _, topics = stream({A0: (0, 100)}, startingOffsets=starting)
        topics.stop_at_latest()
        catalog.logs = {A0: (0, 105)}

        first = topics.next_end(UNRESOLVED, None)
        assert [piece.end for piece in topics.ranges(UNRESOLVED, first)] == [105]
        catalog.logs = {A0: (0, 110)}
        assert topics.next_end(first, None) is first

    @pytest.mark.parametrize("asked", [{"subscribe": "a,b"}, {"subscribePattern": "[ab]"}])
    def test_available_now_keeps_the_place_of_a_topic_that_is_unknown_for_a_moment(self, asked):
        options = source_options(
            {"kafka.bootstrap.servers": "h:1", "failOnDataLoss": "false", **asked}, streaming=True
        )
        catalog = FakeCatalog({A0: (0, 110)})
        if options.pattern is None:
            catalog.missing = {"b": KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        topics = TopicStream(options, Planner(options, catalog), lambda: 0.0)
        topics.stop_at_latest()

        end = topics.next_end({"a": {"0": 100}, "b": {"0": 50}}, None)
        assert SourceOffset.decode(end).positions == {A0: 110, B0: 50}

    def test_a_topic_of_a_pattern_keeps_its_place_until_it_is_there_again(self):
        asked = {"kafka.bootstrap.servers": "h:1", "subscribePattern": "[ab]", "startingOffsets": "earliest"}
        for fails in ("false", "true"):
            options = source_options({**asked, "failOnDataLoss": fails}, streaming=True)
            catalog = FakeCatalog({A0: (0, 10), B0: (0, 4)})
            topics = TopicStream(options, Planner(options, catalog), lambda: 0.0)
            start = topics.next_end(UNRESOLVED, None)
            catalog.logs = {A0: (0, 12)}
            if fails == "true":
                with pytest.raises(DataLossError, match="Topic b has been deleted"):
                    topics.next_end(start, None)
                continue
            end = topics.next_end(start, None)
            assert SourceOffset.decode(end).positions == {A0: 12, B0: 4}
            catalog.logs = {A0: (0, 12), B0: (0, 9)}
            ranges = topics.ranges(end, topics.next_end(end, None))
            assert ranges == [OffsetRange(A0, 12, 12), OffsetRange(B0, 4, 9)]

    def test_a_batch_waits_for_enough_offsets_or_long_enough(self):
        catalog, clock, topics = stream(
            {A0: (0, 0)}, startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1m"
        )
        start = topics.next_end(UNRESOLVED, None)
        catalog.logs = {A0: (0, 4)}
        assert topics.next_end(start, None) is start
        clock[0] = 60_000
        assert SourceOffset.decode(topics.next_end(start, None)).positions == {A0: 4}
        start, catalog.logs = {"a": {"0": 4}}, {A0: (0, 14)}
        assert SourceOffset.decode(topics.next_end(start, None)).positions == {A0: 14}

    def test_available_now_never_waits(self):
        _, _, topics = stream({A0: (0, 4)}, startingOffsets="earliest", minOffsetsPerTrigger="10")
        topics.stop_at_latest()
        first = topics.next_end(UNRESOLVED, 3)

        assert SourceOffset.decode(topics.next_end(first, 3)).positions == {A0: 4}


positions = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 3)), st.integers(0, 10_000), max_size=8
)


@given(positions)
def test_offsets_survive_json(given_positions):
    assert from_nested(json.loads(json.dumps(to_nested(given_positions)))) == given_positions


@given(positions, st.integers(1, 500))
def test_a_limit_takes_from_every_partition_by_its_backlog(end, limit):
    start = dict.fromkeys(end, 0)
    limited = prorate(start, end, limit)

    assert all(limited[tp] <= end[tp] for tp in end)
    assert all(limited[tp] > 0 for tp in end if end[tp] > 0), "no partition starves"
    assert sum(limited.values()) <= max(limit, 0) + len(end)
    if sum(end.values()) <= limit:
        assert limited == end


def test_a_share_below_one_is_rounded_up_and_others_down():
    assert prorate({A0: 0, A1: 0, B0: 0}, {A0: 1, A1: 99, B0: 900}, 100) == {A0: 1, A1: 9, B0: 90}


def test_partitions_without_news_keep_their_place():
    assert prorate({A0: 5, A1: 9}, {A0: 50, A1: 3}, 10) == {A0: 15, A1: 3}


def test_a_partition_that_has_no_place_yet_is_not_counted():
    """It is there since the last batch: where it begins is found out with the next one."""
    assert prorate({A0: 0}, {A0: 100, A1: 50}, 10) == {A0: 10, A1: 50}


def test_the_delay_shows_its_limits():
    assert repr(TriggerDelay(5, 100)) == "<TriggerDelay min=5 max=100 ms>"


sizes = st.lists(st.integers(0, 5_000), max_size=12)


def ranges_of(sizes):
    return [OffsetRange(TopicPartition("t", number), 10, 10 + size) for number, size in enumerate(sizes)]


def covered(tasks):
    return sorted(
        (piece.tp, offset) for task in tasks for piece in task for offset in range(piece.start, piece.end)
    )


@given(
    sizes,
    st.integers(1, 5),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(100, 3_000),
)
def test_tasks_cover_every_offset_once(sizes, tasks, min_partitions, max_records):
    ranges = ranges_of(sizes)
    planned = plan_tasks(ranges, Packing(tasks, min_partitions, max_records))

    assert covered(planned) == covered([ranges])
    assert all(piece.size > 0 for task in planned for piece in task)
    if max_records is not None:
        assert all(piece.size <= max_records for task in planned for piece in task)


def test_tasks_are_few_and_even():
    tasks = pack(ranges_of([100, 90, 40, 30, 20]), 2)

    assert [sum(piece.size for piece in task) for task in tasks] == [150, 130]


def test_a_task_reads_one_partition_unless_told_otherwise():
    tasks = plan_tasks(ranges_of([100, 0, 40, 30]), Packing())

    assert [[piece.size for piece in task] for task in tasks] == [[100], [40], [30]]


@pytest.mark.parametrize(
    ("sizes", "wanted", "planned"),
    [
        ([1_000, 10], 5, [250, 250, 250, 250, 10]),
        # 2.5 parts each: rounded up, as Java rounds.
        ([50, 50], 5, [16, 17, 17, 16, 17, 17]),
        # Less than one and a half shares stay whole and are left out of the proportions of the others.
        ([140, 80, 80], 5, [46, 47, 47, 80, 80]),
        ([9, 9, 9], 2, [9, 9, 9]),
    ],
)
def test_min_partitions_cuts_the_large_ones(sizes, wanted, planned):
    tasks = plan_tasks(ranges_of(sizes), Packing(1, min_partitions=wanted))

    assert [[piece.size for piece in task] for task in tasks] == [[size] for size in planned]


def test_a_short_range_is_not_cut_into_empty_pieces():
    assert split(OffsetRange(A0, 5, 7), 4) == [OffsetRange(A0, 5, 6), OffsetRange(A0, 6, 7)]
