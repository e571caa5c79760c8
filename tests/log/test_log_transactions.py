"""What a partition keeps of its transactions: where they began, who asked about them, which were aborted."""

import pytest

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.log.producers import AppendOrigin, ProducerStateManager
from barnabas.log.txn_index import AbortedTxn, TransactionIndex
from barnabas.log.verification import QUESTIONS_MAX
from barnabas.records.batch import batch_headers, build_batch
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record
from barnabas.testing.disk import SimulatedFilesystem

PRODUCER = 7


@pytest.fixture
def producers():
    return ProducerStateManager(TopicPartition("orders", 0))


@pytest.fixture
def index():
    disk = SimulatedFilesystem()
    disk.mkdir("/data")
    index = TransactionIndex(disk, "/data/0.txnindex")
    for txn in (AbortedTxn(1, 0, 10, 5), AbortedTxn(2, 5, 20, 21), AbortedTxn(3, 25, 30, 31)):
        index.append(txn)
    return index


def batch(sequence, epoch=0, count=2):
    records = [Record(place, 0, None, b"v") for place in range(count)]
    data = build_batch(
        records,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return next(batch_headers(data))


def test_a_transaction_begins_with_its_first_batch(producers):
    producers.apply(batch(0), 10)
    producers.apply(batch(2), 15)

    assert (producers.ongoing, producers.first_unstable_offset) == ({PRODUCER: 10}, 10)


def test_a_transaction_of_a_former_epoch_verifies_no_batch(producers):
    producers.apply(batch(0), 10)

    assert producers.start_verification(PRODUCER, 0, 2, 0, bumped=False) is None
    assert producers.start_verification(PRODUCER, 1, 0, 0, bumped=False) is not None
    with pytest.raises(KafkaError) as refused:
        producers.check_verified(PRODUCER, 1, None)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


def test_questions_about_producers_that_do_not_exist_have_a_bound(producers):
    """Each was a refused batch of an id that a client had made up."""
    guards = [
        producers.start_verification(PRODUCER + each, 0, 0, 0, bumped=False)
        for each in range(QUESTIONS_MAX + 2)
    ]

    is_known = [producers.is_verified(PRODUCER + each, 0, guard) for each, guard in enumerate(guards)]
    assert is_known == [False, False] + [True] * QUESTIONS_MAX


def test_made_up_producers_push_no_open_question_out(producers):
    """Each of them is refused within milliseconds; the real one waits for its answer meanwhile."""
    real = producers.start_verification(PRODUCER, 0, 0, 0, bumped=False)
    for made_up in range(PRODUCER + 1, PRODUCER + 3 * QUESTIONS_MAX):
        producers.start_verification(made_up, 0, 0, 0, bumped=False)
        producers.refuse_verification(made_up)
    assert producers.is_verified(PRODUCER, 0, real)
    # A batch that was refused is asked about again with the guard that it had, and is open then.
    again = producers.start_verification(made_up, 0, 0, 0, bumped=False)
    for other in range(QUESTIONS_MAX):
        producers.start_verification(-2 - other, 0, 0, 0, bumped=False)
        producers.refuse_verification(-2 - other)
    assert producers.is_verified(made_up, 0, again)


def test_a_later_epoch_asks_with_its_own_sequence(producers):
    producers.start_verification(PRODUCER, 0, 5, 0, bumped=False)
    producers.start_verification(PRODUCER, 1, 0, 0, bumped=False)

    with pytest.raises(KafkaError) as refused:
        producers.check(batch(3, epoch=1), AppendOrigin.CLIENT, 10)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.check(batch(0, epoch=1), AppendOrigin.CLIENT, 10)


@pytest.mark.parametrize(
    ("start", "upper", "producer_ids", "complete"),
    [
        (0, 4, [1], True),
        (0, 8, [1, 2], True),
        (0, 26, [1, 2, 3], True),
        (11, 40, [2, 3], False),
        (0, 31, [1, 2, 3], True),
        (21, 24, [], True),
    ],
)
def test_the_list_has_every_transaction_with_records_in_the_range(
    index, start, upper, producer_ids, complete
):
    found, whole = index.collect(start, upper)
    assert ([txn.producer_id for txn in found], whole) == (producer_ids, complete)


def test_a_cut_forgets_what_was_aborted_behind_it(index):
    index.truncate_to(20)
    assert [txn.producer_id for txn in index.entries] == [1]


# --- transactions whose end bumps the epoch (KIP-890)

BUMPED = AppendOrigin.COORDINATOR_OF_BUMPED


def marker_refused(producers, epoch, origin=BUMPED):
    marker = EndTransactionMarker(ControlType.COMMIT, 0)
    header = next(
        batch_headers(build_marker(marker, timestamp=0, producer_id=PRODUCER, producer_epoch=epoch))
    )
    try:
        producers.check_marker(header, marker, origin, 30)
    except KafkaError as refused:
        return refused.code
    producers.apply_marker(header, marker, offset=30, timestamp=0)
    return None


def test_a_marker_must_be_above_the_epoch_of_the_transaction_that_it_ends(producers):
    """One with the same epoch is that of the transaction before, and late."""
    producers.apply(batch(0, epoch=4), 10)

    assert marker_refused(producers, 3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker_refused(producers, 4) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.ongoing == {PRODUCER: 10}
    assert marker_refused(producers, 5) is None
    assert producers.ongoing == {}


def test_a_marker_that_comes_twice_does_no_harm(producers):
    producers.apply(batch(0, epoch=4), 10)
    assert marker_refused(producers, 5) is None

    assert marker_refused(producers, 5) is None
    assert marker_refused(producers, 4) is ErrorCode.INVALID_PRODUCER_EPOCH
    producers.apply(batch(0, epoch=5), 40)
    assert marker_refused(producers, 5) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_of_before_has_the_epoch_of_its_transaction(producers):
    producers.apply(batch(0, epoch=4), 10)

    assert marker_refused(producers, 4, AppendOrigin.COORDINATOR) is None


def test_where_each_transaction_has_an_epoch_an_unknown_producer_begins_at_0(producers):
    producers.start_verification(PRODUCER, 1, 5, 0, bumped=True)

    with pytest.raises(KafkaError) as refused:
        producers.check(batch(5, epoch=1), AppendOrigin.CLIENT, 0)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.check(batch(0, epoch=1), AppendOrigin.CLIENT, 0)


def test_before_that_it_may_have_expired_here_and_goes_on(producers):
    producers.start_verification(PRODUCER, 1, 5, 0, bumped=False)

    producers.check(batch(5, epoch=1), AppendOrigin.CLIENT, 0)
