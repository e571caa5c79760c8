"""What a group sets for itself, and assignments at most once an interval (KIP-1263).

The epochs and assignments are those that a genuine Kafka 4.4.0 gave to the same requests, one lower: its
groups begin with another epoch.
"""

from consumer_world import GROUP, World

from barnabas.core.errors import ErrorCode

INTERVAL = {"group.consumer.assignment.interval.ms": "1000"}


def batching():
    world = World(config=INTERVAL)
    world.topics.create("a", 4)
    return world


def epochs(world):
    return world.group.epoch, world.group.assignment_epoch


def test_classic_members_are_not_called_back_before_the_interval_is_over():
    """Among themselves each would join, and be called back by its next heartbeat, for the whole interval."""
    world = World(config=INTERVAL, consumer_migration_policy="upgrade")
    world.topics.create("a", 4)
    first = world.member("m1", "a")
    joined = world.classic_join("c1", "a")
    first.leave()
    assert world.group.classic_member_count == len(world.group.members) == 1
    assert world.group.epoch > world.group.assignment_epoch
    joined = world.classic_join("c1", "a")
    world.classic_sync("c1", joined.generation_id)
    assert world.classic_beat("c1", joined.generation_id) is ErrorCode.NONE
    world.clock.advance(1_000)
    assert world.classic_beat("c1", joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.classic_join("c1", "a")
    assert again.generation_id == world.group.epoch == world.group.assignment_epoch


def test_a_groups_own_heartbeat_and_session_count_from_the_next_heartbeat_on(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.configured[GROUP] = {
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.session.timeout.ms": "50000",
    }

    assert world.beat("m1", 1).heartbeat_interval_ms == 6_000
    world.clock.advance(49_999)
    assert world.beat("m1", 1).heartbeat_interval_ms == 6_000
    del world.configured[GROUP]
    assert world.beat("m1", 1).heartbeat_interval_ms == 5_000
    world.clock.advance(45_000)
    assert world.group.is_empty


def test_a_value_beyond_what_the_broker_allows_now_is_the_nearest_one(world):
    world.topics.create("a", 1)
    world.configured[GROUP] = {"consumer.heartbeat.interval.ms": "20000"}

    assert world.join("m1", "a").heartbeat_interval_ms == 15_000


def test_the_session_of_a_group_counts_after_a_load(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.configured[GROUP] = {"consumer.session.timeout.ms": "60000"}
    other = world.reloaded()
    assert other.groups.loaded(other.shard).done

    other.clock.advance(59_999)
    assert not other.group.is_empty
    other.clock.advance(1)
    assert other.group.is_empty


def test_members_that_come_within_the_interval_are_assigned_together():
    world = batching()
    assert world.told(world.join("m1", "a")) == {"a": [0, 1, 2, 3]}

    assert world.told(world.join("m2", "a")) == {}
    assert world.told(world.join("m3", "a")) == {}
    assert epochs(world) == (3, 1)
    assert world.described().group_state == "Assigning"
    world.clock.advance(999)
    assert world.beat("m2", 1).member_epoch == 1

    world.clock.advance(1)
    assert world.beat("m2", 1).member_epoch == 3
    assert epochs(world) == (3, 3)
    assert len(world.told(world.beat("m1", 1))["a"]) < 4


def test_an_empty_group_is_assigned_at_once():
    world = batching()
    world.join("m1", "a")
    world.beat("m1", -1)
    assert epochs(world) == (2, 2)

    assert world.told(world.join("m2", "a")) == {"a": [0, 1, 2, 3]}


def test_the_interval_outlives_the_coordinator():
    world = batching()
    world.join("m1", "a")
    other = world.reloaded()

    assert other.told(other.join("m2", "a")) == {}
    other.clock.advance(1_000)
    assert other.beat("m2", 1).member_epoch == 2


def test_a_clock_that_was_ahead_holds_no_group_back():
    world = batching()
    world.join("m1", "a")
    world.group.assigned_at_ms += 3_600_000

    assert world.join("m2", "a").member_epoch == 2


def test_a_classic_member_is_asked_to_join_again_when_there_is_a_new_target():
    world = batching()
    world.join("m1", "a")
    member = world.classic_join("", "a").member_id
    assert world.classic_join(member, "a").generation_id == 1
    assert world.classic_beat(member, 1) == ErrorCode.NONE

    world.clock.advance(1_000)
    assert world.classic_beat(member, 1) == ErrorCode.NONE
    world.beat("m1", 1)
    assert world.classic_beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.classic_join(member, "a").generation_id == 2
