"""Files that are damaged while the broker runs:
readers get Kafka's code, one warning, other partitions go on.
"""

import struct

import pytest
from log_world import NOW_MS, TP, World, batch, fill, values_of

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import in_one_piece
from barnabas.log.scan import IN_PLACE_SCAN_BYTES
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

ROOT = "/data/orders-0"
OTHER = TopicPartition("orders", 1)
SIZE = len(batch())


class Later:
    """An offload whose work ends when the test says so."""

    def __init__(self):
        self.work = []

    def run(self, function, /, *args, **kwargs):
        outcome = Pending()
        self.work.append(lambda: outcome.complete(function(*args, **kwargs)))
        return outcome


class Slow:
    """An offload that works at once, and answers when the test says so."""

    def __init__(self):
        self.answers = []

    def run(self, function, /, *args, **kwargs):
        outcome = Pending()
        self.answers.append((outcome, function(*args, **kwargs)))
        return outcome

    def answer(self):
        for outcome, result in self.answers:
            outcome.complete(result)


LARGE = 100_000
"""Of values of this size even a segment with a few batches is scanned in a child process."""


def running(count=30, value_bytes=10, **config):
    """A world, its manager and a log of three segments or more with an index entry for every batch but the
    first.
    """
    segment_bytes = 12 * len(batch(size=value_bytes))
    config = {
        "segment_bytes": segment_bytes,
        "index_interval_bytes": 0,
        "segment_index_bytes": 2000,
        **config,
    }
    world = World(**config)
    manager = world.started()
    log = manager.get_or_create(TP)
    for number in range(count):
        log.append(batch(timestamp=NOW_MS + number, size=value_bytes), 0, NOW_MS)
    log.high_watermark = log.log_end_offset
    fill(manager.get_or_create(OTHER), 1)
    return world, manager, log


def damage(world, manager, name, how):
    """Damages a file that is not open at the moment."""
    manager._resources.files._files.clear()
    path = f"{ROOT}/{name}"
    if how == "removed":
        world.disk.remove(path)
    else:
        world.disk.open(path).truncate({"emptied": 0, "halved": world.disk.size(path) // 2, "odd": 13}[how])


def code_of(call, *args, **options):
    with pytest.raises(KafkaError) as caught:
        call(*args, **options)
    return caught.value.code


def warnings_of(caplog):
    return [record.message for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


class TestIndexes:
    @pytest.mark.parametrize("position", [-1, 1, "the next", "the last", 1 << 30])
    @pytest.mark.parametrize("segment", [0, 1, -1])
    def test_an_entry_that_leads_elsewhere_makes_no_reader_pass_over_records(self, segment, position, caplog):
        """Readers that came by a wrong entry went on behind records that exist, and the log said it had a
        gap.
        """
        world, _, log = running()
        expected = values_of(log)
        base = log.segments[segment].base_offset
        index = world.disk.open(f"{ROOT}/{base:020d}.index")
        entry = struct.Struct(">ii")
        relative, right = entry.unpack(index.pread(entry.size, 0))
        wrong = {"the next": right + SIZE, "the last": right + 4 * SIZE}.get(position, position)
        index.pwrite(entry.pack(relative, wrong), 0)
        log.segments._recent.clear()

        for start in range(30):
            assert values_of(log, start) == expected[start:]
        assert entry.unpack(index.pread(entry.size, 0)) == (relative, right)
        (line,) = warnings_of(caplog)
        assert line.startswith("index.rebuild ")

    @pytest.mark.parametrize("how", ["removed", "emptied", "odd"])
    @pytest.mark.parametrize("segment", [0, 1, -1])
    def test_an_offset_index_is_rebuilt_from_the_log(self, segment, how, caplog):
        """Each fetch was answered UNKNOWN_SERVER_ERROR, with a traceback, until the broker was
        started again.
        """
        world, manager, log = running()
        expected = values_of(log)
        base = log.segments[segment].base_offset
        before = world.disk.read(f"{ROOT}/{base:020d}.index")
        damage(world, manager, f"{base:020d}.index", how)
        log.segments._recent.clear()

        for start in range(30):
            assert values_of(log, start) == expected[start:]
        assert world.disk.read(f"{ROOT}/{base:020d}.index") == before
        (line,) = warnings_of(caplog)
        assert line.startswith(f"index.rebuild partition=orders-0 segment={ROOT}/{base:020d}.log")
        fill(log, 20)
        expected = values_of(log)
        assert [offset for offset, _ in expected] == list(range(50))
        manager.shutdown()
        assert values_of(world.started().get(TP)) == expected
        assert len(warnings_of(caplog)) == 1, "the start finds nothing to mend"

    @pytest.mark.parametrize("how", ["removed", "emptied", "odd"])
    @pytest.mark.parametrize("segment", [0, 1, -1])
    def test_a_time_index_is_rebuilt_from_the_log(self, segment, how, caplog):
        world, manager, log = running()
        name = f"{log.segments[segment].base_offset:020d}.timeindex"
        before = world.disk.read(f"{ROOT}/{name}")
        damage(world, manager, name, how)

        for number in range(30):
            assert in_one_piece(log.offset_for_timestamp(NOW_MS + number)).offset == number
        assert len(world.disk.read(f"{ROOT}/{name}")) == len(before)
        assert len(warnings_of(caplog)) == 1
        for number in range(30, 60):
            log.append(batch(timestamp=NOW_MS + number), 0, NOW_MS)
        assert [
            in_one_piece(log.offset_for_timestamp(NOW_MS + number)).offset for number in range(60)
        ] == list(range(60))

    @pytest.mark.parametrize("suffix", ["index", "timeindex"])
    @pytest.mark.parametrize("how", ["removed", "emptied"])
    def test_appends_and_rolls_go_on_over_a_damaged_index(self, suffix, how):
        world, manager, log = running(3)
        damage(world, manager, f"{0:020d}.{suffix}", how)
        fill(log, 40)

        assert [offset for offset, _ in values_of(log)] == list(range(43))
        log.truncate_to(7)
        fill(log, 3)
        assert [offset for offset, _ in values_of(log)] == list(range(10))

    def test_retention_goes_on_over_a_damaged_index(self, caplog):
        world, manager, log = running(retention_ms=1000)
        manager.shutdown()
        manager = world.started()
        log = manager.get(TP)
        log.high_watermark = 30
        damage(world, manager, f"{0:020d}.timeindex", "emptied")
        world.clock.advance(100_000)
        deleted = manager.clean_up() + manager.clean_up()

        assert deleted == 3
        assert warnings_of(caplog)[0].startswith("index.rebuild")

    def test_a_large_segment_is_scanned_elsewhere_and_readers_try_again(self, caplog):
        world = World(index_interval_bytes=0, segment_index_bytes=10_000)
        offload = Later()
        manager = world.started()
        log = manager.get_or_create(TP)
        for _ in range(20):
            log.append(bytearray(build_batch([Record(0, NOW_MS, b"k", bytes(100_000))])), 0, NOW_MS)
        assert log.size > IN_PLACE_SCAN_BYTES
        manager._resources.offload = offload
        log.segments._recent.clear()
        damage(world, manager, f"{0:020d}.index", "emptied")

        for _ in range(3):
            assert code_of(log.read, 15, 100) is ErrorCode.KAFKA_STORAGE_ERROR
        assert not log.offline
        fill(log, 1)
        assert len(offload.work) == len(warnings_of(caplog)) == 1
        offload.work.pop()()
        assert log.read(15, 100).first_offset == 15
        log.segments._recent.clear()
        fill(log, 1)
        assert [offset for offset, _ in values_of(log)] == list(range(22))

    def test_what_was_scanned_before_a_truncation_is_no_index_after_it(self):
        """Its entries led beyond the end, into what was appended there later."""
        world, manager, log = running(value_bytes=2 * LARGE)
        assert log.active.size > IN_PLACE_SCAN_BYTES
        slow = manager._resources.offload = Slow()
        log.segments._recent.clear()
        damage(world, manager, f"{log.active.base_offset:020d}.index", "emptied")
        assert code_of(log.read, 29, 100) is ErrorCode.KAFKA_STORAGE_ERROR
        log.truncate_to(log.active.base_offset + 1)
        end = log.log_end_offset
        slow.answer()
        log.append(batch(size=3 * LARGE), 0, NOW_MS)
        fill(log, 3)
        log.segments._recent.clear()

        assert [log.read(offset, 1).first_offset for offset in range(end, end + 4)] == list(
            range(end, end + 4)
        )

    @pytest.mark.parametrize("end", ["retention", "deletion"])
    def test_what_was_scanned_of_a_segment_that_is_gone_leaves_no_file_behind(self, end):
        world, manager, log = running(value_bytes=LARGE, file_delete_delay_ms=0)
        slow = manager._resources.offload = Slow()
        base = log.segments[0].base_offset
        damage(world, manager, f"{base:020d}.index", "emptied")
        assert code_of(log.read, base + 1, 100) is ErrorCode.KAFKA_STORAGE_ERROR
        if end == "retention":
            log.maybe_increment_log_start_offset(log.segments[1].base_offset)
            assert manager.clean_up() == 1
        else:
            manager.delete(TP)
        world.clock.advance()
        slow.answer()

        left = world.disk.listdir(ROOT) if world.disk.exists(ROOT) else []
        assert [name for name in left if name.startswith(f"{base:020d}")] == []

    def test_an_index_that_cannot_be_rebuilt_is_done_without(self, caplog):
        world, manager, log = running(value_bytes=LARGE)
        assert log.segments[0].size > IN_PLACE_SCAN_BYTES
        expected = values_of(log)

        class Dies:
            def run(self, function, /, *args, **kwargs):
                return Pending.failed(RuntimeError("terminated abruptly"))

        manager._resources.offload = Dies()
        damage(world, manager, f"{0:020d}.index", "emptied")

        assert values_of(log) == expected
        assert values_of(log, 5) == expected[5:]
        assert [line.split()[0] for line in warnings_of(caplog)] == ["index.rebuild", "index.not_rebuilt"]


class TestSegments:
    def test_a_closed_segment_that_was_cut_answers_corrupt_message(self, caplog):
        """Its readers got the first bytes of a batch again and again, and nothing said so."""
        world, manager, log = running()
        expected = values_of(log)
        base, following = log.segments[1].base_offset, log.segments[2].base_offset
        manager.shutdown()
        cut = following - base - 1
        world.disk.open(f"{ROOT}/{base:020d}.log").truncate(cut * SIZE + SIZE - 5)
        world.disk.open(f"{ROOT}/{base:020d}.index").truncate(8)
        manager = world.started()
        log = manager.get(TP)

        for _ in range(3):
            assert code_of(log.read, base + cut, 1000, min_one_message=True) is ErrorCode.CORRUPT_MESSAGE
        for offset in range(base + cut):
            assert log.read(offset, 1, upper_bound_offset=29, min_one_message=True).first_offset == offset
        assert values_of(log, following) == expected[following:]
        assert manager.offline_directories == []
        (line,) = warnings_of(caplog)
        assert line.startswith("segment.corrupt partition=orders-0")
        assert f"at position {cut * SIZE}" in line

    @pytest.mark.parametrize("length", [0, 48, -1, -(2**31), SIZE * 100, 2**31 - 1])
    @pytest.mark.parametrize("segment", [1, -1])
    def test_an_absurd_batch_length_answers_corrupt_message(self, segment, length, caplog):
        world, manager, log = running()
        log.segments._recent.clear()
        expected = values_of(log)
        base = log.segments[segment].base_offset
        world.disk.open(f"{ROOT}/{base:020d}.log").pwrite(struct.pack(">i", length), 3 * SIZE + 8)

        for _ in range(3):
            assert code_of(log.read, base + 3, 1000, min_one_message=True) is ErrorCode.CORRUPT_MESSAGE
        assert [offset for offset, _ in values_of(log, base + 4)] == list(range(base + 4, 30))
        assert values_of(log, 0, base)[:base] == expected[:base]
        assert len(warnings_of(caplog)) == 1
        assert manager.offline_directories == []

    def test_a_segment_that_is_cut_while_it_is_read_answers_corrupt_message(self, caplog):
        world, manager, log = running()
        base = log.segments[1].base_offset
        world.disk.open(f"{ROOT}/{base:020d}.log").truncate(3 * SIZE)

        for _ in range(3):
            assert code_of(log.read, base + 5, 1000) is ErrorCode.CORRUPT_MESSAGE
        assert len(warnings_of(caplog)) == 1
        assert manager.offline_directories == []
        assert fill(log, 1).log_end_offset == 31

    def test_a_log_with_a_segment_that_was_removed_takes_nothing_more_and_the_others_go_on(self, caplog):
        world, manager, log = running()
        other = manager.get_or_create(OTHER)
        base = log.segments[1].base_offset
        damage(world, manager, f"{base:020d}.log", "removed")

        for _ in range(3):
            assert code_of(log.read, base + 1, 1000) is ErrorCode.KAFKA_STORAGE_ERROR
        assert code_of(fill, log, 1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert code_of(manager.get_or_create, TP) is ErrorCode.KAFKA_STORAGE_ERROR
        assert fill(other, 1).log_end_offset == 2
        assert manager.offline_directories == []
        assert any(line.startswith("log.unusable partition=orders-0") for line in warnings_of(caplog))

    def test_records_that_are_missing_between_two_segments_are_told_once(self, caplog):
        world, manager, log = running()
        base, following = log.segments[1].base_offset, log.segments[2].base_offset
        manager.shutdown()
        for suffix in ("log", "index", "timeindex"):
            world.disk.remove(f"{ROOT}/{base:020d}.{suffix}")
        log = world.started().get(TP)

        for start in range(base, following):
            assert log.read(start, 1000).first_offset == following
        assert [offset for offset, _ in values_of(log)] == [*range(base), *range(following, 30)]
        assert warnings_of(caplog) == [
            f"log.gap partition=orders-0 first_missing={base} next_found={following}"
        ]

    def test_a_gap_that_compaction_left_is_nothing_to_tell(self, caplog):
        log = World(cleanup_policy=("compact",)).log()
        for offset in (5, 50):
            log.append_as_follower(build_batch([Record(offset, 1, b"k", b"v")]))

        assert log.read(10, 1000).first_offset == 50
        assert warnings_of(caplog) == []
