"""Members that stay silent, or do not do in time what they were asked to do."""

import pytest
from consumer_world import REBALANCE_MS, SESSION_MS

from barnabas.core.errors import ErrorCode


def test_silence_ends_the_session(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.clock.advance(SESSION_MS - 1)
    world.beat("m1", 1)
    world.clock.advance(SESSION_MS - 1)
    assert "m1" in world.group.members
    world.clock.advance(1)
    assert world.group.is_empty
    assert world.group.epoch == 2


def test_a_static_member_that_left_for_a_while_must_come_back_in_time(world):
    world.topics.create("a", 1)
    world.join("m1", "a", instance_id="i1")
    world.beat("m1", -2, instance_id="i1")
    world.clock.advance(SESSION_MS)
    assert world.group.is_empty


def test_a_static_member_that_leaves_while_it_gives_up_has_its_session_still(world):
    world.topics.create("a", 2)
    world.join("m1", "a", instance_id="i1", rebalance_timeout_ms=10_000)
    world.join("m2", "a")
    kept = world.told(world.beat("m1", 1, instance_id="i1"))["a"]
    world.beat("m1", -2, instance_id="i1")
    # What it was to give up is free at once: it does not use it any more.
    [given_up] = {0, 1} - set(kept)
    assert world.told(world.beat("m2", 2)) == {"a": [given_up]}
    world.clock.advance(10_000)
    assert sorted(world.group.members) == ["m1", "m2"]


def test_a_member_that_does_not_give_up_its_partitions_is_fenced(world):
    world.topics.create("a", 2)
    world.join("m1", "a", rebalance_timeout_ms=10_000)
    world.join("m2", "a")
    world.beat("m1", 1)
    world.clock.advance(5_000)
    world.beat("m1", 1)
    world.beat("m2", 2)
    world.clock.advance(5_000)
    assert list(world.group.members) == ["m2"]
    assert world.told(world.beat("m2", 2)) == {"a": [0, 1]}


def test_giving_up_in_time_stops_the_clock(world):
    world.topics.create("a", 2)
    world.join("m1", "a", rebalance_timeout_ms=10_000)
    world.join("m2", "a")
    kept = world.told(world.beat("m1", 1))["a"]
    world.beat("m1", 1, topic_partitions=world.owning(a=kept))
    world.clock.advance(10_000)
    assert sorted(world.group.members) == ["m1", "m2"]


def test_a_classic_member_must_fetch_its_assignment_in_time(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    joined = world.classic_join("c1", "a")
    for _ in range(REBALANCE_MS // 5_000):
        world.clock.advance(5_000)
        world.beat("m1", world.group.members["m1"].member_epoch)
        if "c1" in world.group.members:
            world.classic_beat("c1", joined.generation_id)
    assert sorted(world.group.members) == ["m1"]


def test_a_classic_member_must_join_again_in_time(world):
    world.topics.create("a", 2)
    world.join("m1", "a")
    generation = world.classic_join("c1", "a").generation_id
    world.classic_sync("c1", generation)
    world.join("m2", "a")
    for _ in range(REBALANCE_MS // 5_000):
        for name in ("m1", "m2"):
            world.beat(name, world.group.members[name].member_epoch)
        assert world.classic_beat("c1", generation) is ErrorCode.REBALANCE_IN_PROGRESS
        world.clock.advance(5_000)
    assert "c1" not in world.group.members


def test_a_classic_member_has_its_own_session(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    generation = world.classic_join("c1", "a").generation_id
    world.classic_sync("c1", generation)
    world.clock.advance(9_999)
    world.classic_beat("c1", generation)
    world.clock.advance(10_000)
    assert list(world.group.members) == ["m1"]


def test_a_member_is_fenced_later_when_the_log_refuses_now(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.journal.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.clock.advance(SESSION_MS)
    assert "m1" in world.group.members
    world.journal.refusal = None
    world.clock.advance(500)
    assert world.group.is_empty


def test_a_shard_that_is_given_up_leaves_no_timer(world):
    world.topics.create("a", 2)
    world.join("m1", "a")
    world.join("m2", "a")
    world.beat("m1", 1)
    world.classic_join("c1", "a")
    assert world.clock.waiting
    group = world.shard.groups.pop("orders")
    group.close()
    assert world.clock.waiting == 0


@pytest.mark.parametrize("silent", ["m1", "m2"])
def test_sessions_begin_anew_after_a_load(world, silent):
    world.topics.create("a", 2)
    world.join("m1", "a")
    world.join("m2", "a")
    world.beat("m1", 1)
    other = world.reloaded()
    assert other.groups.loaded(other.shard).done
    other.clock.advance(REBALANCE_MS - 1)
    for name in {"m1", "m2"} - {silent}:
        other.beat(name, other.group.members[name].member_epoch)
    other.clock.advance(1)
    # m1 was told to give partitions up, and the new coordinator waits no longer for that than the old one.
    assert list(other.group.members) == ["m2"]
    other.clock.advance(SESSION_MS - REBALANCE_MS)
    assert list(other.group.members) == ([] if silent == "m2" else ["m2"])
