"""Reading by offset and by time."""

import pytest
from log_world import NOW_MS, TP, World, batch, fill, values_of

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import in_one_piece
from barnabas.records.batch import batch_headers, build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record


def test_everything_from_any_offset():
    world = World(segment_bytes=1500, index_interval_bytes=200)
    log = world.log()
    for number in range(60):
        log.append(batch(1 + number % 3, size=20), 0, NOW_MS)
    everything = values_of(log)

    assert len(log.segments) > 4
    assert [offset for offset, _ in everything] == list(range(log.log_end_offset))
    for start in range(log.log_end_offset):
        assert values_of(log, start) == everything[start:]


def test_a_read_starts_with_the_batch_that_holds_the_offset(world):
    log = fill(world.log(), 3, 5)
    result = log.read(7, 1 << 20)

    assert result.first_offset == 5
    assert [header.base_offset for header in batch_headers(result.records.read())] == [5, 10]


def test_bytes_are_limited_but_one_batch_may_be_asked_for(world):
    log = fill(world.log(), 3, 5)
    size = log.size // 3

    cut = log.read(0, size - 1)
    assert (len(cut), cut.first_entry_incomplete) == (size - 1, True)
    whole = log.read(0, 1, min_one_message=True)
    assert (len(whole), whole.first_entry_incomplete) == (size, False)
    assert len(log.read(0, size + 10, min_one_message=True)) == size + 10, "the last batch may be cut"
    assert len(log.read(0, 0)) == 0


@pytest.mark.parametrize("recent", [True, False])
def test_nothing_at_or_above_the_upper_bound(world, recent):
    log = fill(world.log(), 600 if not recent else 20, 2)
    for upper in (0, 2, 10, 38):
        assert [offset for offset, _ in values_of(log, 0, upper)] == list(range(upper))
    assert log.read(10, 1000, upper_bound_offset=10).records == b""
    assert log.read(12, 1000, upper_bound_offset=10).records == b""


def test_the_bound_may_lie_in_an_earlier_segment():
    log = fill(World(segment_bytes=400).log(), 20, 2)
    assert len(log.segments) > 3

    for upper in range(0, 40, 2):
        assert [offset for offset, _ in values_of(log, 0, upper)] == list(range(upper))


def test_outside_the_log(world):
    log = fill(world.log(), 3)
    log.high_watermark = 3
    log.maybe_increment_log_start_offset(2)

    for offset in (0, 1, 4, -1, 1 << 60):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 100)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(3, 100).records == b""
    with pytest.raises(KafkaError) as caught:
        log.maybe_increment_log_start_offset(4)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not log.maybe_increment_log_start_offset(1)


def test_a_gap_reads_on_at_what_follows(world):
    log = world.log()
    log.append_as_follower(build_batch([Record(5, 1, b"k", b"v")]))
    log.append_as_follower(build_batch([Record(50, 1, b"k", b"v")]))

    assert log.read(10, 1000).first_offset == 50
    assert log.read(0, 1, min_one_message=True).first_offset == 5


def test_a_slice_stays_readable_when_the_segment_goes(world):
    log = fill(world.log(), 3)
    log.high_watermark = 3
    held = log.read(0, 1000).records
    before = held.read()
    log.truncate_fully_and_start_at(100)

    assert held.read() == before


class TestTime:
    def log(self, codec=Codec.NONE, **config):
        """Times 0 10 20 | 30 5 40 | 50 50 50 in batches of three, many segments."""
        world = World(segment_bytes=250, index_interval_bytes=1, **config)
        log = world.log()
        for times in ((0, 10, 20), (30, 5, 40), (50, 50, 50)):
            records = [Record(place, 1000 + time, b"k", b"v" * 30) for place, time in enumerate(times)]
            log.append(bytearray(build_batch(records, codec=codec)), 4, NOW_MS)
        return log

    @pytest.mark.parametrize("codec", list(Codec))
    @pytest.mark.parametrize(
        ("target", "offset", "timestamp"),
        [(0, 0, 1000), (1005, 1, 1010), (1010, 1, 1010), (1021, 3, 1030), (1031, 5, 1040), (1050, 6, 1050)],
    )
    def test_the_first_record_at_or_after(self, codec, target, offset, timestamp):
        assert in_one_piece(self.log(codec).offset_for_timestamp(target)) == (timestamp, offset, 4)

    def test_beyond_the_last(self):
        log = self.log()
        assert in_one_piece(log.offset_for_timestamp(1051)) is None

    def test_records_before_the_log_start_do_not_count(self):
        log = self.log()
        log.high_watermark = 9
        log.maybe_increment_log_start_offset(2)
        assert in_one_piece(log.offset_for_timestamp(0)) == (1020, 2, 4)

    def test_a_batch_whose_only_match_lies_before_the_log_start_is_passed_over(self, world):
        log = world.log()
        for times in ((40, 5, 10), (30, 20, 45)):
            records = [Record(place, time, b"k", b"v") for place, time in enumerate(times)]
            log.append(bytearray(build_batch(records)), 4, NOW_MS)
        log.high_watermark = 6
        log.maybe_increment_log_start_offset(1)
        assert in_one_piece(log.offset_for_timestamp(35)) == (45, 5, 4)

    def test_a_segment_with_nothing_left_to_find_does_not_hide_the_next(self, world):
        log = world.log(segment_bytes=100)
        for time in (2000, 1500):
            log.append(batch(timestamp=time), 0, NOW_MS)
        log.high_watermark = 2
        log.maybe_increment_log_start_offset(1)
        assert in_one_piece(log.offset_for_timestamp(1400))[:2] == (1500, 1)

    def times_rise(self, world, **config):
        """Batches of one record each at 1000, 1001 and so on, in several segments; the segment file names."""
        world.config = type(world.config)(segment_bytes=2000, index_interval_bytes=150, **config)
        manager = world.started()
        log = manager.get_or_create(TP)
        for time in range(100):
            log.append(batch(timestamp=1000 + time), 0, NOW_MS)
        bases = [segment.base_offset for segment in log.segments]
        manager.shutdown()
        return [f"/data/{TP}/{base:020d}" for base in bases]

    @pytest.mark.parametrize("emptied", [0, 1])
    def test_a_segment_that_was_emptied_does_not_hide_those_behind_it(self, world, emptied):
        """The age of its file counted as the time of its records."""
        stems = self.times_rise(world)
        base, following = int(stems[emptied][-20:]), int(stems[emptied + 1][-20:])
        world.disk.open(f"{stems[emptied]}.log").truncate(0)
        log = world.started().get(TP)
        for time in range(100):
            expected = following if base <= time < following else time
            assert in_one_piece(log.offset_for_timestamp(1000 + time)).offset == expected

    def test_a_time_index_that_lost_entries_hides_nothing(self, world):
        """It passes its check. Its segment was passed over in look-ups, and retention could have deleted it
        too early.
        """
        stems = self.times_rise(world)
        size = world.disk.size(f"{stems[0]}.timeindex")
        for left in range(0, size, 12):
            for stem in stems:
                world.disk.open(f"{stem}.timeindex").truncate(min(left, world.disk.size(f"{stem}.timeindex")))
            manager = world.started()
            log = manager.get(TP)
            found = [in_one_piece(log.offset_for_timestamp(1000 + time)).offset for time in range(100)]
            assert found == list(range(100))
            assert [segment.largest_timestamp - 999 for segment in list(log.segments)[:-1]] == [
                segment.base_offset for segment in list(log.segments)[1:]
            ]
            manager.shutdown()

    def test_greatest_timestamp(self, world):
        assert in_one_piece(self.log().max_timestamp_offset()) == (1050, 6, 4)
        assert in_one_piece(world.log().max_timestamp_offset()) is None
        epoch = world.log(TP._replace(partition=1))
        epoch.append(batch(timestamp=0), 4, NOW_MS)
        assert in_one_piece(epoch.max_timestamp_offset()) == (0, 0, 4)

    def test_greatest_timestamp_of_an_older_segment(self):
        log = self.log()
        log.append(batch(timestamp=3), 4, NOW_MS)
        log.append(batch(timestamp=2), 4, NOW_MS)
        assert in_one_piece(log.max_timestamp_offset()) == (1050, 6, 4)
        assert in_one_piece(log.offset_for_timestamp(1041)).offset == 6

    def test_times_survive_truncation(self):
        log = self.log()
        log.truncate_to(6)
        assert in_one_piece(log.max_timestamp_offset()) == (1040, 5, 4)
        log.truncate_to(3)
        assert in_one_piece(log.max_timestamp_offset()) == (1020, 2, 4)
        assert in_one_piece(log.offset_for_timestamp(1021)) is None
