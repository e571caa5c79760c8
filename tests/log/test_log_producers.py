"""Idempotence and transactions (ProducerStateManager's answers)."""

import pytest
from log_world import NOW_MS, TP, World, batch

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.log.producer_snapshot import SnapshotError, decode_snapshot, encode_snapshot
from barnabas.log.producers import AppendOrigin
from barnabas.records.batch import SEQUENCE_MAX
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.testing.disk import SimulatedFilesystem


def send(log, sequence, count=1, *, producer_id=7, epoch=0, transactional=False):
    """Appends as an idempotent producer does."""
    records = batch(
        count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return log.append(records, 0, NOW_MS)


def end(log, kind, *, producer_id=7, epoch=0, coordinator_epoch=0):
    """Appends a marker as the transaction coordinator does."""
    marker = build_marker(
        EndTransactionMarker(kind, coordinator_epoch),
        timestamp=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return log.append(bytearray(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)


def code_of(call, *args, **options):
    with pytest.raises(KafkaError) as caught:
        call(*args, **options)
    return caught.value.code


def test_the_last_five_batches_are_answered_again(world):
    log = world.log()
    first = [send(log, 10 * number, 10) for number in range(6)]
    end_offset = log.log_end_offset

    for number in range(1, 6):
        again = send(log, 10 * number, 10)
        assert again.duplicate
        assert again.first_offset == first[number].first_offset
        assert again.last_offset == first[number].last_offset
    assert log.log_end_offset == end_offset
    assert code_of(send, log, 0, 10) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_gaps_and_overlaps_are_out_of_order(world):
    log = world.log()
    send(log, 0, 5)

    # The last three end or begin where the batch does that is there, and are another one all the same.
    for sequence, count in ((6, 1), (4, 5), (SEQUENCE_MAX, 1), (0, 4), (0, 6), (3, 2)):
        assert code_of(send, log, sequence, count) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 5)


def test_an_unknown_producer_may_start_anywhere(world):
    log = world.log()
    send(log, 100, producer_id=1)
    assert code_of(send, log, 102, producer_id=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap(world):
    log = world.log()
    send(log, SEQUENCE_MAX - 1, 2)
    send(log, 0)
    send(log, 1, 3)
    wrapped = world.log(TP._replace(partition=1))
    send(wrapped, SEQUENCE_MAX, 3)
    send(wrapped, 2)

    assert send(wrapped, SEQUENCE_MAX, 3).duplicate


def test_epochs_fence(world):
    log = world.log()
    send(log, 0, epoch=3)

    assert code_of(send, log, 1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code_of(send, log, 1, epoch=4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 0, epoch=4)
    assert code_of(send, log, 1, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not send(log, 1, epoch=4).duplicate


def test_replicas_take_what_the_leader_took(world):
    leader = world.log()
    send(leader, 0, epoch=1)
    data = leader.read(0, 1000).records.read()
    follower = world.log(TP._replace(partition=1))
    send(follower, 0, epoch=9, producer_id=7)
    follower.truncate_to(0)
    follower.append_as_follower(data)

    assert follower.producers.producers[7].epoch == 1


class TestTransactions:
    def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(self, world):
        log = world.log()
        send(log, 0, 2, producer_id=1)
        send(log, 0, 2, producer_id=2, transactional=True)
        send(log, 0, 2, producer_id=3, transactional=True)
        log.high_watermark = log.log_end_offset
        assert log.last_stable_offset == 2
        end(log, ControlType.COMMIT, producer_id=2)
        assert log.last_stable_offset == 2, "the marker is not below the high watermark yet"
        log.high_watermark = log.log_end_offset
        assert log.last_stable_offset == 4
        end(log, ControlType.ABORT, producer_id=3)
        log.high_watermark = log.log_end_offset
        assert log.last_stable_offset == log.high_watermark == 8

    def test_a_marker_at_the_high_watermark_is_not_settled_yet(self, world):
        log = world.log()
        send(log, 0, 2, producer_id=1)  # 0-1
        send(log, 0, 2, producer_id=2, transactional=True)  # 2-3
        end(log, ControlType.COMMIT, producer_id=2)  # 4
        send(log, 2, 2, producer_id=1)  # 5-6
        for high_watermark, last_stable_offset in ((3, 2), (4, 2), (5, 5), (7, 7)):
            log.high_watermark = high_watermark
            assert log.last_stable_offset == last_stable_offset

    def test_the_high_watermark_bounds_the_last_stable_offset(self, world):
        log = world.log()
        send(log, 0, 5)
        send(log, 0, 5, producer_id=8, transactional=True)
        log.high_watermark = 3

        assert log.last_stable_offset == 3

    def test_aborted_transactions_are_found_where_they_overlap(self, world):
        log = world.log()
        send(log, 0, 5, transactional=True)  # 0-4
        end(log, ControlType.ABORT)  # 5
        send(log, 5, 5, transactional=True)  # 6-10
        end(log, ControlType.COMMIT)  # 11
        send(log, 10, 5, transactional=True)  # 12-16
        end(log, ControlType.ABORT)  # 17

        def found(start, upper):
            return [(txn.first_offset, txn.last_offset) for txn in log.aborted_transactions(start, upper)]

        assert found(0, 18) == [(0, 5), (12, 17)]
        assert found(6, 18) == [(12, 17)]
        assert found(0, 12) == [(0, 5)]
        assert found(6, 12) == []
        assert found(6, 13) == [(12, 17)]
        assert [txn.last_stable_offset for txn in log.aborted_transactions(0, 18)] == [6, 18]

    def test_interleaved_transactions_note_how_far_readers_may_go(self, world):
        log = world.log()
        send(log, 0, 2, producer_id=1, transactional=True)  # 0-1
        send(log, 0, 2, producer_id=2, transactional=True)  # 2-3
        end(log, ControlType.ABORT, producer_id=2)  # 4
        end(log, ControlType.ABORT, producer_id=1)  # 5

        assert [tuple(txn) for txn in log.aborted_transactions(0, 6)] == [(2, 2, 4, 0), (1, 0, 5, 6)]

    def test_a_marker_without_a_transaction_aborts_nothing(self, world):
        log = world.log()
        end(log, ControlType.ABORT)

        assert log.aborted_transactions(0, 10) == []
        assert not world.disk.exists("/data/orders-0/00000000000000000000.txnindex")

    def test_fenced_coordinators_and_producers(self, world):
        log = world.log()
        send(log, 0, epoch=5, transactional=True)
        end(log, ControlType.COMMIT, epoch=5, coordinator_epoch=3)

        fenced = code_of(end, log, ControlType.COMMIT, epoch=5, coordinator_epoch=2)
        assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert (
            code_of(end, log, ControlType.COMMIT, epoch=4, coordinator_epoch=3)
            is ErrorCode.INVALID_PRODUCER_EPOCH
        )

    def test_plain_writes_inside_a_transaction_are_refused(self, world):
        log = world.log()
        send(log, 0, transactional=True)

        assert code_of(send, log, 1) is ErrorCode.INVALID_TXN_STATE


class TestSurvival:
    @pytest.mark.parametrize("clean", [True, False])
    def test_state_survives_a_restart(self, clean):
        world = World(segment_bytes=600)
        manager = world.started()
        log = manager.get_or_create(TP)
        for sequence in range(12):
            send(log, sequence, producer_id=1)
            send(log, sequence, producer_id=2, transactional=True)
            if sequence % 4 == 3:
                end(log, ControlType.ABORT, producer_id=2)
        send(log, 12, producer_id=2, transactional=True)
        assert len(log.segments) > 3
        expected = (log.producers.snapshot(), dict(log.producers.ongoing), log.aborted_transactions(0, 999))
        manager.shutdown(clean=clean)
        log = world.started().get(TP)

        assert (
            sorted(log.producers.snapshot()),
            log.producers.ongoing,
            log.aborted_transactions(0, 999),
        ) == (sorted(expected[0]), *expected[1:])
        assert send(log, 11, producer_id=1).duplicate
        assert code_of(send, log, 13, producer_id=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_batches_of_an_older_epoch_are_no_duplicates_of_the_next_one(self, world):
        """As one it would be acknowledged and not stored. A start has read them without looking into them."""
        log = world.log()
        for sequence in range(5):
            send(log, sequence)
        log.close()
        log = world.reload()

        assert [send(log, sequence, epoch=1).duplicate for sequence in range(5)] == [False] * 5
        assert log.log_end_offset == 10
        assert send(log, 4, epoch=1).first_offset == 9

    @pytest.mark.parametrize("seed", range(8))
    def test_a_clean_stop_keeps_producers_through_a_loss_of_power(self, seed):
        world = World(SimulatedFilesystem(seed=seed))
        manager = world.started()
        manager.get_or_create(TP).append(batch(), 0, NOW_MS)
        manager.shutdown()
        manager = world.started()
        log = manager.get(TP)
        for sequence in range(3):
            send(log, sequence)
        manager.shutdown()
        world.disk.crash()
        log = world.started().get(TP)

        assert log.snapshots.offsets[-1] == 4, "the start has read it, and no batches instead"
        assert [send(log, sequence).duplicate for sequence in range(4)] == [True, True, True, False]

    def test_a_log_whose_snapshots_went_with_its_records_is_closed_like_any(self, world):
        log = world.log()
        send(log, 0)
        log.roll(NOW_MS)
        log.truncate_to(0)
        log.close()

        assert (world.reload().log_end_offset, world.failures) == (0, [])

    def test_a_lost_or_damaged_snapshot_is_replayed_from_the_log(self):
        world = World(segment_bytes=600)
        log = world.log()
        for sequence in range(20):
            send(log, sequence)
        log.close()
        path = f"/data/orders-0/{log.log_end_offset:020d}.snapshot"
        world.disk.write_atomic(path, world.disk.read(path)[:-1])
        log = world.reload()

        assert not world.disk.exists(path)
        assert log.producers.producers[7].last_sequence == 19

    def test_truncation_takes_state_back(self, world):
        log = world.log()
        send(log, 0, 5)
        send(log, 5, 5, transactional=True)
        log.truncate_to(5)

        assert log.producers.ongoing == {}
        assert not send(log, 5, 3).duplicate

    def test_a_truncation_leaves_no_snapshot_of_what_it_took(self, world):
        """Appends that reach its offset again would find the producers of the records that are gone."""
        log = world.log()
        send(log, 0, 5)
        log.close()
        log = world.reload()
        assert log.snapshots.offsets == (5,)
        log.truncate_to(3)

        assert log.snapshots.offsets == ()

    def test_silent_producers_expire_unless_a_transaction_is_open(self, world):
        log = world.log()
        send(log, 0, producer_id=1)
        send(log, 0, producer_id=2, transactional=True)

        assert log.producers.remove_expired(NOW_MS + 999, 1000) == 0
        assert log.producers.remove_expired(NOW_MS + 1000, 1000) == 1
        assert list(log.producers.producers) == [2]


def test_snapshot_bytes():
    empty = encode_snapshot([])

    assert empty.hex() == "000148674bc700000000", "as in the golden directory"
    assert decode_snapshot(empty) == []


@pytest.mark.parametrize("data", [b"", b"\0\1", b"\0\2" + b"\0" * 8, b"\0\1" + b"\0" * 8])
def test_damaged_snapshots(data):
    with pytest.raises(SnapshotError):
        decode_snapshot(data)
