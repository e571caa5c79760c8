"""When which log is cleaned, and what happens to one that changes, breaks or has no room meanwhile."""

import contextlib
import dataclasses
import errno
from pathlib import PurePath

import pytest
from cleaner_world import CompactedWorld
from log_world import NOW_MS, TP

from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.offload import ChildEndedError
from barnabas.core.pending import Pending
from barnabas.log.cleaner.dirtiest import to_clean
from barnabas.log.cleaner.settings import CleanerSettings
from barnabas.log.cleaner.work import CleaningAbortedError, build_map, clean_segments, forget_map

OTHER = TopicPartition("others", 0)


def dirty(world, count=20):
    """A log of which the last record counts."""
    for number in range(count):
        world.put((b"k", b"%d" % number))
    world.roll()
    return world


def test_cleaners_work_by_themselves_until_nothing_is_dirty_enough():
    world = dirty(CompactedWorld())
    world.cleaner.startup()

    world.clock.advance(1)

    assert len(world.records()) == 1
    world.put((b"k", b"new"))
    world.roll()
    world.clock.advance(14_000)
    assert len(world.records()) == 2
    world.clock.advance(1_000)
    assert [value for _, _, _, value in world.records()] == [b"new"]


def test_what_the_cleaners_say_of_themselves():
    world = dirty(CompactedWorld(), count=60)
    before = world.the_log.size
    cleaner = world.cleaner
    assert (cleaner.max_dirty_ratio, cleaner.recopied, cleaner.max_clean_time_ms) == (0, 0, 0)
    world.clock.advance(5_000)
    assert cleaner.since_last_look_ms == 5_000
    world.offload.before = lambda function: world.clock.advance(700) if function is build_map else None
    looks = []
    world.offload.after = lambda _: looks.append(cleaner.max_dirty_ratio)
    cleaner.startup()

    world.clock.advance(1)

    assert set(looks) == {1.0}, "all of it was dirty"
    assert cleaner.recopied == pytest.approx(world.the_log.size / before, abs=0.01)
    assert cleaner.max_clean_time_ms == 700
    world.clock.advance(10_000)
    assert cleaner.max_dirty_ratio == 0
    assert 0 < cleaner.since_last_look_ms < 15_000


def test_cleaners_that_were_stopped_do_nothing_more():
    world = dirty(CompactedWorld())
    begun = []
    world.offload.before = begun.append
    world.cleaner.startup()
    world.cleaner.shutdown()
    world.clock.advance(60_000)

    assert (begun, len(world.records())) == ([], 20)


def test_a_log_is_cleaned_when_more_than_the_ratio_is_dirty():
    world = dirty(CompactedWorld(min_cleanable_dirty_ratio=0.5))
    world.clean()
    world.put((b"other", b"0"))
    world.roll()

    half = to_clean(world.the_log, NOW_MS)
    assert 0.4 < half.ratio <= 0.55
    world.the_log.config = dataclasses.replace(world.config, min_cleanable_dirty_ratio=half.ratio)
    assert not half.is_due
    world.the_log.config = dataclasses.replace(world.config, min_cleanable_dirty_ratio=half.ratio - 0.01)
    assert half.is_due


def test_records_younger_than_min_compaction_lag_are_left_alone():
    world = dirty(CompactedWorld(min_compaction_lag_ms=5000))
    assert to_clean(world.the_log, NOW_MS + 5000 - 1) is None

    assert to_clean(world.the_log, NOW_MS + 5000).end_offset == 20


def test_records_older_than_max_compaction_lag_make_a_log_due_whatever_the_ratio():
    world = CompactedWorld(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5000)
    dirty(world)

    assert not to_clean(world.the_log, NOW_MS + 5000).is_due
    assert to_clean(world.the_log, NOW_MS + 5001).is_due


def test_a_compacted_segment_is_closed_in_time_for_max_compaction_lag():
    world = CompactedWorld(segment_bytes=1 << 20, max_compaction_lag_ms=5000)
    world.put((b"k", b"1"), timestamp=NOW_MS)
    world.put((b"k", b"2"), timestamp=NOW_MS + 5001)

    assert len(world.the_log.segments) == 2


def test_nothing_above_the_high_watermark_is_cleaned():
    world = dirty(CompactedWorld())
    world.the_log._high_watermark = world.the_log.segments[2].base_offset

    assert to_clean(world.the_log, NOW_MS).end_offset == world.the_log.segments[2].base_offset


def test_the_dirtiest_log_comes_first():
    world = dirty(CompactedWorld())
    world.clean()
    for number in range(10):
        world.put((b"k", b"%d" % number))
    world.roll()
    first, world.the_log = world.the_log, world.manager_.get_or_create(OTHER)
    dirty(world)

    assert world.cleaner.dirtiest().log.tp == OTHER
    world.clean()
    assert world.cleaner.dirtiest().log is first


def test_a_log_that_moves_to_another_directory_does_not_keep_the_cleaners_from_the_others():
    world = dirty(CompactedWorld())
    world.clean()
    for number in range(10):
        world.put((b"k", b"%d" % number))
    world.roll()
    less_dirty, world.the_log = world.the_log, world.manager_.get_or_create(OTHER)
    dirty(world)
    world.manager_.create_future(OTHER, world.root)

    assert world.cleaner.dirtiest().log is less_dirty
    world.manager_.futures.delete(OTHER)
    assert world.cleaner.dirtiest().log is world.the_log


def test_where_the_dirty_part_begins_survives_a_restart_and_a_truncation_takes_it_back():
    world = dirty(CompactedWorld())
    world.clean()
    for number in range(20):
        world.put((b"k", b"%d" % number))
    world.roll()
    world.clean()
    checkpoint = f"{world.root}/cleaner-offset-checkpoint"
    assert world.disk.read(checkpoint) == b"0\n1\norders 0 40\n"

    world.restart()
    assert world.the_log.first_dirty_offset == 40
    world.the_log.truncate_to(25)

    # What is appended from here on is dirty, though it has offsets that were clean.
    assert world.the_log.first_dirty_offset <= 25
    assert world.disk.read(checkpoint) != b"0\n1\norders 0 40\n"


def test_a_deleted_topic_leaves_no_clean_part_to_one_of_its_name():
    world = dirty(CompactedWorld())
    world.clean()

    deleted = world.manager_.delete(TP)
    world.clock.advance(0)

    assert deleted.done
    assert world.disk.read(f"{world.root}/cleaner-offset-checkpoint") == b"0\n0\n"
    assert world.manager_.get_or_create(TP).first_dirty_offset == 0


def test_a_checkpoint_that_cannot_be_is_passed_over():
    world = dirty(CompactedWorld())
    world.the_log.first_dirty_offset = 1000

    assert to_clean(world.the_log, NOW_MS).first_dirty_offset == 0


def test_what_is_written_behind_the_end_of_a_log_that_lost_some_is_dirty():
    """The checkpoint speaks of records that are gone:
    a tombstone with one of their offsets must delete its key.
    """
    world = dirty(CompactedWorld(delete_retention_ms=1000))
    world.clean()
    world.put((b"k", b"1"))
    world.the_log.flush()
    checkpoint = f"{world.root}/cleaner-offset-checkpoint"
    world.disk.open(checkpoint).pwrite(b"0\n1\norders 0 40\n", 0)  # of before its end was lost
    world.restart()
    for number in range(30):
        world.put((b"k", None), (b"%d" % number, b"value"))
    world.roll()

    assert to_clean(world.the_log, NOW_MS).first_dirty_offset == 0
    world.clean()
    assert world.disk.read(checkpoint) == b"0\n1\norders 0 81\n"
    world.clock.advance(1000)
    world.put((b"z", b"z"))
    world.roll()
    world.clean()
    assert b"k" not in world.values()


def test_a_partition_that_is_made_again_where_one_vanished_is_dirty():
    world = dirty(CompactedWorld())
    world.clean()
    world.manager_.checkpoint_high_watermarks()
    world.manager_.shutdown()
    world.disk.remove_tree(f"{world.root}/{TP}")
    world.start()

    assert world.the_log.log_end_offset == 0
    assert world.disk.read(f"{world.root}/cleaner-offset-checkpoint") == b"0\n0\n"


def when(world, function, do, moment="before"):
    """Has something happen before the child begins with the function for the first time, or after that."""
    waiting = [do]

    def hook(begun):
        if begun is function and waiting:
            waiting.pop()()

    setattr(world.offload, moment, hook)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("function", [build_map, clean_segments])
def test_a_log_that_is_truncated_while_it_is_cleaned_loses_nothing(function, moment):
    world = dirty(CompactedWorld())
    when(world, function, lambda: world.the_log.truncate_to(10), moment)

    assert isinstance(world.clean(), CleaningAbortedError)

    assert [value for _, _, _, value in world.records()] == [b"%d" % number for number in range(10)]
    assert world.leftovers == []


@pytest.mark.parametrize("function", [build_map, clean_segments])
def test_a_cleaning_that_was_given_up_is_no_fault_of_the_log(function, caplog):
    world = dirty(CompactedWorld())
    when(world, function, lambda: world.the_log.truncate_to(10))
    world.cleaner.startup()
    world.clock.advance(1)
    assert len(world.records()) == 10
    dirty(world)
    world.clock.advance(60_000)

    assert [value for _, _, _, value in world.records()] == [b"19"]
    assert "uncleanable" not in caplog.text


def test_a_log_that_lost_its_files_while_it_was_cleaned_does_not_take_its_directory_with_it(caplog):
    world = dirty(CompactedWorld())

    def lose_the_files():
        world.disk.remove_tree(f"{world.root}/{TP}")
        world.the_log.storage_failed(FileNotFoundError(errno.ENOENT, "removed", str(TP)))

    when(world, build_map, lose_the_files)
    world.cleaner.startup()
    world.clock.advance(60_000)

    assert world.manager_.offline_directories == []
    assert "uncleanable" not in caplog.text


def test_a_truncation_above_what_is_cleaned_does_no_harm():
    world = dirty(CompactedWorld())
    world.put((b"k", b"above"))
    when(world, clean_segments, lambda: world.the_log.truncate_to(20))

    assert world.clean() is None

    assert [value for _, _, _, value in world.records()] == [b"19"]


@pytest.mark.parametrize("function", [build_map, clean_segments])
def test_a_log_that_is_deleted_while_it_is_cleaned_takes_its_files_with_it(function):
    world = dirty(CompactedWorld())
    when(world, function, lambda: world.manager_.delete(TP))

    assert isinstance(world.clean(), CleaningAbortedError)

    world.clock.advance()
    assert [name for name in world.disk.listdir(world.root) if name.startswith("orders")] == []


def test_a_topic_that_is_not_compacted_any_more_is_left_as_it_is():
    world = dirty(CompactedWorld())
    plain = dataclasses.replace(world.config, cleanup_policy=("delete",))
    when(world, clean_segments, lambda: setattr(world.the_log, "config", plain))

    assert isinstance(world.clean(), CleaningAbortedError)

    assert len(world.records()) == 20


@pytest.mark.parametrize("position", [65, 70])  # inside a record; the base offset, which no checksum covers
def test_a_damaged_log_is_set_aside_and_the_others_are_cleaned(caplog, position):
    world = dirty(CompactedWorld())
    damaged = world.the_log
    before = damaged.size
    world.disk.open(damaged.segments[1].path).pwrite(b"\xff", position)
    world.the_log = world.manager_.get_or_create(OTHER)
    dirty(world)

    world.cleaner.startup()
    world.clock.advance(60_000)

    assert len(world.records()) == 1
    world.the_log = damaged
    assert damaged.size == before
    assert [line for line in caplog.text.splitlines() if "uncleanable" in line] != []
    assert caplog.text.count("cleaner.uncleanable") == 1
    assert world.leftovers == []
    assert not damaged.offline


def test_a_disk_without_room_is_tried_again_and_stays_online():
    world = dirty(CompactedWorld())
    before = world.records()
    world.disk.fail(f"{world.root}/{TP}/{0:020d}.log.cleaned", "write", errno.ENOSPC)
    world.cleaner.startup()
    world.clock.advance(1)
    assert world.records() == before
    assert not world.the_log.offline

    world.disk.heal()
    world.clock.advance(15_000)
    assert len(world.records()) == 1


def test_a_disk_that_fails_takes_its_directory_offline():
    world = dirty(CompactedWorld())
    world.disk.fail(f"{world.root}/{TP}/{0:020d}.log.cleaned", "write", errno.EIO)
    world.cleaner.startup()

    world.clock.advance(1)

    assert world.manager_.offline_directories == [world.root]


@pytest.mark.parametrize("name", [f"{0:020d}.log.swap", f"{0:020d}.index", f"{8:020d}.log"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_swap_that_is_refused_half_way_is_finished_by_the_next_start(name, code):
    """The next cleaning would have removed the ``.swap`` that the log reads, or a start what stands beside
    it.
    """
    world = CompactedWorld()
    for number in range(20):
        world.put((b"%d" % (number % 4), b"%d" % number))
    world.roll()
    values = world.values()
    rename, refused = world.disk.rename, []

    def refuse_once(source, target):
        if source.endswith(name) and not target.endswith(".swap") and not refused:
            refused.append(target)
            raise OSError(code, "refused once", source)
        rename(source, target)

    world.disk.rename = refuse_once
    world.cleaner.startup()
    world.clock.advance(1)
    assert refused
    assert world.the_log.offline
    assert (world.manager_.offline_directories == [world.root]) == (code == errno.EROFS)
    world.clock.advance(60_000)

    world.restart(clean=True)
    assert world.values() == values
    assert [each for each in world.leftovers if each.endswith((".swap", ".cleaned"))] == []
    assert world.clean() is None
    assert world.values() == values


def test_no_file_goes_that_the_log_reads():
    world = dirty(CompactedWorld())

    with pytest.raises(AssertionError, match="is read by"):
        world.the_log.segments.remove_files([world.the_log.segments[1].index.path])

    assert world.disk.exists(world.the_log.segments[1].index.path)


def test_a_staged_result_that_cannot_be_removed_takes_the_log_offline():
    """The next start puts it in the place of its sources; these must not change before."""
    world = dirty(CompactedWorld())
    sync = world.syncer.sync

    def cut_while_it_is_staged(what):
        if any(name.endswith(".log.swap") for name in world.leftovers):
            world.disk.fail(f"{world.root}/{TP}/{0:020d}.index.swap", "name", errno.ENOSPC)
            with contextlib.suppress(KafkaError):
                world.the_log.truncate_to(10)
        return sync(what)

    world.syncer.sync = cut_while_it_is_staged
    world.clean()
    assert world.the_log.offline
    world.disk.heal()
    world.restart()

    # What was cleaned is there, or what it was cleaned of; the leader has this follower cut it again.
    assert world.values() == {b"k": b"19"}
    world.the_log.truncate_to(10)
    assert world.records() == [record for record in world.records() if record[0] < 10]


def test_a_child_that_is_killed_is_no_reason_to_give_a_log_up():
    world = dirty(CompactedWorld())

    def end():
        world.offload.before = lambda function: None
        raise ChildEndedError("killed")

    world.offload.before = lambda function: end() if function is clean_segments else None
    world.cleaner.startup()
    world.clock.advance(1)
    assert len(world.records()) == 20

    world.clock.advance(15_000)
    assert len(world.records()) == 1


def test_a_child_that_is_killed_between_two_groups_has_the_log_cleaned_from_its_new_segments(caplog):
    """The next child has no offset map, and the segments that the first one read have been replaced."""
    world = dirty(CompactedWorld(segment_bytes=300))
    groups = []

    def kill_before_the_second(function):
        if function is clean_segments:
            groups.append(world.the_log.size)
            if len(groups) == 2:
                forget_map()

    world.offload.before = kill_before_the_second
    world.cleaner.startup()
    world.clock.advance(1)
    assert groups[1] < groups[0], "the first group is in place"
    assert "cleaner.postponed" in caplog.text

    world.clock.advance(15_000)
    assert world.values() == {b"k": b"19"}
    assert len(world.records()) == 1
    assert not world.cleaner.uncleanable


def test_segments_of_compacted_logs_that_retention_allows_to_delete_go_in_the_cleaners_turn():
    world = CompactedWorld(cleanup_policy=("compact", "delete"), retention_ms=1000)
    dirty(world)
    world.clock.advance(2000)
    world.manager_.clean_up()
    assert len(world.records()) == 20

    world.cleaner.startup()
    world.clock.advance(1)

    assert world.records() == []


def test_a_stop_gives_up_what_is_being_cleaned():
    world = dirty(CompactedWorld())
    world.cleaner.startup()
    when(world, clean_segments, world.cleaner.shutdown)
    world.clock.advance(1)

    assert len(world.records()) == 20
    assert world.leftovers == []
    assert world.clock.waiting == 0


def write_late(world):
    """What a child does that was at the indexes when its output file was removed."""
    world.disk.open(f"{world.root}/{TP}/{0:020d}.timeindex.cleaned", create=True).pwrite(b"late", 0)


def test_what_a_child_writes_after_it_was_given_up_is_removed():
    world = dirty(CompactedWorld())

    def cut_and_write():
        world.the_log.truncate_to(10)
        write_late(world)

    when(world, clean_segments, cut_and_write, "after")

    assert isinstance(world.clean(), CleaningAbortedError)
    assert world.leftovers == []


def test_what_a_child_writes_until_a_stop_is_removed():
    world = dirty(CompactedWorld())
    never = Pending()  # a child that is at work when its broker stops
    world.offload.run = lambda function, *_, **__: never
    world.offload.close = lambda: write_late(world)
    world.cleaner.startup()
    world.clock.advance(1)
    assert world.leftovers != []

    world.cleaner.shutdown()

    assert world.leftovers == []


def test_a_stop_waits_for_a_result_that_is_taking_its_place():
    world = dirty(CompactedWorld())
    sync, held = world.syncer.sync, []

    def slow(what):
        if {".swap", ".deleted"} <= {PurePath(name).suffix for name in world.leftovers}:
            held.append(Pending())
            return held[-1]
        return sync(what)

    world.syncer.sync = slow
    world.cleaner.startup()
    world.clock.advance(1)

    stopped = world.cleaner.shutdown()

    assert not stopped.done
    world.syncer.sync = sync
    held.pop().complete(None)
    assert stopped.done
    world.clock.advance(1)
    assert world.leftovers == []
    assert len(world.records()) < 20


def test_cleaners_come_and_go_with_the_settings():
    world = CompactedWorld()
    closed = []
    world.offload.close = lambda: closed.append(1)
    world.cleaner.startup()
    world.cleaner.reconfigure(CleanerSettings(threads=3, backoff_ms=50))
    assert world.clock.waiting == 3
    world.cleaner.reconfigure(CleanerSettings(threads=2, backoff_ms=50))

    assert len(closed) == 1
    dirty(world)
    world.clock.advance(50)
    assert len(world.records()) == 1
