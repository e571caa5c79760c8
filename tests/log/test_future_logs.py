"""A log that moves to another directory, and a process that dies, or a power cut, at any step of it."""

import pytest
from log_world import TP, World
from mortal_disk import DiedError, MortalDisk

from barnabas.core.errors import KafkaError
from barnabas.log.future_logs import finish_moves
from barnabas.log.log import Log
from barnabas.records.batch import batch_headers, build_batch, decode_batch
from barnabas.records.record import Record

DIRECTORIES = ["/data", "/other"]
RECORDS = 12


def new_world():
    world = World(MortalDisk(now_ms=lambda: 1_700_000_000_000), segment_bytes=400, segment_index_bytes=4096)
    world.disk.mkdir("/other")
    manager = world.started(DIRECTORIES)
    log = manager.get_or_create(TP, b"1" * 16)
    for number in range(RECORDS):
        put(log, number, epoch=number // 5)
    log.leader_epochs.assign(7, RECORDS)  # a leader that has not written yet
    log.high_watermark = RECORDS
    log.maybe_increment_log_start_offset(3)
    log.first_dirty_offset = 5
    log.flush()
    manager.checkpoint_recovery_points()
    manager.checkpoint_high_watermarks()
    manager.checkpoint_log_start_offsets()
    manager.cleanings.checkpoint(log)
    return world, manager


def put(log: Log, number, epoch):
    batch = build_batch(
        [Record(0, 1_700_000_000_000, b"k", b"%d" % number)],
        producer_id=5,
        producer_epoch=0,
        base_sequence=number,
    )
    return log.append(bytearray(batch), epoch, 1_700_000_000_000)


def values(log: Log):
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).records.read()
        headers = list(batch_headers(data))
        found += [
            (record.offset, record.value)
            for header in headers
            for record in decode_batch(data, header.position)
        ]
        offset = headers[-1].next_offset
    return found


def copy(log: Log, future: Log):
    """Everything that the future log lacks."""
    if future.log_end_offset < log.log_start_offset:
        future.truncate_fully_and_start_at(log.log_start_offset)
    while future.log_end_offset < log.log_end_offset:
        future.append_as_follower(log.read(future.log_end_offset, 1 << 20).records.read(), 1_700_000_000_000)


def move(manager):
    log = manager.get(TP)
    future = manager.futures.get(TP) or manager.create_future(TP, "/other")
    copy(log, future)
    manager.futures.replace_current(log, future)


def directories_of(world):
    """Where the partition is, under the name of a log that serves."""
    return [d for d in DIRECTORIES if str(TP) in world.disk.listdir(d)]


def test_a_moved_log_is_the_same_log():
    world, manager = new_world()
    log = manager.get(TP)
    before, epochs = values(log), log.leader_epochs.entries
    move(manager)

    assert (manager.get(TP), log.directory) == (log, "/other/orders-0")
    assert directories_of(world) == ["/other"]
    # As in Kafka, epoch 7 comes back with its first record.
    assert (values(log), log.leader_epochs.entries) == (before, epochs[:-1])
    assert (log.log_start_offset, log.high_watermark, log.recovery_point) == (3, RECORDS, RECORDS)
    assert log.first_dirty_offset == 5
    assert put(log, RECORDS - 1, 7).duplicate, "producers are remembered"
    assert put(log, RECORDS, 7).first_offset == RECORDS
    manager.shutdown()
    again = world.started(DIRECTORIES).get(TP)
    assert (again.directory, len(values(again)), again.topic_id) == (
        "/other/orders-0",
        len(before) + 1,
        b"1" * 16,
    )


def test_the_checkpoints_of_both_directories_say_where_the_partition_is():
    """Another start, or a JVM broker, would go by those of a partition that has left."""
    world, manager = new_world()
    move(manager)

    files = {
        "recovery-point-offset-checkpoint": RECORDS,
        "replication-offset-checkpoint": RECORDS,
        "cleaner-offset-checkpoint": 5,
    }
    for name, offset in files.items():
        assert world.disk.read(f"/data/{name}") == b"0\n0\n", name
        assert world.disk.read(f"/other/{name}") == b"0\n1\norders 0 %d\n" % offset, name
    # The name of its first segment says where the copy starts.
    assert world.disk.read("/data/log-start-offset-checkpoint") == b"0\n0\n"


def steps_of_a_move():
    world, manager = new_world()
    world.disk.changes_left = 10_000
    move(manager)
    return 10_000 - world.disk.changes_left


@pytest.mark.parametrize("loses_power", [False, True])
def test_whatever_step_is_the_last_the_partition_is_whole_and_in_one_directory(loses_power):
    moved, steps = set(), steps_of_a_move()
    assert steps > 20
    for step in range(steps):
        world, manager = new_world()
        before, epochs = values(manager.get(TP)), manager.get(TP).leader_epochs.entries
        world.disk.changes_left = step
        with pytest.raises(DiedError):
            move(manager)
        world.disk.changes_left = None
        if loses_power:
            world.disk.crash()
        else:
            world.disk.release_locks()
        manager = world.started(DIRECTORIES)
        log = manager.get(TP)

        assert len(directories_of(world)) == 1, step
        assert (values(log), log.log_start_offset) == (before, 3), step
        assert log.first_dirty_offset == 5, f"what was cleaned is cleaned once more after step {step}"
        moved.add(log.directory)
        # What is in the future log is gone on with, or begun again.
        if log.directory == "/data/orders-0":
            log.high_watermark = RECORDS
            manager.futures.forget_move(log)
            move(manager)
        assert (values(log), directories_of(world)) == (before, ["/other"]), step
        assert put(log, RECORDS, 7).first_offset == RECORDS
        assert [entry for entry in log.leader_epochs.entries if entry.epoch < 7] == [
            entry for entry in epochs if entry.epoch < 7
        ], step
    assert moved == {"/data/orders-0", "/other/orders-0"}


def test_a_move_whose_target_fails_leaves_the_log_where_it_was():
    world, manager = new_world()
    log = manager.get(TP)
    future = manager.create_future(TP, "/other")
    copy(log, future)
    world.disk.fail("/other", "sync")
    with pytest.raises(KafkaError, match="Cannot move"):
        manager.futures.replace_current(log, future)

    assert (log.directory, log.offline) == ("/data/orders-0", False)
    assert "moved-to" not in world.disk.listdir("/data/orders-0")
    assert put(log, RECORDS, 7).first_offset == RECORDS
    assert manager.futures.get(TP) is None


def test_a_log_that_somebody_moved_to_where_it_was_to_go_is_not_copied_on():
    """It would take the place of itself, which the disk refuses:
    the directory went offline, and the broker with it.
    """
    world, manager = new_world()
    future = manager.create_future(TP, "/other")
    copy(manager.get(TP), future)
    manager.shutdown()
    world.disk.rename(f"/data/{TP}", f"/other/{TP}")
    manager = world.started(DIRECTORIES)

    assert values(manager.get(TP))[-1] == (RECORDS - 1, b"%d" % (RECORDS - 1))
    assert not manager.futures.logs
    assert manager.offline_directories == []


def test_a_future_log_is_found_by_the_next_start_and_goes_with_its_topic():
    world, manager = new_world()
    copy(manager.get(TP), manager.create_future(TP, "/other"))
    manager.shutdown()
    manager = world.started(DIRECTORIES)
    future = manager.futures.get(TP)

    assert (manager.get(TP).directory, future.log_end_offset) == ("/data/orders-0", RECORDS)
    manager.delete(TP)
    assert manager.futures.get(TP) is None
    assert not [
        n
        for d in DIRECTORIES
        for n in world.disk.listdir(d)
        if n.startswith("orders") and not n.endswith("-delete")
    ]


def test_a_directory_is_not_taken_away_for_one_that_is_not_there():
    """By hand, say: two directories have the partition, and one of them says that it moved to a third."""
    world, manager = new_world()
    manager.shutdown()
    world.disk.mkdir("/third")
    world.disk.mkdir(f"/other/{TP}")
    world.disk.write_atomic(f"/data/{TP}/moved-to", f"/third/{TP}".encode())

    finish_moves(world.disk, ["/data", "/other", "/third"], world.clock)
    assert directories_of(world) == DIRECTORIES
