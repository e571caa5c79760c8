"""Offsets grow old (KIP-211): which, when, and what is written of it."""

import itertools

from offsets_rig import Rig

from barnabas.coordinator.group import OffsetExpiry
from barnabas.core.errors import ErrorCode, KafkaError

ORDERS = ("orders", 0)
DAY_MINUTES = 24 * 60


def test_offsets_of_a_simple_group_count_from_their_own_commit():
    rig = Rig(**{"offsets.retention.minutes": "10"})
    rig.commit({ORDERS: 5})
    rig.later(minutes=6)
    rig.commit({("orders", 1): 5})

    rig.later(minutes=4 - 1 / 60_000)
    assert rig.expire() == 0
    rig.later(minutes=1 / 60_000)
    assert rig.expire() == 1

    assert rig.committed() == {("orders", 1): 5}


def test_the_default_is_a_week(rig):
    rig.commit({ORDERS: 5})
    rig.later(minutes=7 * DAY_MINUTES - 1)
    assert rig.expire() == 0
    rig.later(minutes=1)
    assert rig.expire() == 1


def test_offsets_of_an_empty_group_count_from_when_it_became_empty(rig):
    rig.set(offsets_retention_ms=10 * 60_000)
    rig.commit({ORDERS: 5})
    rig.later(minutes=9)
    rig.group().expiry = OffsetExpiry(rig.clock.now_ms, frozenset())

    rig.later(minutes=9)
    assert rig.expire() == 0
    rig.later(minutes=1)
    assert rig.expire() == 1


def test_subscribed_topics_stay_and_others_go(rig):
    rig.commit({ORDERS: 5, ("old", 0): 5, ("old", 1): 5})
    rig.group().is_empty = False
    rig.group().expiry = OffsetExpiry(None, frozenset({"orders"}))

    rig.later(minutes=7 * DAY_MINUTES)
    assert rig.expire() == 2

    assert rig.committed() == {ORDERS: 5}


def test_nothing_expires_while_the_group_says_so(rig):
    rig.commit({ORDERS: 5})
    rig.group().is_empty = False
    rig.group().expiry = None

    rig.later(minutes=70 * DAY_MINUTES)

    assert rig.expire() == 0
    assert rig.committed() == {ORDERS: 5}


def test_a_retention_of_the_clients_own_wins_over_the_brokers(rig):
    rig.commit({ORDERS: 5}, retention_ms=60_000, version=4)
    rig.commit({("orders", 1): 5}, retention_ms=30 * DAY_MINUTES * 60_000, version=4)
    rig.group().expiry = OffsetExpiry(rig.clock.now_ms, frozenset())

    rig.later(minutes=1)
    assert rig.expire() == 1
    rig.later(minutes=10 * DAY_MINUTES)
    assert rig.expire() == 0
    assert rig.committed() == {("orders", 1): 5}


def test_a_partition_with_a_commit_on_its_way_stays(rig):
    rig.commit({ORDERS: 5})
    rig.later(minutes=8 * DAY_MINUTES)
    rig.journal.holds = True
    rig.commit({ORDERS: 6})

    assert rig.expire() == 0

    rig.journal.acknowledge()
    assert rig.committed() == {ORDERS: 6}


def test_a_group_waits_for_the_end_of_a_transaction(rig):
    rig.txn_commit({ORDERS: 5})
    rig.later(minutes=8 * DAY_MINUTES)

    assert rig.expire() == 0
    assert "g" in rig.shard.groups
    rig.end_transaction(committed=True)
    assert rig.expire() == 1
    assert "g" not in rig.shard.groups


def test_one_batch_a_group_with_the_groups_own_tombstone_that_nobody_waits_for(rig):
    rig.commit({ORDERS: 5, ("orders", 1): 5}, "a")
    rig.commit({ORDERS: 5}, "b")
    rig.group("a").generation = 4
    group = rig.group("a")
    rig.journal.batches.clear()
    rig.journal.acks.clear()
    rig.later(minutes=8 * DAY_MINUTES)

    assert rig.expire() == 3

    assert [len(batch) for batch in rig.journal.batches] == [3, 1]
    assert rig.journal.acks == [0, 0]
    assert all(value is None for _, value in rig.journal.records)
    assert [type(key).__name__ for key, _ in rig.journal.records] == [
        "OffsetCommitKey",
        "OffsetCommitKey",
        "GroupMetadataKey",
        "OffsetCommitKey",
    ]
    assert (rig.shard.groups, rig.shard.offsets) == ({}, {})
    assert group.closed


def test_an_empty_group_without_offsets_goes_and_leaves_no_record_if_it_had_none(rig):
    rig.group("simple")
    rig.group("managed").generation = 1
    rig.group("alive").is_empty = False

    assert rig.expire() == 0

    assert list(rig.shard.groups) == ["alive"]
    assert [key.group for key, _ in rig.journal.records] == ["managed"]


def test_what_cannot_be_written_is_still_there_at_the_next_check(rig):
    rig.commit({ORDERS: 5}, "a")
    rig.commit({ORDERS: 5}, "b")
    rig.later(minutes=8 * DAY_MINUTES)
    rig.journal.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert rig.expire() == 0
    assert (rig.committed("a"), rig.committed("b")) == ({ORDERS: 5}, {ORDERS: 5})

    rig.journal.refusal = None
    assert rig.expire() == 2


def test_a_check_of_many_groups_lets_others_in_between(rig):
    rig.set(offsets_retention_ms=60_000)
    for number in range(30):
        rig.commit({ORDERS: 5}, f"g{number}")
    rig.later(minutes=2)
    # Each look at the clock takes a millisecond.
    rig.clock.monotonic_ms = itertools.count(rig.clock.now_ms).__next__

    done = rig.expiring()

    assert not done.done
    first = 30 - len(rig.shard.groups)
    assert 0 < first < 30
    rig.shard.groups.pop("g29")  # deleted by a request that was served in between
    rig.shard.offsets.pop("g29")
    while not done.done:
        rig.clock.advance()
    assert done.result() == 29
    assert rig.shard.groups == {}


# Topics that are deleted


def test_offsets_of_deleted_partitions_go_at_once(rig):
    rig.commit({ORDERS: 5, ("orders", 1): 5, ("bills", 0): 1}, "a")
    rig.commit({ORDERS: 5}, "b")
    rig.group("a").is_empty = False
    rig.journal.batches.clear()

    assert rig.partitions_deleted(ORDERS, ("orders", 1)) == 3

    assert rig.committed("a") == {("bills", 0): 1}
    assert "b" not in rig.shard.groups
    assert [len(batch) for batch in rig.journal.batches] == [2, 1]
    assert all(value is None for _, value in rig.journal.records)


def test_a_deletion_of_very_many_partitions_writes_down_what_a_group_has_of_them(rig):
    rig.commit({ORDERS: 5, ("orders", 1): 5, ("bills", 0): 1}, "a")
    rig.commit({("bills", 0): 1}, "b")
    rig.journal.batches.clear()

    assert rig.partitions_deleted(*(("orders", index) for index in range(1000))) == 2

    assert (rig.committed("a"), rig.committed("b")) == ({("bills", 0): 1}, {("bills", 0): 1})
    assert [len(batch) for batch in rig.journal.batches] == [2]


def test_a_group_with_members_stays_without_offsets(rig):
    rig.commit({ORDERS: 5})
    rig.group().is_empty = False

    assert rig.partitions_deleted(ORDERS) == 1

    assert "g" in rig.shard.groups
    assert rig.committed() == {}


def test_an_old_offset_stays_while_a_transaction_is_about_to_replace_it(rig):
    rig.commit({ORDERS: 5})
    rig.later(minutes=7 * DAY_MINUTES)
    rig.txn_commit({ORDERS: 6})

    assert rig.expire() == 0
    rig.end_transaction(committed=True)

    assert rig.committed() == {ORDERS: 6}
