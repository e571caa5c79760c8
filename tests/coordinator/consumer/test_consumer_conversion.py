"""Groups that change their protocol: upgrade, downgrade, and empty groups of either kind."""

from dataclasses import replace

import pytest
from consumer_world import World, assignment, assignment_read

from barnabas.coordinator.group import GroupType
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending


def classic_group(world):
    """A stable classic group of two members that share topic a."""
    world.topics.create("a", 4)
    first = world.classic_join("", "a", version=3)
    assert isinstance(first, Pending)
    second = world.classic_join("", "a", version=3)
    world.clock.advance(2 * world.settings.initial_rebalance_delay_ms)
    first, second = first.result(), second.result()
    shares = [
        (first.member_id, assignment(a=[0, 1])),
        (second.member_id, assignment(a=[2, 3])),
    ]
    world.classic_sync(second.member_id, 1)
    world.classic_sync(first.member_id, 1, assignments=shares)
    assert (world.group.type, world.group.state_name) == (GroupType.CLASSIC, "Stable")
    return first.member_id, second.member_id


def refused(call, *arguments, **fields):
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **fields)
    return caught.value.code


@pytest.mark.parametrize("policy", ["upgrade", "bidirectional"])
def test_a_consumer_member_upgrades_a_classic_group(world_with, policy):
    world = world_with(consumer_migration_policy=policy)
    first, second = classic_group(world)
    joined = world.join("m1", "a")
    assert world.group.type is GroupType.CONSUMER
    assert (joined.member_epoch, world.told(joined), world.group.epoch) == (2, {}, 2)
    assert (world.assigned(first), world.assigned(second)) == ({"a": [0, 1]}, {"a": [2, 3]})
    for name in (first, second):
        assert world.classic_beat(name, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert world.group.members[name].member_epoch == 1


def test_an_upgrade_is_written_as_a_tombstone_and_the_whole_new_group(world_with):
    world = world_with(consumer_migration_policy="upgrade")
    first, second = classic_group(world)
    world.join("m1", "a")
    kinds = [type(record.key).record_type for record in world.journal.batches[-1]]
    assert kinds == [2, 5, 5, 3, 7, 7, 6, 8, 8, 5, 4, 3, *([7] * (kinds.count(7) - 2)), 6, 8]
    assert world.journal.batches[-1][0].value is None
    loaded = world.reloaded().group
    assert loaded.members == world.group.members
    assert set(loaded.members) == {first, second, "m1"}


def test_everybody_gets_its_share_after_an_upgrade(world_with):
    world = world_with(consumer_migration_policy="upgrade")
    names = classic_group(world)
    member = world.member("m1", "a")
    owned = {name: world.assigned(name)["a"] for name in names}
    for _ in range(3):
        for name in names:
            generation = world.classic_join(name, "a", owned={"a": owned[name]}).generation_id
            owned[name] = assignment_read(world.classic_sync(name, generation).assignment).get("a", [])
        member.beat()
    assert world.group.state_name == "Stable"
    assert sorted([*owned[names[0]], *owned[names[1]], *world.assigned("m1")["a"]]) == [0, 1, 2, 3]


def test_whoever_waits_for_a_classic_rebalance_is_sent_to_the_new_group(world_with):
    world = world_with(consumer_migration_policy="upgrade")
    first, _ = classic_group(world)
    parked = world.classic_join(first, "a", "b")
    assert isinstance(parked, Pending)
    world.join("m1", "a")
    assert parked.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert parked.result().member_id == first


def test_a_refused_upgrade_leaves_the_classic_group_as_it_was(world_with):
    world = world_with(consumer_migration_policy="upgrade")
    first, _ = classic_group(world)
    parked = world.classic_join(first, "a", "b")
    world.journal.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert refused(world.join, "m1", "a") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.group.type is GroupType.CLASSIC
    assert not parked.done


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_classic_group_stays_what_it_is_where_the_policy_says_so(world_with, policy):
    world = world_with(consumer_migration_policy=policy)
    classic_group(world)
    with pytest.raises(KafkaError, match="Group orders is not a consumer group") as caught:
        world.join("m1", "a")
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused(world.beat, "m1", 1) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_is_too_big_is_not_upgraded(world_with):
    world = world_with(consumer_migration_policy="upgrade", consumer_max_size=1)
    classic_group(world)
    assert refused(world.join, "m1", "a") is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_others_than_consumers_is_not_upgraded(world_with):
    world = world_with(consumer_migration_policy="upgrade")
    world.classic_join("", "a", version=3, protocol_type="connect")
    assert refused(world.join, "m1", "a") is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_whose_members_say_what_no_consumer_says_is_not_upgraded(world_with):
    world = world_with(consumer_migration_policy="upgrade")
    first, _ = classic_group(world)
    member = world.group.members[first]
    member.terms = member.terms._replace(protocols=(("range", b"x"),))
    with pytest.raises(KafkaError, match="the embedded consumer protocol is malformed") as caught:
        world.join("m1", "a")
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.group.state_name == "Stable"


def test_sessions_go_on_after_an_upgrade(world_with):
    world = world_with(consumer_migration_policy="upgrade")
    classic_group(world)
    world.join("m1", "a")
    world.clock.advance(10_000)
    assert list(world.group.members) == ["m1"]


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_an_empty_group_is_anybodys(world_with, policy):
    world = world_with(consumer_migration_policy=policy)
    first, second = classic_group(world)
    world.classic_leave((first, None), (second, None))
    assert world.group.is_empty
    assert world.told(world.join("m1", "a")) == {"a": [0, 1, 2, 3]}
    assert world.group.type is GroupType.CONSUMER
    assert world.journal.batches[-1][0].key.record_type == 2

    world.beat("m1", -1)
    assert world.group.is_empty
    assert refused(world.classic_join, "stranger", "a") is ErrorCode.UNKNOWN_MEMBER_ID
    waits = world.classic_join("", "a", version=3)
    assert (world.group.type, waits.done) == (GroupType.CLASSIC, False)
    world.clock.advance(2 * world.settings.initial_rebalance_delay_ms)
    assert waits.result().generation_id == 1


def test_a_group_that_only_commits_becomes_a_consumer_group(world):
    world.topics.create("a", 1)
    world.classic.create_simple(world.shard, "orders")
    world.join("m1", "a")
    assert world.group.type is GroupType.CONSUMER


def mixed(policy):
    """A consumer member and a classic one, each with two partitions."""
    world = World(consumer_migration_policy=policy)
    world.topics.create("a", 4)
    world.consumer = world.member("m1", "a")
    world.classic_join("c1", "a")
    world.classic_sync("c1", 2)
    world.consumer.beat()
    world.consumer.beat()
    world.classic_join("c1", "a")
    world.owned = assignment_read(world.classic_sync("c1", 2).assignment)["a"]
    return world


@pytest.mark.parametrize("policy", ["downgrade", "bidirectional"])
@pytest.mark.parametrize("how", ["leaves", "expires"])
def test_the_group_goes_back_when_its_last_consumer_member_goes(policy, how):
    world = mixed(policy)
    if how == "leaves":
        world.consumer.leave()
    else:
        for _ in range(9):
            world.classic_beat("c1", 2)
            world.clock.advance(5_000)
    assert (world.group.type, world.group.state_name) == (GroupType.CLASSIC, "PreparingRebalance")
    assert world.classic_beat("c1", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.classic_join("c1", "a")
    assert (again.generation_id, again.leader, [one.member_id for one in again.members]) == (3, "c1", ["c1"])


def test_a_downgrade_hands_back_what_members_have():
    world = mixed("downgrade")
    world.consumer.leave()
    *tombstones, record = world.journal.batches[-1]
    assert all(one.value is None for one in tombstones)
    value = record.value
    assert (type(record.key).record_type, record.value_version) == (2, 3)
    assert (value.protocol_type, value.protocol, value.generation, value.leader) == (
        "consumer",
        "range",
        2,
        "c1",
    )
    (member,) = value.members
    assert (member.member_id, member.session_timeout, member.rebalance_timeout) == ("c1", 10_000, 30_000)
    assert assignment_read(member.assignment) == {"a": world.owned}
    loaded = world.reloaded().group
    assert (loaded.type, loaded.state_name) == (GroupType.CLASSIC, "Stable")


@pytest.mark.parametrize("refuses", [False, True])
def test_the_group_goes_back_when_a_static_member_comes_back_with_the_old_protocol(refuses):
    world = World(consumer_migration_policy="downgrade")
    world.topics.create("a", 2)
    world.join("m1", "a", instance_id="i1")
    written = world.journal.append

    def append(records, **options):
        if refuses and len(world.journal.batches) > 1:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return written(records, **options)

    world.journal.append = append
    joined = world.classic_join("", "a", instance_id="i1")
    assert (joined.error_code, joined.generation_id) == (0, 1)
    if refuses:
        assert world.group.type is GroupType.CONSUMER
        assert assignment_read(world.classic_sync(joined.member_id, 1, instance_id="i1").assignment) == {
            "a": [0, 1]
        }
        return
    assert (world.group.type, world.group.state_name) == (GroupType.CLASSIC, "PreparingRebalance")
    assert world.classic_beat(joined.member_id, 1, "i1") is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.classic_join(joined.member_id, "a", instance_id="i1")
    assert (again.generation_id, again.leader) == (2, joined.member_id)


def test_members_have_a_session_after_a_downgrade():
    world = mixed("downgrade")
    world.consumer.leave()
    world.clock.advance(10_000)
    assert world.group.is_empty


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_the_group_stays_what_it_is_where_the_policy_says_so(policy):
    world = mixed(policy)
    world.consumer.leave()
    assert world.group.type is GroupType.CONSUMER
    assert list(world.group.members) == ["c1"]
    assert world.classic_beat("c1", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.classic_join("c1", "a", owned={"a": world.owned}).generation_id == 3
    assert assignment_read(world.classic_sync("c1", 3).assignment) == {"a": [0, 1, 2, 3]}


def test_a_group_stays_a_consumer_group_while_a_consumer_member_is_left():
    world = mixed("bidirectional")
    world.member("m2", "a")
    world.consumer.leave()
    assert world.group.type is GroupType.CONSUMER


def test_a_classic_member_that_leaves_downgrades_no_group_of_consumers():
    world = mixed("bidirectional")
    world.classic_join("c2", "a")
    assert world.classic_leave(("c2", None)) == [ErrorCode.NONE]
    assert (world.group.type, sorted(world.group.members)) == (GroupType.CONSUMER, ["c1", "m1"])


@pytest.mark.parametrize(("size", "becomes"), [(1, GroupType.CONSUMER), (2, GroupType.CLASSIC)])
def test_a_group_goes_back_where_a_classic_group_may_be_as_large(world_with, size, becomes):
    world = world_with(consumer_migration_policy="bidirectional", max_size=size)
    world.topics.create("a", 4)
    member = world.member("m1", "a")
    world.classic_join("c1", "a")
    world.classic_join("c2", "a")
    member.leave()
    assert (world.group.type, len(world.group.members)) == (becomes, 2)


def test_a_group_that_gets_empty_is_not_downgraded(world_with):
    world = world_with(consumer_migration_policy="bidirectional")
    world.member("m1", "a").leave()
    assert world.group.type is GroupType.CONSUMER


def test_whoever_waits_for_the_first_generation_is_sent_to_the_new_group_too(world_with):
    world = world_with(consumer_migration_policy="upgrade")
    world.topics.create("a", 4)
    parked = world.classic_join("", "a", version=3)
    world.join("m1", "a")
    assert parked.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert parked.result().member_id in world.group.members


def test_a_member_whose_other_protocol_cannot_be_read_keeps_nobody_from_leaving():
    world = mixed("downgrade")
    member = world.group.members["c1"]
    world.group.update_member(replace(member, classic=member.classic._replace(protocols=(("range", b""),))))
    world.consumer.leave()
    assert world.group.type is GroupType.CLASSIC
    assert assignment_read(world.journal.batches[-1][-1].value.members[0].assignment) == {"a": world.owned}


def test_a_protocol_that_a_member_names_twice_counts_once(world):
    world.topics.create("a", 2)
    world.join("m1", "a")
    assert world.classic_join("c1", "a", protocols=("range", "range")).error_code == 0
    assert world.classic_join("c2", "a").error_code == 0
