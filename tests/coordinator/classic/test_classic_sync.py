"""SyncGroup: the assignment comes from the leader, is written, and then each member gets its part."""

import pytest
from classic_world import GROUP, REBALANCE_MS, SESSION_MS, subscription

from barnabas.core import fault_log
from barnabas.core.errors import ErrorCode, KafkaError


def refusal(call, *args, **kwargs):
    with pytest.raises(KafkaError) as refused:
        call(*args, **kwargs).result  # noqa: B018 - it raises
    return refused.value.code


@pytest.mark.parametrize("version", range(6))
def test_everybody_gets_his_part_in_every_version(world, version):
    leader, follower = world.generation(2)
    waiting = world.sync(follower, 1, version=version)
    assert waiting.waits

    brought = world.sync(leader, 1, {leader: b"L", follower: b"F"}, version=version)

    assert (brought.result.assignment, waiting.result.assignment) == (b"L", b"F")
    assert (brought.error, waiting.error) == (ErrorCode.NONE, ErrorCode.NONE)
    told = (waiting.result.protocol_type, waiting.result.protocol_name)
    assert told == (("consumer", "range") if version >= 5 else (None, None))
    assert world.state == "Stable"


def test_who_syncs_later_gets_it_at_once(world):
    leader, follower = world.generation(2)
    world.sync(leader, 1, {leader: b"L", follower: b"F"})

    assert world.sync(follower, 1).result.assignment == b"F"


def test_leaders_that_forget_members_write_few_lines(world, monkeypatch, caplog):
    monkeypatch.setattr(fault_log, "LINES_MAX", 2)
    monkeypatch.setattr(fault_log, "LINES_A_SECOND", 0)
    (leader,) = world.generation(1)
    for generation in range(1, 6):
        world.sync(leader, generation, {})
        world.join(leader, protocols=[("range", b"not what consumers write")])
    world.clock.advance(fault_log.SUMMARY_MS)
    assert caplog.text.count("members_without_assignment") + caplog.text.count("unreadable") == 2
    assert "classic.lines_left_out" in caplog.text


def test_a_member_that_the_leader_forgot_gets_an_empty_part(world):
    leader, follower = world.generation(2)
    waiting = world.sync(follower, 1)

    world.sync(leader, 1, {leader: b"L", "stranger": b"S"})

    assert (waiting.error, waiting.result.assignment) == (ErrorCode.NONE, b"")
    assert {each.member_id for each in world.journal.last().members} == {leader, follower}


def test_a_leader_that_brings_very_many_assignments_is_refused(world):
    leader, follower = world.generation(2)
    strangers = {f"stranger-{number}": b"S" for number in range(1003)}
    brought = {leader: b"L", follower: b"F", **strangers}
    assert refusal(world.sync, leader, 1, brought) is ErrorCode.INVALID_REQUEST
    assert world.state == "CompletingRebalance"

    brought.popitem()
    assert world.sync(leader, 1, brought).result.assignment == b"L"


def test_nobody_has_it_before_the_replicas_have_it(world):
    world.journal.holds = True
    leader, follower = world.generation(2)
    answers = world.assign([leader, follower])
    assert [answer.waits for answer in answers] == [True, True]
    assert world.state == "CompletingRebalance"

    world.journal.acknowledge()

    assert [answer.result.assignment for answer in answers] == [
        f"part of {each}".encode() for each in (leader, follower)
    ]
    assert world.state == "Stable"


# What the log may say to it


STORE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.CORRUPT_MESSAGE: ErrorCode.CORRUPT_MESSAGE,
}


@pytest.mark.parametrize(("code", "told"), list(STORE_ERRORS.items()))
def test_a_log_that_refuses_the_generation_makes_another_rebalance(world, code, told):
    leader, follower = world.generation(2)
    waiting = world.sync(follower, 1)
    world.journal.refusal = KafkaError(code)

    brought = world.sync(leader, 1, {leader: b"L", follower: b"F"})

    assert brought.error is waiting.error is told
    assert brought.result.assignment == b""
    assert world.state == "PreparingRebalance"
    assert {member.assignment for member in world.group.members} == {b""}


def test_replicas_that_do_not_get_it_in_time_make_another_rebalance(world):
    world.journal.holds = True
    leader, follower = world.generation(2)
    answers = world.assign([leader, follower])

    world.journal.fail(ErrorCode.REQUEST_TIMED_OUT)

    assert {answer.error for answer in answers} == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert world.state == "PreparingRebalance"
    assert world.join(leader).waits


def test_an_assignment_that_is_overtaken_by_a_rebalance_is_forgotten(world):
    world.journal.holds = True
    leader, follower = world.generation(2)
    answers = world.assign([leader, follower])
    world.join(follower, protocols=(("range", subscription("u")),))
    assert {answer.error for answer in answers} == {ErrorCode.REBALANCE_IN_PROGRESS}

    world.journal.acknowledge()

    assert world.state == "PreparingRebalance"
    assert {member.assignment for member in world.group.members} == {b""}


def test_an_assignment_of_the_generation_before_does_not_count(world):
    world.journal.holds = True
    (leader,) = world.generation()
    old = world.sync(leader, 1, {leader: b"old"})
    again = world.join(leader, protocols=(("range", subscription("u")),))
    assert again.result.generation_id == 2
    world.journal.acknowledge()

    assert old.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.state == "CompletingRebalance"


# Who is refused


def test_who_is_no_member_gets_nothing(world):
    assert refusal(world.sync, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    world.stable()

    assert refusal(world.sync, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_generation_gets_nothing(world):
    (leader,) = world.stable()

    assert refusal(world.sync, leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(world.sync, leader, 2) is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    "belief",
    [
        {"protocol_type": "connect"},
        {"protocol_name": "sticky"},
        {"protocol_type": None},
        {"protocol_name": None},
    ],
)
def test_who_believes_in_another_protocol_gets_nothing(world, belief):
    (leader,) = world.generation()

    assert refusal(world.sync, leader, 1, **belief) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_while_members_join_there_is_nothing_to_get(world):
    leader, follower = world.stable(2)
    world.join(leader)

    assert refusal(world.sync, follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_given_up_sends_its_members_to_look_again(world):
    (leader,) = world.stable()
    world.group.close()

    assert refusal(world.sync, leader, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_sync_that_is_sent_again_takes_the_place_of_the_first(world):
    leader, follower = world.generation(2)
    first = world.sync(follower, 1)

    second = world.sync(follower, 1)
    world.sync(leader, 1, {leader: b"L", follower: b"F"})

    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.result.assignment == b"F"


# Who does not sync in time


def test_a_leader_that_never_brings_the_assignment_is_removed(world):
    leader, follower = world.generation(2, session_ms=100_000)
    waiting = world.sync(follower, 1)
    world.alive(leader, ms=REBALANCE_MS)

    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    again = world.join(follower)
    assert again.result.leader == follower


def test_a_follower_that_never_asks_for_its_part_is_removed(world):
    leader, follower = world.generation(2)
    world.sync(leader, 1, {leader: b"L", follower: b"F"})
    world.alive(leader, follower, ms=REBALANCE_MS - 1_000)
    assert world.state == "Stable"
    world.alive(leader, follower, ms=1_000)

    assert world.state == "PreparingRebalance"
    assert world.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_whose_members_all_fail_to_sync_is_empty(world):
    world.generation(2, session_ms=100_000)
    world.clock.advance(REBALANCE_MS)

    assert (world.state, world.group.generation_id) == ("Empty", 2)


def test_once_all_have_synced_nothing_waits_any_more(world):
    leader, follower = world.stable(2)
    world.alive(leader, follower, ms=3 * REBALANCE_MS)

    assert (world.state, world.group.generation_id) == ("Stable", 1)


def test_a_parked_member_needs_no_heartbeat(world):
    leader, follower = world.generation(2)
    waiting = world.sync(follower, 1)
    world.alive(leader, ms=2 * SESSION_MS)
    assert waiting.waits

    world.sync(leader, 1, {leader: b"L", follower: b"F"})

    assert waiting.result.assignment == b"F"
    world.clock.advance(SESSION_MS - 1)
    assert follower in world.group.members
    world.clock.advance(1)
    assert follower not in world.group.members


def test_an_answer_may_bring_the_next_request_at_once(world):
    """A connection hands over what it has read as soon as an answer lets it."""
    leader, follower = world.stable(2)
    synced = []
    joined = world.join(follower, protocols=(("range", subscription("u")),))
    joined._answer.when_done(lambda _: synced.append(world.sync(follower, 2)))

    world.join(leader)

    assert synced[0].waits
    world.sync(leader, 2, {leader: b"L", follower: b"F"})
    assert synced[0].result.assignment == b"F"
    assert world.group.group_id == GROUP
