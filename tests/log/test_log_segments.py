"""Rolling, truncation, retention, flushing."""

import errno
import struct

import pytest
from log_world import NOW_MS, TP, World, batch, fill, values_of

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.log import gapless
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.retention import delete_old_segments
from barnabas.log.segments import RECENT_APPENDS_MAX
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

DAY_MS = 86_400_000


def bases(log):
    return [segment.base_offset for segment in log.segments]


def test_appends_at_the_tail_are_remembered_and_those_behind_are_found_by_the_index():
    log = World().log()
    total = 3 * RECENT_APPENDS_MAX
    for _ in range(total):
        log.append(batch(timestamp=NOW_MS), 0, NOW_MS)
        assert len(log.segments._recent) <= RECENT_APPENDS_MAX
    assert len(log.segments._recent) >= RECENT_APPENDS_MAX // 2
    assert [*log.segments._recent][-1] == total - 1, "the newest stay"
    for start in (0, total // 2, total - 2, total - 1):
        assert len(values_of(log, start)) == total - start


class TestRoll:
    def test_by_size(self):
        size = len(batch(size=100))
        log = fill(World(segment_bytes=3 * size).log(), 7, size=100)

        assert bases(log) == [0, 3, 6]
        assert [segment.size for segment in log.segments] == [3 * size, 3 * size, size]

    def test_by_the_time_of_the_records(self):
        log = World(segment_ms=1000).log()
        for time in (0, 1000, 1001, 2001, 2002):
            log.append(batch(timestamp=time), 0, NOW_MS)

        assert bases(log) == [0, 2, 4]

    def test_by_the_clock_where_records_have_no_time(self):
        log = World(segment_ms=1000).log()
        for late in (0, 1000, 1001):
            log.append(batch(timestamp=-1), 0, NOW_MS + late)

        assert bases(log) == [0, 2]

    def test_with_jitter_within_bounds_and_the_same_each_time(self):
        def rolled(jitter):
            log = World(segment_ms=1000, segment_jitter_ms=jitter).log()
            for time in range(0, 3000, 10):
                log.append(batch(timestamp=time), 0, NOW_MS)
            return bases(log)

        assert rolled(0)[1] == 101
        assert 51 <= rolled(500)[1] < 101
        assert rolled(500) == rolled(500)

    def test_with_more_jitter_than_age_a_segment_still_takes_what_comes_at_once(self):
        log = World(segment_ms=1000, segment_jitter_ms=10**12).log()
        for _ in range(5):
            log.append(batch(timestamp=NOW_MS), 0, NOW_MS)
        assert bases(log) == [0]

    def test_when_an_index_is_full(self):
        log = World(index_interval_bytes=0, segment_index_bytes=48).log()
        fill(log, 12)

        # 48 bytes are six offsets or four times, one of which is kept free; equal times make no entry.
        assert bases(log) == [0, 7]
        rising = World(index_interval_bytes=0, segment_index_bytes=48).log()
        for number in range(12):
            rising.append(batch(timestamp=NOW_MS + number), 0, NOW_MS)
        assert bases(rising) == [0, 4, 8]
        assert [segment.time_index.entries for segment in rising.segments] == [3, 3, 3]

    def test_when_offsets_do_not_fit_relative(self, world):
        log = world.log()
        for offset in (0, 2**31 - 1, 2**31):
            log.append_as_follower(build_batch([Record(offset, NOW_MS, b"k", b"v")]))

        assert bases(log) == [0, 2**31]
        assert [offset for offset, _ in values_of(log)] == [0, 2**31 - 1, 2**31]

    def test_each_segment_begins_with_a_snapshot_also_behind_a_gap(self):
        """A start after a kill would replay the segment before, too."""
        world = World(segment_bytes=200)
        log = world.log()
        for offset in (5, 50, 500):
            records = [Record(offset, NOW_MS, b"k", bytes(100))]
            log.append_as_follower(
                build_batch(records, producer_id=1, producer_epoch=0, base_sequence=offset)
            )

        assert bases(log) == [0, 50, 500]
        assert log.snapshots.offsets == (50, 500)

    def test_files_as_kafka_leaves_them(self):
        world = World(segment_bytes=400, index_interval_bytes=100, segment_index_bytes=1001)
        log = fill(world.log(), 9, size=30)
        disk, stem = world.disk, "/data/orders-0/"

        first, active = f"{log.segments[0].base_offset:020d}", f"{log.active.base_offset:020d}"
        assert disk.size(f"{stem}{active}.index") == 1000
        assert disk.size(f"{stem}{active}.timeindex") == 996
        # Position 0 makes no entry; the second append finds 101 bytes since the last entry, and so on.
        size = len(batch(size=30))
        assert disk.read(f"{stem}{first}.index") == struct.pack(">ii", 2, 2 * size)
        assert disk.read(f"{stem}{first}.timeindex") == struct.pack(">qi", NOW_MS, 0)
        log.close()
        assert disk.size(f"{stem}{active}.index") % 8 == 0
        assert disk.size(f"{stem}{active}.index") < 1000

    def test_the_time_index_names_the_batch_with_the_greatest_time(self):
        world = World(index_interval_bytes=0)
        log = world.log()
        for time in (5, 9, 7, 11):
            log.append(batch(2, timestamp=time), 0, NOW_MS)
        log.close()

        entries = [(10, 3), (12, 7)]
        data = world.disk.read("/data/orders-0/00000000000000000000.timeindex")
        assert list(struct.iter_unpack(">qi", data)) == entries


class TestTruncate:
    def test_to_the_batch_that_holds_the_offset(self, world):
        log = fill(world.log(), 4, 5)
        assert log.truncate_to(12)

        assert log.log_end_offset == 12
        assert [offset for offset, _ in values_of(log)] == list(range(10))
        fill(log, 1)
        assert [offset for offset, _ in values_of(log)] == [*range(10), 12]

    def test_across_segments(self):
        world = World(segment_bytes=300, index_interval_bytes=10)
        log = fill(world.log(), 20, 2)
        log.high_watermark = 40
        assert not log.truncate_to(40)
        assert log.truncate_to(11)

        assert (log.log_end_offset, log.high_watermark) == (11, 11)
        fill(log, 5, 2)
        assert [offset for offset, _ in values_of(log)] == [*range(10), *range(11, 21)]
        names = world.disk.listdir("/data/orders-0")
        assert [name for name in names if name.endswith(".deleted")] == [gapless.FILE_NAME]
        expected = values_of(log)
        log.close()
        assert values_of(world.reload()) == expected

    def test_one_that_is_refused_half_way_leaves_no_hole(self):
        world = World(segment_bytes=300, index_interval_bytes=10)
        log = fill(world.log(), 20, 2)
        names = [segment.base_offset for segment in log.segments]
        world.disk.fail(f"/data/orders-0/{names[-2]:020d}.log", "name")
        with pytest.raises(KafkaError):
            log.truncate_to(3)
        assert log.offline
        world.disk.heal()

        left = [offset for offset, _ in values_of(world.reload())]
        assert left == list(range(names[-1])), "the last segment went, and no other"

    def test_no_offset_of_the_log_lies_beyond_its_new_end(self, world):
        log = fill(world.log(), 10)
        log.high_watermark = 8
        log.maybe_increment_log_start_offset(6)
        log.flush()
        log.truncate_to(4)

        assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (
            4,
            4,
            4,
            4,
        )
        log.high_watermark = 9
        assert log.high_watermark == 4, "never beyond the end"

    def test_the_log_start_passes_no_high_watermark(self, world):
        log = fill(world.log(), 10)
        log.high_watermark = 7
        with pytest.raises(KafkaError) as caught:
            log.maybe_increment_log_start_offset(8)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert log.log_start_offset == 0
        assert log.maybe_increment_log_start_offset(7)
        log.high_watermark = 3
        assert (log.log_start_offset, log.high_watermark) == (7, 7), "nor does a high watermark go below it"

    def test_epochs_follow(self, world):
        log = world.log()
        for epoch in (1, 2, 5):
            fill(log, 2, epoch=epoch)
        log.truncate_to(3)

        assert log.leader_epochs.entries == ((1, 0), (2, 2))
        log.truncate_to(0)
        assert log.leader_epochs.entries == ()

    def test_fully_to_another_place(self, world):
        log = fill(world.log(), 4)
        log.truncate_fully_and_start_at(1000)

        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1000, 1000, 1000)
        fill(log, 1)
        assert [offset for offset, _ in values_of(log)] == [1000]
        log.close()
        assert world.reload().log_start_offset == 1000

    def test_below_the_first_segment(self):
        log = World().log()
        log.truncate_fully_and_start_at(50)
        fill(log, 3)
        log.truncate_to(20)

        assert (log.log_start_offset, log.log_end_offset) == (20, 20)


class TestRetention:
    def log(self, **config):
        size = len(batch(size=100))
        log = World(segment_bytes=2 * size, **config).log()
        for number in range(8):
            log.append(batch(size=100, timestamp=NOW_MS - (8 - number) * 1000), 0, NOW_MS)
        log.high_watermark = 8
        return log, size

    def test_by_size(self):
        log, size = self.log(retention_bytes=5 * len(batch(size=100)), retention_ms=-1)
        count, files = delete_old_segments(log, NOW_MS)

        assert (count, bases(log), log.log_start_offset) == (1, [2, 4, 6], 2)
        assert log.size == 6 * size, "never below what is to be kept"
        assert all(file.endswith(".deleted") for file in files)

    @pytest.mark.parametrize(
        ("kept_bytes", "segments"), [(-1, 4), (8, 4), (7, 4), (6, 3), (5, 3), (2, 1), (1, 1)]
    )
    def test_by_size_to_the_byte(self, kept_bytes, segments):
        """A segment goes when all that is left is at least what is to be kept."""
        size = len(batch(size=100))
        for change, expected in ((0, segments), (1, segments + (kept_bytes in {2, 6}))):
            log, _ = self.log(retention_bytes=kept_bytes * size + change * (kept_bytes > 0), retention_ms=-1)
            delete_old_segments(log, NOW_MS)
            assert len(log.segments) == expected

    def test_a_log_that_is_only_compacted_loses_nothing_to_size_or_time(self):
        log, _ = self.log(cleanup_policy=("compact",), retention_bytes=1, retention_ms=1)
        assert delete_old_segments(log, NOW_MS + DAY_MS)[0] == 0
        log.maybe_increment_log_start_offset(2)
        assert delete_old_segments(log, NOW_MS + DAY_MS)[0] == 1, (
            "what DeleteRecords has passed goes all the same"
        )

    def test_by_time_to_the_millisecond(self):
        log, _ = self.log(retention_ms=5500)
        newest = NOW_MS - 7000  # of the first segment
        assert delete_old_segments(log, newest + 5500)[0] == 0
        assert delete_old_segments(log, newest + 5501)[0] == 1

    def test_a_segment_goes_when_the_high_watermark_is_at_its_end(self):
        log, _ = self.log(retention_ms=1)
        for high_watermark, deleted in ((1, 0), (2, 1), (3, 0), (4, 1)):
            log.high_watermark = high_watermark
            assert delete_old_segments(log, NOW_MS + DAY_MS)[0] == deleted

    def test_what_the_log_start_has_reached_goes_whole(self):
        log, _ = self.log(retention_ms=-1)
        for start, deleted in ((1, 0), (2, 1), (3, 0), (4, 1)):
            log.maybe_increment_log_start_offset(start)
            assert delete_old_segments(log, NOW_MS)[0] == deleted

    def test_by_time(self):
        log, _ = self.log(retention_ms=5500)
        assert delete_old_segments(log, NOW_MS)[0] == 1
        assert bases(log) == [2, 4, 6]
        assert delete_old_segments(log, NOW_MS + 501)[0] == 1
        assert [offset for offset, _ in values_of(log)] == [4, 5, 6, 7]

    def test_even_the_active_segment_grows_old(self):
        log, _ = self.log(retention_ms=4500)
        assert delete_old_segments(log, NOW_MS + DAY_MS)[0] == 4

        assert (bases(log), log.log_start_offset, log.log_end_offset) == ([8], 8, 8)
        assert delete_old_segments(log, NOW_MS + 2 * DAY_MS)[0] == 0
        fill(log, 1)
        assert [offset for offset, _ in values_of(log)] == [8]

    def test_nothing_above_the_high_watermark(self):
        log, _ = self.log(retention_ms=1)
        log.high_watermark = 5
        assert delete_old_segments(log, NOW_MS + DAY_MS)[0] == 2
        assert bases(log) == [4, 6]

    @pytest.mark.parametrize("policy", [("delete",), ("compact",)])
    def test_what_the_log_start_has_passed(self, policy):
        log, _ = self.log(retention_ms=-1, cleanup_policy=policy)
        log.maybe_increment_log_start_offset(5)

        assert delete_old_segments(log, NOW_MS)[0] == 2
        assert (bases(log), log.log_start_offset) == ([4, 6], 5)
        assert [offset for offset, _ in values_of(log)] == [5, 6, 7]

    def test_a_segment_that_cannot_be_renamed_for_want_of_room_goes_with_the_next_clean_up(self):
        log, _ = self.log(retention_ms=3500)
        disk = log.resources.filesystem
        disk.fail(f"{log.directory}/{2:020d}.timeindex", "name", errno.ENOSPC)
        _, files = delete_old_segments(log, NOW_MS)
        assert {file.rpartition("/")[2][:20] for file in files} == {f"{0:020d}"}
        assert (bases(log), log.log_start_offset) == ([2, 4, 6], 4)
        assert not log.offline
        disk.heal()

        _, files = delete_old_segments(log, NOW_MS)
        assert {file.rpartition("/")[2].split(".", 1)[1] for file in files} == {
            "log.deleted",
            "index.deleted",
            "timeindex.deleted",
        }
        assert bases(log) == [4, 6]

    def test_snapshots_go_with_their_segments(self):
        log, _ = self.log(retention_ms=5500)
        assert log.snapshots.offsets == (2, 4, 6)
        delete_old_segments(log, NOW_MS + 1501)

        assert log.snapshots.offsets == (4, 6)
        assert log.leader_epochs.entries == ((0, 4),)


class TestFlush:
    def test_all_appends_of_a_turn_share_one_sync(self):
        world = World(flush_messages=1)
        log = fill(world.log(), 1)
        log.flush()
        answers = []
        for _ in range(10):
            fill(log, 1)
            assert log.flush_needed
            answers.append(log.flush_soon())
        syncs = world.disk.syncs
        assert not any(answer.done for answer in answers)
        world.clock.advance()

        assert world.disk.syncs == syncs + 1
        assert all(answer.done for answer in answers)
        assert (log.recovery_point, log.flush_needed) == (11, False)

    def test_flush_messages_counts_records(self):
        log = World(flush_messages=5).log()
        fill(log, 2, 2)
        assert not log.flush_needed
        fill(log, 1)
        assert log.flush_needed
        log.flush()
        assert not log.flush_needed

    def test_a_sync_that_fails_answers_storage_error(self):
        world = World(flush_messages=1)
        log = fill(world.log(), 1)
        answer = log.flush_soon()
        world.disk.fail("/data", "sync")
        world.clock.advance()

        assert answer.error.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert world.failures == ["/data/orders-0"]
        assert log.recovery_point == 0
        with pytest.raises(KafkaError) as caught:
            log.read(0, 100)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    def test_a_log_that_closes_meanwhile_promises_nothing(self, world):
        log = fill(world.log(), 1)
        answer = log.flush_soon()
        log.close()
        world.clock.advance()

        assert answer.error.code is ErrorCode.KAFKA_STORAGE_ERROR

    def test_files_that_get_other_names_while_a_thread_syncs_are_no_disk_error(self, tmp_path):
        world = World(OsFilesystem(), str(tmp_path), segment_bytes=300)
        log = fill(world.log(), 10, 2)
        log.high_watermark = log.log_end_offset
        _, files = log.begin_flush()
        log.drop_first_segments(3, NOW_MS)
        world.disk.rename(log.directory, f"{tmp_path}/gone-delete")
        for file in files:
            file.sync()

        assert world.failures == []

    def test_rolling_syncs_the_closed_segment(self):
        world = World(segment_bytes=300)
        log = fill(world.log(), 10, 2)
        assert log.recovery_point == 0
        world.clock.advance()
        assert log.recovery_point == 20

    def test_what_is_truncated_while_a_sync_runs_is_not_taken_for_synced(self, world):
        log = fill(world.log(), 10)
        end_offset, _ = log.begin_flush()
        log.truncate_to(4)
        fill(log, 6)
        log.end_flush(end_offset)

        assert log.recovery_point == 4


class TestDiskErrors:
    def test_a_full_disk_refuses_and_keeps_what_was_acknowledged(self):
        world = World(segment_index_bytes=1000)
        log = fill(world.log(), 5, size=1000)
        expected = values_of(log)
        world.disk.capacity = world.disk.used + 4096
        with pytest.raises(KafkaError) as caught:
            fill(log, 20, size=1000)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert not log.offline
        assert world.failures == []
        written = log.log_end_offset
        world.disk.capacity = None
        manager = world.started()
        log = manager.get(TP)

        assert log.log_end_offset == written >= 5
        assert values_of(log)[:5] == expected

    @pytest.mark.parametrize("operation", ["write", "read"])
    def test_a_failing_disk_answers_storage_error_from_then_on(self, world, operation):
        log = fill(world.log(), 600)
        world.disk.fail("/data/orders-0", operation)
        call = (
            (lambda: fill(log, 1))
            if operation == "write"
            else (lambda: log.read(3, 10, upper_bound_offset=5))
        )
        for _ in range(2):
            with pytest.raises(KafkaError) as caught:
                call()
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert len(world.failures) == 1
