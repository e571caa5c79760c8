"""OffsetDelete, and groups that are deleted with their offsets."""

import pytest
from offsets_rig import Rig

from barnabas.core.errors import ErrorCode, KafkaError

ORDERS = ("orders", 0)


def test_offsets_are_deleted_and_tombstones_written(rig):
    rig.commit({ORDERS: 5, ("orders", 1): 5, ("bills", 0): 1})
    rig.journal.batches.clear()

    assert rig.delete([ORDERS, ("bills", 0), ("never", 3)]) == {ORDERS: 0, ("bills", 0): 0, ("never", 3): 0}

    assert rig.committed() == {("orders", 1): 5}
    assert [(key.topic, value) for key, value in rig.journal.records] == [("orders", None), ("bills", None)]
    assert rig.journal.acks[-1] == 0


def test_topics_that_members_read_are_kept(rig):
    rig.commit({ORDERS: 5, ("bills", 0): 1})
    rig.group().is_empty = False
    rig.group().subscribed = frozenset({"orders"})

    codes = rig.delete([ORDERS, ("bills", 0)])

    assert codes == {ORDERS: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("bills", 0): 0}
    assert rig.committed() == {ORDERS: 5}


def test_an_empty_group_goes_with_its_last_offset(rig):
    rig.commit({ORDERS: 5})
    rig.group().generation = 2

    rig.delete([ORDERS])

    assert rig.shard.groups == {}
    assert [type(key).__name__ for key, _ in rig.journal.records][-2:] == [
        "OffsetCommitKey",
        "GroupMetadataKey",
    ]


def test_in_profile_44_an_empty_group_stays_until_offsets_expire():
    rig = Rig(**{"barnabas.api.profile": "4.4"})
    rig.commit({ORDERS: 5, ("bills", 0): 1})

    assert rig.delete([ORDERS]) == {ORDERS: ErrorCode.NONE}
    rig.partitions_deleted(("bills", 0))
    assert (rig.committed(), list(rig.shard.groups)) == ({}, ["g"])
    assert rig.delete([ORDERS]) == {ORDERS: ErrorCode.NONE}, "it is still there"
    rig.expire()
    assert rig.shard.groups == {}


@pytest.mark.parametrize(("profile", "listed"), [("3.9", ["g"]), ("4.4", [])])
def test_a_commit_whose_transaction_is_refused_leaves_a_group_in_kafka_39_alone(profile, listed):
    rig = Rig(**{"barnabas.api.profile": profile})

    rig.coordinator.begin_transactional_commit("g")  # and its transaction's coordinator does not know it

    assert list(rig.shard.groups) == listed


def test_a_group_that_does_not_exist(rig):
    with pytest.raises(KafkaError) as refused:
        rig.delete([ORDERS], "unknown")
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_may_not_lose_offsets(rig):
    rig.commit({ORDERS: 5})
    rig.group().refusal = KafkaError(ErrorCode.NON_EMPTY_GROUP)

    with pytest.raises(KafkaError) as refused:
        rig.delete([ORDERS])

    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    rig.group().refusal = None
    assert rig.committed() == {ORDERS: 5}


def test_nothing_is_deleted_that_could_not_be_written(rig):
    rig.commit({ORDERS: 5})
    rig.journal.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with pytest.raises(KafkaError) as refused:
        rig.delete([ORDERS])

    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert rig.committed() == {ORDERS: 5}


def test_a_group_is_forgotten_with_all_that_is_on_its_way(rig):
    rig.commit({ORDERS: 5})
    rig.txn_commit({("orders", 1): 5})
    rig.txn_commit({ORDERS: 1}, "other")
    rig.journal.holds = True
    answer = rig.commit({ORDERS: 6})
    group = rig.group()

    rig.coordinator.delete_group("g")
    rig.journal.acknowledge()

    assert [(record.key.topic, record.key.partition, record.value) for record in rig.journal.batches[-1]] == [
        ("orders", 0, None)
    ]
    assert answer.done
    assert rig.committed() == {}
    assert rig.shard.open_transactions == {9: {"other"}}
    assert group.closed


def written_back(rig):
    """What the next leader finds: the last word on each partition."""
    last = {(key.topic, key.partition): value for key, value in rig.journal.records if hasattr(key, "topic")}
    return {place: value.offset for place, value in last.items() if value is not None}


def deleted_offset(rig):
    rig.group().is_empty = False
    rig.delete([ORDERS])


def deleted_partition(rig):
    rig.group().is_empty = False
    rig.partitions_deleted(ORDERS)


def deleted_group(rig):
    rig.coordinator.delete_group("g")


@pytest.mark.parametrize("take_away", [deleted_offset, deleted_partition, deleted_group])
def test_a_commit_that_waits_for_the_replicas_does_not_come_back_after_a_reload(rig, take_away):
    rig.commit({("orders", 1): 4})
    rig.journal.holds = True
    answer = rig.commit({ORDERS: 5})

    take_away(rig)
    rig.journal.acknowledge()

    assert answer.done
    assert ORDERS not in rig.committed()
    assert ORDERS not in written_back(rig)


def test_to_delete_nothing_leaves_a_group_without_offsets_alone(rig):
    rig.group()

    assert rig.delete([]) == {}

    assert "g" in rig.shard.groups
