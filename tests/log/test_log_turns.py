"""Appends of one turn: one write, and the same log as if each had been written by itself."""

import errno
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_world import NOW_MS, TP, World, batch, fill, values_of

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import in_one_piece
from barnabas.log.config import LogConfig
from barnabas.log.producers import AppendOrigin
from barnabas.log.write_turn import WAITING_BYTES_MAX, WriteTurn
from barnabas.records.batch import parse_header, stamp
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker

PATH = f"/data/{TP}"


@pytest.fixture
def log(world):
    """A log with one batch in it: the first of a segment does not wait."""
    return fill(world.log(), 1)


@pytest.fixture
def turn():
    return WriteTurn()


def counted_writes(world):
    """A list that grows with each write of a batch."""
    writes, check = [], world.disk.check

    def counting(path, operation):
        if operation == "write" and path.endswith(".log"):
            writes.append(path)
        check(path, operation)

    world.disk.check = counting
    return writes


def append(log, turn, records, epoch=0, **options):
    """An append that may wait for the end of a turn."""
    log.join(turn)
    return log.append(records, epoch, NOW_MS, **options)


def deferred(log, turn, *batches, **options):
    """Appends that wait; what each was answered."""
    infos = [append(log, turn, each, **options) for each in batches]
    assert log.unwritten.buffers
    return infos


def idempotent(sequence, count=1, producer_id=7, epoch=0):
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def transactional(sequence, count=1, producer_id=7, epoch=0):
    return batch(
        count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )


def end_transaction(log, producer_id=7, *, committed=False):
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    marker = build_marker(
        EndTransactionMarker(kind, 0), timestamp=NOW_MS, producer_id=producer_id, producer_epoch=0
    )
    log.append(bytearray(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)


def state_of(log):
    """All that a log knows of its records."""
    active = log.active
    return (
        log.log_end_offset,
        log.high_watermark,
        log.size,
        [(each.base_offset, each.index.entries, each.time_index.entries) for each in log.segments],
        (active.max_timestamp, active.max_timestamp_offset, active.first_timestamp()),
        sorted(log.producers.snapshot()),
        list(log.producers.ongoing.items()),
        log.last_stable_offset,
        log.producers.map_end_offset,
        log.leader_epochs.entries,
    )


def test_appends_of_a_turn_are_one_write(world, log, turn):
    writes = counted_writes(world)

    infos = deferred(log, turn, batch(2), batch(3), batch(1))
    assert [(info.first_offset, info.last_offset) for info in infos] == [(1, 2), (3, 5), (6, 6)]
    assert (log.log_end_offset, writes) == (7, [])
    turn.write()

    assert len(writes) == 1
    assert log.unwritten is None
    assert turn.unwritten[0].error is None
    assert [offset for offset, _ in values_of(log)] == list(range(7))


def test_each_log_of_a_turn_has_its_own_write(world, turn):
    one, other = fill(world.log(), 1), fill(world.log(TP._replace(partition=1)), 1)
    writes = counted_writes(world)
    deferred(one, turn, batch(2))
    deferred(other, turn, batch(3))
    deferred(one, turn, batch(1))
    turn.write()

    assert writes == [one.active.path, other.active.path]
    assert (len(values_of(one)), len(values_of(other))) == (4, 4)


@pytest.mark.parametrize(
    "look",
    [
        lambda log: log.read(0, 1 << 20),
        lambda log: log.roll(NOW_MS),
        lambda log: log.flush(),
        lambda log: log.begin_flush(),
        lambda log: log.truncate_to(3),
        lambda log: log.close(),
        lambda log: log.aborted_transactions(0, 3),
        lambda log: in_one_piece(log.offset_for_timestamp(NOW_MS)),
        lambda log: in_one_piece(log.max_timestamp_offset()),
        lambda log: log.maybe_increment_log_start_offset(0),
        lambda log: log.drop_first_segments(0, NOW_MS),
        lambda log: fill(log, 1),
    ],
    ids=[
        "read",
        "roll",
        "flush",
        "begin_flush",
        "truncate",
        "close",
        "aborted",
        "by_time",
        "max_timestamp",
        "log_start",
        "retention",
        "append",
    ],
)
def test_whatever_else_a_log_does_finds_the_appends_written(world, log, turn, look):
    deferred(log, turn, batch(2), batch(3))

    look(log)

    assert log.unwritten is None
    written = world.disk.read(f"{PATH}/{0:020}.log")
    assert sum(1 for _ in headers_of(written)) >= 2


def headers_of(data):
    position = 0
    while position < len(data):
        header = parse_header(data, position)
        yield header
        position = header.end


def test_a_follower_append_comes_behind_what_waits(log, turn):
    deferred(log, turn, batch(2))
    replica = batch(1)
    stamp(replica, parse_header(replica), 3, 0)

    log.append_as_follower(replica)

    assert [offset for offset, _ in values_of(log)] == [0, 1, 2, 3]


def test_an_index_is_made_again_with_what_waited(world, log, turn):
    log.config = LogConfig(index_interval_bytes=0)
    fill(log, 3)
    deferred(log, turn, batch(2))
    world.disk.open(log.active.index.path).pwrite(b"\xff" * 16, 0)

    assert [offset for offset, _ in values_of(log, 1)] == list(range(1, 6))


@pytest.mark.parametrize(
    ("epoch", "records"),
    [
        (1, batch),
        (0, partial(batch, size=WAITING_BYTES_MAX)),
    ],
    ids=["new epoch", "large"],
)
def test_what_is_not_plain_and_small_is_written_at_once_behind_the_rest(log, turn, epoch, records):
    deferred(log, turn, batch(2))

    append(log, turn, records(), epoch)

    assert log.unwritten is None
    assert [offset for offset, _ in values_of(log)] == [0, 1, 2, 3]


def test_a_marker_is_written_at_once_behind_its_transaction(log, turn):
    deferred(log, turn, transactional(0, 2), transactional(2))
    log.join(turn)
    end_transaction(log)

    assert log.unwritten is None
    assert [offset for offset, _ in values_of(log, upper=4)] == [0, 1, 2, 3]
    assert log.producers.ongoing == {}
    assert [each.first_offset for each in log.aborted_transactions(0, 5)] == [1]


def test_what_waits_is_bounded(world, log, turn):
    writes = counted_writes(world)
    for _ in range(30):
        append(log, turn, batch(size=WAITING_BYTES_MAX // 10))
    for _ in range(2500):
        append(log, turn, batch())
    turn.write()

    assert 6 <= len(writes) <= 12
    assert len(values_of(log)) == 2531


def test_no_write_of_what_waited_is_larger_than_the_bound(world, log, turn):
    writes = counted_writes(world)
    for _ in range(30):
        append(log, turn, batch(size=WAITING_BYTES_MAX * 3 // 10))
    turn.write()

    assert len(writes) == 15, "three wait, and the fourth has them written and goes by itself"


def test_the_first_batch_of_a_segment_does_not_wait(world, turn):
    log = world.log()
    append(log, turn, batch())

    assert log.unwritten is None
    assert log.size


def test_nor_does_the_first_batch_of_a_later_segment(log, turn):
    log.roll(NOW_MS)
    append(log, turn, batch())

    assert log.unwritten is None
    assert log.active.size
    assert log.active.first_timestamp() >= 0


class TestRefused:
    """A write that fails refuses all that waited, and leaves the log as it was."""

    @pytest.mark.parametrize("taken", [0, 1, 60, 100, 250])
    def test_a_disk_that_is_full_after_some_bytes(self, world, log, turn, taken):
        fill(log, 1, producer_id=3, producer_epoch=0, base_sequence=0)
        log.high_watermark = 1
        before = state_of(log)
        infos = deferred(log, turn, batch(2), idempotent(0), batch(30), idempotent(1, producer_id=3), batch())
        log.high_watermark = 5
        assert infos[-1].last_offset == log.log_end_offset - 1
        # Writes are cut in whole pages: the file begins where so many bytes of this one are left.
        size = log.size
        world.disk.open(log.active.path).truncate(size)
        cut_writes(world, taken)

        turn.write()

        [refused] = turn.unwritten
        assert refused.error.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert state_of(log) == before
        assert world.failures == []

    @pytest.mark.parametrize("number", range(4))
    def test_an_index_that_fails_in_the_middle(self, world, log, turn, number):
        log.config = LogConfig(index_interval_bytes=0)
        fill(log, 2)
        before = state_of(log)
        deferred(log, turn, *(batch(timestamp=NOW_MS + 10 * each) for each in range(4)))
        fail_index_after(world, number)

        turn.write()

        assert turn.unwritten[0].error.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert state_of(log) == before

    def test_a_log_that_goes_on_has_no_trace_of_it(self, world, log, turn):
        deferred(log, turn, idempotent(0, 2), idempotent(2, 3))
        world.disk.fail(PATH, "write", errno.EMFILE)
        turn.write()
        assert turn.unwritten[0].error.code is ErrorCode.KAFKA_STORAGE_ERROR
        world.disk.heal()

        assert not log.offline
        assert log.append(idempotent(0, 1), 0, NOW_MS).first_offset == 1
        assert [offset for offset, _ in values_of(log)] == [0, 1]

    def test_a_failure_comes_to_light_before_the_next_append_is_judged(self, world, log, turn):
        deferred(log, turn, batch(2))
        world.disk.fail(PATH, "write")

        with pytest.raises(KafkaError) as caught:
            fill(log, 1)

        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (log.log_end_offset, log.offline) == (1, True)
        assert turn.unwritten[0].error is not None

    def test_a_bug_leaves_no_hole(self, world, log, turn, caplog):
        before = state_of(log)
        other = fill(world.log(TP._replace(partition=1)), 1)
        deferred(log, turn, batch(2))
        deferred(other, turn, batch(3))
        check = world.disk.check

        def broken(path, operation):
            if path == log.active.path:
                raise ValueError(path)
            check(path, operation)

        world.disk.check = broken
        turn.write()
        world.disk.check = check

        assert [each.error and each.error.code for each in turn.unwritten] == [
            ErrorCode.UNKNOWN_SERVER_ERROR,
            None,
        ]
        assert "log.append_failed" in caplog.text
        assert state_of(log) == before
        assert len(values_of(other)) == 4

    def test_a_file_that_cannot_be_read_for_the_age_of_its_segment(self, world, log, turn):
        log.close()
        again = world.log()
        world.disk.fail(PATH, "read")

        with pytest.raises(KafkaError) as caught:
            append(again, turn, batch())

        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (again.log_end_offset, again.offline) == (1, True)

    def test_a_log_that_is_closed_meanwhile(self, world, log, turn):
        writes = counted_writes(world)
        deferred(log, turn, batch(2))
        log.release()
        turn.write()

        assert turn.unwritten[0].error.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert writes == []

    def test_no_descriptor_is_left(self, world, log, turn):
        log.active.rest()
        world.disk.descriptors = world.disk.open_files

        with pytest.raises(KafkaError) as caught:
            append(log, turn, batch())

        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (log.log_end_offset, log.offline, log.unwritten.buffers) == (1, False, [])


def cut_writes(world, taken):
    """From now on a write of batches takes so many bytes, and then the disk is full."""
    reserve = world.disk.reserve

    def cut(inode, position, size):
        return reserve(inode, position, min(size, taken))

    world.disk.reserve = cut


def fail_index_after(world, number):
    """Fails the write of an index entry after so many."""
    left, check = [number], world.disk.check

    def failing(path, operation):
        if operation == "write" and path.endswith("index"):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.EIO, "Input/output error", path)
        check(path, operation)

    world.disk.check = failing


class TestProducers:
    """What waits counts for the duplicates and sequences of what follows in the turn."""

    def test_a_duplicate_in_the_same_turn(self, log, turn):
        first, second = deferred(log, turn, idempotent(0, 2), idempotent(0, 2))

        assert (second.duplicate, second.first_offset) == (True, first.first_offset)
        turn.write()
        assert log.log_end_offset == 3

    def test_a_gap_in_the_same_turn(self, log, turn):
        deferred(log, turn, idempotent(0, 2))
        with pytest.raises(KafkaError) as caught:
            append(log, turn, idempotent(5))

        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_a_new_epoch_in_the_same_turn_is_taken_back(self, world, log, turn):
        fill(log, 1, producer_id=7, producer_epoch=0, base_sequence=0)
        before = state_of(log)
        deferred(log, turn, idempotent(1), idempotent(0, epoch=1), idempotent(1, epoch=1))
        world.disk.fail(PATH, "write")
        turn.write()

        assert state_of(log) == before

    def test_a_transaction_that_began_in_the_turn_is_taken_back(self, world, log, turn):
        fill(log, 1, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        log.high_watermark = 2
        before = state_of(log)
        deferred(log, turn, transactional(0), transactional(1, producer_id=5), transactional(1))
        assert list(log.producers.ongoing) == [5, 7]
        world.disk.fail(PATH, "write")
        turn.write()

        assert state_of(log) == before
        assert log.last_stable_offset == 1, "the other transaction is open as before"

    def test_its_producer_begins_again_when_the_disk_has_room(self, world, log, turn):
        deferred(log, turn, transactional(0), transactional(1))
        world.disk.fail(PATH, "write", errno.EMFILE)
        turn.write()
        world.disk.heal()
        log.append(transactional(0), 0, NOW_MS)
        end_transaction(log, committed=True)

        assert (log.log_end_offset, log.producers.ongoing) == (3, {})


appends = st.tuples(
    st.integers(1, 4),  # records
    st.integers(0, 120),  # bytes of a value
    st.integers(-3, 12),  # later than the one before
    st.sampled_from([None, None, 1, 2, 7, 8]),  # producer; those from 7 on have transactions
    st.sampled_from([False] * 7 + [True]),  # whether the turn ends behind it
)


@given(
    st.lists(appends, max_size=40),
    st.sampled_from([0, 100, 300]),
    st.sampled_from([800, 2000, 1 << 20]),
    st.sampled_from([64, 1 << 20]),
    st.sampled_from([20, 1 << 40]),
)
def test_a_turn_leaves_what_appends_one_by_one_leave(steps, interval, segment_bytes, index_bytes, segment_ms):
    config = {
        "index_interval_bytes": interval,
        "segment_bytes": segment_bytes,
        "segment_index_bytes": index_bytes,
        "segment_ms": segment_ms,
    }
    together, alone = World(**config), World(**config)
    logs = [world.log() for world in (together, alone)]
    turn, time, sequences = WriteTurn(), NOW_MS, dict.fromkeys((1, 2, 7, 8), 0)
    for count, size, later, producer, ends in steps:
        time += later
        options = {}
        if producer is not None:
            options = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequences[producer],
                "transactional": producer >= 7,
            }
            sequences[producer] += count
        logs[0].join(turn)
        infos = [log.append(batch(count, size=size, timestamp=time, **options), 0, NOW_MS) for log in logs]
        assert repr(infos[0]) == repr(infos[1])
        if ends:
            turn.write()
            turn = WriteTurn()
    turn.write()

    assert state_of(logs[0]) == state_of(logs[1])
    assert values_of(logs[0]) == values_of(logs[1])
    files = [
        {name: world.disk.read(f"{PATH}/{name}") for name in world.disk.listdir(PATH)}
        for world in (together, alone)
    ]
    assert files[0] == files[1]


def test_a_loss_of_power_in_the_middle_of_the_write_keeps_whole_batches_from_the_front():
    kept = set()
    for seed in range(100):
        world = World()
        world.disk.rng.seed(seed)
        log = fill(world.started().get_or_create(TP), 1)
        log.flush()
        turn = WriteTurn()
        deferred(log, turn, *(batch(2, size=100) for _ in range(5)))
        turn.write()
        everything = values_of(log)
        world.disk.crash()

        log = world.started().get(TP)

        assert values_of(log) == everything[: log.log_end_offset]
        kept.add(log.log_end_offset)
    assert kept == {1, 3, 5, 7, 9, 11}
