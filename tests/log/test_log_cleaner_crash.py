"""A cleaning that ends at any step of its work:
by a kill, or by a loss of power that undoes what was not synced.
"""

import pytest
from cleaner_world import CompactedWorld
from mortal_disk import DiedError, MortalDisk

from barnabas.log import gapless


def dirty_world(disk):
    """A few groups of segments, with tombstones and aborted transactions."""
    world = CompactedWorld(disk, segment_bytes=400, delete_retention_ms=0, index_interval_bytes=100)
    sequence = 0
    for number in range(24):
        key, value = b"%d" % (number % 5), b"%d" % number if number % 7 else None
        if number % 8 == 5:
            world.put(
                (key, b"aborted"), producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True
            )
            sequence += 1
            world.end_transaction(7, committed=False)
        else:
            world.put((key, value))
    world.roll()
    world.the_log.flush()
    world.manager_.checkpoint_recovery_points()
    world.manager_.checkpoint_high_watermarks()
    disk.sync_directory(world.root)
    return world


def steps_of_a_cleaning():
    disk = MortalDisk(now_ms=lambda: 1_700_000_000_000)
    world = dirty_world(disk)
    disk.changes_left = 10_000
    assert world.clean() is None
    return 10_000 - disk.changes_left


STEPS = steps_of_a_cleaning()


@pytest.mark.parametrize("loses_power", [False, True])
def test_whatever_step_is_the_last_a_reader_finds_the_same_values(loses_power):
    assert STEPS > 60
    finished = 0
    # Each fourth, so that it stays quick; all of them pass.
    for step in range(int(loses_power), STEPS, 4):
        disk = MortalDisk(seed=step, now_ms=lambda: 1_700_000_000_000)
        world = dirty_world(disk)
        values, end = world.values(), world.the_log.log_end_offset
        before = world.records()
        disk.changes_left = step
        with pytest.raises(DiedError):
            world.clean()
        disk.changes_left = None
        if loses_power:
            disk.crash()
        else:
            disk.release_locks()
        world.start()
        log = world.the_log
        log.high_watermark = log.log_end_offset

        assert world.values() == values, step
        assert log.log_end_offset == end
        after = world.records()
        assert set(after) <= set(before)
        assert [record[0] for record in after] == sorted({record[0] for record in after}), step
        assert [name for name in world.leftovers if not name.endswith(".deleted")] == []
        finished += len(after) < len(before)
        # What is left can be cleaned, and goes on as a log.
        world.put((b"new", b"1"))
        world.roll()
        assert world.clean() is None
        assert world.values() == values | {b"new": b"1"}, step
        assert (
            world.put((b"new", b"2"), producer_id=7, base_sequence=3, producer_epoch=0).first_offset
            == end + 1
        )
    assert 0 < finished < STEPS


def at_each_sync(world, do):
    """Has something happen before each sync that the cleaner asks for."""

    class Watched:
        def __init__(self, syncer):
            self.syncer = syncer

        def sync(self, files):
            do()
            return self.syncer.sync(files)

    world.cleaner._syncer = Watched(world.cleaner._syncer)


def test_a_log_that_is_cut_while_its_swap_is_synced_keeps_nothing_of_it():
    """A start would put a .swap in the place of what has changed since."""
    world = dirty_world(MortalDisk(now_ms=lambda: 1_700_000_000_000))
    before = world.records()
    cut = before[10][0]

    def cut_it():
        if any(name.endswith(".swap") for name in world.leftovers):
            world.the_log.truncate_to(cut)
            assert not any(name.endswith(".swap") for name in world.leftovers)

    at_each_sync(world, cut_it)
    world.clean()

    world.restart()
    assert world.records() == [record for record in before if record[0] < cut]


def test_whatever_step_of_giving_a_staged_result_up_is_the_last_a_start_finds_one_of_both(caplog):
    """An index that is left without its ``.log.swap`` must not take the place of the source's."""
    for step in range(10):
        disk = MortalDisk(seed=step, now_ms=lambda: 1_700_000_000_000)
        world = CompactedWorld(disk, segment_bytes=4000, index_interval_bytes=100, segment_index_bytes=1200)
        for number in range(120):
            world.put((b"%d" % (number if number % 3 else number % 2), b"v" * (number % 11)))
        world.roll()
        world.the_log.flush()
        world.manager_.checkpoint_recovery_points()
        values = world.values()

        def give_up(world=world, disk=disk, step=step):
            if any(name.endswith(".log.swap") for name in world.leftovers) and disk.changes_left is None:
                disk.changes_left = step
                world.manager_.cleanings.abort(world.the_log)
                disk.changes_left = 0

        at_each_sync(world, give_up)
        with pytest.raises(DiedError):
            world.clean()
        disk.changes_left = None
        disk.release_locks()
        world.start()
        world.the_log.high_watermark = world.the_log.log_end_offset

        assert world.values() == values, step
        for offset, *_ in world.records():
            assert world.the_log.read(offset, 1000, min_one_message=True).first_offset == offset, step
    assert "leads to position" not in caplog.text


def test_a_log_that_is_cut_when_its_swap_is_its_data_keeps_that():
    world = dirty_world(MortalDisk(now_ms=lambda: 1_700_000_000_000))
    before = world.records()
    cut, swapped = before[10][0], []

    def cut_it():
        names = [segment.path for segment in world.the_log.segments if segment.path.endswith(".swap")]
        if names and not swapped:
            swapped.extend(names)
            world.the_log.truncate_to(cut)

    at_each_sync(world, cut_it)
    world.clean()

    assert swapped
    left = world.records()
    assert left
    assert set(left) <= {record for record in before if record[0] < cut}
    world.restart()
    assert world.records() == left


def test_the_sources_are_removed_only_when_the_final_name_of_their_result_is_durable():
    """Else a loss of power could bring the .swap back beside segments that have been cleaned again since."""
    disk = MortalDisk(now_ms=lambda: 1_700_000_000_000)
    world = dirty_world(disk)
    remove, removed = disk.remove, []

    def watched(path):
        if path.endswith(".deleted") and not path.endswith(gapless.FILE_NAME):
            directory, _, name = path.rpartition("/")
            removed.append(name)
            durable = {
                each.rpartition("/")[2] for each in disk._durable_names if each.startswith(f"{directory}/")
            }
            assert not [each for each in durable if each.endswith((".swap", ".cleaned"))]
            assert {
                segment.path.rpartition("/")[2] for segment in list(world.the_log.segments)[:-1]
            } <= durable
        remove(path)

    disk.remove = watched
    assert world.clean() is None
    world.clock.advance(1)

    assert len(removed) > 10


@pytest.mark.parametrize("seed", range(10))
def test_a_loss_of_power_after_a_cleaning_finds_its_result_under_the_final_names(seed):
    disk = MortalDisk(seed=seed, now_ms=lambda: 1_700_000_000_000)
    world = dirty_world(disk)
    values = world.values()
    assert world.clean() is None
    after = world.records()
    names = {segment.path for segment in world.the_log.segments}
    disk.crash()

    assert {path for path in disk._files if path.endswith(".swap")} == set()
    assert names <= set(disk._files)
    world.start()
    world.the_log.high_watermark = world.the_log.log_end_offset
    assert (world.records(), world.values()) == (after, values)
