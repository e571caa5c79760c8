"""A disk without room refuses what is new, goes on serving what is there, and takes records again when there
is room.
"""

import errno

import pytest
from log_world import NOW_MS, TP, World, batch, fill, values_of

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.log.write_turn import WriteTurn

PAGE = 4096
TOPIC_ID = Uuid(bytes(15) + b"1")


@pytest.fixture
def world():
    return World(segment_bytes=20_000, index_interval_bytes=1000, segment_index_bytes=2000)


def fill_up(world, log, size=900):
    """Appends until the disk has no room for such a batch; how many fitted."""
    world.disk.capacity = world.disk.used + 40 * PAGE
    with pytest.raises(KafkaError, match="No room") as caught:
        fill(log, 1000, size=size)
    assert (caught.value.code, caught.value.retriable) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
    return log.log_end_offset


def test_nothing_goes_offline_and_what_was_acknowledged_is_served(world, caplog):
    manager = world.started()
    log = manager.get_or_create(TP)
    assert fill_up(world, log) >= 100
    acknowledged = values_of(log)
    for _ in range(50):
        with pytest.raises(KafkaError):
            fill(log, 1, size=900)
        world.clock.advance(100)
        manager.checkpoint_recovery_points()
        manager.checkpoint_high_watermarks()
        manager.clean_up()

    assert values_of(log) == acknowledged
    assert not log.offline
    assert manager.offline_directories == []
    assert caplog.text.count("directory.full") == 1, "one line a minute"
    assert not [name for name in world.disk.listdir(world.root) if name.endswith(".tmp")]


def test_records_are_taken_again_when_there_is_room(world):
    manager = world.started()
    log = manager.get_or_create(TP)
    fill_up(world, log)
    before = values_of(log)
    world.disk.capacity = None
    fill(log, 60, size=900)

    after = values_of(log)
    assert after[: len(before)] == before
    assert [offset for offset, _ in after] == list(range(len(before) + 60))
    manager.shutdown()
    assert values_of(world.started().get(TP)) == after


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_after_it_finds_all_that_was_acknowledged(world, clean, caplog):
    manager = world.started()
    log = manager.get_or_create(TP)
    fill_up(world, log)
    acknowledged = values_of(log)
    manager.shutdown(clean=clean)
    world.disk.release_locks()
    world.disk.capacity = None
    caplog.clear()

    again = world.started().get(TP)

    assert values_of(again) == acknowledged
    assert "segment.truncated" not in caplog.text, "a write that was refused has left something behind"


@pytest.mark.parametrize("turns", [False, True])
def test_a_write_that_fits_in_part_leaves_nothing_in_the_file(world, turns):
    manager = world.started()
    log = manager.get_or_create(TP)
    fill(log, 2)
    before, size = values_of(log), log.active.size
    world.disk.capacity = world.disk.used + PAGE
    turn = WriteTurn()
    if turns:
        log.join(turn)
    try:
        log.append(batch(1, size=3 * PAGE), 0, NOW_MS)
    except KafkaError:
        assert not turns
    else:
        turn.write()
        assert turn.unwritten[0].error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.disk.size(log.active.path) == log.active.size == size
    assert values_of(log) == before


def test_a_leader_epoch_is_noted_and_forgotten_where_the_file_has_room_already(world):
    manager = world.started()
    log = manager.get_or_create(TP)
    for epoch in range(3):
        fill(log, 2, epoch=epoch)
    world.disk.capacity = world.disk.used

    log.leader_epochs.assign(5, log.log_end_offset)
    log.truncate_to(3)

    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (1, 2)]
    assert world.disk.read(log.leader_epochs.path) == b"0\n2\n0 0\n1 2\n"
    assert not log.offline


def test_a_new_partition_goes_where_there_is_room_and_is_refused_where_there_is_none(world):
    manager = world.started(["/data/a", "/data/b"])
    full = [world.root + "/a"]

    def check(path, operation, check=world.disk.check):
        if operation == "write" and path.startswith(tuple(full)):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        check(path, operation)

    world.disk.check = check
    logs = [manager.get_or_create(TopicPartition("t", number)) for number in range(3)]
    assert {log.directory.rpartition("/")[0] for log in logs} == {"/data/b"}
    full.append(world.root + "/b")
    with pytest.raises(KafkaError, match="No room") as caught:
        manager.get_or_create(TP)

    assert caught.value.code is ErrorCode.REPLICA_NOT_AVAILABLE
    assert manager.offline_directories == []
    assert not any(name.startswith("orders") for path in full for name in world.disk.listdir(path))
    full.clear()
    fill(manager.get_or_create(TP), 1)


def test_a_topic_id_that_cannot_be_written_is_asked_for_later(world):
    manager = world.started()
    log = manager.get_or_create(TP)
    world.disk.capacity = world.disk.used
    with pytest.raises(KafkaError) as caught:
        manager.get_or_create(TP, TOPIC_ID)

    assert caught.value.code is ErrorCode.REPLICA_NOT_AVAILABLE
    world.disk.capacity = None
    assert manager.get_or_create(TP, TOPIC_ID) is log


def test_a_sync_that_finds_no_room_takes_its_log_offline_and_no_other(world):
    """What the system had taken into its memory may be lost then: it must not be acknowledged, nor read."""
    manager = world.started()
    log = fill(manager.get_or_create(TP), 1)
    other = fill(manager.get_or_create(TopicPartition("other", 0)), 1)
    world.disk.fail(log.active.path, "sync", errno.ENOSPC)
    with pytest.raises(KafkaError) as caught:
        log.flush()

    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline
    assert manager.offline_directories == []
    assert len(values_of(other)) == 1
    waiting = other.flush_soon()
    world.clock.advance(1)
    assert waiting.result() is None


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_goes_offline_alone_begins_where_it_did(world, clean):
    """The checkpoints that are written while it is offline speak of it, too:
    deleted records do not come back.
    """
    manager = world.started()
    log = fill(manager.get_or_create(TP), 5)
    fill(manager.get_or_create(TopicPartition("other", 0)), 1)
    log.high_watermark = 5
    log.maybe_increment_log_start_offset(3)
    manager.checkpoint_log_start_offsets()
    world.disk.fail(log.active.path, "sync", errno.ENOSPC)
    with pytest.raises(KafkaError):
        log.flush()
    world.disk.heal()
    manager.checkpoint_log_start_offsets()
    manager.checkpoint_high_watermarks()
    if clean:
        manager.shutdown()
    world.disk.release_locks()

    again = world.started().get(TP)

    assert (again.log_start_offset, again.high_watermark) == (3, 5)


def test_a_quota_counts_as_a_full_disk(world):
    manager = world.started()
    log = fill(manager.get_or_create(TP), 1)
    world.disk.fail(log.active.path, "write", errno.EDQUOT)
    with pytest.raises(KafkaError, match="No room"):
        fill(log, 1)
    assert manager.offline_directories == []
