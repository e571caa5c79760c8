"""What a classic group lets be done with its offsets: commits, deletion, expiry."""

import pytest
from classic_world import INITIAL_DELAY_MS, SESSION_MS, subscription

from barnabas.coordinator.group import GroupType
from barnabas.core.errors import ErrorCode, KafkaError

EAGER = {"protocol_type": "connect", "protocols": (("eager", b"not a subscription"),)}


def refusal(call, *args, **kwargs):
    with pytest.raises(KafkaError) as refused:
        call(*args, **kwargs)
    return refused.value.code


def commit(world, member="", generation=-1, *, instance=None, transactional=False):
    try:
        world.group.validate_offset_commit(
            member_id=member,
            group_instance_id=instance,
            generation=generation,
            transactional=transactional,
            version=8,
            partitions=(),
        )
    except KafkaError as refused:
        return refused.code
    return ErrorCode.NONE


# Commits


def test_anybody_commits_for_a_group_without_members(world):
    world.classic.create_simple(world.shard, "orders")

    assert commit(world) is ErrorCode.NONE
    assert commit(world, "whoever") is ErrorCode.NONE
    assert commit(world, generation=0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_only_members_commit_for_a_group_that_has_some(world):
    (member,) = world.stable()

    assert commit(world, member, 1) is ErrorCode.NONE
    assert commit(world) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, member) is ErrorCode.ILLEGAL_GENERATION
    assert commit(world, member, 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit(world, member, 1, instance="nobody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_are_let_in_while_members_join_but_not_before_the_assignment(world):
    leader, follower = world.stable(2)
    world.join(leader)
    assert commit(world, follower, 1) is ErrorCode.NONE
    world.join(follower)

    assert world.state == "CompletingRebalance"
    assert commit(world, leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life(world):
    (member,) = world.stable()
    for _ in range(3):
        world.clock.advance(SESSION_MS - 1)
        assert commit(world, member, 1) is ErrorCode.NONE


def test_transactions_commit_without_a_member_and_are_no_sign_of_life(world):
    (member,) = world.generation()

    assert commit(world, transactional=True) is ErrorCode.NONE
    assert commit(world, member, 1, transactional=True) is ErrorCode.NONE
    assert commit(world, member, 2, transactional=True) is ErrorCode.ILLEGAL_GENERATION
    assert commit(world, "stranger", 1, transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID
    world.clock.advance(SESSION_MS - 1)
    commit(world, member, 1, transactional=True)
    world.clock.advance(1)
    assert commit(world, member, 1, transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_given_up_takes_no_commits(world):
    (member,) = world.stable()
    world.group.close()

    assert commit(world, member, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert commit(world) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_everybody_may_read(world):
    world.stable()

    world.group.validate_offset_fetch(member_id="whoever", member_epoch=7)


# Deletion


def test_a_group_is_deleted_only_without_members(world):
    (member,) = world.stable()
    assert refusal(world.group.validate_delete) is ErrorCode.NON_EMPTY_GROUP
    world.left(member)

    world.group.validate_delete()
    world.group.close()
    assert refusal(world.group.validate_delete) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal(world.group.validate_offset_delete) is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_that_no_consumer_reads_may_be_deleted(world):
    (leader,) = world.stable(protocols=(("range", subscription("a", "b")),))

    world.group.validate_offset_delete()
    assert world.group.is_subscribed_to("a")
    assert not world.group.is_subscribed_to("c")
    world.left(leader)
    assert not world.group.is_subscribed_to("a")


def test_offsets_of_other_kinds_of_members_may_not(world):
    (member,) = world.generation(**EAGER)
    assert refusal(world.group.validate_offset_delete) is ErrorCode.NON_EMPTY_GROUP
    world.left(member)

    world.group.validate_offset_delete()


def test_before_the_first_generation_every_topic_may_be_read(world):
    world.joining()

    assert world.group.is_subscribed_to("anything")


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1", b"\0\0\0\0\0\5\0\1t"])
def test_where_subscriptions_cannot_be_read_every_topic_may_be(world, metadata):
    world.generation(protocols=(("range", metadata),))

    assert world.group.subscribed_topics is None
    assert world.group.is_subscribed_to("anything")


def test_all_members_subscriptions_count_and_later_versions_are_read(world):
    newer = b"\x7f\xff" + subscription("new")[2:] + b"what nobody knows yet"
    answers = [world.join(version=3, protocols=(("range", each),)) for each in (subscription("old"), newer)]
    world.first_generation(answers)

    assert world.group.subscribed_topics == {"old", "new"}


# Expiry (KIP-211)


def test_offsets_of_a_simple_group_count_each_for_itself(world):
    simple = world.classic.create_simple(world.shard, "simple")

    assert simple.offset_expiry() == (None, frozenset())
    assert (simple.type, simple.protocol_type, simple.is_empty) == (GroupType.CLASSIC, "", True)


def test_offsets_of_a_group_that_everybody_left_count_from_then(world):
    (member,) = world.stable()
    world.clock.advance(5_000)
    world.left(member)
    emptied_ms = world.clock.time_ms()
    world.clock.advance(5_000)

    assert world.group.offset_expiry() == (emptied_ms, frozenset())


def test_stable_consumers_keep_what_they_subscribe_to(world):
    world.stable(protocols=(("range", subscription("a", "b")),))

    assert world.group.offset_expiry() == (None, {"a", "b"})


def test_nothing_expires_while_a_group_rebalances_or_cannot_be_understood(world, world_with):
    world.joining()
    assert world.group.offset_expiry() is None
    world.clock.advance(INITIAL_DELAY_MS)
    assert world.group.offset_expiry() is None

    other = world_with()
    (member,) = other.generation(**EAGER)
    other.sync(member, 1, {}, protocol_type="connect", protocol_name="eager")
    assert other.state == "Stable"
    assert other.group.offset_expiry() is None
