"""Roles, the high watermark, and the ISR of one partition."""

import pytest
from replica_rig import LAG_MS

from barnabas.cluster.leadership import LeaderAndIsr
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.log.leader_epochs import EpochEnd
from barnabas.log.results import UnexpectedAppendOffsetError
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.partition import Role


def code(call):
    with pytest.raises(KafkaError) as raised:
        call()
    return raised.value.code


def test_roles(rig):
    assert (rig.partition.role, repr(rig.partition)) == (
        Role.NONE,
        "<Partition orders-0 NONE epoch=-1 isr=[] hw=->",
    )
    assert rig.lead(isr=(1,), replicas=(1,), epoch=3)
    assert repr(rig.partition) == "<Partition orders-0 LEADER epoch=3 isr=[1] hw=0>"
    assert not rig.lead(epoch=4), "it led already"
    assert rig.follow(epoch=5)
    assert rig.partition.role is Role.FOLLOWER
    assert not rig.follow(epoch=5), "no new epoch"
    rig.partition.close()
    assert rig.partition.role is Role.NONE


def test_a_partition_epoch_of_the_past_changes_nothing(rig):
    rig.lead(epoch=1, partition_epoch=5)

    assert not rig.lead(epoch=2, partition_epoch=4)
    assert not rig.follow(epoch=2, partition_epoch=4)
    assert (rig.partition.role, rig.partition.leader_epoch) == (Role.LEADER, 1)


def test_only_leaders_append(rig):
    assert code(rig.append) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.follow()
    assert code(rig.append) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_only_replica_commits_at_once(rig):
    rig.lead(isr=(1,), replicas=(1,))

    info, advanced = rig.append(3, acks=-1)

    assert (info.first_offset, info.last_offset, advanced) == (0, 2, True)
    assert rig.partition.enough_replicas(3) == (True, ErrorCode.NONE)


def test_the_high_watermark_is_the_smallest_end_of_the_isr(rig):
    rig.lead()
    _, advanced = rig.append(5)
    assert not advanced
    rig.fetch_as(2, 5)
    assert rig.high_watermark == 0, "3 has nothing yet"
    rig.fetch_as(3, 2)
    assert rig.high_watermark == 2
    assert rig.partition.enough_replicas(5) == (False, ErrorCode.NONE)
    rig.fetch_as(3, 5)
    assert (rig.high_watermark, rig.partition.enough_replicas(5)) == (5, (True, ErrorCode.NONE))
    assert rig.progress == [rig.partition.tp] * 2


def test_a_replica_outside_the_isr_is_not_waited_for(rig):
    rig.alive.discard(3)
    rig.lead(isr=(1, 2))
    rig.append(5)
    rig.fetch_as(3, 1)
    rig.fetch_as(2, 5)

    assert rig.high_watermark == 5


def test_a_replica_about_to_join_is_waited_for(rig):
    rig.lead(isr=(1, 2))
    rig.append(5)
    rig.fetch_as(3, 5)  # has caught up: it will be in the ISR in a moment
    rig.append(5)
    rig.fetch_as(2, 10)
    assert rig.high_watermark == 5
    rig.alive.discard(3)
    rig.append()
    rig.fetch_as(2, 11)
    assert rig.isr.proposals, "it was proposed while it was alive, so the maximal ISR has it"
    assert rig.high_watermark == 5


def test_the_high_watermark_never_goes_back(rig):
    rig.lead()
    rig.append(5)
    for broker in (2, 3):
        rig.fetch_as(broker, 5)
    rig.fetch_as(2, 3)

    assert rig.high_watermark == 5


def test_below_min_isr_it_stands_still(make_rig):
    rig = make_rig(min_insync_replicas=2)
    rig.lead(isr=(1,))
    rig.append(5, acks=1)

    assert (rig.high_watermark, rig.partition.under_min_isr) == (0, True)
    assert code(lambda: rig.append(acks=-1)) is ErrorCode.NOT_ENOUGH_REPLICAS
    rig.lead(isr=(1, 2), epoch=1)
    rig.fetch_as(2, 5)
    assert rig.high_watermark == 5


def test_min_isr_is_never_more_than_there_are_replicas(make_rig):
    rig = make_rig(min_insync_replicas=3)
    rig.lead(isr=(1,), replicas=(1,))
    rig.append(acks=-1)

    assert (rig.partition.min_isr, rig.high_watermark) == (1, 1)


def test_an_isr_that_shrank_after_the_append(make_rig):
    rig = make_rig(min_insync_replicas=2)
    rig.lead(isr=(1, 2))
    rig.append(5, acks=-1)
    rig.fetch_as(2, 5)
    rig.lead(isr=(1,), epoch=0, partition_epoch=1)

    assert rig.partition.enough_replicas(5) == (True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def test_a_new_leader_commits_what_its_isr_has(rig):
    rig.lead(isr=(1, 2))
    rig.append(5)
    rig.lead(isr=(1,), epoch=1)

    assert rig.high_watermark == 5
    assert rig.progress == [rig.partition.tp]


def test_a_follower_joins_the_isr_by_the_controllers_word(rig):
    rig.lead(isr=(1, 2), epoch=4, partition_epoch=7)
    rig.append(3)
    rig.fetch_as(2, 3)
    rig.fetch_as(3, 2)
    assert rig.isr.proposals == [], "below the high watermark"
    rig.fetch_as(3, 3)
    [(proposal, answer)] = rig.isr.proposals
    assert (proposal.isr, proposal.leader_epoch, proposal.partition_epoch) == ((1, 2, 3), 4, 7)
    assert rig.partition.isr_state.isr == {1, 2}
    assert rig.partition.isr_state.maximal == {1, 2, 3}
    rig.fetch_as(3, 3)
    assert len(rig.isr.proposals) == 1, "one at a time"

    answer.complete(LeaderAndIsr(1, (1, 2, 3), 4, partition_epoch=8))

    assert rig.partition.isr_state.isr == {1, 2, 3}
    assert rig.partition.partition_epoch == 8


def test_an_open_expansion_counts_with_both_sets(make_rig):
    """KIP-966 and KIP-497: the high watermark waits for who may be in already, and does not move before the
    controller has spoken while those that are in for certain are too few.
    """
    rig = make_rig(min_insync_replicas=2)
    rig.lead(isr=(1,))
    rig.append(5)
    rig.fetch_as(3, 5)
    [(proposal, answer)] = rig.isr.proposals
    assert proposal.isr == (1, 3)
    assert (rig.high_watermark, rig.partition.under_min_isr) == (0, True)
    assert code(lambda: rig.append(acks=-1)) is ErrorCode.NOT_ENOUGH_REPLICAS

    answer.complete(LeaderAndIsr(1, (1, 3), 0, partition_epoch=1))
    assert rig.high_watermark == 5
    assert rig.progress == [rig.partition.tp]


def test_an_open_expansion_that_grows_old_is_still_waited_for(rig):
    """Nobody knows whether the controller has taken the replica in:
    it is counted however far behind it is.
    """
    rig.lead(isr=(1, 2))
    rig.fetch_as(3, 0)
    assert rig.partition.isr_state.maximal == {1, 2, 3}
    rig.append(5)
    rig.clock.advance(LAG_MS + 1)
    rig.alive.discard(3)
    rig.fetch_as(2, 5)
    assert rig.high_watermark == 0
    rig.isr.proposals[0][1].fail(KafkaError(ErrorCode.INELIGIBLE_REPLICA))
    rig.append(1)
    rig.fetch_as(2, 6)
    assert rig.high_watermark == 6, "the controller has refused it"


def test_enough_replicas_counts_who_may_be_in_already(make_rig):
    """What is below the high watermark is safe on the maximal ISR;
    the answer does not wait for the controller.
    """
    rig = make_rig(min_insync_replicas=2)
    rig.lead(isr=(1, 2))
    rig.append(5, acks=-1)
    rig.fetch_as(2, 5)
    assert rig.high_watermark == 5
    rig.lead(isr=(1,), partition_epoch=1)
    assert rig.partition.enough_replicas(5) == (True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    rig.fetch_as(3, 5)

    assert rig.partition.isr_state.maximal == {1, 3}
    assert rig.partition.enough_replicas(5) == (True, ErrorCode.NONE)


def test_an_open_shrink_still_waits_for_who_is_to_leave(rig):
    rig.lead(isr=(1, 2))
    rig.alive.discard(3)
    rig.append(5)
    rig.clock.advance(LAG_MS + 1)
    rig.partition.maybe_shrink_isr()
    rig.append(1)
    assert (rig.isr.proposals[0][0].isr, rig.high_watermark) == ((1,), 0)
    rig.partition.maybe_shrink_isr()
    assert len(rig.isr.proposals) == 1, "one at a time"
    rig.fetch_as(2, 6)
    assert rig.high_watermark == 6


def test_a_follower_must_reach_the_epochs_start(rig):
    rig.lead(isr=(1, 2), epoch=1)
    rig.append(5)
    rig.lead(isr=(1, 2), epoch=2)  # starts at 5, while the high watermark is 0
    rig.fetch_as(3, 4)
    assert rig.isr.proposals == []
    rig.fetch_as(3, 5)
    assert len(rig.isr.proposals) == 1


def test_a_dead_follower_that_had_everything_is_not_waited_for(rig):
    rig.lead(isr=(1,))
    rig.fetch_as(2, 0)
    rig.isr.proposals[0][1].fail(KafkaError(ErrorCode.INELIGIBLE_REPLICA))
    rig.append(5)
    assert rig.high_watermark == 0, "2 will be in the ISR in a moment"
    rig.alive.discard(2)
    rig.append(1)
    assert rig.high_watermark == 6


def test_a_new_epoch_of_the_same_leader_keeps_what_it_knows_of_its_followers(rig):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.append(5)
    rig.fetch_as(2, 5)
    rig.append(5)
    rig.fetch_as(2, 9)
    rig.lead(isr=(1, 2), replicas=(1, 2), epoch=1, partition_epoch=1)

    assert [replica.log_end_offset for replica in rig.partition.replicas] == [9]


def test_a_leader_of_a_new_epoch_does_not_trust_what_it_heard_as_leader_before(rig):
    """Its followers may have been cut meanwhile."""
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.append(5)
    rig.fetch_as(2, 5)
    rig.follow(epoch=1, isr=(1, 2), replicas=(1, 2), partition_epoch=1)
    rig.lead(isr=(1, 2), replicas=(1, 2), epoch=2, partition_epoch=2)
    rig.append(5)

    assert [replica.log_end_offset for replica in rig.partition.replicas] == [-1]
    assert rig.high_watermark == 5


def test_a_replica_that_is_not_in_the_isr_cannot_be_dropped_from_it(rig):
    rig.lead(isr=(1, 2))
    rig.append(5)
    rig.fetch_as(2, 5)
    rig.fetch_as(3, 0)
    rig.clock.advance(LAG_MS + 1)
    rig.partition.maybe_shrink_isr()

    assert rig.isr.proposals == []


def test_a_dead_follower_does_not_join(rig):
    rig.lead(isr=(1, 2))
    rig.alive.discard(3)
    rig.fetch_as(3, 0)

    assert rig.isr.proposals == []


def test_followers_that_fall_behind_leave(rig):
    rig.lead()
    rig.append(5)
    rig.fetch_as(2, 5)
    rig.clock.advance(30_001)
    rig.partition.maybe_shrink_isr()

    [(proposal, answer)] = rig.isr.proposals
    assert proposal.isr == (1, 2), "2 has all there is, however long ago it asked"
    assert rig.high_watermark == 0, "until the controller has spoken, 3 may still be in"
    answer.complete(LeaderAndIsr(1, (1, 2), 0, partition_epoch=1))
    assert rig.high_watermark == 5


def test_a_follower_may_be_behind_for_as_long_as_the_limit_says(rig):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.fetch_as(2, 0)
    rig.append(1)
    rig.clock.advance(LAG_MS)
    rig.partition.maybe_shrink_isr()
    assert rig.isr.proposals == [], "exactly the limit"
    rig.clock.advance(1)
    rig.partition.maybe_shrink_isr()
    assert [proposal.isr for proposal, _ in rig.isr.proposals] == [(1,)]


def test_a_clock_that_jumps_ahead_takes_followers_out_that_come_back_with_their_next_fetch(rig):
    """By the wall clock, as Kafka counts: what it jumps looks like silence."""
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.append(5)
    rig.clock.advance(LAG_MS + 1)
    rig.partition.maybe_shrink_isr()
    [(proposal, answer)] = rig.isr.proposals
    assert proposal.isr == (1,)
    answer.complete(LeaderAndIsr(1, (1,), 0, partition_epoch=1))

    rig.fetch_as(2, 5)
    _, (proposal, answer) = rig.isr.proposals
    assert proposal.isr == (1, 2)
    answer.complete(LeaderAndIsr(1, (1, 2), 0, partition_epoch=2))
    rig.append(1)
    assert rig.high_watermark == 5, "it is waited for again"


def test_a_clock_that_is_set_back_keeps_a_silent_follower_and_commits_nothing_without_it(rig):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.append(5)
    rig.clock.advance(-60_000)
    rig.partition.maybe_shrink_isr()
    assert rig.isr.proposals == []
    assert rig.high_watermark == 0

    rig.clock.advance(60_000 + LAG_MS + 1)
    rig.partition.maybe_shrink_isr()
    assert [proposal.isr for proposal, _ in rig.isr.proposals] == [(1,)], "when it has caught up with itself"


def test_lag_is_counted_from_the_fetch_before_the_last(rig):
    """KIP-16: who reaches the end that there was at its previous fetch had everything then, not now."""
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.append(5)
    rig.clock.advance(10_000)
    rig.fetch_as(2, 0)  # learns of the end at 5
    rig.append(5)
    rig.clock.advance(10_000)
    rig.fetch_as(2, 5)  # has all there was 10 s ago
    rig.append(5)
    rig.clock.advance(LAG_MS - 10_000)
    rig.partition.maybe_shrink_isr()
    assert rig.isr.proposals == [], "the fetch before its last was a limit ago"
    rig.clock.advance(1)
    rig.partition.maybe_shrink_isr()
    assert [proposal.isr for proposal, _ in rig.isr.proposals] == [(1,)]


def test_a_fetch_that_does_not_reach_the_last_known_end_is_no_catching_up(rig):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    rig.append(10)
    rig.clock.advance(10_000)
    rig.fetch_as(2, 0)
    rig.clock.advance(LAG_MS - 10_000)
    rig.fetch_as(2, 9)
    rig.clock.advance(1)
    rig.partition.maybe_shrink_isr()
    assert [proposal.isr for proposal, _ in rig.isr.proposals] == [(1,)]


def test_a_follower_that_keeps_up_with_a_moving_end_stays(rig):
    rig.lead(isr=(1, 2), replicas=(1, 2))
    for offset in range(0, 20, 5):
        rig.append(5)
        rig.clock.advance(20_000)
        rig.fetch_as(2, offset)  # always one round behind
        rig.partition.maybe_shrink_isr()

    assert rig.isr.proposals == []


@pytest.mark.parametrize(
    ("error", "in_flight", "again"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, 1),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False, 1),
        (ErrorCode.FENCED_LEADER_EPOCH, True, 1),
        (ErrorCode.INVALID_UPDATE_VERSION, True, 1),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True, 2),
    ],
)
def test_refused_proposals(rig, error, in_flight, again):
    rig.lead(isr=(1, 2))
    rig.fetch_as(3, 0)
    rig.isr.proposals[0][1].fail(KafkaError(error))

    assert rig.partition.isr_state.in_flight is in_flight
    assert len(rig.isr.proposals) == again
    assert rig.partition.isr_state.isr == {1, 2}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
@pytest.mark.parametrize("isr", [(1, 2), (1,)])
def test_a_refusal_that_comes_after_the_controllers_order_changes_nothing(rig, error, isr):
    rig.lead(isr=(1, 2, 3))
    rig.append(5)
    rig.clock.advance(LAG_MS + 1)
    rig.partition.maybe_shrink_isr()
    [(_, late)] = rig.isr.proposals
    rig.lead(isr=isr, partition_epoch=1)
    rig.fetch_as(3, 5)
    ordered = rig.partition.isr_state
    assert (ordered.isr, ordered.proposed) == (frozenset(isr), frozenset({*isr, 3}))

    late.fail(KafkaError(error))

    assert rig.partition.isr_state == ordered
    assert len(rig.isr.proposals) == 2, "the refused one is not asked again"


def test_an_answer_of_an_older_epoch_than_the_partitions_is_ignored(rig):
    rig.lead(isr=(1, 2), partition_epoch=5)
    rig.fetch_as(3, 0)
    rig.isr.proposals[0][1].complete(LeaderAndIsr(1, (1, 2, 3), 0, partition_epoch=4))

    assert (rig.partition.isr_state.isr, rig.partition.partition_epoch) == ({1, 2}, 5)


def test_an_answer_that_comes_after_the_controllers_order_is_ignored(rig):
    rig.lead(isr=(1, 2))
    rig.fetch_as(3, 0)
    rig.lead(isr=(1,), epoch=1, partition_epoch=1)
    rig.isr.proposals[0][1].complete(LeaderAndIsr(1, (1, 2, 3), 0, partition_epoch=1))

    assert rig.partition.isr_state.isr == {1}


def test_epochs_end_where_the_next_begins(rig):
    rig.lead(isr=(1,), replicas=(1,), epoch=2)
    rig.append(4)
    rig.lead(isr=(1,), replicas=(1,), epoch=5)

    def end(epoch, current=-1):
        return rig.partition.epoch_end(epoch, current, leader_only=True)

    assert end(2) == end(4) == EpochEnd(2, 4)
    assert end(5) == EpochEnd(5, 4)
    assert not end(9).known
    assert code(lambda: end(2, current=4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(lambda: end(2, current=6)) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_follower_with_records_is_not_begun_again_by_a_batch_that_reaches_over_its_end(rig):
    """Only an empty log begins with a batch in the middle of which the leader's log starts."""
    rig.follow()
    rig.partition.append_as_follower(batch_at(0, count=5))
    straddling = batch_at(3, count=5)

    with pytest.raises(UnexpectedAppendOffsetError):
        rig.partition.append_as_follower(straddling)

    log = rig.partition.log
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    log.truncate_fully_and_start_at(4)
    rig.partition.append_as_follower(straddling)
    assert (log.log_start_offset, log.log_end_offset) == (3, 8)


def batch_at(offset, count):
    """So many records as the leader has them from this offset on."""
    return build_batch([Record(offset + number, 1, b"k", b"v") for number in range(count)], leader_epoch=0)
