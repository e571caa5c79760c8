"""A group's record in __consumer_offsets, written as Kafka 3.9 writes it and read in every version."""

import itertools

import pytest
from classic_world import GROUP, REBALANCE_MS, SESSION_MS, World, subscription

from barnabas.core.errors import ErrorCode
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS


def reloaded(world, *, version=3, **settings):
    """Another coordinator that reads what this one wrote last, in this version."""
    (record,) = world.journal.batches[-1]
    key, value = CONSUMER_OFFSETS.decode(record.key.to_bytes(), record.value.to_bytes(version))
    heir = World(**settings)
    heir.classic.replay(heir.shard, key, value)
    assert heir.classic.loaded(heir.shard).done
    return heir


def test_a_generation_is_written_with_all_that_the_next_coordinator_needs(world):
    first = world.join(instance="one", client="billing")
    second = world.join(version=3, rebalance_ms=30_000, session_ms=20_000)
    leader, other = world.first_generation([first, second])
    since_ms = world.clock.time_ms()
    world.clock.advance(100)
    world.sync(leader, 1, {leader: b"L", other: b"O"})

    (record,) = world.journal.batches[-1]
    assert (record.key, record.value_version) == (GroupMetadataKey(group=GROUP), 3)
    assert world.journal.last() == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=leader,
        current_state_timestamp=since_ms,
        members=[
            MemberMetadata(
                member_id="one-uuid1",
                group_instance_id="one",
                client_id="billing",
                client_host="/127.0.0.1",
                rebalance_timeout=REBALANCE_MS,
                session_timeout=SESSION_MS,
                subscription=subscription("t"),
                assignment=b"L",
            ),
            MemberMetadata(
                member_id=other,
                group_instance_id=None,
                client_id="app",
                client_host="/127.0.0.1",
                rebalance_timeout=30_000,
                session_timeout=20_000,
                subscription=subscription("t"),
                assignment=b"O",
            ),
        ],
    )


@pytest.mark.parametrize("version", range(5))
def test_the_next_coordinator_goes_on_with_the_group(world, version):
    leader, follower = world.stable(2)

    heir = reloaded(world, version=version)

    assert (heir.state, heir.group.generation_id) == ("Stable", 1)
    assert heir.heartbeat(leader, 1) is ErrorCode.NONE
    assert heir.sync(follower, 1).result.assignment == f"part of {follower}".encode()
    assert heir.join(follower).result.leader == leader
    assert heir.join(leader).waits
    known = heir.group.members[follower].terms
    assert known.session_timeout_ms == SESSION_MS
    assert known.rebalance_timeout_ms == (REBALANCE_MS if version >= 1 else SESSION_MS)


def test_loaded_members_have_one_session_time_out_to_be_heard_of(world):
    leader, follower = world.stable(2)
    heir = reloaded(world)
    heir.clock.advance(SESSION_MS - 1)
    assert heir.heartbeat(leader, 1) is ErrorCode.NONE
    heir.clock.advance(1)

    assert heir.state == "PreparingRebalance"
    assert follower not in heir.group.members


def test_the_sessions_of_many_groups_begin_in_slices(world):
    """Each look at the clock costs a millisecond here, so five groups or so are a slice."""
    world.stable()
    value = world.journal.last()
    heir = World()
    for number in range(20):
        heir.classic.replay(heir.shard, GroupMetadataKey(group=f"group{number}"), value)
    heir.clock.monotonic_ms = lambda: float(next(ticks))
    ticks = itertools.count()

    begun = heir.classic.loaded(heir.shard)

    assert not begun.done
    assert 0 < heir.clock.waiting < 20
    heir.shard.groups["group19"].close()
    heir.clock.advance()
    while not begun.done:
        heir.clock.advance()
    assert heir.clock.waiting == 19


def test_static_members_keep_their_place(world):
    _, follower = world.static_stable("one", "two")
    heir = reloaded(world)

    back = heir.join(instance="two").result

    assert back.generation_id == 1
    assert heir.heartbeat(follower, 1, "two") is ErrorCode.FENCED_INSTANCE_ID


def test_an_empty_group_is_read_back_empty(world):
    (member,) = world.stable()
    world.left(member)
    emptied_ms = world.clock.time_ms()

    heir = reloaded(world)

    assert (heir.state, heir.group.generation_id, heir.group.protocol_type) == ("Empty", 2, "consumer")
    assert heir.group.offset_expiry() == (emptied_ms, frozenset())
    assert heir.clock.waiting == 0


def test_a_record_too_old_to_tell_since_when_leaves_it_open(world):
    (member,) = world.stable()
    world.left(member)

    assert reloaded(world, version=1).group.offset_expiry() == (None, frozenset())


def test_generations_go_on_counting(world):
    (member,) = world.stable()
    world.left(member)
    heir = reloaded(world)

    heir.generation()

    assert heir.group.generation_id == 3


def test_the_last_record_holds_and_a_tombstone_takes_the_group_away(world):
    world.stable()
    key, value = world.journal.batches[-1][0].key, world.journal.last()
    heir = World()
    heir.classic.replay(heir.shard, key, value)
    heir.classic.replay(heir.shard, key, None)
    heir.classic.replay(heir.shard, key, None)
    assert heir.shard.groups == {}

    value.generation = 9
    heir.classic.replay(heir.shard, key, value)
    assert heir.group.generation_id == 9


def test_a_tombstone_does_not_touch_a_group_of_the_other_kind(world):
    other = world.shard.groups[GROUP] = object()
    world.classic.replay(world.shard, GroupMetadataKey(group=GROUP), None)

    assert world.shard.groups[GROUP] is other


def test_a_member_that_speaks_before_the_loading_is_over_is_heard(world):
    (member,) = world.stable()
    heir = World()
    heir.classic.replay(heir.shard, world.journal.batches[-1][0].key, world.journal.last())

    assert heir.heartbeat(member, 1) is ErrorCode.NONE
    heir.classic.loaded(heir.shard)
    assert heir.clock.waiting == 1


def test_the_group_s_own_tombstone():
    world = World()
    simple = world.classic.create_simple(world.shard, "simple")
    assert simple.tombstones() == []

    world.stable()
    (tombstone,) = world.group.tombstones()
    assert (tombstone.key, tombstone.value) == (GroupMetadataKey(group=GROUP), None)
