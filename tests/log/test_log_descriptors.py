"""Descriptors run out: what needs one is refused or waits, no disk is broken, and nothing is lost."""

import errno
import random

import pytest
from log_world import NOW_MS, TP, World, batch, fill, values_of

from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.log.descriptors import DescriptorCache
from barnabas.log.flush import InPlaceSyncer
from barnabas.log.producers import AppendOrigin
from barnabas.log.retention import delete_old_segments
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.testing.disk import SimulatedFilesystem


def partition(number):
    return TopicPartition("orders", number)


def warnings_of(caplog):
    return [record.message for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


def test_more_partitions_than_descriptors_are_served(caplog):
    world = World(segment_bytes=500, index_interval_bytes=0, segment_index_bytes=1000)
    manager = world.started()
    world.disk.descriptors = 20
    logs = [manager.get_or_create(partition(number)) for number in range(60)]
    for _ in range(10):
        for log in logs:
            fill(log, 1)
            log.read(0, 100)
            world.clock.advance()

    assert manager.offline_directories == []
    assert [len(values_of(log)) for log in logs] == [10] * 60
    assert world.disk.open_files <= 20
    (line,) = warnings_of(caplog)
    assert line.startswith("descriptors.short")
    world.clock.advance(60_000)
    for log in logs:
        fill(log, 1)
    assert len(warnings_of(caplog)) == 2, "one line a minute"


def test_with_none_at_all_appends_are_refused_until_there_are_some(caplog):
    world = World(segment_bytes=500, index_interval_bytes=150)
    manager = world.started()
    log = fill(manager.get_or_create(TP), 7)
    before = values_of(log)
    world.disk.descriptors = 0
    for _ in range(20):
        with pytest.raises(KafkaError, match="No file descriptor") as caught:
            fill(log, 20)
        assert (caught.value.code, caught.value.retriable) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
    with pytest.raises(KafkaError) as caught:
        log.read(0, 100)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.offline
    assert manager.offline_directories == world.failures == []
    assert len(warnings_of(caplog)) == 1

    world.disk.descriptors = None
    assert values_of(log)[:7] == before
    accepted = log.log_end_offset
    fill(log, 20)
    everything = values_of(log)
    assert [offset for offset, _ in everything] == list(range(accepted + 20))
    manager.shutdown(clean=False)
    assert values_of(world.started().get(TP)) == everything


def test_a_new_partition_is_refused_until_there_are_some():
    world = World()
    manager = world.started()
    world.disk.descriptors = 0
    with pytest.raises(KafkaError, match="No file descriptor is left to create") as caught:
        manager.get_or_create(TP, is_new=True)
    assert (caught.value.code, caught.value.retriable) == (ErrorCode.REPLICA_NOT_AVAILABLE, True)
    assert manager.offline_directories == []
    world.disk.descriptors = None

    assert fill(manager.get_or_create(TP), 3).log_end_offset == 3


def test_maintenance_without_descriptors_is_done_later():
    world = World(segment_bytes=300, retention_ms=1000)
    manager = world.started()
    log = fill(manager.get_or_create(TP), 9)
    fill(manager.get_or_create(partition(1)), 3)
    log.high_watermark = 9
    world.clock.advance(1)
    world.disk.descriptors = 0
    world.clock.advance(2000)
    manager.checkpoint_recovery_points()
    manager.checkpoint_high_watermarks()
    manager.flush_by_time()
    manager.clean_up()
    manager.delete(partition(1))
    world.clock.advance(120_000)
    assert manager.offline_directories == []
    world.disk.descriptors = None

    world.clock.advance(120_000)
    manager.clean_up()
    assert (log.log_start_offset, len(log.segments)) == (9, 1)
    manager.checkpoint_recovery_points()
    assert b"orders 0 9" in world.disk.read("/data/recovery-point-offset-checkpoint")
    assert not [name for name in world.disk.listdir("/data") if name.endswith("-delete")]


def test_a_start_with_too_few_says_what_to_raise():
    world = World()
    manager = world.started()
    fill(manager.get_or_create(TP), 3)
    manager.shutdown()
    manager = world.manager()
    manager.open_directories()
    world.disk.descriptors = 0

    with pytest.raises(ConfigError, match=r"limit of open files is too low .* \(ulimit -n\)"):
        manager.start(broker_id=1, cluster_id="cluster").result()
    world.disk.descriptors = None
    assert manager.offline_directories == []


def test_only_so_many_active_segments_hold_a_descriptor():
    world = World(segment_index_bytes=1000)
    manager = world.started(descriptors=40)
    logs = [manager.get_or_create(partition(number)) for number in range(30)]
    for log in logs * 3:
        fill(log, 1)

    assert world.disk.open_files <= 40 // 4 + 40 // 8
    assert [len(values_of(log)) for log in logs] == [3] * 30
    manager.shutdown()
    assert world.disk.open_files == 0


def test_rolled_segments_that_wait_for_their_sync_hold_no_descriptors():
    """The queue held three for each: one producer of small segments ended a broker at a limit of 1,024."""

    class NeverYet:
        def __init__(self):
            self.queued = []

        def sync(self, files):
            self.queued.append((list(files), Pending()))
            return self.queued[-1][1]

    world = World(segment_bytes=300, index_interval_bytes=0, segment_index_bytes=1000)
    syncer = NeverYet()
    manager = world.started(syncer=syncer, descriptors=160)
    logs = [manager.get_or_create(partition(number)) for number in range(3)]
    for _ in range(100):
        for log in logs:
            fill(log, 1)
            world.clock.advance()
    assert sum(len(log.segments) for log in logs) > 100
    assert world.disk.open_files <= 2 * 3 + 160 // 8, (
        "the active one now, and the one when the sync was asked for"
    )

    while syncer.queued:
        files, answer = syncer.queued.pop()
        InPlaceSyncer().sync(files)
        answer.complete(None)
        assert world.disk.open_files <= 2 * 3 + 160 // 8, (
            "the active one now, and the one when the sync was asked for"
        )
    synced = [log.recovery_point for log in logs]
    assert min(synced) > 90
    everything = [values_of(log) for log in logs]
    manager.checkpoint_recovery_points()
    world.disk.crash()
    manager = world.started()
    assert [values_of(manager.get(log.tp))[:end] for log, end in zip(logs, synced, strict=True)] == [
        values[:end] for values, end in zip(everything, synced, strict=True)
    ]


class Scarce(SimulatedFilesystem):
    """A disk on which opening a file fails now and then."""

    shortages = None

    def take_descriptor(self, path):
        if self.shortages is not None and self.shortages.random() < 0.5:
            raise OSError(errno.EMFILE, "Too many open files", path)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_refused_for_it_leaves_everything_as_it_was(seed):
    """Rolls, index entries, epochs, snapshots, aborted transactions, retention, at any opening of a file."""
    disk = Scarce()
    world = World(disk, segment_bytes=600, index_interval_bytes=100, segment_index_bytes=100)
    manager = world.started()
    log = manager.get_or_create(TP)
    rng = disk.shortages = random.Random(seed)
    expected, epochs, aborted, in_transaction = [], [], [], None
    sequence, epoch, refusals = 0, 0, set()
    for number in range(200):
        world.clock.advance()
        epoch += rng.random() < 0.05
        transactional = in_transaction is not None or rng.random() < 0.3
        records = batch(
            1 + number % 3,
            timestamp=NOW_MS + number,
            size=number % 50,
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=transactional,
        )
        try:
            if in_transaction is not None and rng.random() < 0.4:
                marker = build_marker(
                    EndTransactionMarker(ControlType.ABORT, 0),
                    timestamp=NOW_MS,
                    producer_id=7,
                    producer_epoch=0,
                )
                info = log.append(bytearray(marker), epoch, NOW_MS, origin=AppendOrigin.COORDINATOR)
                aborted.append((in_transaction, info.last_offset))
                in_transaction = None
            else:
                info = log.append(records, epoch, NOW_MS)
                sequence += 1 + number % 3
                if transactional and in_transaction is None:
                    in_transaction = info.first_offset
            expected += range(info.first_offset, info.last_offset + 1)
            epochs += [epoch] * (info.last_offset + 1 - info.first_offset)
        except KafkaError as error:
            refusals.add(error.code)
        if number == 150:
            log.high_watermark = log.log_end_offset
            log.config = world.config.__class__(
                retention_bytes=3000, segment_bytes=600, segment_index_bytes=100
            )
            try:
                delete_old_segments(log, NOW_MS)
            except KafkaError as error:
                refusals.add(error.code)
        assert not log.offline
        assert log.log_end_offset == len(expected)
    assert manager.offline_directories == []
    assert refusals == {ErrorCode.KAFKA_STORAGE_ERROR}
    start = log.log_start_offset
    for clean in (None, True, False):
        disk.shortages = None
        if clean is not None:
            manager.checkpoint_log_start_offsets()
            manager.shutdown(clean=clean)
            manager = world.started()
            log = manager.get(TP)
        assert [offset for offset, _ in values_of(log)] == expected[start:]
        found = [(txn.first_offset, txn.last_offset) for txn in log.aborted_transactions(start, 1 << 40)]
        assert found == [txn for txn in aborted if txn[1] >= log.segments[0].base_offset]
        assert (log.producers.ongoing.get(7) is None) == (in_transaction is None)
        begun = log.leader_epochs.entries
        found = [max(one.epoch for one in begun if one.start_offset <= offset) for offset in expected[start:]]
        assert found == epochs[start:]


def test_the_active_segment_that_opened_first_rests_first():
    disk = SimulatedFilesystem()
    disk.mkdir("/d")
    cache = DescriptorCache(disk, active_limit=2)
    rested = []

    class Segment:
        def rest(self):
            rested.append(self)
            cache.let_go(self)

    one, two, three = Segment(), Segment(), Segment()
    for segment in (one, two, three):
        cache.hold(segment)
    assert rested == [one]
    cache.clear()
    assert rested == [one, two, three]
