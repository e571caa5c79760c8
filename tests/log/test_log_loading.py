"""Many logs are loaded and recovered: several at a time, and the log of events says how far it is."""

import pytest
from log_world import World, fill

from barnabas.core.errors import ConfigError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending

COUNT = 7


class LaterOffload:
    """Work that is done when a test says so, as if by other processes."""

    def __init__(self):
        self.running = []

    def run(self, function, /, *args, **kwargs):
        outcome = Pending()
        self.running.append((outcome, function, args, kwargs))
        return outcome

    def finish(self, place=0):
        outcome, function, args, kwargs = self.running.pop(place)
        outcome.complete(function(*args, **kwargs))


@pytest.fixture
def world(monkeypatch):
    """Two directories with logs that an unclean stop left."""
    monkeypatch.setattr("barnabas.log.loading.IN_PLACE_SCAN_BYTES", 100)
    world = World(segment_bytes=500)
    manager = world.started(["/data/a", "/data/b"])
    for number in range(2 * COUNT):
        fill(manager.get_or_create(TopicPartition("t", number)), 10)
    manager.shutdown(clean=False)
    return world


def starting(world, threads):
    """A manager that starts, its recoveries, and what its start comes to."""
    offload = LaterOffload()
    manager = world.manager(["/data/a", "/data/b"], offload=offload, recovery_threads=threads)
    return manager, offload, manager.start(broker_id=1, cluster_id="cluster")


def directories(offload):
    return sorted(args[1].split("/")[2] for _, _, args, _ in offload.running)


def test_each_directory_recovers_as_many_logs_at_a_time_as_it_may(world):
    manager, offload, start = starting(world, 3)
    assert directories(offload) == ["a"] * 3 + ["b"] * 3

    offload.finish(4)
    assert directories(offload) == ["a"] * 3 + ["b"] * 3
    while offload.running:
        assert not start.done
        offload.finish()

    assert start.result() is None
    assert [log.log_end_offset for log in manager] == [10] * 2 * COUNT


def test_one_at_a_time_is_the_default(world):
    _, offload, _ = starting(world, 1)
    assert directories(offload) == ["a", "b"]


def test_how_far_it_is_is_said_about_once_a_second(world, caplog):
    caplog.set_level("INFO")
    _, offload, _ = starting(world, 1)
    while offload.running:
        world.clock.advance(300)
        offload.finish()
    lines = [record.message for record in caplog.records if record.message.startswith("logs.")]

    assert lines[:2] == [f"logs.loading path=/data/{name} logs=7 clean=False" for name in "ab"]
    assert [line for line in lines if line.startswith("logs.left path=/data/a")] == [
        "logs.left path=/data/a left=4 of=7",
        "logs.left path=/data/a left=2 of=7",
    ]
    ends = [line.rpartition(" ")[0] for line in lines if line.startswith("logs.loaded")]
    assert ends == [f"logs.loaded path=/data/{name} logs=7" for name in "ab"]


def test_what_is_recovered_counts_although_others_are_still_at_it(world, monkeypatch):
    monkeypatch.setattr("barnabas.log.start.CHECKPOINT_AFTER_BYTES", 1)
    _, offload, _ = starting(world, 3)
    offload.finish(1)  # the second log of the first directory

    written = world.disk.read("/data/a/recovery-point-offset-checkpoint").splitlines()
    assert written[0] == b"0"
    assert len(written) == 3
    assert written[2].endswith(b" 10")


def test_a_start_that_fails_begins_with_no_further_log(world):
    manager = world.manager(["/data/a", "/data/b"], recovery_threads=2)
    manager._offload = offload = LaterOffload()
    world.disk.mkdir("/data/b/t-0")  # also in the other directory
    start = manager.start(broker_id=1, cluster_id="cluster")
    while offload.running:
        offload.finish()

    with pytest.raises(ConfigError, match="Duplicate log directories for t-0"):
        start.result()


def test_a_disk_that_fails_while_others_are_recovered_goes_offline(world):
    manager, offload, start = starting(world, 2)
    (place,) = [place for place, each in enumerate(offload.running) if each[2][1].startswith("/data/b")][:1]
    outcome, *_ = offload.running.pop(place)
    outcome.fail(OSError(5, "Input/output error"))
    while offload.running:
        offload.finish()

    assert start.result() is None
    assert manager.offline_directories == ["/data/b"]
    assert len(manager.logs) == COUNT


@pytest.mark.parametrize("clean", [True, False])
def test_partitions_in_which_nothing_happens_cost_a_start_and_a_stop_no_sync(clean):
    world = World()
    manager = world.started()
    for number in range(2 * COUNT):
        log = manager.get_or_create(TopicPartition("t", number))
        log.leader_epochs.assign(0, 0)
        if number % 2:
            fill(log, 3)
            log.flush()
    manager.checkpoint_recovery_points()
    manager.shutdown(clean=clean)
    manager = world.started()
    manager.shutdown()

    manager, before = world.started(), world.disk.syncs
    for log in manager:
        if not log.log_end_offset:
            log.leader_epochs.assign(1, 0)
    manager.shutdown()
    checkpoints_and_marker = 4
    assert world.disk.syncs - before <= checkpoints_and_marker
    assert [log.log_end_offset for log in world.started()] == [0, 3] * COUNT


def test_what_was_appended_before_a_kill_and_not_synced_is_synced_by_the_start():
    world = World()
    manager = world.started()
    log = fill(manager.get_or_create(TopicPartition("t", 0)), 3)
    log.flush()
    manager.checkpoint_recovery_points()
    fill(log, 3)
    manager.shutdown(clean=False)
    world.started()
    world.disk.crash()

    assert world.started().get(log.tp).log_end_offset == 6


def test_a_log_that_has_lost_everything_vouches_for_nothing_that_comes_later():
    """A recovery point beyond its end would have later records taken for synced after the next kill."""
    world = World()
    manager = world.started()
    log = fill(manager.get_or_create(TopicPartition("t", 0)), 10)
    log.flush()
    manager.checkpoint_recovery_points()
    manager.shutdown(clean=False)
    world.disk.open(log.active.path).truncate(0)
    points = "/data/recovery-point-offset-checkpoint"
    assert world.disk.read(points) == b"0\n1\nt 0 10\n"

    assert world.started().get(log.tp).log_end_offset == 0
    assert world.disk.read(points) == b"0\n1\nt 0 0\n"
