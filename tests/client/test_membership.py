"""The machine of a group's member, cell by cell, and its timing; no sockets, no clock."""

import itertools
from types import SimpleNamespace

import pytest

from barnabas.client import OffsetAndMetadata, TopicPartition
from barnabas.client.errors import CommitFailedError, GroupError
from barnabas.client.group.commits import Commits
from barnabas.client.group.heartbeat import Heartbeat
from barnabas.client.group.membership import (
    NEXT_STATE,
    Generation,
    MemberEvent,
    Membership,
    MemberState,
)
from barnabas.client.group.settings import MemberSettings
from barnabas.client.metadata import ClusterMetadata
from barnabas.client.subscription_state import SubscriptionState
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.backoff import ExponentialBackoff
from barnabas.protocol.messages.heartbeat import HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.sync_group import SyncGroupResponse

SETTINGS = {
    "group_id": "g",
    "group_instance_id": None,
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 3_000,
    "rebalance_timeout_ms": 60_000,
    "request_timeout_ms": 30_000,
    "retry_backoff_ms": 100,
    "retry_backoff_max_ms": 1_000,
    "auto_commit_interval_ms": None,
    "rack": None,
    "server_assignor": None,
}


def a_member(**options):
    return Membership(MemberSettings(**{**SETTINGS, **options}))


def join_answer(error=ErrorCode.NONE, leader="m", **fields):
    values = {"generation_id": 4, "protocol_name": "range", "member_id": "m", "members": [], **fields}
    return JoinGroupResponse(error_code=error, leader=leader, **values)


def sync_answer(error=ErrorCode.NONE, **fields):
    return SyncGroupResponse(error_code=error, assignment=b"part", **fields)


def joining():
    member = a_member()
    member.join_request([])
    return member


def syncing():
    member = joining()
    member.joined(join_answer(), Generation())
    return member


def stable():
    member = syncing()
    assert member.synced(sync_answer(), member.generation) == b"part"
    return member


MAKERS = {
    MemberState.UNJOINED: a_member,
    MemberState.PREPARING_REBALANCE: joining,
    MemberState.COMPLETING_REBALANCE: syncing,
    MemberState.STABLE: stable,
}
ACTIONS = {
    MemberEvent.JOIN: lambda member: member.join_request([]),
    MemberEvent.JOINED: lambda member: member.joined(join_answer(), member.generation),
    MemberEvent.SYNCED: lambda member: member.synced(sync_answer(), member.generation),
    MemberEvent.RESET: lambda member: member.reset("test"),
}

LATE_ANSWERS = {
    MemberEvent.JOINED: ErrorCode.UNKNOWN_MEMBER_ID,
    MemberEvent.SYNCED: ErrorCode.ILLEGAL_GENERATION,
}


def test_the_table_has_a_row_for_every_state_and_no_dead_end():
    assert NEXT_STATE.keys() == set(MemberState)
    reached = {state for row in NEXT_STATE.values() for state in row.values()}
    assert reached == set(MemberState)
    assert all(MemberEvent.RESET in row and MemberEvent.JOIN in row for row in NEXT_STATE.values())


@pytest.mark.parametrize(("state", "event"), list(itertools.product(MemberState, MemberEvent)))
def test_every_cell_of_the_table(state, event):
    member = MAKERS[state]()
    assert member.state is state
    following = NEXT_STATE[state].get(event)
    if following is not None:
        ACTIONS[event](member)
        assert member.state is following
        return
    # An answer that is not waited for (any more) changes nothing.
    with pytest.raises(KafkaError) as late:
        ACTIONS[event](member)
    assert late.value.code is LATE_ANSWERS[event]
    assert member.state is state


def test_a_whole_round():
    member = a_member()
    assert (member.rejoin_needed, member.stable_generation, member.is_joined) == (True, None, False)
    request = member.join_request([])
    assert (request.group_id, request.session_timeout_ms, request.rebalance_timeout_ms) == (
        "g",
        10_000,
        60_000,
    )
    assert member.rebalancing
    assert member.joined(join_answer(leader="other"), Generation()) is False
    assert member.is_joined
    request = member.sync_request({"m": b"x"})
    assert (request.generation_id, request.member_id, request.protocol_name) == (4, "m", "range")
    member.synced(sync_answer(protocol_type="consumer", protocol_name="range"), member.generation)
    assert member.stable_generation == Generation(4, "m", "range")
    assert (member.rejoin_needed, member.rebalancing) == (False, False)
    assert repr(member) == "<Membership g STABLE generation=4 member=m>"


def test_the_id_that_a_coordinator_demands_is_used_for_the_next_attempt():
    member = joining()
    with pytest.raises(KafkaError) as demanded:
        member.joined(join_answer(ErrorCode.MEMBER_ID_REQUIRED, member_id="m7"), Generation())
    assert demanded.value.code is ErrorCode.MEMBER_ID_REQUIRED
    request = member.join_request([])
    assert (request.member_id, request.reason) == ("m7", "need to re-join with the given member-id: m7")


def test_a_reason_is_cut_to_what_a_coordinator_takes():
    member = a_member()
    member.request_rejoin("x" * 300)
    assert member.join_request([]).reason == "x" * 255
    member.rejoin_needed = True
    member.request_rejoin("another", only_if_none=True)
    assert member.join_request([]).reason == "x" * 255


def test_an_unknown_member_forgets_its_id_and_an_outdated_one_keeps_it():
    for code, kept in ((ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m")):
        member = syncing()
        member.prepared = True
        with pytest.raises(KafkaError) as lost:
            member.synced(sync_answer(code), member.generation)
        assert lost.value.code is code
        assert (member.generation, member.state) == (Generation(member_id=kept), MemberState.UNJOINED)
        assert (member.rejoin_needed, member.prepared) == (True, False)


LOST = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID]


@pytest.mark.parametrize("code", LOST)
@pytest.mark.parametrize("earlier", [Generation(3, "m", "range"), Generation(4, "before", "range")])
def test_a_late_answer_to_a_heartbeat_harms_no_newer_membership(code, earlier):
    member = stable()
    member.heard(HeartbeatResponse(error_code=code), earlier)
    assert (member.state, member.generation) == (MemberState.STABLE, Generation(4, "m", "range"))
    assert not member.rejoin_needed


@pytest.mark.parametrize("earlier", [Generation(2, "before"), Generation(member_id="before")])
def test_a_late_answer_to_a_join_harms_no_newer_membership(earlier):
    member = joining()
    with pytest.raises(KafkaError) as late:
        member.joined(join_answer(ErrorCode.UNKNOWN_MEMBER_ID), earlier)
    assert late.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert member.state is MemberState.PREPARING_REBALANCE


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_late_answer_to_a_sync_harms_no_newer_membership(code, raised):
    member = syncing()
    with pytest.raises(KafkaError) as late:
        member.synced(sync_answer(code), Generation(3, "m", "range"))
    assert late.value.code is raised
    assert (member.state, member.generation.number) == (MemberState.COMPLETING_REBALANCE, 4)


class LateLink:
    """A coordinator that answers a commit when the member is in a generation after it."""

    def __init__(self, member, code, meanwhile):
        self.member = member
        self.code = code
        self.meanwhile = meanwhile
        self.node_id = 1

    def lost(self, reason):
        raise AssertionError(reason)

    async def send(self, request, answer, **options):
        self.meanwhile(self.member)
        one = OffsetCommitResponsePartition(partition_index=0, error_code=self.code)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[one])])


def rejoin(member):
    member.join_request([])
    member.joined(join_answer(generation_id=5), member.generation)
    member.synced(sync_answer(), member.generation)


def stay(member):
    pass


async def commit_late(member, code, meanwhile):
    subscriptions = SubscriptionState()
    subscriptions.subscribe(["t"], None, None, None)
    link = LateLink(member, code, meanwhile)
    cluster = SimpleNamespace(metadata=ClusterMetadata())
    commits = Commits(MemberSettings(**SETTINGS), cluster, link, member, subscriptions)
    await commits.commit_once({TopicPartition("t", 0): OffsetAndMetadata(3)})


@pytest.mark.parametrize("code", LOST)
def test_a_late_answer_to_a_commit_while_the_member_joins_again_may_be_tried_again(run, code):
    def rejoin_twice(member):
        rejoin(member)
        member.join_request([])

    member = stable()
    with pytest.raises(KafkaError) as refused:
        run(commit_late(member, code, rejoin_twice))
    assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert (member.state, member.generation.number) == (MemberState.PREPARING_REBALANCE, 5)


@pytest.mark.parametrize("code", LOST)
@pytest.mark.parametrize("meanwhile", [rejoin, stay])
def test_a_late_answer_to_a_commit_harms_no_newer_membership(run, code, meanwhile):
    member = stable()
    with pytest.raises(KafkaError) as refused:
        run(commit_late(member, code, meanwhile))
    assert refused.value.code is code
    if meanwhile is rejoin:
        assert (member.state, member.generation.number) == (MemberState.STABLE, 5)
        assert not member.rejoin_needed
        assert isinstance(refused.value, CommitFailedError)
    elif code is not ErrorCode.FENCED_INSTANCE_ID:
        kept = "m" if code is ErrorCode.ILLEGAL_GENERATION else ""
        assert (member.state, member.generation) == (MemberState.UNJOINED, Generation(member_id=kept))


def test_a_heartbeat_may_tell_of_a_rebalance():
    member = stable()
    member.heard(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), member.generation)
    assert (member.rejoin_needed, member.state) == (True, MemberState.STABLE)
    assert member.join_request([]).reason == "group is already rebalancing"
    member = syncing()
    member.rejoin_needed = False
    member.heard(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), member.generation)
    assert not member.rejoin_needed


@pytest.mark.parametrize(
    ("code", "final"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, False),
        (ErrorCode.ILLEGAL_GENERATION, False),
        (ErrorCode.NOT_COORDINATOR, False),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, False),
        (ErrorCode.FENCED_INSTANCE_ID, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True),
    ],
)
def test_what_a_heartbeat_may_be_answered(code, final):
    member = stable()
    with pytest.raises(KafkaError) as failed:
        member.heard(HeartbeatResponse(error_code=code), member.generation)
    assert (failed.value.code, isinstance(failed.value, GroupError)) == (code, final)
    reset = code in {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
    }
    assert (member.state is MemberState.UNJOINED) == reset


def test_a_coordinator_of_other_protocols_is_refused():
    with pytest.raises(GroupError, check=lambda error: error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
        joining().joined(join_answer(protocol_type="connect"), Generation())
    for fields in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        member = syncing()
        with pytest.raises(
            GroupError, check=lambda error: error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        ):
            member.synced(sync_answer(**fields), member.generation)


def test_a_member_that_leaves_says_so_unless_there_is_nothing_to_say():
    request = stable().leave_request("r" * 300)
    assert (request.group_id, request.members[0].member_id) == ("g", "m")
    assert request.members[0].reason == "r" * 255
    assert a_member().leave_request("r") is None
    assert joining().leave_request("r") is None, "the coordinator has not given it an id yet"
    static = a_member(group_instance_id="i")
    static.join_request([])
    static.joined(join_answer(), Generation())
    assert static.leave_request("r") is None


# Timing.


def a_heartbeat():
    backoff = ExponentialBackoff(initial_ms=100, max_ms=1_000, uniform=lambda low, high: 1.0, jitter=0)
    return Heartbeat(MemberSettings(**SETTINGS), backoff, 0.0)


def test_a_heartbeat_is_due_after_the_interval_and_never_twice_at_once():
    beat = a_heartbeat()
    assert not beat.is_due(2_999)
    assert beat.wait_ms(1_000) == 2_000
    assert beat.is_due(3_000)
    beat.sent(3_000)
    assert not beat.is_due(9_000)
    beat.received(3_050)
    assert beat.wait_ms(3_050) == 2_950


def test_a_failed_heartbeat_is_repeated_soon_then_less_soon():
    beat = a_heartbeat()
    beat.sent(3_000)
    beat.failed(3_000)
    first = beat.wait_ms(3_000)
    beat.sent(3_000 + first)
    beat.failed(3_000)
    assert 0 < first < beat.wait_ms(3_000) < 1_000


def test_failures_before_an_answer_count_no_more():
    beat = a_heartbeat()
    beat.failed(3_000)
    first = beat.wait_ms(3_000)
    for _ in range(3):
        beat.failed(3_000)
    beat.sent(3_000)
    beat.received(3_000)
    beat.failed(3_000)
    assert beat.wait_ms(3_000) == first


def test_a_session_ends_without_an_answer_and_a_poll_interval_without_a_poll():
    beat = a_heartbeat()
    beat.polled(5_000)
    assert not beat.session_expired(9_999)
    assert beat.session_expired(10_000)
    beat.received(9_000)
    assert not beat.session_expired(18_999)
    assert not beat.poll_expired(64_999)
    assert beat.poll_expired(65_000)
    beat.reset(65_000)
    assert not beat.poll_expired(65_000)
    assert not beat.session_expired(65_000)
