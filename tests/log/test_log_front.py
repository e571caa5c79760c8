"""A start that finds the front of a log gone: it says so, and the log starts where it did."""

import dataclasses

import pytest
from log_world import TP, World, batch, fill, values_of

from barnabas.log import gapless
from barnabas.log.retention import delete_old_segments

ROOT = "/data/orders-0"
STARTS = "/data/log-start-offset-checkpoint"


def several_segments(*, deleted_to=0, **config):
    """A started world with a log of 30 records in segments of 4; its values, and where the segments begin."""
    world = World(segment_bytes=4 * len(batch()), **config)
    manager = world.started()
    log = fill(manager.get_or_create(TP), 30)
    log.high_watermark = 30
    log.maybe_increment_log_start_offset(deleted_to)
    manager.checkpoint_high_watermarks()
    return world, manager, values_of(log), [segment.base_offset for segment in log.segments]


def without_front(world, bases, count):
    """What a fault of a disk, of a cleaner or of an operator leaves: the first segments are gone."""
    for base in bases[:count]:
        for suffix in (".log", ".index", ".timeindex"):
            world.disk.remove(f"{ROOT}/{base:020d}{suffix}")


def lines(caplog):
    return [record.message for record in caplog.records if record.message.startswith("log.lost_front")]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("deleted_to", [0, 2])
def test_the_log_starts_where_it_did_and_serves_what_it_has(clean, deleted_to, caplog):
    """Its start jumped to the first segment that was left; then followers deleted their own records below."""
    world, manager, values, bases = several_segments(deleted_to=deleted_to)
    manager.checkpoint_log_start_offsets()
    manager.shutdown(clean=clean)
    without_front(world, bases, 3)
    for starts in (1, 2):
        log = world.started().get(TP)

        assert (log.log_start_offset, log.log_end_offset) == (deleted_to, 30)
        assert log.lacks_front
        assert values_of(log) == [each for each in values if each[0] >= bases[3]]
        assert len(lines(caplog)) == starts
        assert f"log_start_offset={deleted_to} first_offset_left={bases[3]}" in lines(caplog)[-1]
        world.clock._timers.clear()
        world.disk.release_locks()


def test_without_epochs_the_checkpoint_says_where_the_log_started():
    world, manager, _, bases = several_segments(deleted_to=2)
    manager.checkpoint_log_start_offsets()
    manager.shutdown()
    without_front(world, bases, 1)
    world.disk.write_atomic(f"{ROOT}/leader-epoch-checkpoint", b"0\n0\n")
    manager = world.started()
    assert manager.get(TP).log_start_offset == 2

    manager.shutdown()
    assert world.disk.read(STARTS) == b"0\n1\norders 0 2\n", "the next start is to know it as well"


def test_what_retention_has_taken_is_not_missed(caplog):
    """A kill comes before the new start is in the checkpoint, which still has a start in the first
    segment.
    """
    world, manager, values, bases = several_segments(deleted_to=2)
    manager.checkpoint_log_start_offsets()
    log = manager.get(TP)
    log.config = dataclasses.replace(world.config, retention_bytes=log.size // 2)
    delete_old_segments(log, world.clock.time_ms())
    start = log.log_start_offset
    assert start in bases
    assert start > 2
    manager.shutdown(clean=False)

    log = world.started().get(TP)
    assert (log.log_start_offset, log.lacks_front, lines(caplog)) == (start, False, [])
    assert values_of(log) == [each for each in values if each[0] >= start]


def test_retention_moves_the_start_of_a_log_without_its_front():
    world, manager, _, bases = several_segments()
    manager.shutdown()
    without_front(world, bases, 2)
    log = world.started().get(TP)
    log.high_watermark = 30
    log.config = dataclasses.replace(world.config, retention_bytes=log.size // 2)
    delete_old_segments(log, world.clock.time_ms())

    assert log.log_start_offset > bases[2]
    assert not log.lacks_front


def test_records_that_were_deleted_stay_so_after_a_kill():
    """The checkpoint is written once a minute; until then a kill brought them back."""
    world, manager, values, _ = several_segments(deleted_to=2)
    manager.keep_log_starts()
    manager.shutdown(clean=False)

    assert values_of(world.started().get(TP)) == values


def test_a_log_that_begins_here_is_noted_to_have_no_gaps():
    world, manager, _, _ = several_segments()
    assert world.disk.exists(f"{ROOT}/{gapless.FILE_NAME}")
    manager.shutdown()
    assert world.started().get(TP).is_gapless
