"""Commits of transactions: they wait for the marker, and the journal's order decides."""

import pytest

from barnabas.core.errors import ErrorCode, KafkaError

ORDERS = ("orders", 0)


def end(rig, *, committed, producer_id=9):
    rig.end_transaction(producer_id, committed=committed)


def test_a_commit_is_seen_when_its_transaction_commits(rig):
    assert rig.txn_commit({ORDERS: (5, 1, "m")}) == {ORDERS: 0}
    assert rig.committed() == {}
    assert rig.shard.open_transactions == {9: {"g"}}
    assert rig.journal.producers == [(9, 2)]

    end(rig, committed=True)

    assert rig.fetch() == {ORDERS: (5, 1, "m", 0)}
    assert rig.shard.open_transactions == {}


def test_a_commit_is_forgotten_when_its_transaction_aborts(rig):
    rig.commit({ORDERS: 4})
    rig.txn_commit({ORDERS: 5})

    end(rig, committed=False)

    assert rig.committed() == {ORDERS: 4}
    assert rig.fetch([ORDERS], require_stable=True)[ORDERS][3] == 0


def test_a_later_plain_commit_stays_when_an_earlier_transaction_commits(rig):
    rig.txn_commit({ORDERS: 5, ("orders", 1): 5})
    rig.commit({ORDERS: 9})

    end(rig, committed=True)

    assert rig.committed() == {ORDERS: 9, ("orders", 1): 5}


def test_the_last_commit_of_a_transaction_counts(rig):
    rig.txn_commit({ORDERS: 5})
    rig.txn_commit({ORDERS: 6})

    end(rig, committed=True)

    assert rig.committed() == {ORDERS: 6}


def test_one_producer_commits_for_several_groups(rig):
    rig.txn_commit({ORDERS: 5}, "a")
    rig.txn_commit({ORDERS: 6}, "b")
    rig.txn_commit({ORDERS: 7}, "b", producer_id=10)

    end(rig, committed=True)

    assert (rig.committed("a"), rig.committed("b")) == ({ORDERS: 5}, {ORDERS: 6})
    end(rig, committed=True, producer_id=10)
    assert rig.committed("b") == {ORDERS: 7}


def test_a_marker_of_a_producer_without_commits_changes_nothing(rig):
    rig.commit({ORDERS: 4})

    end(rig, committed=True, producer_id=77)

    assert rig.committed() == {ORDERS: 4}


def test_the_member_is_checked_as_the_group_wants_it(rig):
    rig.group().refusal = KafkaError(ErrorCode.FENCED_INSTANCE_ID)

    with pytest.raises(KafkaError) as refused:
        rig.txn_commit({ORDERS: 5}, generation=3, member_id="m", group_instance_id="i")

    assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID
    asked = rig.group().checks[0]
    assert (asked["generation"], asked["member_id"], asked["transactional"]) == (3, "m", True)
    assert rig.shard.open_transactions == {}


def test_a_commit_that_failed_is_out_of_the_transaction(rig):
    rig.journal.holds = True
    answer = rig.txn_commit({ORDERS: 5})

    rig.journal.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    assert answer.result() == {ORDERS: ErrorCode.REQUEST_TIMED_OUT}
    assert rig.shard.open_transactions == {}
    end(rig, committed=True)
    assert rig.committed() == {}


def test_a_failed_retry_leaves_the_other_partitions_of_the_transaction(rig):
    rig.txn_commit({ORDERS: 5, ("orders", 1): 5})
    rig.journal.holds = True
    rig.txn_commit({ORDERS: 6})
    rig.journal.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    end(rig, committed=True)

    assert rig.committed() == {("orders", 1): 5}


def test_a_commit_that_was_not_written_leaves_no_trace(rig):
    rig.journal.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert rig.txn_commit({ORDERS: 5}) == {ORDERS: ErrorCode.NOT_COORDINATOR}
    assert rig.shard.open_transactions == {}
    assert rig.shard.offsets == {}


def test_marker_and_commit_acknowledged_in_one_moment(rig):
    rig.commit({ORDERS: 4})
    rig.journal.holds = True
    answer = rig.txn_commit({ORDERS: 5})

    end(rig, committed=True)
    rig.journal.acknowledge()

    assert answer.result() == {ORDERS: 0}
    assert rig.committed() == {ORDERS: 5}


def test_a_deleted_topic_leaves_the_transaction(rig):
    rig.txn_commit({ORDERS: 5, ("bills", 0): 1})

    rig.partitions_deleted(ORDERS)
    end(rig, committed=True)

    assert rig.committed() == {("bills", 0): 1}


def test_a_late_failure_does_not_reach_a_group_that_began_anew(rig):
    rig.journal.holds = True
    rig.txn_commit({ORDERS: 50})
    rig.coordinator.delete_group("g")
    rig.journal.holds = False
    rig.txn_commit({ORDERS: 1})

    rig.journal.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    end(rig, committed=True)

    assert rig.committed() == {ORDERS: 1}


def test_a_marker_that_the_replicas_have_late_ends_nothing_that_lies_behind_it(rig):
    """A marker came twice, the second time in the producer's next transaction: its offsets were shown."""
    rig.txn_commit({ORDERS: 5})
    first = rig.journal.marker()
    rig.end_transaction(committed=True, marker=first)
    doubled = rig.journal.marker()
    rig.txn_commit({ORDERS: 6, ("orders", 1): 6})

    rig.end_transaction(committed=True, marker=doubled)

    assert rig.committed() == {ORDERS: 5}
    assert rig.shard.open_transactions == {9: {"g"}}
    end(rig, committed=False)
    assert rig.committed() == {ORDERS: 5}
    assert rig.shard.open_transactions == {}


def test_a_late_marker_of_an_abort_takes_nothing_from_the_next_transaction(rig):
    rig.txn_commit({ORDERS: 5})
    aborted = rig.journal.marker()
    rig.txn_commit({ORDERS: 6})
    rig.txn_commit({("orders", 1): 6}, "other")

    rig.end_transaction(committed=False, marker=aborted)
    end(rig, committed=True)

    assert rig.committed() == {ORDERS: 6}
    assert rig.committed("other") == {("orders", 1): 6}


def test_a_commit_that_fails_late_takes_nothing_from_the_next_transaction(rig):
    rig.journal.holds = True
    rig.txn_commit({ORDERS: 5})
    rig.end_transaction(committed=False)
    rig.journal.holds = False
    rig.txn_commit({ORDERS: 6})
    rig.journal.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    end(rig, committed=True)

    assert rig.committed() == {ORDERS: 6}
