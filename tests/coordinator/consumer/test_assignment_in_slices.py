"""A target that takes long to make: in slices, while members go on with what they have.

Half a millisecond passes with each look at the clock, so a slice of five has room for ten steps.
"""

import pytest
from consumer_world import World

from barnabas.core.errors import ErrorCode, KafkaError
from standing_clock import TickingClock

BILLS, ORDERS = 8, 40
ALL = [f"orders{number}" for number in range(20)]


@pytest.fixture(params=["uniform", "range"])
def world(request):
    world = World(clock=TickingClock(), config={"group.consumer.assignors": request.param}.items())
    for topic in ALL:
        world.topics.create(topic, ORDERS // len(ALL))
    world.topics.create("bills", BILLS)
    return world


def made(world):
    """The target is there; how many turns of the loop it took."""
    turns = 0
    while world.group.assignor_running:
        world.clock.advance()
        turns += 1
    return turns


def beat_until_stable(world, members):
    """Each member says what it owns, in turn, until all have what they are to have."""
    for _ in range(10):
        for member in members:
            member.beat()
            made(world)
        if world.group.state_name == "Stable":
            return
    raise AssertionError(world.group)


def owned(members):
    """(topic, partition) pairs; none has two owners."""
    pairs = [
        (topic, partition)
        for member in members
        for topic, partitions in member.owned.items()
        for partition in partitions
    ]
    assert len(set(pairs)) == len(pairs)
    return pairs


def test_the_members_go_on_with_what_they_have_and_find_the_target_later(world):
    first = world.member("m1", *ALL, "bills")
    assert (first.epoch, len(owned([first]))) == (1, ORDERS + BILLS), "who makes the group waits for nobody"
    second = world.member("m2", *ALL)
    assert (world.group.assignor_running, world.group.epoch, world.group.assignment_epoch) == (True, 2, 1)
    assert (second.epoch, second.owned) == (1, {})
    for member in (first, second):
        member.beat()
        assert member.epoch == 1
    assert made(world)
    beat_until_stable(world, [first, second])

    assert (first.epoch, second.epoch) == (2, 2)
    assert second.owned


def test_all_of_it_has_one_owner_in_the_end(world):
    members = [world.member(f"m{each}", *ALL, *(["bills"] if each == 1 else [])) for each in range(1, 8)]
    beat_until_stable(world, members)

    assert len(owned(members)) == ORDERS + BILLS
    assert {member.epoch for member in members} == {world.group.epoch}
    assert world.reloaded().group.targets == world.group.targets


def test_who_comes_meanwhile_is_in_the_next_target(world):
    members = [world.member(f"m{each}", *ALL, "bills") for each in range(1, 4)]
    assert (world.group.epoch, world.group.assignor_running) == (3, True)
    made(world)
    assert world.group.assignment_epoch == 2
    assert not world.group.targets.get("m3")
    beat_until_stable(world, members)

    assert (world.group.assignment_epoch, len(owned(members))) == (3, ORDERS + BILLS)
    assert all(member.owned for member in members)


def test_a_static_member_that_comes_back_meanwhile_has_the_place_of_the_one_before(world):
    """It raises no epoch, so there will be no other target for it."""
    one = world.member("m1", *ALL, "bills", instance_id="i1")
    one.leave(epoch=-2)
    two = world.member("m2", *ALL)
    back = world.member("m3", *ALL, "bills", instance_id="i1")
    assert world.group.assignor_running
    made(world)
    assert world.group.epoch == world.group.assignment_epoch == 2
    beat_until_stable(world, [back, two])

    assert len(owned([back, two])) == ORDERS + BILLS
    assert two.owned


def under_way(world):
    """A member comes to another one, and the target for both is being made."""
    members = [world.member(f"m{each}", *ALL, "bills") for each in (1, 2)]
    assert world.group.assignor_running
    return members


def test_of_a_group_that_is_gone_nothing_is_written(world):
    under_way(world)
    group = world.shard.groups.pop(world.group.group_id)
    written = len(world.journal.log)
    while group.assignor_running:
        world.clock.advance()

    assert (len(world.journal.log), group.assignment_epoch) == (written, 1)


def test_a_target_that_comes_after_all_have_left_takes_no_epoch_back(world):
    for member in under_way(world):
        member.leave()
    empty = world.group.assignment_epoch
    late = world.member("m3", *ALL, "bills")
    made(world)
    assert world.group.assignment_epoch >= late.epoch >= empty
    epoch = late.epoch
    late.beat()
    assert late.epoch >= epoch
    beat_until_stable(world, [late])

    assert len(owned([late])) == ORDERS + BILLS


def test_a_target_that_the_log_refuses_is_made_again(world):
    members = under_way(world)
    world.journal.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    made(world)
    assert world.group.assignment_epoch == 1
    world.journal.refusal = None
    world.clock.advance(1_000)
    beat_until_stable(world, members)

    assert len(owned(members)) == ORDERS + BILLS


def test_a_target_that_can_never_be_written_is_made_now_and_then_and_said_once(world, caplog):
    members = under_way(world)
    world.journal.refusal = ErrorCode.RECORD_LIST_TOO_LARGE
    made(world)

    def tries(seconds):
        """How often a target was begun while the members sent a heartbeat each second."""
        found = 0
        for _ in range(seconds):
            world.clock.advance(1_000)
            for member in members:
                member.beat()
            found += world.group.assignor_running
            made(world)
        return found

    assert 4 <= tries(300) <= 12  # after 1, 2, 4, ... seconds, then each minute
    assert caplog.text.count("target.not_written") == 1
    world.journal.refusal = None
    assert tries(61) == 1
    beat_until_stable(world, members)

    assert len(owned(members)) == ORDERS + BILLS


def test_who_comes_to_a_group_that_all_have_left_waits_for_no_target_that_failed_before(world):
    members = under_way(world)
    world.journal.refusal = ErrorCode.RECORD_LIST_TOO_LARGE
    for _ in range(5):
        made(world)
        world.clock.advance(60_000)
        members[0].beat()
    made(world)
    world.journal.refusal = None
    for member in members:
        member.leave()
    assert world.group.targets_failed == 0
    late = world.member("m3", *ALL, "bills")
    made(world)
    late.beat()

    assert world.group.assignment_epoch == late.epoch == world.group.epoch


def test_a_plan_that_the_log_refuses_starts_nothing(world):
    world.member("m1", *ALL, "bills")
    waiting = world.clock.waiting
    world.journal.refusal = ErrorCode.NOT_ENOUGH_REPLICAS

    with pytest.raises(KafkaError):
        world.join("m2", *ALL)

    assert (world.group.epoch, world.group.assignor_running, world.clock.waiting) == (1, False, waiting)


def test_classic_members_are_not_called_back_while_the_target_is_made():
    """Among themselves each would join, and be sent back by its sync, until the target is there."""
    world = World(clock=TickingClock(), consumer_migration_policy="upgrade")
    for topic in ALL:
        world.topics.create(topic, ORDERS // len(ALL))
    first = world.member("m1", *ALL)
    world.classic_join("c1", *ALL)
    made(world)
    first.leave()
    joined = world.classic_join("c1", *ALL)
    assert world.group.assignor_running
    world.classic_sync("c1", joined.generation_id)
    assert world.classic_beat("c1", joined.generation_id) is ErrorCode.NONE
    made(world)
    assert world.classic_beat("c1", joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS

    again = world.classic_join("c1", *ALL)
    assert again.generation_id == world.group.epoch
    assert world.classic_sync("c1", again.generation_id).error_code == 0
