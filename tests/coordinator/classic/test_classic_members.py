"""Heartbeat and LeaveGroup: members that live, fall silent, go, or are removed."""

import pytest
from classic_world import GROUP, INITIAL_DELAY_MS, SESSION_MS, subscription

from barnabas.core.errors import ErrorCode

# Heartbeats


def test_heartbeats_keep_a_member(world):
    (member,) = world.stable()
    for _ in range(10):
        world.clock.advance(SESSION_MS - 1)
        assert world.heartbeat(member, 1) is ErrorCode.NONE

    world.clock.advance(SESSION_MS)
    assert world.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_falls_silent_makes_the_others_share_anew(world):
    leader, silent = world.stable(2)
    world.alive(leader, ms=SESSION_MS)

    assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(leader)
    assert [each.member_id for each in again.result.members] == [leader]
    assert silent not in world.group.members


def test_a_member_that_falls_silent_while_the_others_join_holds_them_no_longer(world):
    leader, silent = world.stable(2)
    again = world.join(leader)
    world.clock.advance(SESSION_MS - 1)
    assert again.waits
    world.clock.advance(1)

    assert again.result.generation_id == 2
    assert silent not in world.group.members


def test_heartbeats_count_while_members_join_again(world):
    leader, slow = world.stable(2)
    again = world.join(leader)
    for _ in range(3):
        world.clock.advance(SESSION_MS - 1)
        assert world.heartbeat(slow, 1) is ErrorCode.REBALANCE_IN_PROGRESS

    assert again.waits


def test_a_heartbeat_before_the_assignment_is_there_is_as_good_as_any(world):
    leader, follower = world.generation(2)
    world.clock.advance(SESSION_MS - 1)
    assert world.heartbeat(follower, 1) is ErrorCode.NONE
    world.clock.advance(1)

    assert leader not in world.group.members
    assert follower in world.group.members


def test_a_parked_join_needs_no_heartbeat(world):
    leader, slow = world.stable(2)
    again = world.join(leader)
    for _ in range(4):
        world.clock.advance(SESSION_MS - 1)
        world.heartbeat(slow, 1)

    assert again.waits
    world.join(slow)
    assert again.result.generation_id == 2


def test_who_may_not_send_heartbeats(world):
    assert world.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    (member,) = world.stable()

    assert world.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(member, 1, "instance") is ErrorCode.UNKNOWN_MEMBER_ID
    world.group.close()
    assert world.heartbeat(member, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_refused_heartbeat_is_no_sign_of_life(world):
    (member,) = world.stable()
    world.clock.advance(SESSION_MS - 1)
    world.heartbeat(member, 7)
    world.clock.advance(1)

    assert member not in world.group.members


def test_a_shorter_session_time_out_counts_from_the_next_answer_on(world):
    (member,) = world.stable(session_ms=30_000)
    world.join(member, session_ms=6_000)
    world.sync(member, 2, {member: b""})
    world.clock.advance(5_999)
    assert member in world.group.members
    world.clock.advance(1)

    assert member not in world.group.members


def test_a_silent_group_costs_one_timer_a_member(world):
    members = world.stable(3)
    for _ in range(50):
        world.alive(*members, ms=1_000)

    assert world.clock.waiting == 3


# Leaving


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_in_every_version(world, version):
    leader, follower = world.stable(2)

    answer = world.leave((follower, None, "closing" if version >= 5 else None), version=version)

    assert answer.error_code == ErrorCode.NONE
    expected = [(follower, None, ErrorCode.NONE)] if version >= 3 else []
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members] == expected
    assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
def test_a_stranger_cannot_leave(world, version):
    def code_of(answer):
        return answer.members[0].error_code if version >= 3 else answer.error_code

    assert code_of(world.leave(("stranger", None, None), version=version)) == ErrorCode.UNKNOWN_MEMBER_ID
    world.stable()
    assert code_of(world.leave(("stranger", None, None), version=version)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.state == "Stable"


def test_the_last_member_leaves_an_empty_group_behind(world):
    (member,) = world.stable()

    world.left(member)

    assert (world.state, world.group.generation_id) == ("Empty", 2)
    written = world.journal.last()
    assert (written.generation, written.members, written.protocol, written.leader) == (2, [], None, None)
    assert written.protocol_type == "consumer"


def test_an_empty_group_that_cannot_be_written_down_is_empty_all_the_same(world):
    (member,) = world.stable()
    world.journal.holds = True
    world.left(member)
    world.journal.fail(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert world.state == "Empty"
    assert world.joining()


def test_many_leave_at_once_each_with_its_own_result(world):
    first, second, third = world.stable(3)

    answer = world.leave((first, None, None), ("stranger", None, None), (second, "no such", None))

    codes = [ErrorCode.of(each.error_code) for each in answer.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(world.group.members.ids) == {second, third}


def test_a_member_that_only_has_an_id_can_leave(world):
    (leader,) = world.stable()
    pending = world.pending_member()
    again = world.join(leader)
    assert again.waits

    assert world.left(pending) is ErrorCode.NONE
    assert again.result.generation_id == 2
    assert world.left(pending) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_leaves_while_its_join_is_parked_is_told_so(world):
    _, follower = world.stable(2)
    parked = world.join(follower, protocols=(("range", subscription("u")),))

    world.left(follower)

    assert (parked.error, parked.result.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_who_leaves_while_its_sync_is_parked_is_told_so(world):
    leader, follower = world.generation(2)
    parked = world.sync(follower, 1)

    world.left(follower)

    assert parked.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(leader).result.generation_id == 2


def test_a_leader_that_leaves_is_followed_by_another(world):
    leader, follower = world.stable(2)
    world.left(leader)

    assert world.join(follower).result.leader == follower


def test_a_group_given_up_cannot_be_left(world):
    (member,) = world.stable()
    world.group.close()

    with pytest.raises(Exception, match="coordinator is not available"):
        world.leave((member, None, None))


# The end


def test_closing_answers_everybody_who_is_parked_and_stops_every_timer(world):
    leader, follower = world.stable(2)
    world.pending_member()
    parked = world.join(leader)

    world.group.close()

    assert (parked.error, parked.result.member_id) == (ErrorCode.NOT_COORDINATOR, leader)
    assert world.state == "Dead"
    assert world.clock.waiting == 0
    assert follower in world.group.members


def test_closing_answers_parked_syncs(world):
    _, follower = world.generation(2)
    parked = world.sync(follower, 1)

    world.group.close()

    assert parked.error is ErrorCode.NOT_COORDINATOR
    assert world.clock.waiting == 0


def test_closing_twice_and_an_empty_group_does_no_harm(world):
    world.classic.create_simple(world.shard, "simple").close()
    world.shard.groups["simple"].close()

    assert world.shard.groups["simple"].state_name == "Dead"


def test_an_assignment_that_is_written_after_the_end_changes_nothing(world):
    world.journal.holds = True
    (leader,) = world.generation()
    parked = world.sync(leader, 1, {leader: b"L"})
    world.group.close()
    world.journal.acknowledge()

    assert parked.error is ErrorCode.NOT_COORDINATOR
    assert (world.state, world.clock.waiting) == ("Dead", 0)


# What is seen of it


def test_reasons_are_told_in_the_log(world, caplog):
    """KIP-800: why a client joins or leaves is what an operator wants to know of a rebalance."""
    leader, follower = world.stable(2)
    with caplog.at_level("INFO", logger="barnabas.coordinator.classic"):
        world.leave((follower, None, "the consumer is being closed"))
        world.join(leader)
        world.sync(leader, 2, {leader: b""})
        world.join(leader, reason="cached metadata has changed")

    begun = [line for line in caplog.messages if line.startswith("classic.rebalance_begins group=orders")]
    assert f"{follower} leaves by LeaveGroup; client reason: the consumer is being closed" in begun[0]
    assert f"{leader} joins again in Stable; client reason: cached metadata has changed" in begun[1]


def test_a_stable_group_is_described_with_its_assignment(world):
    (member,) = world.stable(client="billing")

    described = world.described()

    assert (described.error_code, described.group_id, described.group_state) == (0, GROUP, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    (seen,) = described.members
    assert (seen.member_id, seen.client_id, seen.client_host) == (member, "billing", "/127.0.0.1")
    assert (seen.member_metadata, seen.member_assignment) == (subscription("t"), f"part of {member}".encode())


def test_an_unsettled_group_is_described_without(world):
    leader, follower = world.stable(2)
    world.left(follower)
    assert world.state == "PreparingRebalance"

    described = world.described()

    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert [(each.member_id, each.member_metadata, each.member_assignment) for each in described.members] == [
        (leader, b"", b"")
    ]


def test_a_group_that_only_commits_is_described_as_empty(world):
    world.classic.create_simple(world.shard, "simple")
    described = world.described("simple")

    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "", [])


def test_states_show(world):
    world.joining(2)
    assert repr(world.group) == "<ClassicGroup orders PreparingRebalance generation=0 members=2>"
    assert repr(world.group.members) == "<ClassicMembers 2 joined=2 pending=0>"
    assert [repr(each) for each in world.group.members] == [
        "<ClassicMember app-uuid1 joining>",
        "<ClassicMember app-uuid2 joining>",
    ]
    world.clock.advance(2 * INITIAL_DELAY_MS)


@pytest.mark.parametrize(("client", "instance"), [("c" * 32_763, None), ("c", "i" * 32_763)])
def test_a_member_whose_id_no_answer_could_carry_is_refused(world, client, instance):
    other = world.join(version=3)
    answer = world.join(client=client, instance=instance, version=3 if instance is None else 5)
    assert answer.error is ErrorCode.INVALID_REQUEST
    world.clock.advance(INITIAL_DELAY_MS)
    assert other.result.generation_id == 1
    assert len(world.group.members) == 1
