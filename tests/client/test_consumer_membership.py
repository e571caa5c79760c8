"""A member of a group of the protocol ``consumer``: what it says, and what answers make of it."""

import pytest

from barnabas.client.errors import GroupError
from barnabas.client.group.consumer_membership import (
    NEXT_STATE,
    ConsumerMemberEvent,
    ConsumerMembership,
    ConsumerMemberState,
)
from barnabas.client.group.settings import MemberSettings
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = b"t" * 16


def a_member(**options):
    settings = {
        "group_id": "g",
        "group_instance_id": None,
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 3_000,
        "rebalance_timeout_ms": 60_000,
        "request_timeout_ms": 30_000,
        "retry_backoff_ms": 100,
        "retry_backoff_max_ms": 1_000,
        "auto_commit_interval_ms": None,
        "rack": "r",
        "server_assignor": "uniform",
    }
    member = ConsumerMembership(MemberSettings(**{**settings, **options}), "m")
    member.topics = frozenset({"b", "a"})
    member.subscribed()
    return member


def answer(epoch=1, numbers=None, **fields):
    given = None
    if numbers is not None:
        given = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=numbers)])
    return ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=epoch, heartbeat_interval_ms=500, assignment=given, **fields
    )


def refusal(code, message=None):
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


def joined(numbers=(0, 1), **options):
    member = a_member(**options)
    member.heard(answer(numbers=list(numbers)), member.heartbeat())
    return member


def settled(numbers=(0, 1), **options):
    member = joined(numbers, **options)
    member.applied(member.target)
    member.heard(answer(), member.heartbeat())
    return member


def test_it_joins_with_everything():
    member = a_member()

    assert member.has_news
    assert member.heartbeat().request == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rack_id="r",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["a", "b"],
        server_assignor="uniform",
        topic_partitions=[],
    )
    assert member.stable_generation is None


def test_it_tells_what_it_owns_and_then_nothing():
    member = joined()
    assert member.state is ConsumerMemberState.RECONCILING
    assert not member.has_news
    assert member.heartbeat_interval_ms == 500

    member.applied({TOPIC: frozenset({0, 1})})
    assert member.state is ConsumerMemberState.STABLE
    assert member.has_news
    sent = member.heartbeat()
    assert sent.request == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=1,
        topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=[0, 1])],
    )
    member.heard(answer(), sent)
    assert not member.has_news
    assert member.heartbeat().request == ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=1
    )


def test_an_answer_to_what_was_said_before_does_not_count_for_what_is_so_now():
    member = joined()
    early = member.heartbeat()
    member.applied(member.target)
    member.heard(answer(), early)

    assert member.has_news
    assert member.heartbeat().request.topic_partitions


def test_another_subscription_is_news():
    member = settled()
    member.topics = frozenset({"c"})

    assert member.has_news
    assert member.heartbeat().request.subscribed_topic_names == ["c"]


def test_after_a_heartbeat_without_an_answer_it_says_everything():
    member = settled()
    member.not_answered()

    request = member.heartbeat().request
    assert request.subscribed_topic_names == ["a", "b"]
    assert request.topic_partitions == [TopicPartitions(topic_id=TOPIC, partitions=[0, 1])]
    assert (request.rack_id, request.rebalance_timeout_ms) == ("r", 60_000)


def test_a_part_of_the_target_leaves_the_rest_to_be_done():
    member = joined()
    member.applied({TOPIC: frozenset({0})})

    assert member.state is ConsumerMemberState.RECONCILING
    assert member.has_news


def test_a_smaller_target_is_reconciled():
    member = settled()
    member.heard(answer(epoch=2, numbers=[1]), member.heartbeat())

    assert member.state is ConsumerMemberState.RECONCILING
    assert member.target == {TOPIC: frozenset({1})}
    assert member.owned == {TOPIC: frozenset({0, 1})}
    assert member.generation.number == 2


def test_partitions_that_are_all_taken_away():
    member = settled()
    member.heard(answer(epoch=2, numbers=[]), member.heartbeat())

    assert member.state is ConsumerMemberState.RECONCILING
    assert member.target == {}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_one_that_is_thrown_out_joins_again_when_its_caller_knows(code):
    member = settled()
    late = member.heartbeat()
    with pytest.raises(KafkaError):
        member.heard(refusal(code), member.heartbeat())

    assert member.has_lost_all
    assert not member.sends_heartbeats
    assert member.stable_generation is None
    member.dropped()
    assert member.state is ConsumerMemberState.JOINING
    assert member.heartbeat().request.member_epoch == 0
    assert member.heartbeat().request.topic_partitions == []
    # What was asked in its former stay says nothing about this one.
    member.heard(answer(epoch=7, numbers=[5]), late)
    assert member.state is ConsumerMemberState.JOINING


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ],
)
def test_it_stays_a_member_where_a_heartbeat_may_be_repeated(code):
    member = settled()
    with pytest.raises(KafkaError):
        member.heard(refusal(code), member.heartbeat())

    assert member.state is ConsumerMemberState.STABLE
    assert member.generation.number == 1
    assert member.failure is None
    assert member.heartbeat().request.subscribed_topic_names == ["a", "b"]


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, None, "Group authorization failed. (group g)"),
        (ErrorCode.UNRELEASED_INSTANCE_ID, "Instance i is taken.", "Instance i is taken. (group g)"),
        (
            ErrorCode.UNSUPPORTED_VERSION,
            "no",
            "The cluster does not support the new CONSUMER group protocol.",
        ),
    ],
)
def test_one_that_cannot_be_in_the_group_says_why(code, message, said):
    member = a_member()
    with pytest.raises(GroupError) as refused:
        member.heard(refusal(code, message), member.heartbeat())

    assert str(refused.value).startswith(said)
    assert member.failure is refused.value
    assert member.state is ConsumerMemberState.FATAL
    assert not member.sends_heartbeats


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_it_leaves(instance, epoch):
    member = settled(group_instance_id=instance)
    request = member.leave_request()
    assert (request.member_epoch, request.instance_id, request.topic_partitions) == (epoch, instance, None)

    member.left()
    assert member.leave_request() is None
    assert member.state is ConsumerMemberState.UNSUBSCRIBED
    assert member.generation.is_none
    member.subscribed()
    assert member.heartbeat().request.member_epoch == 0


def test_one_whose_caller_does_not_poll_has_lost_all():
    member = settled()
    member.expired()

    assert member.has_lost_all
    member.dropped()
    assert member.state is ConsumerMemberState.JOINING


def test_what_cannot_happen_raises():
    for state, following in NEXT_STATE.items():
        for event in set(ConsumerMemberEvent) - set(following):
            member = a_member()
            member.state = state
            with pytest.raises(AssertionError, match="cannot happen"):
                member._happened(event)


def test_what_no_coordinator_should_say_changes_nothing():
    member = settled()
    with pytest.raises(KafkaError, match="epoch -1"):
        member.heard(answer(epoch=-1), member.heartbeat())
    assert member.generation.number == 1
    assert member.heartbeat().request.member_epoch == 1
    for interval_ms in (0, -5):
        response = answer()
        response.heartbeat_interval_ms = interval_ms
        member.heard(response, member.heartbeat())
        assert member.heartbeat_interval_ms == 500
