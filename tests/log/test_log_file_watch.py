"""Files that are removed, cut or replaced under a running broker:
what is appended to such a log is not acknowledged for long.
"""

import pytest
from log_world import TP, World, fill
from test_log_removal import LaterThread

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.log import file_watch

OTHER = TopicPartition("orders", 1)


@pytest.fixture
def started():
    """A world, its manager with two logs, and its thread."""
    world, thread = World(segment_index_bytes=4096), LaterThread()
    manager = world.started(disk_thread=thread)
    for tp in (TP, OTHER):
        fill(manager.get_or_create(tp), 3)
    look(manager, thread)
    return world, manager, thread


def look(manager, thread):
    manager.look_after_files()
    while thread.given:
        thread.finish()


def refusal_of(log):
    with pytest.raises(KafkaError) as caught:
        fill(log, 1)
    return caught.value.code


@pytest.mark.parametrize("removed", ["directory", "segment"])
def test_a_log_whose_files_are_gone_takes_nothing_more_and_the_others_go_on(started, removed, caplog):
    world, manager, thread = started
    log = manager.get(TP)
    if removed == "directory":
        world.disk.remove_tree(f"/data/{TP}")
    else:
        world.disk.remove(log.active.path)
    fill(log, 2)  # nobody knows it yet
    look(manager, thread)

    assert refusal_of(log) is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.get(TP) is None
    assert fill(manager.get(OTHER), 1).log_end_offset == 4
    assert manager.offline_directories == []
    (line,) = [each.message for each in caplog.records if "log.files_removed" in each.message]
    assert "in_doubt_from=3 log_end_offset=5" in line


@pytest.mark.parametrize("cut_to", [0, 100])
@pytest.mark.parametrize("appended", ["before the look", "never"])
def test_a_segment_that_is_cut_under_the_broker_takes_nothing_more(started, cut_to, appended, caplog):
    """As by ``logrotate`` with ``copytruncate``: the next append leaves a hole before it."""
    world, manager, thread = started
    log = fill(manager.get(TP), 1)
    world.disk.open(log.active.path).truncate(cut_to)
    if appended != "never" and not cut_to:
        fill(log, 2)
    look(manager, thread)

    assert refusal_of(log) is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.offline_directories == []
    (line,) = [each.message for each in caplog.records if "log.files_removed" in each.message]
    assert "it was cut" in line
    assert "in_doubt_from=3" in line


def test_a_segment_that_a_copy_takes_the_place_of_takes_nothing_more(started, caplog):
    world, manager, thread = started
    log = manager.get(TP)
    world.disk.write_atomic(log.active.path, world.disk.read(log.active.path))
    fill(log, 2)
    look(manager, thread)

    assert refusal_of(log) is ErrorCode.KAFKA_STORAGE_ERROR
    assert any("it was cut or replaced" in each.message for each in caplog.records)


def test_a_follower_that_truncates_its_log_has_not_lost_it(started):
    _, manager, thread = started
    log = fill(manager.get(TP), 5)
    manager.look_after_files()
    log.truncate_to(1)
    while thread.given:
        thread.finish()
    assert fill(log, 1).log_end_offset == 2


def test_a_log_that_nothing_is_appended_to_is_not_looked_at(started):
    world, manager, thread = started
    world.disk.remove_tree(f"/data/{TP}")
    manager.look_after_files()

    assert not thread.given
    assert manager.get(TP) is not None


def test_one_look_at_a_time(started):
    _, manager, thread = started
    fill(manager.get(TP), 1)
    manager.look_after_files()
    manager.look_after_files()

    assert len(thread.given) == 1


@pytest.mark.parametrize("meanwhile", ["rolled", "deleted", "made again"])
def test_a_log_that_changes_its_files_meanwhile_is_not_taken_for_one_that_lost_them(
    started, meanwhile, caplog
):
    world, manager, thread = started
    log = fill(manager.get(TP), 1)
    path = log.active.path
    manager.look_after_files()
    if meanwhile == "rolled":
        log.roll(world.clock.time_ms())
        world.disk.remove(path)
    else:
        manager.delete(TP)
        world.clock.advance(0)
    if meanwhile == "made again":
        manager.get_or_create(TP)
        world.disk.remove(path)
    while thread.given:
        thread.finish()

    assert manager.offline_directories == []
    assert not any("log.files_removed" in each.message for each in caplog.records)
    assert (manager.get(TP) is None) is (meanwhile == "deleted")
    if meanwhile == "rolled":
        assert fill(log, 1).log_end_offset == 5


def test_a_whole_log_directory_that_is_gone_takes_all_its_logs_with_it(started):
    world, manager, thread = started
    fill(manager.get(TP), 1)
    world.disk.remove_tree("/data")
    look(manager, thread)

    assert manager.offline_directories == ["/data"]
    assert not manager.logs


def test_a_broker_that_stops_in_the_middle_of_a_look(started):
    _, manager, thread = started
    fill(manager.get(TP), 1)
    manager.look_after_files()
    manager.shutdown()
    thread.finish()

    assert not thread.given


def test_a_log_that_is_as_it_should_be_is_looked_at_elsewhere_only(started, monkeypatch):
    """A disk that takes its time must not hold the loop."""
    world, manager, thread = started
    log = fill(manager.get(TP), 1)
    sizes, asked = world.disk.size, []
    monkeypatch.setattr(world.disk, "size", lambda path: (asked.append(path), sizes(path))[1])
    look(manager, thread)

    assert asked == [log.active.path]


def test_a_broker_that_stops_during_a_look_looks_at_nothing_more(started, monkeypatch):
    monkeypatch.setattr(file_watch, "PORTION", 1)
    _, manager, thread = started
    for tp in (TP, OTHER):
        fill(manager.get(tp), 1)
    manager.look_after_files()
    manager.shutdown()
    thread.finish()

    assert not thread.given
