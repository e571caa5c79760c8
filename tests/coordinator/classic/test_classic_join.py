"""JoinGroup: which members are let in, when the generation begins, what each member gets to see."""

import pytest
from classic_world import INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, subscription

from barnabas.core.errors import ErrorCode

ALL_VERSIONS = range(10)


# The first generation


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_a_member_joins_in_every_version(world, version):
    answer = world.join(version=version)
    if version >= 4:
        assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
        answer = world.join(answer.result.member_id, version=version)
    assert answer.waits
    world.clock.advance(INITIAL_DELAY_MS)

    result = answer.result
    assert result.error_code == ErrorCode.NONE
    assert (result.generation_id, result.protocol_name) == (1, "range")
    assert result.protocol_type == ("consumer" if version >= 7 else None)
    assert result.leader == result.member_id == "app-uuid1"
    assert [(each.member_id, each.metadata) for each in result.members] == [("app-uuid1", subscription("t"))]
    assert not result.skip_assignment
    assert world.state == "CompletingRebalance"


def test_the_id_is_that_of_the_client_and_a_uuid(world):
    assert world.join(client="billing").result.member_id == "billing-uuid1"
    assert world.join(client="").result.member_id == "-uuid2"


def test_an_empty_group_waits_for_more_members(world):
    world.joining()

    world.clock.advance(INITIAL_DELAY_MS - 1)
    assert world.state == "PreparingRebalance"
    world.clock.advance(1)
    assert world.state == "CompletingRebalance"


def test_it_waits_longer_while_members_keep_coming(world):
    first = world.joining()
    world.clock.advance(INITIAL_DELAY_MS - 1)
    second = world.joining()
    world.clock.advance(1)
    assert world.state == "PreparingRebalance"

    world.clock.advance(INITIAL_DELAY_MS - 1)
    assert world.state == "PreparingRebalance"
    world.clock.advance(1)

    results = [answer.result for answer in (first | second).values()]
    assert [result.generation_id for result in results] == [1, 1]
    assert sorted(len(result.members) for result in results) == [0, 2]


def test_it_does_not_wait_beyond_the_rebalance_time_out(world):
    world.joining(rebalance_ms=7_000)
    for _ in range(6):
        world.clock.advance(1_000)
        world.joining(rebalance_ms=7_000)
    assert world.state == "PreparingRebalance"
    world.clock.advance(1_000)

    assert world.state == "CompletingRebalance"


def test_a_rebalance_time_out_shorter_than_the_delay_means_one_delay(world):
    world.joining(rebalance_ms=1_000)
    world.clock.advance(1_000)
    world.joining(rebalance_ms=1_000)
    world.clock.advance(INITIAL_DELAY_MS - 1_000)

    assert world.state == "CompletingRebalance"


def test_without_a_delay_the_first_generation_begins_at_once(world_with):
    world = world_with(initial_rebalance_delay_ms=0)
    answer = world.join(version=3)
    world.clock.advance()

    assert answer.result.generation_id == 1


def test_the_leader_learns_of_all_members_and_the_others_of_none(world):
    answers = world.joining(3)
    world.clock.advance(2 * INITIAL_DELAY_MS)

    results = [answer.result for answer in answers.values()]
    (leader,) = {result.leader for result in results}
    for result in results:
        seen = {each.member_id for each in result.members}
        assert seen == (set(answers) if result.member_id == leader else set())


# Who must come back with an id (KIP-394)


def test_an_id_that_was_given_out_holds_the_generation_open(world):
    world.stable()
    pending = world.pending_member()
    (leader,) = world.group.members.ids
    again = world.join(leader)
    assert again.waits

    answer = world.join(pending)

    assert again.result.generation_id == answer.result.generation_id == 2


def test_an_id_that_nobody_comes_back_with_is_forgotten_after_its_session_time_out(world):
    (leader,) = world.stable(session_ms=30_000)
    pending = world.pending_member(session_ms=6_000)
    again = world.join(leader, session_ms=30_000)
    world.clock.advance(5_999)
    assert again.waits
    world.clock.advance(1)

    assert again.result.generation_id == 2
    assert world.join(pending).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_id_for_a_pending_id_is_an_error_of_the_client(world):
    pending = world.pending_member()

    answer = world.join(pending, instance="one")

    assert (answer.error, answer.result.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")


# Who is refused


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
@pytest.mark.parametrize("version", [0, 6, 7, 9])
def test_session_time_outs_have_limits(world, session_ms, version):
    answer = world.join("me", session_ms=session_ms, version=version)

    result = answer.result
    assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert (result.member_id, result.generation_id, result.leader) == ("me", -1, "")
    assert result.protocol_name == (None if version >= 7 else "")
    assert world.shard.groups == {}


def test_the_limits_of_session_time_outs_are_settings(world_with):
    world = world_with(min_session_timeout_ms=10, max_session_timeout_ms=20)

    assert world.join(session_ms=9).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join(session_ms=21).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join(session_ms=10).error is ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_of_no_group_is_not_known(world):
    answer = world.join("stranger")

    assert (answer.error, answer.result.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
    assert world.shard.groups == {}


def test_a_stranger_in_a_group_is_not_known(world):
    world.stable()

    assert world.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "kind",
    [
        {"protocol_type": ""},
        {"protocols": ()},
    ],
)
def test_the_first_member_must_speak_something(world, kind):
    assert world.join(**kind).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    "kind",
    [
        {"protocol_type": "connect"},
        {"protocols": (("sticky", b""),)},
        {"protocols": ()},
    ],
)
def test_the_others_must_share_something_with_all(world, kind):
    (leader,) = world.stable()

    newcomer = world.join(**kind)
    assert (newcomer.error, newcomer.result.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    old = world.join(leader, **kind)
    assert (old.error, old.result.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, leader)
    assert world.state == "Stable"


def test_a_group_that_everybody_left_takes_another_kind_of_members(world):
    (leader,) = world.stable()
    world.leave((leader, None, None))
    assert world.state == "Empty"

    world.joining(protocol_type="connect", protocols=(("eager", b""),))
    world.clock.advance(INITIAL_DELAY_MS)

    assert (world.group.protocol_type, world.group.protocol_name) == ("connect", "eager")


def test_a_group_of_another_kind_is_not_touched(world):
    world.shard.groups["orders"] = object()

    assert world.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_given_up_sends_its_clients_to_look_again(world):
    (leader,) = world.stable()
    world.group.close()

    newcomer, old = world.join(), world.join(leader)

    assert newcomer.error is old.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (newcomer.result.member_id, old.result.member_id) == ("", leader)


# What is chosen


def protocols(*names):
    return tuple((name, subscription(name)) for name in names)


def choose(world, *offers):
    world.first_generation([world.join(version=3, protocols=protocols(*offer)) for offer in offers])
    return world.group.protocol_name


def test_most_members_choose_the_protocol(world):
    assert choose(world, ("range", "sticky"), ("sticky", "range"), ("sticky", "range")) == "sticky"


def test_only_what_all_support_can_be_chosen(world):
    assert choose(world, ("fast", "range"), ("fast", "range"), ("range",)) == "range"


def test_the_metadata_are_those_of_the_chosen_protocol(world):
    answers = [
        world.join(version=3, protocols=protocols(*offer)) for offer in (("fast", "range"), ("range",))
    ]
    world.first_generation(answers)

    (seen,) = [answer.result.members for answer in answers if answer.result.members]
    assert [each.metadata for each in seen] == [subscription("range")] * 2


def test_a_protocol_named_twice_counts_once(world):
    assert choose(world, ("range", "range"), ("range",)) == "range"


def test_a_member_that_leaves_takes_its_vote_along(world):
    leader, other = world.stable(2, protocols=protocols("range", "sticky"))
    world.leave((other, None, None))

    answer = world.join(leader, protocols=protocols("sticky"))

    assert answer.result.protocol_name == "sticky"


# Joining again


def test_a_new_member_makes_the_others_join_again(world):
    (leader,) = world.stable()
    (newcomer, answer), *_ = world.joining().items()
    assert world.state == "PreparingRebalance"
    assert answer.waits
    assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS

    again = world.join(leader)

    assert again.result.generation_id == answer.result.generation_id == 2
    assert again.result.leader == leader
    assert {each.member_id for each in again.result.members} == {leader, newcomer}


def test_the_leader_of_a_stable_group_gets_a_rebalance_by_joining(world):
    leader, follower = world.stable(2)

    again = world.join(leader)

    assert again.waits
    assert world.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_that_says_nothing_new_is_answered_at_once(world):
    leader, follower = world.stable(2)

    result = world.join(follower).result

    assert (result.generation_id, result.leader, result.members) == (1, leader, [])
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")
    assert world.state == "Stable"


def test_a_follower_with_another_subscription_makes_a_rebalance(world):
    _, follower = world.stable(2)

    assert world.join(follower, protocols=(("range", subscription("t", "u")),)).waits
    assert world.state == "PreparingRebalance"


def test_who_missed_the_answer_gets_it_again_before_the_assignment_is_there(world):
    leader, follower = world.generation(2)

    of_leader, of_follower = world.join(leader).result, world.join(follower).result

    assert of_leader.generation_id == of_follower.generation_id == 1
    assert {each.member_id for each in of_leader.members} == {leader, follower}
    assert of_follower.members == []
    assert world.state == "CompletingRebalance"


def test_another_subscription_before_the_assignment_is_there_makes_a_rebalance(world):
    _, follower = world.generation(2)

    assert world.join(follower, protocols=(("range", subscription("u")),)).waits
    assert world.state == "PreparingRebalance"


def test_a_cooperative_rebalance_is_two_joins_in_a_row(world):
    """KIP-429: who had to give something up joins again, with what it owns now, and gets the rest shared."""
    leader, follower = world.stable(2)
    owned = (("range", subscription("t", user_data=b"owned: 0")),)

    answers = [world.join(follower, protocols=owned), world.join(leader)]
    assert {answer.result.generation_id for answer in answers} == {2}
    world.assign([leader, follower])
    answers = [world.join(follower), world.join(leader)]

    assert {answer.result.generation_id for answer in answers} == {3}


def test_a_join_that_is_sent_again_takes_the_place_of_the_first(world):
    leader, follower = world.stable(2)
    first = world.join(follower, protocols=(("range", subscription("u")),))

    second = world.join(follower)

    assert (first.error, first.result.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, follower)
    assert second.waits
    assert world.join(leader).result.generation_id == second.result.generation_id == 2


# Who does not come in time


def test_who_does_not_join_again_in_time_is_no_member_any_more(world):
    leader, follower = world.stable(2, session_ms=100_000)
    again = world.join(leader, session_ms=100_000)
    world.clock.advance(REBALANCE_MS - 1)
    assert again.waits
    world.clock.advance(1)

    assert [each.member_id for each in again.result.members] == [leader]
    assert world.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_member_sets_the_rebalance_time_out(world):
    slow = world.pending_member()
    world.join(slow, rebalance_ms=90_000, session_ms=200_000)
    world.clock.advance(INITIAL_DELAY_MS)
    world.assign([slow])
    newcomer = world.joining(session_ms=200_000)[f"app-uuid{2}"]

    world.clock.advance(89_999)
    assert newcomer.waits
    world.clock.advance(1)
    assert not newcomer.waits


def test_version_0_has_one_time_out_for_both(world):
    (member,) = world.stable(version=0)

    assert world.group.members[member].terms.rebalance_timeout_ms == SESSION_MS


def test_a_leader_that_does_not_come_back_is_replaced_by_who_did(world):
    leader, follower = world.stable(2, session_ms=100_000)
    again = world.join(follower, session_ms=100_000, protocols=(("range", subscription("u")),))
    world.clock.advance(REBALANCE_MS)

    assert again.result.leader == follower
    assert leader not in world.group.members


def test_a_rebalance_that_nobody_joins_leaves_the_group_empty(world):
    leader, follower = world.stable(2)
    world.clock.advance(SESSION_MS)

    assert world.state == "Empty"
    assert world.group.generation_id == 2
    assert world.journal.last().members == []
    assert (leader in world.group.members, follower in world.group.members) == (False, False)


def test_members_that_go_during_the_first_wait_leave_the_group_empty(world):
    (member,) = world.joining()
    assert world.left(member) is ErrorCode.NONE
    assert world.state == "PreparingRebalance"
    world.clock.advance(INITIAL_DELAY_MS)

    assert (world.state, world.group.generation_id) == ("Empty", 1)


def test_a_client_that_gave_up_waiting_is_forgotten_after_five_minutes(world):
    """NewMemberJoinTimeoutMs: no session can tell, for it does not know its id yet."""
    leader = world.stable(rebalance_ms=600_000)[0]
    answer = world.join(version=3, rebalance_ms=600_000)
    world.alive(leader, ms=299_000)
    assert answer.waits
    world.alive(leader, ms=1_000)

    assert (answer.error, answer.result.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert len(world.group.members) == 1


# group.max.size


def test_a_full_group_takes_nobody_in(world_with):
    world = world_with(max_size=2)
    members = world.stable(2)

    refused = world.join()

    assert (refused.error, refused.result.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert world.state == "Stable"
    assert {world.heartbeat(each, 1) for each in members} == {ErrorCode.NONE}


def test_ids_given_out_do_not_fill_the_group_but_members_do(world_with):
    world = world_with(max_size=1)
    first, second = world.pending_member(), world.pending_member()

    assert world.join(first).waits
    assert world.join(second).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(first).waits


def test_a_group_larger_than_a_new_limit_loses_who_joins_last(world, world_with):
    members = world.stable(3)
    smaller = world_with(max_size=2)
    smaller.classic.replay(smaller.shard, world.journal.batches[-1][0].key, world.journal.last())
    smaller.classic.loaded(smaller.shard)
    assert smaller.state == "PreparingRebalance"

    answers = [smaller.join(each) for each in members]

    assert [answer.waits for answer in answers] == [False, False, False]
    assert answers[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {answer.result.generation_id for answer in answers[:2]} == {2}
    assert members[2] not in smaller.group.members
