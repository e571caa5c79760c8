"""Requests that look at a group when a session is over and its timer has not run yet: they find no member."""

import math

import pytest
from life_rig import Life

from barnabas.coordinator.runtime.session import LATE_MS_MAX, Due, Session
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from handled import handled

SESSION_MS = 10_000
BOTH = {
    "group_coordinator_rebalance_protocols": "classic,consumer",
    "group_consumer_session_timeout_ms": SESSION_MS,
    "group_consumer_min_session_timeout_ms": SESSION_MS,
    "group_consumer_migration_policy": "disabled",
}


def settled(answer):
    return answer.result() if isinstance(answer, Pending) else answer


def consumer_beat(life, member_id="", epoch=0, **fields):
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        **{
            "rebalance_timeout_ms": 20_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
            **fields,
        },
    )
    return settled(handled(life.coordinator, request, 0))


def delete(life):
    return life.delete("g")[0].error_code


def describe(life):
    (group,) = life.described("g")
    return group.error_code or len(group.members)


def consumer_describe(life):
    (group,) = life.consumer_described("g")
    return group.error_code or len(group.members)


def list_them(life):
    return ErrorCode.NONE if life.states() == {"g": "Empty"} else ErrorCode.NON_EMPTY_GROUP


def delete_offset(life):
    (code,) = life.coordinator.delete_offsets("g", [TopicPartition("orders", 0)]).values()
    return code


def commit(life):
    (code,) = settled(life.commit()).values()
    return code


def commit_in_a_transaction(life):
    (code,) = settled(life.commit(producer=(77, 0))).values()
    return code


def join_with_another_protocol(life):
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=20_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="compatible", metadata=b"")],
    )
    answer = handled(life.coordinator, request, 3)
    waits = isinstance(answer, Pending) and not answer.done  # for others to join: nobody refused it
    return ErrorCode.NONE if waits else settled(answer).error_code


def join_the_other_way(life):
    return consumer_beat(life, "new").error_code


def join_as_the_same_instance(life):
    return consumer_beat(life, "new", instance_id="one").error_code


CLASSIC_LOOKS = [
    (delete, ErrorCode.NON_EMPTY_GROUP),
    (describe, 1),
    (list_them, ErrorCode.NON_EMPTY_GROUP),
    (delete_offset, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
    (commit, ErrorCode.UNKNOWN_MEMBER_ID),
    (join_with_another_protocol, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    (join_the_other_way, ErrorCode.GROUP_ID_NOT_FOUND),
]
CONSUMER_LOOKS = [
    (delete, ErrorCode.NON_EMPTY_GROUP),
    (consumer_describe, 1),
    (list_them, ErrorCode.NON_EMPTY_GROUP),
    (delete_offset, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
    (commit, ErrorCode.UNKNOWN_MEMBER_ID),
    (commit_in_a_transaction, ErrorCode.UNKNOWN_MEMBER_ID),
    (join_with_another_protocol, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    (join_as_the_same_instance, ErrorCode.UNRELEASED_INSTANCE_ID),
]


def outcome(look, life):
    try:
        return look(life)
    except KafkaError as refused:
        return refused.code


def name(value):
    return getattr(value, "__name__", "")


@pytest.fixture
def classic():
    life = Life(**BOTH).elect()
    life.form("g")
    life.clock.advance(1)
    return life


@pytest.fixture
def consumer():
    life = Life(**BOTH).elect()
    consumer_beat(life, "one", instance_id="one")
    return life


@pytest.mark.parametrize(("look", "before"), CLASSIC_LOOKS, ids=name)
def test_a_classic_group_whose_session_is_just_over(classic, look, before):
    # The clock moves on and the loop does not come to its timers: the request is first.
    classic.clock.now_ms += SESSION_MS - 2
    assert outcome(look, classic) == before
    classic.clock.now_ms += 1
    assert outcome(look, classic) == ErrorCode.NONE


@pytest.mark.parametrize(("look", "before"), CONSUMER_LOOKS, ids=name)
def test_a_consumer_group_whose_session_is_just_over(consumer, look, before):
    consumer.clock.now_ms += SESSION_MS - 1
    assert outcome(look, consumer) == before
    consumer.clock.now_ms += 1
    assert outcome(look, consumer) == ErrorCode.NONE


def test_a_member_that_speaks_at_the_last_moment_stays(classic):
    (member,) = classic.described("g")[0].members
    classic.clock.now_ms += SESSION_MS
    beat = HeartbeatRequest(group_id="g", member_id=member.member_id, generation_id=1)
    assert handled(classic.coordinator, beat).error_code == ErrorCode.NONE
    assert describe(classic) == 1

    classic.clock.now_ms += SESSION_MS
    rejoined = classic.join("g", member.member_id)
    assert settled(rejoined).error_code == ErrorCode.NONE


def test_after_a_standstill_of_the_broker_the_timer_decides(classic):
    """The member's heartbeat may lie unread in another connection: it is read before the timers run."""
    classic.clock.now_ms += SESSION_MS + LATE_MS_MAX
    assert delete(classic) == ErrorCode.NON_EMPTY_GROUP
    classic.clock.advance()
    assert delete(classic) == ErrorCode.NONE


def test_offsets_of_a_group_whose_session_is_over_go_with_it(classic):
    tp = TopicPartition("orders", 0)
    (member,) = classic.described("g")[0].members
    assert member.member_id
    classic.clock.now_ms += SESSION_MS
    assert commit(classic) == ErrorCode.NONE
    assert classic.fetched("g") == {tuple(tp): 1}
    assert delete(classic) == ErrorCode.NONE
    assert classic.fetched("g") == {}


def test_a_group_is_walked_when_the_next_session_can_be_over(life):
    ended, due = [], Due()
    sessions = [Session(life.clock, lambda place=place: ended.append(place), due) for place in range(3)]
    now_ms = life.clock.monotonic_ms()
    assert due.at_ms == math.inf
    for session, timeout_ms in zip(sessions, (30, 10, 20), strict=True):
        session.extend(timeout_ms)
    assert due.at_ms == now_ms + 10

    due.end_overdue(sessions, now_ms + 10)
    assert (ended, due.at_ms) == ([1], now_ms + 20)
    sessions[2].extend(25)
    assert due.at_ms == now_ms + 20, "a bound: who lives on is not walked for it"
    sessions[0].extend(5)
    assert due.at_ms == now_ms + 5, "a shorter time-out than before"

    life.clock.advance(30)
    assert ended == [1, 0, 2]
    due.end_overdue(sessions, life.clock.monotonic_ms())
    assert (ended, due.at_ms) == ([1, 0, 2], math.inf)
