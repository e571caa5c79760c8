"""The batches beside a producer snapshot:
written with it, gone with it, and worth nothing beside another one.
"""

import pytest
from log_world import NOW_MS, TP, World, batch
from test_log_producers import end, send

from barnabas.log.names import directory_name
from barnabas.log.producer_batches import BATCH, decode_batches, encode_batches
from barnabas.log.producer_snapshot import SnapshotEntry, SnapshotError, encode_snapshot
from barnabas.log.retention import delete_old_segments
from barnabas.records.control import ControlType

FOLDER = f"/data/{directory_name(TP)}"


def sent(log, batches=7, *, producer_id=7, others=3, **options):
    """So many batches of a producer, with those of others in between; its last five as (sequence, offset)."""
    found = []
    for sequence in range(batches):
        found.append((sequence, send(log, sequence, producer_id=producer_id, **options).first_offset))
        for other in range(others):
            log.append(batch(producer_id=100 + other, producer_epoch=0, base_sequence=sequence), 0, NOW_MS)
    return found[-5:]


def assert_known(log, batches, **options):
    """Sent again in any order, each is answered with its old offset."""
    end_offset = log.log_end_offset
    for sequence, offset in reversed(batches):
        info = send(log, sequence, **options)
        assert (info.duplicate, info.first_offset) == (True, offset)
    assert log.log_end_offset == end_offset


def names(world, suffix):
    return [name for name in world.disk.listdir(FOLDER) if name.endswith(suffix)]


def snapshot_as_kafka_writes_it(world, offset, last, **changes):
    """What a JVM broker leaves for this producer."""
    sequence, last_offset = last
    entry = SnapshotEntry(7, 0, sequence, last_offset, 0, NOW_MS, -1, -1)._replace(**changes)
    world.disk.write_atomic(f"{FOLDER}/{offset:020d}.snapshot", encode_snapshot([entry]))


@pytest.mark.parametrize("segment_bytes", [300, 1 << 20])
@pytest.mark.parametrize("how", ["clean", "kill", "truncation"])
def test_five_batches_are_known_after_every_start(how, segment_bytes):
    world = World(segment_bytes=segment_bytes)
    manager = world.started()
    log = manager.get_or_create(TP)
    last = sent(log)
    if how == "truncation":
        log.roll(NOW_MS)
        send(log, 7)
        log.truncate_to(log.log_end_offset - 1)
    else:
        manager.shutdown(clean=how == "clean")
        log = world.started().get(TP)

    assert_known(log, last)


def test_a_follower_knows_them_too_and_after_its_start(world):
    leader, manager = world.log(TP._replace(partition=1)), world.started()
    last = sent(leader)
    follower = manager.get_or_create(TP)
    follower.append_as_follower(leader.read(0, 1 << 20).records.read())
    assert_known(follower, last)
    manager.shutdown()

    assert_known(world.started().get(TP), last)


def test_an_epoch_that_a_marker_has_begun_has_no_batches_of_the_one_before(world):
    log = world.log()
    sent(log, transactional=True)
    end(log, ControlType.ABORT, epoch=1)
    log.close()
    log = world.reload()

    assert log.producers.producers[7].batches == []
    assert not send(log, 0, epoch=1).duplicate


class TestTheStartOfALog:
    def test_producers_are_known_whose_records_have_all_been_deleted(self):
        world = World()
        manager = world.started()
        log = manager.get_or_create(TP)
        last = sent(log)
        log.high_watermark = log.log_end_offset
        log.maybe_increment_log_start_offset(log.log_end_offset)
        for clean in (True, False):
            manager.checkpoint_log_start_offsets()
            manager.shutdown(clean=clean)
            manager = world.started()
            log = manager.get(TP)

            assert log.log_start_offset == log.log_end_offset
            assert_known(log, last)

    def test_producers_are_known_whose_segments_are_gone(self):
        world = World(segment_bytes=300, retention_ms=0)
        manager = world.started()
        log = manager.get_or_create(TP)
        last = sent(log)
        log.high_watermark = log.log_end_offset
        delete_old_segments(log, NOW_MS + 1)
        assert log.size == 0
        for clean in (True, False):
            manager.shutdown(clean=clean)
            manager = world.started()
            log = manager.get(TP)
            assert_known(log, last)

    def test_a_transaction_below_it_is_not_open_and_one_that_ends_behind_it_is_aborted(self):
        """Recovery took in what lies behind the start only, and so found markers without their
        transaction.
        """
        world = World()
        manager = world.started()
        log = manager.get_or_create(TP)
        send(log, 0, 5, producer_id=1, transactional=True)  # 0-4
        send(log, 0, 5, producer_id=2, transactional=True)  # 5-9
        end(log, ControlType.ABORT, producer_id=2)  # 10
        log.high_watermark = log.log_end_offset
        log.maybe_increment_log_start_offset(7)
        before = log.aborted_transactions(7, 99)
        manager.checkpoint_log_start_offsets()
        manager.shutdown(clean=False)
        log = world.started().get(TP)

        assert log.producers.ongoing == {}
        assert log.aborted_transactions(7, 99) == before
        assert [txn.first_offset for txn in before] == [5]


def test_a_log_that_moves_takes_what_it_knows_along():
    world = World()
    world.disk.mkdir("/other")
    manager = world.started(["/data", "/other"])
    log = manager.get_or_create(TP)
    last = sent(log)
    log.high_watermark = log.log_end_offset
    log.maybe_increment_log_start_offset(log.log_end_offset)
    future = manager.futures.create(TP, "/other", None)
    future.truncate_fully_and_start_at(log.log_start_offset)
    manager.futures.replace_current(log, future)
    assert_known(log, last)
    manager.shutdown()
    log = world.started(["/data", "/other"]).get(TP)

    assert log.directory == f"/other/{directory_name(TP)}"
    assert_known(log, last)


class TestTheFile:
    def test_it_comes_and_goes_with_its_snapshot(self):
        world = World(segment_bytes=300)
        log = world.log()
        sent(log)
        assert len(names(world, ".batches")) > 3
        log.high_watermark = log.log_end_offset
        log.config = world.config.__class__(retention_bytes=600, segment_bytes=300)
        delete_old_segments(log, NOW_MS)
        kept = [name.removesuffix(".snapshot") for name in names(world, ".snapshot")]
        assert [name.removesuffix(".batches") for name in names(world, ".batches")] == kept
        log.truncate_fully_and_start_at(99)

        assert names(world, ".snapshot") == names(world, ".batches") == []

    def test_a_partition_without_producers_has_none(self, world):
        log = world.log()
        log.append(batch(), 0, NOW_MS)
        log.close()

        assert names(world, ".batches") == []
        assert len(names(world, ".snapshot")) == 1

    def test_one_without_a_snapshot_is_removed(self, world):
        log = world.log()
        last = sent(log)
        log.close()
        stray = f"{FOLDER}/{3:020d}.batches"
        world.disk.write_atomic(stray, encode_batches([], 0))
        log = world.reload()

        assert not world.disk.exists(stray)
        assert_known(log, last)

    def test_beside_a_snapshot_that_a_jvm_broker_wrote_again_it_says_nothing(self, caplog, world):
        log = world.log()
        last = sent(log, others=0)
        log.close()
        # Of another producer state, by which the old file would make batches known that are none.
        snapshot_as_kafka_writes_it(world, log.log_end_offset, last[-1], producer_epoch=1)
        log = world.reload()

        assert [each.last_sequence for each in log.producers.producers[7].batches] == [6]
        assert "batches_unreadable" not in caplog.text

    @pytest.mark.parametrize("how", ["cut", "missing"])
    def test_without_it_the_end_of_the_log_says_what_it_can(self, how, caplog):
        world = World(segment_bytes=300)
        log = world.log()
        last = sent(log)
        log.close()
        path = f"{FOLDER}/{log.log_end_offset:020d}.batches"
        if how == "cut":
            world.disk.write_atomic(path, world.disk.read(path)[:-1])
        else:
            world.disk.remove(path)
        log = world.reload()
        assert_known(log, last)
        assert ("batches_unreadable" in caplog.text) == (how == "cut")
        log.close()

        assert world.disk.exists(path), "a clean stop makes it again"
        caplog.clear()
        assert_known(world.reload(), last)
        assert "batches_unreadable" not in caplog.text

    def test_what_lies_behind_the_snapshot_in_the_same_segment_does_not_count_for_it(self, world):
        """A truncation goes back to a snapshot that lies in the middle of a segment."""
        log = world.log()
        sent(log, others=0)
        log.close()
        end_offset = log.log_end_offset
        world.disk.remove(f"{FOLDER}/{end_offset:020d}.batches")
        log = world.reload()
        before = [each.last_sequence for each in log.producers.producers[7].batches]
        for number in (1, 2):
            log.append(batch(producer_id=7, producer_epoch=0, base_sequence=before[-1] + number), 0, NOW_MS)
        log.truncate_to(end_offset + 1)

        known = [each.last_sequence for each in log.producers.producers[7].batches]
        assert known == [*before, before[-1] + 1][-5:]

    def test_a_segment_that_begins_at_the_snapshot_counts_as_little(self):
        """As after a kill: the newest snapshot was taken when the log rolled."""
        world = World()
        log = world.log()
        last = sent(log, others=0)
        log.roll(NOW_MS)
        end_offset = log.log_end_offset
        for _ in range(11):
            log.append(batch(size=200_000), 0, NOW_MS)
        world.disk.remove(f"{FOLDER}/{end_offset:020d}.batches")

        assert_known(world.reload(), last)

    def test_only_so_much_of_the_log_is_read_for_it(self):
        world = World()
        log = world.log()
        last = sent(log, others=0)
        for _ in range(9):
            log.append(batch(size=200_000), 0, NOW_MS)
        log.close()
        world.disk.remove(f"{FOLDER}/{log.log_end_offset:020d}.batches")
        log = world.reload()

        assert [each.last_sequence for each in log.producers.producers[7].batches] == [last[-1][0]]


def test_its_bytes():
    packed = [BATCH.pack(1, 2, 0, NOW_MS), b"", BATCH.pack(3, 5, 1, NOW_MS) + BATCH.pack(4, 6, 0, NOW_MS)]
    data = encode_batches(packed, 0xFEDCBA98)

    assert data.hex() == "00011eed3c34fedcba9800000003010002" + "".join(
        f"{sequence:08x}{offset:016x}{delta:08x}{NOW_MS:016x}"
        for sequence, offset, delta in ((1, 2, 0), (3, 5, 1), (4, 6, 0))
    )
    assert decode_batches(data) == (0xFEDCBA98, packed)


@pytest.mark.parametrize("damaged", [b"", b"\0\1", b"\0\2" + bytes(20), b"\0\1" + bytes(12)])
def test_damaged_files(damaged):
    with pytest.raises(SnapshotError):
        decode_batches(damaged)


def test_a_file_that_is_cut_anywhere():
    whole = encode_batches([BATCH.pack(1, 2, 0, NOW_MS)], 0)
    for cut in range(len(whole)):
        with pytest.raises(SnapshotError):
            decode_batches(whole[:cut])
