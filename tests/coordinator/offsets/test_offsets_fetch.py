"""Reading offsets back."""

import pytest

from barnabas.core.errors import ErrorCode, KafkaError

ORDERS = ("orders", 0)
NOTHING = (-1, -1, "", 0)


def test_a_group_that_is_not_known_has_no_offsets_and_that_is_no_error(rig):
    assert rig.fetch([ORDERS], "unknown") == {ORDERS: NOTHING}
    assert rig.fetch(None, "unknown") == {}


def test_a_partition_without_a_commit_reads_minus_one(rig):
    rig.commit({ORDERS: 5})

    assert rig.fetch([ORDERS, ("orders", 1), ("bills", 0)]) == {
        ORDERS: (5, -1, "", 0),
        ("orders", 1): NOTHING,
        ("bills", 0): NOTHING,
    }


def test_a_partition_asked_for_twice_is_answered_once(rig):
    rig.commit({ORDERS: 5})

    assert rig.fetch([ORDERS, ORDERS]) == {ORDERS: (5, -1, "", 0)}


def test_an_offset_on_its_way_is_refused_to_who_wants_stable_ones(rig):
    rig.commit({ORDERS: 5, ("orders", 1): 1})
    rig.journal.holds = True
    rig.commit({ORDERS: 6})

    stable = rig.fetch([ORDERS, ("orders", 1)], require_stable=True)

    assert stable[ORDERS] == (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert stable["orders", 1] == (1, -1, "", 0)
    assert rig.fetch([ORDERS])[ORDERS] == (5, -1, "", 0)
    rig.journal.acknowledge()
    assert rig.fetch([ORDERS], require_stable=True)[ORDERS] == (6, -1, "", 0)


def test_all_topics_with_stable_offsets_wanted(rig):
    rig.commit({ORDERS: 5, ("bills", 0): 1})
    rig.txn_commit({ORDERS: 6, ("new", 0): 1})

    assert rig.fetch(None, require_stable=True) == {
        ORDERS: (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT),
        ("bills", 0): (1, -1, "", 0),
    }


def test_the_group_may_refuse_a_member(rig):
    rig.group().refusal = KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    with pytest.raises(KafkaError, match="stale"):
        rig.fetch([ORDERS], member_id="m", member_epoch=3)

    assert rig.group().checks == [{"member_id": "m", "member_epoch": 3}]
