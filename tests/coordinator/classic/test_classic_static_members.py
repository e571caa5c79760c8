"""Static members (KIP-345): they keep their place over restarts, and two processes cannot share one."""

import pytest
from classic_world import INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, subscription

from barnabas.core.errors import ErrorCode, KafkaError

TWO_PROTOCOLS = (("range", subscription("t")), ("sticky", subscription("t")))


def test_a_static_member_needs_no_second_join(world):
    answer = world.join(instance="one")
    assert answer.waits
    world.clock.advance(INITIAL_DELAY_MS)

    assert answer.result.member_id == "one-uuid1"
    assert [each.group_instance_id for each in answer.result.members] == ["one"]


@pytest.mark.parametrize("version", range(5, 10))
def test_a_follower_comes_back_without_a_rebalance(world, version):
    leader, follower = world.static_stable("one", "two", version=version)

    result = world.join(instance="two", version=version).result

    assert result.error_code == ErrorCode.NONE
    assert result.member_id != follower
    assert (result.generation_id, result.leader, result.members) == (1, leader, [])
    assert not result.skip_assignment
    assert world.state == "Stable"
    synced = world.sync(result.member_id, 1, instance="two")
    assert synced.result.assignment == f"part of {follower}".encode()


def test_a_leader_comes_back_as_leader_that_assigns_nothing(world):
    """KIP-814: it watches the topics again, and leaves the assignment as it is."""
    world.static_stable("one", "two")

    result = world.join(instance="one").result

    assert result.leader == result.member_id == world.group.members.leader_id
    assert result.skip_assignment
    assert {each.group_instance_id for each in result.members} == {"one", "two"}


@pytest.mark.parametrize("version", range(5, 9))
def test_a_leader_of_an_older_version_is_not_told_that_it_leads(world, version):
    leader, _ = world.static_stable("one", "two", version=version)

    result = world.join(instance="one", version=version).result

    assert result.leader == leader != result.member_id
    assert result.members == []
    assert world.group.members.leader_id == result.member_id


def test_the_new_id_is_written_down_first(world):
    leader, follower = world.static_stable("one", "two")
    world.journal.holds = True

    answer = world.join(instance="two", session_ms=20_000)

    assert answer.waits
    written = {each.group_instance_id: each for each in world.journal.last().members}
    assert written["one"].member_id == leader
    assert written["two"].member_id not in {leader, follower}
    assert written["two"].session_timeout == 20_000
    assert written["two"].assignment == f"part of {follower}".encode()
    world.journal.acknowledge()
    assert answer.result.member_id == written["two"].member_id


def test_what_cannot_be_written_down_is_taken_back(world):
    leader, follower = world.static_stable("one", "two")
    world.journal.holds = True
    answer = world.join(instance="two", protocols=TWO_PROTOCOLS)

    world.journal.fail(ErrorCode.NOT_ENOUGH_REPLICAS)

    result = answer.result
    assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (result.member_id, result.generation_id, result.leader) == ("", 1, leader)
    assert world.heartbeat(follower, 1, "two") is ErrorCode.NONE
    assert world.group.members[follower].terms.protocols == (("range", subscription("t")),)


def test_a_refusal_of_the_log_is_taken_back_too(world):
    _, follower = world.static_stable("one", "two")
    world.journal.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert world.join(instance="two").error is ErrorCode.NOT_COORDINATOR
    assert follower in world.group.members


def test_a_rebalance_that_begins_meanwhile_takes_the_member_along(world):
    leader, _ = world.static_stable("one", "two")
    world.journal.holds = True
    answer = world.join(instance="two")
    newcomer = world.join(instance="three")
    assert world.state == "PreparingRebalance"
    world.journal.acknowledge()
    assert answer.waits

    world.join(leader, instance="one")

    assert answer.result.generation_id == newcomer.result.generation_id == 2
    assert len(world.group.members) == 3


def test_a_failure_to_write_does_not_touch_a_rebalance_that_began_meanwhile(world):
    leader, follower = world.static_stable("one", "two")
    world.journal.holds = True
    answer = world.join(instance="two")
    world.join(instance="three")
    world.journal.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.join(leader, instance="one")

    assert answer.result.generation_id == 2
    assert follower not in world.group.members


def test_coming_back_with_another_choice_of_protocol_makes_a_rebalance(world):
    answers = [world.join(instance="one", protocols=TWO_PROTOCOLS)]
    answers.append(world.join(instance="two", protocols=TWO_PROTOCOLS))
    world.assign(world.first_generation(answers))

    assert world.join(instance="two", protocols=TWO_PROTOCOLS[1:]).waits
    assert world.state == "PreparingRebalance"


def test_coming_back_before_the_assignment_is_there_makes_a_rebalance(world):
    answers = [world.join(instance="one"), world.join(instance="two")]
    leader, follower = world.first_generation(answers)
    old = world.sync(follower, 1, instance="two")

    answer = world.join(instance="two")

    assert old.error is ErrorCode.FENCED_INSTANCE_ID
    assert answer.waits
    again = world.join(leader, instance="one")
    assert again.result.generation_id == answer.result.generation_id == 2


def test_coming_back_while_members_join_takes_part_in_it(world):
    leader, follower = world.static_stable("one", "two")
    waiting = world.join(leader, instance="one")

    back = world.join(instance="two")

    assert waiting.result.generation_id == back.result.generation_id == 2
    assert back.result.member_id != follower


def test_a_second_process_fences_the_first_whose_join_is_parked(world):
    leader, follower = world.static_stable("one", "two")
    parked = world.join(follower, instance="two", protocols=TWO_PROTOCOLS)
    assert parked.waits

    second = world.join(instance="two")

    assert (parked.error, parked.result.member_id) == (ErrorCode.FENCED_INSTANCE_ID, follower)
    assert second.waits
    assert world.join(leader, instance="one").result.generation_id == second.result.generation_id == 2


def fenced(call, *args, **kwargs):
    try:
        answer = call(*args, **kwargs)
    except KafkaError as refused:
        return refused.code
    return answer if isinstance(answer, ErrorCode) else answer.error


def test_whoever_lost_its_place_is_fenced_everywhere(world):
    _, follower = world.static_stable("one", "two")
    world.join(instance="two")

    assert fenced(world.heartbeat, follower, 1, "two") is ErrorCode.FENCED_INSTANCE_ID
    assert fenced(world.sync, follower, 1, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert fenced(world.join, follower, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    (left,) = world.leave((follower, "two", None)).members
    assert left.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert left.group_instance_id == "two"
    with pytest.raises(KafkaError) as refused:
        world.group.validate_offset_commit(
            member_id=follower,
            group_instance_id="two",
            generation=1,
            transactional=False,
            version=9,
            partitions=(),
        )
    assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_that_nobody_knows_is_not_known(world):
    leader, _ = world.static_stable("one", "two")

    assert fenced(world.join, leader, instance="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert fenced(world.sync, leader, 1, instance="nobody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_outlast_a_rebalance_that_they_miss(world):
    leader, follower = world.static_stable("one", "two")
    answer = world.join(leader, instance="one", session_ms=200_000)
    for _ in range(6):
        world.clock.advance(SESSION_MS - 1)
        world.heartbeat(follower, 1, "two")
    world.clock.advance(REBALANCE_MS - 6 * (SESSION_MS - 1))

    assert {each.group_instance_id for each in answer.result.members} == {"one", "two"}
    assert follower in world.group.members


def test_the_wait_goes_on_while_only_silent_static_members_are_left(world):
    world.static_stable("one", "two")
    world.join(instance="three")
    for member_id in list(world.group.members.ids):
        world.group.members[member_id].session.extend(150_000)
    (third,) = (each.member_id for each in world.group.members if each.group_instance_id == "three")
    world.left(third)
    world.clock.advance(2 * REBALANCE_MS)
    assert (world.state, world.group.generation_id) == ("PreparingRebalance", 1)
    world.clock.advance(30_000)

    assert (world.state, world.group.generation_id) == ("Empty", 2)


def test_a_wait_without_a_time_out_does_not_spin(world, caplog):
    leader, _ = world.static_stable("one", "two")
    for member in world.group.members:
        member.terms = member.terms._replace(rebalance_timeout_ms=-1)
    with caplog.at_level("WARNING"):
        world.left(leader)
        world.clock.advance(6_000)

    assert world.state == "PreparingRebalance"
    assert 0 < caplog.text.count("nobody_joined") <= 61


def test_a_static_member_that_falls_silent_loses_its_place(world):
    world.static_stable("one")
    world.clock.advance(SESSION_MS)

    assert world.state == "Empty"
    assert world.join(instance="one").waits


def test_a_returned_member_has_a_session_again(world):
    leader, _ = world.static_stable("one", "two")
    back = world.join(instance="two").result.member_id
    world.alive(leader, ms=SESSION_MS - 1_000)
    assert back in world.group.members
    world.alive(leader, ms=1_000)

    assert back not in world.group.members


def test_an_administrator_removes_by_instance(world):
    leader, follower = world.static_stable("one", "two")

    answer = world.leave(("", "two", "removed"), ("", "nobody", None), ("", None, None))

    assert [(each.member_id, each.error_code) for each in answer.members] == [
        ("", ErrorCode.NONE),
        ("", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert follower not in world.group.members
    assert world.heartbeat(leader, 1, "one") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_comes_back_still_owes_its_sync(world):
    answers = [world.join(instance="one"), world.join(instance="two")]
    leader, follower = world.first_generation(answers)
    world.sync(leader, 1, {leader: b"L", follower: b"F"})
    back = world.join(instance="two").result.member_id

    assert world.sync(back, 1).result.assignment == b"F"
    for _ in range(12):
        world.clock.advance(SESSION_MS - 1)
        world.heartbeat(leader, 1, "one")
        world.heartbeat(back, 1, "two")
    assert world.state == "Stable"
