"""Transaction version 2 (KIP-890): every end bumps the epoch, which says the transaction that is meant."""

import pytest
from transaction_rig import ID, ORDERS, PAYMENTS, TIMEOUT_MS, Rig, settled

from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending

E = ErrorCode
EPOCH_MAX = 32_767


@pytest.fixture
def rig():
    rig = Rig()
    rig.server_version = 2
    return rig


def opened(rig, *partitions):
    """A transaction that a leader has added partitions to."""
    producer = rig.init()
    assert rig.add(producer, *partitions, version=2) is None
    return producer


def written_markers(rig):
    rig.turn()
    ((_, (marker,), _),) = rig.channel.sent
    rig.channel.answer()
    return marker


def completed(rig, producer, *, committed=True):
    """Ends a transaction; the producer of the next one."""
    following = rig.end_2(producer, committed=committed)
    written_markers(rig)
    return following


def bumped_to(rig, epoch):
    """The id's producer with an epoch that is near the highest, as the coordinator has it."""
    producer = opened(rig)
    following = completed(rig, producer)
    rig.metadata().producer_epoch = epoch
    return following[0], epoch


def elect_next(rig, epoch=7):
    """Another broker becomes coordinator, with what is written."""
    written = [record for records in rig.journal.written for record in records]
    rig.coordinator.resigned(0, epoch - 1)
    rig.loads.records = written
    rig.coordinator.elected(0, epoch)
    while rig.channel.sent:
        rig.channel.disconnect()


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_brings_the_next_epoch_and_its_markers_have_it(rig, committed):
    producer = opened(rig, ORDERS, PAYMENTS)

    assert rig.end_2(producer, committed=committed) == (producer[0], producer[1] + 1)
    decision, prepared = rig.journal.written[-1][0], rig.journal.values[-1]
    assert (decision.value_version, prepared.client_transaction_version) == (1, 2)
    assert prepared.producer_epoch == producer[1] + 1
    marker = written_markers(rig)
    assert (marker.producer, marker.transaction_version) == ((producer[0], producer[1] + 1), 2)
    assert rig.metadata().producer == (producer[0], producer[1] + 1)


def test_the_answer_waits_for_the_replicas_and_nothing_is_bumped_before(rig):
    producer = opened(rig)
    rig.journal.waits = True
    ending = rig.end_2(producer)

    assert not ending.done
    assert rig.metadata().producer == producer
    assert rig.end_2(producer) is E.CONCURRENT_TRANSACTIONS
    rig.journal.replicate(E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert settled(ending) is E.COORDINATOR_NOT_AVAILABLE
    rig.journal.waits = False
    assert rig.end_2(producer, committed=False) == (producer[0], producer[1] + 1)


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_that_is_asked_for_again_is_known_by_the_epoch_before(rig, committed):
    producer = opened(rig)
    following = rig.end_2(producer, committed=committed)
    written = len(rig.journal.written)

    assert rig.end_2(producer, committed=committed) is E.CONCURRENT_TRANSACTIONS
    assert len(rig.journal.written) == written
    written_markers(rig)
    assert rig.end_2(producer, committed=committed) == following
    assert rig.end_2(producer, committed=not committed) is E.INVALID_TXN_STATE
    assert len(rig.journal.written) == written + 1


@pytest.mark.parametrize("epoch", [0, EPOCH_MAX - 1])
def test_a_producer_that_gives_the_next_transaction_up_at_once_is_not_fenced(rig, epoch):
    """Found by franz-go's suite on a busy machine: a rebalance made it abort. Kafka fences it."""
    last = bumped_to(rig, epoch)
    assert rig.add(last, version=2) is None
    following = rig.end_2(last)
    written = len(rig.journal.written)

    for committed in (False, True):
        assert rig.end_2(following, committed=committed) is E.CONCURRENT_TRANSACTIONS
    beyond = E.PRODUCER_FENCED if following[0] == last[0] else E.INVALID_PRODUCER_ID_MAPPING
    assert rig.end_2((following[0], following[1] + 1), committed=False) is beyond
    assert len(rig.journal.written) == written
    assert written_markers(rig).committed
    assert rig.end_2(following) is E.INVALID_TXN_STATE
    assert rig.end_2(following, committed=False) == (following[0], following[1] + 1)


def test_what_ends_without_a_bump_is_not_ended_once_more_by_version_2(rig):
    producer = rig.ongoing()
    rig.end(producer)
    assert rig.state() == "PrepareCommit"
    assert rig.end_2(producer, committed=False) is E.PRODUCER_FENCED


def test_the_end_of_the_transaction_before_ends_no_other(rig):
    """The schedule that every system fails once: EndTxn was given up with its connection, and comes late."""
    first = opened(rig)
    second = completed(rig, first)
    assert rig.add(second, ORDERS, version=2) is None

    for committed in (True, False):
        assert rig.end_2(first, committed=committed) is E.PRODUCER_FENCED
    assert rig.add(first, PAYMENTS, version=2) is E.PRODUCER_FENCED
    assert rig.verify(first) is E.PRODUCER_FENCED
    assert (rig.state(), rig.metadata().producer) == ("Ongoing", second)


def test_it_is_known_to_the_next_coordinator_too(rig):
    producer = opened(rig)
    following = completed(rig, producer)
    elect_next(rig)

    assert rig.end_2(producer) == following
    assert rig.end_2(following) is E.INVALID_TXN_STATE


def test_a_transaction_without_partitions_can_only_be_aborted(rig):
    """The producer's first batch was refused, or is still under way: the bump fences it."""
    producer = rig.init()

    assert rig.end_2(producer) is E.INVALID_TXN_STATE
    following = rig.end_2(producer, committed=False)
    rig.turn()
    assert (rig.channel.sent, rig.state()) == ([], "CompleteAbort")
    assert rig.metadata().start_ms > 0
    assert following == (producer[0], producer[1] + 1)
    assert rig.end_2(producer, committed=False) == following
    assert rig.end_2(following) is E.INVALID_TXN_STATE
    assert rig.end_2(following, committed=False) == (producer[0], producer[1] + 2)


def test_a_client_of_before_may_not_abort_a_transaction_without_partitions(rig):
    producer = rig.init()

    assert rig.end(producer, committed=False) is E.INVALID_TXN_STATE


@pytest.mark.parametrize("stranger", [(1, 0), (0, 1), (1, 1)], ids=["id", "epoch", "both"])
def test_another_producer_ends_nothing(rig, stranger):
    producer = opened(rig)
    other = (producer[0] + stranger[0], producer[1] + stranger[1])

    expected = E.INVALID_PRODUCER_ID_MAPPING if stranger[0] > 0 else E.PRODUCER_FENCED
    assert rig.end_2(other) is expected
    assert rig.state() == "Ongoing"


def test_an_id_that_is_not_known_ends_nothing(rig):
    assert rig.end_2((7, 0), transactional_id="other") is E.INVALID_PRODUCER_ID_MAPPING


def test_the_last_epoch_is_followed_by_another_producer_id(rig):
    last = bumped_to(rig, EPOCH_MAX - 1)
    assert rig.add(last, version=2) is None
    following = rig.end_2(last)

    assert following == (1001, 0)
    assert (rig.journal.values[-1].producer_epoch, rig.journal.values[-1].next_producer_id) == (
        EPOCH_MAX,
        1001,
    )
    # The one before comes again, and the next one already, while the markers are on their way.
    assert rig.end_2(last) is E.CONCURRENT_TRANSACTIONS
    assert rig.add(following, version=2) is E.CONCURRENT_TRANSACTIONS
    assert written_markers(rig).producer == (last[0], EPOCH_MAX)
    assert rig.metadata().producer == following
    assert rig.journal.values[-1].previous_producer_id == last[0]
    assert rig.end_2(last) == following
    assert rig.end_2(last, committed=False) is E.INVALID_TXN_STATE
    assert rig.init(last) == following
    assert rig.add(following, version=2) is None


@pytest.mark.parametrize("is_complete", [True, False])
def test_the_next_coordinator_goes_on_with_the_next_producer_id(rig, is_complete):
    last = bumped_to(rig, EPOCH_MAX - 1)
    rig.add(last, version=2)
    following = rig.end_2(last)
    rig.turn()
    if is_complete:
        rig.channel.answer()
    elect_next(rig)
    if not is_complete:
        assert written_markers(rig).producer == (last[0], EPOCH_MAX)

    assert rig.metadata().producer == following
    assert rig.end_2(last) == following


def test_the_end_is_looked_at_again_when_the_next_producer_id_is_there(rig):
    last = bumped_to(rig, EPOCH_MAX - 1)
    rig.add(last, version=2)
    rig.next_id = Pending()
    ending, again = rig.end_2(last), rig.end_2(last, committed=False)
    given, rig.next_id = rig.next_id, None
    given.complete(5000)

    assert settled(ending) == (5000, 0)
    assert settled(again) is E.CONCURRENT_TRANSACTIONS
    assert rig.state() == "PrepareCommit"


def test_another_coordinator_ends_it_when_the_next_producer_id_comes_late(rig):
    last = bumped_to(rig, EPOCH_MAX - 1)
    rig.add(last, version=2)
    rig.next_id = Pending()
    ending = rig.end_2(last)
    written = len(rig.journal.written)
    rig.coordinator.resigned(0, 6)
    rig.next_id.complete(5000)

    assert settled(ending) is E.NOT_COORDINATOR
    assert len(rig.journal.written) == written


# --- fences


def test_a_fence_bumps_once(rig):
    """KAFKA-19367: the abort bumps, so the fence need not."""
    zombie = opened(rig)

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    marker = written_markers(rig)
    assert (marker.producer, marker.transaction_version) == ((zombie[0], zombie[1] + 1), 2)
    assert rig.end_2(zombie) is E.INVALID_TXN_STATE
    assert rig.add(zombie, version=2) is E.PRODUCER_FENCED
    assert rig.init() == (zombie[0], zombie[1] + 2)
    assert rig.end_2(zombie, committed=False) is E.PRODUCER_FENCED


def test_a_fence_that_could_not_be_written_bumps_nothing(rig):
    producer = opened(rig)
    rig.journal.refuses = E.NOT_ENOUGH_REPLICAS
    assert rig.init() is E.COORDINATOR_NOT_AVAILABLE
    rig.journal.refuses = None

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    assert written_markers(rig).producer == (producer[0], producer[1] + 1)


def failed_fence(rig):
    """A new producer comes, and the log refuses the end of the last one's transaction."""
    rig.journal.refuses = E.NOT_ENOUGH_REPLICAS
    assert rig.init() is E.COORDINATOR_NOT_AVAILABLE
    rig.journal.refuses = None


def test_nor_does_it_keep_one_of_before_from_bumping(rig):
    """The feature is lowered in between: the abort had the epoch of the producer that it fences."""
    producer = opened(rig)
    failed_fence(rig)
    rig.server_version = 1

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    assert written_markers(rig).producer == (producer[0], producer[1] + 1)


def test_a_failed_fence_of_before_has_used_the_last_epoch_up(rig):
    """The feature is raised in between."""
    last = bumped_to(rig, EPOCH_MAX - 1)
    rig.add(last, version=2)
    rig.server_version = 1
    failed_fence(rig)
    rig.server_version = 2

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    assert written_markers(rig).producer == (last[0], EPOCH_MAX)
    assert rig.init() == (1001, 1)


@pytest.mark.parametrize("by", ["a new producer", "time"])
def test_a_fence_of_the_last_epoch_leads_to_another_producer_id(rig, by):
    """KAFKA-20090."""
    last = bumped_to(rig, EPOCH_MAX - 1)
    rig.add(last, version=2)
    if by == "time":
        rig.turn(TIMEOUT_MS + 10_000)
    else:
        assert rig.init() is E.CONCURRENT_TRANSACTIONS
    marker = written_markers(rig)

    assert marker.producer == (last[0], EPOCH_MAX)
    assert rig.metadata().producer == (1001, 0)
    assert rig.end_2(last) is E.INVALID_TXN_STATE
    assert rig.init() == (1001, 1)


def test_a_fence_is_left_where_the_producer_was_quicker(rig):
    last = bumped_to(rig, EPOCH_MAX - 1)
    rig.add(last, version=2)
    rig.next_id = Pending()
    begins = rig.init()
    given, rig.next_id = rig.next_id, None
    assert rig.end_2(last) == (1001, 0)
    given.complete(5000)

    assert settled(begins) is E.CONCURRENT_TRANSACTIONS
    assert rig.state() == "PrepareCommit"
    assert written_markers(rig).committed


def test_before_version_2_is_finalized_a_fence_is_of_the_old_kind(rig):
    rig.server_version = 1
    zombie = opened(rig)
    rig.init()

    assert rig.metadata().producer == (zombie[0], zombie[1] + 1)
    assert written_markers(rig).transaction_version == 1


# --- clients of both kinds, and levels


def test_clients_of_both_kinds_take_turns(rig):
    producer = rig.ongoing()
    assert rig.end(producer) is None
    assert written_markers(rig).transaction_version == 0
    assert rig.add(producer, PAYMENTS, version=2) is None
    assert rig.end(producer) is None  # as its client is of before, nothing is bumped
    assert written_markers(rig).producer == producer
    assert rig.add(producer) is None
    following = completed(rig, producer)

    assert following == (producer[0], producer[1] + 1)
    assert rig.add(producer) is E.PRODUCER_FENCED
    assert rig.end(producer) is E.PRODUCER_FENCED
    assert rig.add(following) is None
    assert rig.end(following, committed=False) is None


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_the_level_says_which_values_are_written(rig, level, version):
    rig.server_version = level
    producer = rig.ongoing()
    rig.end(producer)
    written_markers(rig)

    assert {record.value_version for (record,) in rig.journal.written} == {version}


def test_a_level_that_is_lowered_in_the_middle_loses_nothing(rig):
    last = bumped_to(rig, EPOCH_MAX - 1)
    assert rig.add(last, version=2) is None
    rig.server_version = 0
    following = rig.end_2(last)
    rig.turn()
    elect_next(rig)

    marker = written_markers(rig)
    assert (marker.producer, marker.transaction_version) == ((last[0], EPOCH_MAX), 2)
    assert rig.end_2(last) == following
    assert rig.ongoing() is not None
    assert rig.journal.written[-1][0].value_version == 0
    assert rig.metadata(ID).state.label == "Ongoing"


def test_a_zombie_does_not_hear_of_the_end_of_one_that_speaks_the_protocol_of_before(rig):
    """That one has the next epoch by InitProducerId, and keeps it: the zombie would go on under it."""
    zombie = opened(rig)
    zombie = completed(rig, zombie)
    newer = rig.init()
    assert newer == (zombie[0], zombie[1] + 1)
    assert rig.add(newer, ORDERS) is None
    rig.end(newer, committed=False)
    written_markers(rig)

    assert rig.end_2(zombie, committed=False) is E.PRODUCER_FENCED
    assert rig.metadata().producer == newer
