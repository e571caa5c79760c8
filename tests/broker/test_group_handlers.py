"""The APIs of groups: what the coordinator is asked, and what becomes of its answers in each version."""

from collections import Counter
from types import SimpleNamespace

import pytest

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.group_requests import java_host
from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_3_9, PROFILE_4_4
from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.members import (
    ClassicMember,
    JoinedMember,
    JoinResult,
    LeavingMember,
    MemberTerms,
    SyncResult,
)
from barnabas.coordinator.classic.states import ClassicGroupState
from barnabas.coordinator.consumer.description import ConsumerGroupDescription, describe
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember, HeartbeatResult
from barnabas.coordinator.consumer.topics import CachedTopics
from barnabas.coordinator.group import Client
from barnabas.coordinator.offsets.group_offsets import CommittedOffset
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from standing_clock import Clock, TickingClock

COMMITTED = 42


class Coordinator:
    """Notes what it is asked; answers what the test laid down, else what is good."""

    settings = SimpleNamespace(offset_metadata_max_bytes=4096)

    def __init__(self):
        self.asked = []
        self.answers = {}

    def _answer(self, name, good, *arguments):
        self.asked.append((name, *arguments))
        answer = self.answers.get(name, good)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def join_group(self, request):
        good = JoinResult(ErrorCode.NONE, "m", generation_id=1, protocol_name="range", leader_id="m")
        return self._answer("join_group", good, request)

    def sync_group(self, request):
        return self._answer("sync_group", SyncResult(ErrorCode.NONE, assignment=b"part"), request)

    def heartbeat(self, group_id, member_id, group_instance_id, generation_id):
        member = (group_id, member_id, group_instance_id, generation_id)
        return self._answer("heartbeat", ErrorCode.NONE, *member)

    def leave_group(self, group_id, leaving):
        return self._answer("leave_group", [ErrorCode.NONE] * len(leaving), group_id, leaving)

    def commit_offsets(self, group_id, commits, **member):
        return self._answer(
            "offset_commit", dict.fromkeys(commits, ErrorCode.NONE), group_id, commits, member
        )
        yield  # a generator, as what may be long is

    def committed_partitions(self, group_id):
        return [TopicPartition("orders", 0)]

    def fetch_offsets(self, group_id, partitions, **member):
        good = dict.fromkeys(partitions, CommittedOffset(COMMITTED, -1, "m", 1))
        return self._answer("offset_fetch", good, group_id, partitions, member)

    def delete_offsets(self, group_id, partitions):
        good = dict.fromkeys(partitions, ErrorCode.NONE)
        return self._answer("offset_delete", good, group_id, list(partitions))

    def classic_group(self, group_id):
        return self._answer("classic_group", group_in("Stable", group_id), group_id)

    loading = ()

    def groups(self):
        yield from self._answer("groups", [group_in("Stable", "a"), group_in("Empty", "b")])

    def delete_group(self, group_id):
        return self._answer("delete_group", None, group_id)

    def consumer_group_heartbeat(self, heartbeat):
        good = HeartbeatResult("m", 1, 5000)
        return self._answer("consumer_group_heartbeat", good, heartbeat)

    def consumer_group_describe(self, group_id):
        good = ConsumerGroupDescription(ConsumerGroup(group_id), "uniform", [])
        return self._answer("consumer_group_describe", good, group_id)


def group_in(state, group_id):
    group = ClassicGroup(group_id, None, Clock(), None, None)
    group.state = ClassicGroupState(state)
    group.protocol_type = "consumer"
    return group


class Rights:
    """Everybody may do everything but what is denied; notes who was asked."""

    def __init__(self):
        self.denied = set()
        self.asked = []

    def deny(self, operation, resource, *names):
        self.denied |= {(operation, resource, name) for name in names}

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        self.asked.append((operation.name, resource.name, name))
        return (operation, resource, name) not in self.denied

    def authorize_any(self, request, operation, resource):
        return True


@pytest.fixture
def rights():
    return Rights()


@pytest.fixture
def coordinator():
    return Coordinator()


@pytest.fixture
def make(make_world, rights, coordinator):
    def world(**config):
        world = make_world(authorizer=rights, **config)
        world.create("orders", partitions=2)
        world.services.group_coordinator = coordinator
        rights.asked.clear()
        return world

    return world


@pytest.fixture
def world(make):
    return make()


def error(name):
    return KafkaError(ErrorCode[name])


def code(number):
    return ErrorCode.of(number).name


def join(**fields):
    return JoinGroupRequest(group_id="g", session_timeout_ms=7000, protocol_type="consumer", **fields)


# --- one group, one right ----------------------------------------------------------------------------

ONE_GROUP = [
    (join(rebalance_timeout_ms=1, member_id="m"), 9, Operation.READ),
    (SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range"), 5, Operation.READ),
    (HeartbeatRequest(group_id="g"), 4, Operation.READ),
    (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 5, Operation.READ),
    (OffsetDeleteRequest(group_id="g"), 0, Operation.DELETE),
]


@pytest.mark.parametrize(("request_", "version", "operation"), ONE_GROUP, ids=lambda v: type(v).__name__)
def test_whoever_may_not_touch_the_group_does_not_reach_the_coordinator(
    world, rights, coordinator, request_, version, operation
):
    rights.deny(operation, Resource.GROUP, "g")
    response = world.send(request_, version)

    assert code(response.error_code) == "GROUP_AUTHORIZATION_FAILED"
    assert rights.asked == [(operation.name, "GROUP", "g")]
    assert coordinator.asked == []
    assert getattr(response, "member_id", "") == ""


@pytest.mark.parametrize(
    ("request_", "version", "name"),
    [(request, version, type(request).__name__) for request, version, _ in ONE_GROUP],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_of_the_coordinator_is_the_answer(world, coordinator, request_, version, name):
    methods = {"JoinGroup": "join_group", "SyncGroup": "sync_group", "Heartbeat": "heartbeat"}
    methods |= {"LeaveGroup": "leave_group", "OffsetDelete": "offset_delete"}
    coordinator.answers[methods[name.removesuffix("Request")]] = error("NOT_COORDINATOR")

    assert code(world.send(request_, version).error_code) == "NOT_COORDINATOR"


# --- JoinGroup ----------------------------------------------------------------------------------------


def test_a_member_is_known_by_its_client_id_and_its_address_as_java_shows_it(world, coordinator):
    world.send(join(rebalance_timeout_ms=5), 5, client_id="c-1")
    world.send(join(rebalance_timeout_ms=5), 5, client_id=None)

    assert [asked[1].client for asked in coordinator.asked] == [("c-1", "/127.0.0.1"), ("", "/127.0.0.1")]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("10.0.0.7", "/10.0.0.7"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::a:b%eth0", "/fe80:0:0:0:0:0:a:b%eth0"),
        ("::ffff:1.2.3.4", "/1.2.3.4"),
    ],
)
def test_addresses_as_java_prints_them(address, shown):
    assert java_host(address) == shown


def test_before_version_1_the_rebalance_takes_as_long_as_the_session(world, coordinator):
    world.send(join(), 0)
    world.send(join(rebalance_timeout_ms=99), 1)

    assert [asked[1].rebalance_timeout_ms for asked in coordinator.asked] == [7000, 99]


@pytest.mark.parametrize(
    ("version", "known_id", "skips"),
    [(0, False, False), (3, False, False), (4, True, False), (9, True, True)],
)
def test_what_a_version_can_do_is_said_to_the_coordinator(world, coordinator, version, known_id, skips):
    protocols = [JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in ("range", "sticky")]
    world.send(join(rebalance_timeout_ms=5, protocols=protocols), version)

    [(_, asked)] = coordinator.asked
    assert (asked.requires_known_member_id, asked.supports_skipping_assignment) == (known_id, skips)
    assert asked.protocols == (("range", b"range"), ("sticky", b"sticky"))


@pytest.mark.parametrize(("version", "shown"), [(0, ""), (6, ""), (7, None), (9, None)])
@pytest.mark.parametrize("given", [None, ""])
def test_no_protocol_is_null_where_it_can_be(world, coordinator, version, shown, given):
    coordinator.answers["join_group"] = JoinResult(ErrorCode.MEMBER_ID_REQUIRED, "m-1", protocol_name=given)
    response = world.send(join(), version)

    assert (response.protocol_name, response.member_id) == (shown, "m-1")


@pytest.mark.parametrize(
    ("name", "member"),
    [("UNKNOWN_MEMBER_ID", "m"), ("NOT_COORDINATOR", "m"), ("GROUP_MAX_SIZE_REACHED", "")],
)
@pytest.mark.parametrize("version", [0, 9])
def test_a_join_that_is_refused_names_the_member_where_kafka_does(world, coordinator, name, member, version):
    coordinator.answers["join_group"] = error(name)
    response = world.send(join(member_id="m"), version)

    assert (code(response.error_code), response.member_id, response.generation_id) == (name, member, -1)
    assert response.protocol_name == (None if version else "")


def test_a_member_of_very_many_protocols_does_not_join(world, coordinator):
    protocols = [JoinGroupRequestProtocol(name=f"p{number}") for number in range(1001)]
    request = JoinGroupRequest(group_id="g", member_id="m-1", protocols=protocols)
    answer = world.send(request, 9)
    assert (answer.error_code, answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "m-1")
    assert coordinator.asked == []

    request.protocols.pop()
    assert world.send(request, 9).error_code == ErrorCode.NONE


def test_a_join_waits_and_may_still_be_refused(world, coordinator):
    first, second = Pending(), Pending()
    coordinator.answers["join_group"] = first
    answer = world.start(join(member_id="m"), 9)
    assert answer() is None
    first.complete(JoinResult(ErrorCode.NONE, "m", generation_id=3, protocol_name="range"))
    assert answer().generation_id == 3

    coordinator.answers["join_group"] = second
    answer = world.start(join(member_id="m"), 9)
    second.fail(error("NOT_COORDINATOR"))
    assert (code(answer().error_code), answer().member_id) == ("NOT_COORDINATOR", "m")


def test_the_leader_of_a_very_large_group_is_answered_in_slices(make, coordinator):
    clock, seen = TickingClock(), []

    class Members(list):
        def __iter__(self):
            for each in super().__iter__():
                seen.append(clock.turns)
                yield each

    members = Members(JoinedMember(f"m-{each}", None, b"topics") for each in range(1_000))
    coordinator.answers["join_group"] = JoinResult(
        ErrorCode.NONE, "m-0", generation_id=3, protocol_name="range", leader_id="m-0", members=members
    )
    answer = make(clock=clock).start(join(member_id="m-0"), 9)
    while answer() is None:
        clock.advance()
    assert [each.member_id for each in answer().members] == [f"m-{each}" for each in range(1_000)]
    assert max(Counter(seen).values()) < 100


# --- SyncGroup ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), [(None, "range"), ("consumer", None), (None, None)])
def test_sync_must_say_its_protocol_from_version_5_on(world, rights, coordinator, kind, name):
    request = SyncGroupRequest(group_id="g", protocol_type=kind, protocol_name=name)

    assert code(world.send(request, 5).error_code) == "INCONSISTENT_GROUP_PROTOCOL"
    assert rights.asked == []
    assert world.send(request, 4).assignment == b"part"


# --- LeaveGroup ---------------------------------------------------------------------------------------


def test_one_member_leaves_before_version_3(world, coordinator):
    request = LeaveGroupRequest(group_id="g", member_id="m")
    assert world.send(request, 2).error_code == 0
    assert coordinator.asked == [("leave_group", "g", [LeavingMember("m")])]

    coordinator.answers["leave_group"] = [ErrorCode.UNKNOWN_MEMBER_ID]
    assert code(world.send(request, 0).error_code) == "UNKNOWN_MEMBER_ID"
    coordinator.answers["leave_group"] = error("NOT_COORDINATOR")
    assert code(world.send(request, 1).error_code) == "NOT_COORDINATOR"


def test_several_members_leave_each_with_its_own_error(world, coordinator):
    coordinator.answers["leave_group"] = Pending.of([ErrorCode.UNKNOWN_MEMBER_ID])
    response = world.send(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="a")]), 5)

    assert response.error_code == 0
    assert [(each.member_id, each.error_code) for each in response.members] == [("a", 25)]


# --- OffsetCommit -------------------------------------------------------------------------------------


def commit(*places, **fields):
    topics = {}
    for topic, partition in places:
        wanted = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)
        topics.setdefault(topic, []).append(wanted)
    return OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        **fields,
    )


def codes(response):
    return {
        (topic.name, each.partition_index): code(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }


def test_the_coordinator_sees_only_partitions_that_exist_and_may_be_read(world, rights, coordinator):
    world.create("secret")
    rights.asked.clear()
    rights.deny(Operation.READ, Resource.TOPIC, "secret")
    places = [("orders", 0), ("orders", 7), ("absent", 0), ("secret", 0), ("orders", -1), ("orders", 1)]
    response = world.send(
        commit(*places, member_id="m", generation_id_or_member_epoch=3, group_instance_id="i"), 7
    )

    assert codes(response) == {
        ("orders", 0): "NONE",
        ("orders", 1): "NONE",
        ("orders", 7): "UNKNOWN_TOPIC_OR_PARTITION",
        ("orders", -1): "UNKNOWN_TOPIC_OR_PARTITION",
        ("absent", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        ("secret", 0): "TOPIC_AUTHORIZATION_FAILED",
    }
    [(_, group_id, asked, member)] = coordinator.asked
    assert (group_id, list(asked)) == ("g", [("orders", 0), ("orders", 1)])
    assert member == {"member_id": "m", "generation": 3, "group_instance_id": "i", "version": 7}
    topics = [("READ", "TOPIC", name) for name in ("orders", "absent", "secret")]
    assert rights.asked == [("READ", "GROUP", "g"), *topics]


def test_a_commit_of_nothing_that_exists_does_not_ask_whose_group_it_is(world, coordinator):
    assert codes(world.send(commit(("absent", 0)), 9)) == {("absent", 0): "UNKNOWN_TOPIC_OR_PARTITION"}
    assert world.send(commit(), 9).topics == []
    assert coordinator.asked == []


def test_a_commit_that_is_refused_is_refused_for_every_partition(world, rights, coordinator):
    coordinator.answers["offset_commit"] = error("ILLEGAL_GENERATION")
    places = [("orders", 0), ("orders", 1)]
    assert set(codes(world.send(commit(*places), 8)).values()) == {"ILLEGAL_GENERATION"}

    rights.deny(Operation.READ, Resource.GROUP, "g")
    assert codes(world.send(commit(*places, ("absent", 3)), 2)) == dict.fromkeys(
        [*places, ("absent", 3)], "GROUP_AUTHORIZATION_FAILED"
    )


def committed(coordinator):
    """What the coordinator was asked to keep."""
    return {tuple(tp): commit for tp, commit in coordinator.asked[-1][2].items()}


def test_how_long_to_keep_a_commit_is_passed_on(world, coordinator):
    now_ms = world.clock.time_ms()
    world.send(commit(("orders", 0), retention_time_ms=77), 4)
    assert committed(coordinator)["orders", 0].expire_timestamp == now_ms + 77

    world.send(commit(("orders", 0)), 4)
    assert committed(coordinator)["orders", 0].expire_timestamp == -1


def test_a_commit_to_be_kept_for_ever_is_kept_as_long_as_a_record_can_say(world, coordinator):
    """The sum of both times did not fit the record: UNKNOWN_SERVER_ERROR."""
    world.send(commit(("orders", 0), retention_time_ms=(1 << 63) - 1), 4)
    assert committed(coordinator)["orders", 0].expire_timestamp == (1 << 63) - 1


def test_what_a_client_says_of_a_commit(world, coordinator):
    request = commit(("orders", 0), ("orders", 1))
    first, second = request.topics[0].partitions
    first.committed_leader_epoch, first.committed_metadata = 3, "note"
    second.committed_metadata = None

    world.send(request, 8)

    now_ms = world.clock.time_ms()
    assert committed(coordinator) == {
        ("orders", 0): CommittedOffset(1, 3, "note", now_ms),
        ("orders", 1): CommittedOffset(1, -1, "", now_ms),
    }


def test_a_partition_that_is_named_twice_counts_once_with_its_last_entry(world, coordinator):
    request = commit(("orders", 0), ("orders", 0))
    request.topics[0].partitions[1].committed_offset = 2

    assert len(world.send(request, 8).topics[0].partitions) == 1
    assert committed(coordinator)["orders", 0].offset == 2


def commit_entries(make, *topics, version=9):
    """Sends topics with their (partition, offset, metadata) to a broker of the profile 4.4; the answer."""
    asked = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
                for partition, offset, metadata in entries
            ],
        )
        for name, *entries in topics
    ]
    world = make(barnabas_api_profile="4.4")
    response = world.send(OffsetCommitRequest(group_id="g", topics=asked), version)
    return [
        (topic.name, [(each.partition_index, code(each.error_code)) for each in topic.partitions])
        for topic in response.topics
    ]


def test_kafka_4_answers_every_entry_of_a_partition_and_keeps_the_last(make, coordinator):
    answer = commit_entries(make, ("orders", (0, 1, ""), (1, 1, ""), (0, 2, "")))

    assert answer == [("orders", [(0, "NONE"), (1, "NONE"), (0, "NONE")])]
    assert committed(coordinator)["orders", 0].offset == 2


def test_kafka_4_answers_every_entry_of_a_topic(make, coordinator):
    answer = commit_entries(make, ("orders", (0, 1, "")), ("orders", (0, 2, "")))

    assert answer == [("orders", [(0, "NONE")])] * 2
    assert committed(coordinator)["orders", 0].offset == 2


def test_kafka_4_makes_one_of_a_topics_entries_when_something_was_refused_before(make):
    answer = commit_entries(make, ("orders", (0, 1, ""), (7, 1, "")), ("orders", (7, 1, ""), (0, 2, "")))

    refused = (7, "UNKNOWN_TOPIC_OR_PARTITION")
    assert answer == [("orders", [refused, refused, (0, "NONE"), (0, "NONE")])]


@pytest.mark.parametrize("large", [0, 1])
def test_kafka_4_stores_the_last_entry_whose_metadata_is_not_too_large(make, coordinator, large):
    entries = [(0, offset, "x" * 5000 if offset == large else "") for offset in (0, 1)]

    answer = commit_entries(make, ("orders", *entries))

    codes_wanted = ["NONE", "NONE"]
    codes_wanted[large] = "OFFSET_METADATA_TOO_LARGE"
    assert answer == [("orders", [(0, each) for each in codes_wanted])]
    assert committed(coordinator)["orders", 0].offset == 1 - large


def test_kafka_4_refuses_every_entry_where_the_group_does(make, coordinator):
    coordinator.answers["offset_commit"] = error("UNKNOWN_MEMBER_ID")

    answer = commit_entries(make, ("orders", (0, 1, "x" * 5000), (0, 2, "")))

    assert answer == [("orders", [(0, "UNKNOWN_MEMBER_ID")] * 2)]


# --- OffsetFetch --------------------------------------------------------------------------------------


def found(topics):
    return {
        (topic.name, each.partition_index): (each.committed_offset, code(each.error_code))
        for topic in topics
        for each in topic.partitions
    }


def fetch_one(*names):
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1]) for name in names]
    return OffsetFetchRequest(group_id="g", topics=topics)


def test_positions_of_one_group(world):
    response = world.send(fetch_one("orders"), 5)

    assert found(response.topics) == {("orders", 0): (42, "NONE"), ("orders", 1): (42, "NONE")}
    assert response.topics[0].partitions[0].metadata == "m"


def test_null_asks_for_all_topics_and_an_empty_list_for_none(world, coordinator):
    assert found(world.send(OffsetFetchRequest(group_id="g", topics=None), 2).topics) == {
        ("orders", 0): (42, "NONE")
    }
    assert world.send(OffsetFetchRequest(group_id="g", topics=[]), 2).topics == []
    everything, nothing = [partitions for _, _, partitions, _ in coordinator.asked]
    assert everything == [("orders", 0)]
    assert nothing == []


@pytest.mark.parametrize("version", [1, 2, 7])
def test_topics_that_may_not_be_described_are_refused_one_by_one(world, rights, coordinator, version):
    rights.deny(Operation.DESCRIBE, Resource.TOPIC, "secret")
    response = world.send(fetch_one("secret", "orders"), version)

    assert found(response.topics) == {
        ("orders", 0): (42, "NONE"),
        ("orders", 1): (42, "NONE"),
        ("secret", 0): (-1, "TOPIC_AUTHORIZATION_FAILED"),
        ("secret", 1): (-1, "TOPIC_AUTHORIZATION_FAILED"),
    }
    assert {tp.topic for tp in coordinator.asked[0][2]} == {"orders"}


def test_of_all_topics_only_those_that_may_be_described(world, rights):
    rights.deny(Operation.DESCRIBE, Resource.TOPIC, "orders")

    assert world.send(OffsetFetchRequest(group_id="g", topics=None), 7).topics == []


@pytest.mark.parametrize("version", [2, 7])
def test_the_error_of_a_group_has_a_field_from_version_2_on(world, rights, version):
    rights.deny(Operation.DESCRIBE, Resource.GROUP, "g")
    response = world.send(fetch_one("orders"), version)

    assert (response.error_code, response.topics) == (30, [])


def test_several_groups_each_with_its_own_fate(world, rights, coordinator):
    rights.deny(Operation.DESCRIBE, Resource.GROUP, "hidden")
    wanted = [OffsetFetchRequestTopics(name="orders", partition_indexes=[1])]
    groups = [
        OffsetFetchRequestGroup(group_id="hidden", topics=wanted),
        OffsetFetchRequestGroup(group_id="g", topics=wanted, member_id="m", member_epoch=4),
        OffsetFetchRequestGroup(group_id="all", topics=None),
    ]
    response = world.send(OffsetFetchRequest(groups=groups, require_stable=True), 9)

    assert [(each.group_id, code(each.error_code), found(each.topics)) for each in response.groups] == [
        ("hidden", "GROUP_AUTHORIZATION_FAILED", {}),
        ("g", "NONE", {("orders", 1): (42, "NONE")}),
        ("all", "NONE", {("orders", 0): (42, "NONE")}),
    ]
    asked = [(group_id, member) for _, group_id, _, member in coordinator.asked]
    assert asked == [
        ("g", {"member_id": "m", "member_epoch": 4, "require_stable": True}),
        ("all", {"member_id": None, "member_epoch": -1, "require_stable": True}),
    ]


def test_a_group_that_the_coordinator_refuses_does_not_spoil_the_others(world, coordinator):
    coordinator.answers["offset_fetch"] = error("NOT_COORDINATOR")
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("a", "b")]
    response = world.send(OffsetFetchRequest(groups=groups), 8)

    assert [(each.group_id, code(each.error_code)) for each in response.groups] == [
        ("a", "NOT_COORDINATOR"),
        ("b", "NOT_COORDINATOR"),
    ]


@pytest.mark.parametrize("version", [1, 2, 8])
def test_a_failure_is_told_where_each_version_looks_for_it(world, coordinator, version):
    coordinator.answers["offset_fetch"] = ZeroDivisionError("a bug")
    request = fetch_one("orders")
    if version >= 8:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    response = world.send(request, version)

    if version >= 8:
        assert [each.error_code for each in response.groups] == [-1]
    elif version >= 2:
        assert (response.error_code, response.topics) == (-1, [])
    else:
        assert set(found(response.topics).values()) == {(-1, "UNKNOWN_SERVER_ERROR")}


# --- OffsetDelete -------------------------------------------------------------------------------------


def delete(*places):
    topics = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    return OffsetDeleteRequest(
        group_id="g",
        topics=[OffsetDeleteRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )


def test_positions_are_deleted_where_they_can_be(world, rights, coordinator):
    world.create("secret")
    rights.deny(Operation.READ, Resource.TOPIC, "secret")
    response = world.send(delete(("orders", 0), ("orders", 9), ("absent", 0), ("secret", 0)), 0)

    assert codes(response) == {
        ("orders", 0): "NONE",
        ("orders", 9): "UNKNOWN_TOPIC_OR_PARTITION",
        ("absent", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        ("secret", 0): "TOPIC_AUTHORIZATION_FAILED",
    }
    assert coordinator.asked == [("offset_delete", "g", [("orders", 0)])]


def test_an_error_of_the_group_goes_before_those_of_its_topics(world, coordinator):
    coordinator.answers["offset_delete"] = error("GROUP_ID_NOT_FOUND")
    response = world.send(delete(("absent", 0)), 0)

    assert (code(response.error_code), response.topics) == ("GROUP_ID_NOT_FOUND", [])


# --- DescribeGroups, ListGroups, DeleteGroups ---------------------------------------------------------


@pytest.mark.parametrize(("version", "operations"), [(2, None), (3, 1 << 3 | 1 << 8), (5, 1 << 3 | 1 << 8)])
def test_groups_are_described_with_what_may_be_done_to_them(world, rights, version, operations):
    rights.deny(Operation.DELETE, Resource.GROUP, "g")
    rights.deny(Operation.DESCRIBE, Resource.GROUP, "hidden")
    request = DescribeGroupsRequest(groups=["g", "hidden"])
    request.include_authorized_operations = version >= 3
    hidden, described = world.send(request, version).groups

    assert (hidden.group_id, code(hidden.error_code)) == ("hidden", "GROUP_AUTHORIZATION_FAILED")
    assert (described.group_id, described.group_state) == ("g", "Stable")
    if operations is not None:
        assert described.authorized_operations == operations
        assert hidden.authorized_operations == -(1 << 31)


def test_in_a_kafka_4_the_settings_of_groups_are_among_what_may_be_done(make, rights):
    world = make(barnabas_api_profile="4.4")
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    read_delete_describe = 1 << 3 | 1 << 6 | 1 << 8
    (described,) = world.send(request, 6).groups
    assert described.authorized_operations == read_delete_describe | 1 << 10 | 1 << 11
    rights.deny(Operation.ALTER_CONFIGS, Resource.GROUP, "g")
    (described,) = world.send(request, 6).groups
    assert described.authorized_operations == read_delete_describe | 1 << 10


def test_operations_are_told_only_to_who_asks_and_only_of_groups_without_error(world, coordinator):
    coordinator.answers["classic_group"] = error("NOT_COORDINATOR")
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    assert world.send(request, 5).groups[0].authorized_operations == -(1 << 31)
    del coordinator.answers["classic_group"]
    assert world.send(DescribeGroupsRequest(groups=["g"]), 5).groups[0].authorized_operations == -(1 << 31)


def test_very_many_groups_are_described_in_order(world):
    names = [f"g{each}" for each in range(30_000)]

    answer = world.send(DescribeGroupsRequest(groups=names), 5)

    assert [group.group_id for group in answer.groups] == names


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_very_many_members_is_described_in_slices_and_as_it_was(make, coordinator, protocol):
    clock = TickingClock()
    world = make(clock=clock, group_coordinator_rebalance_protocols="classic,consumer")
    if protocol == "classic":
        group = coordinator.answers["classic_group"] = group_of(600)
        request, version = DescribeGroupsRequest(groups=["g"]), 5
    else:
        group = ConsumerGroup("g")
        for number in range(600):
            group.update_member(ConsumerMember(f"m{number}"))
        description = describe(group, "uniform", CachedTopics(world.cache))
        coordinator.answers["consumer_group_describe"] = description
        request, version = ConsumerGroupDescribeRequest(group_ids=["g"]), 1
    answer = world.start(request, version)
    assert answer() is None
    if protocol == "classic":
        for member in group.members:
            member.assignment = b"of the next generation"
    else:
        group.remove_member("m599")
    while answer() is None:
        clock.advance()

    (described,) = answer().groups
    assert clock.turns > 10
    assert [member.member_id for member in described.members] == [f"m{number}" for number in range(600)]
    if protocol == "classic":
        assert {member.member_assignment for member in described.members} == {b"part"}


def group_of(count):
    """A stable group of members that have each its part."""
    group = group_in("Stable", "g")
    group.protocol_name = "range"
    terms = MemberTerms((("range", b"meta"),), 1000, 1000)
    for number in range(count):
        group.members.add(
            ClassicMember(f"m{number}", None, Client("c", "/127.0.0.1"), "consumer", terms, b"part")
        )
    return group


def test_a_group_is_described_once_however_often_it_is_named(world, consumer_world):
    """A small request must not ask for an answer of any size."""
    classic = world.send(DescribeGroupsRequest(groups=["g", "h", "g"] * 10), 5)
    consumer = consumer_world.send(ConsumerGroupDescribeRequest(group_ids=["g", "h", "g"] * 10), 0)

    assert [group.group_id for group in classic.groups] == ["g", "h"]
    assert [group.group_id for group in consumer.groups] == ["g", "h"]


def test_all_offsets_of_a_group_are_told_once_however_often_they_are_asked_for(world):
    all_topics = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("g", "h", "g")]
    one_topic = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    )

    answer = world.send(OffsetFetchRequest(groups=[*all_topics, one_topic, one_topic]), 9)

    assert [group.group_id for group in answer.groups] == ["g", "h", "g", "g"]


def test_all_groups_are_listed_to_who_may_describe_the_cluster(world, rights, coordinator):
    assert [group.group_id for group in world.send(ListGroupsRequest(), 5).groups] == ["a", "b"]
    assert rights.asked == [("DESCRIBE", "CLUSTER", "kafka-cluster")]


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        (["stable"], ["Classic"], ["a"]),
        (["Stable", "EMPTY"], [], ["a", "b"]),
        ([], ["consumer"], []),
        (["Dead"], [], []),
    ],
)
def test_groups_are_listed_by_state_and_type_in_any_case(world, states, types, listed):
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    assert [group.group_id for group in world.send(request, 5).groups] == listed


def test_others_see_the_groups_that_they_may_describe(world, rights, coordinator):
    rights.deny(Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster")
    rights.deny(Operation.DESCRIBE, Resource.GROUP, "a")
    assert [group.group_id for group in world.send(ListGroupsRequest(), 0).groups] == ["b"]

    coordinator.answers["groups"] = error("COORDINATOR_NOT_AVAILABLE")
    assert code(world.send(ListGroupsRequest(), 0).error_code) == "COORDINATOR_NOT_AVAILABLE"


def test_each_group_is_deleted_once_if_it_may_be(world, rights, coordinator):
    rights.deny(Operation.DELETE, Resource.GROUP, "hidden")
    response = world.send(DeleteGroupsRequest(groups_names=["a", "hidden", "a", "b"]), 2)

    assert {each.group_id: code(each.error_code) for each in response.results} == {
        "a": "NONE",
        "b": "NONE",
        "hidden": "GROUP_AUTHORIZATION_FAILED",
    }
    assert len(response.results) == 3
    assert coordinator.asked == [("delete_group", "a"), ("delete_group", "b")]


def test_a_deletion_that_fails_keeps_what_is_known_of_each_group(world, rights, coordinator):
    rights.deny(Operation.DELETE, Resource.GROUP, "hidden")
    coordinator.answers["delete_group"] = error("COORDINATOR_NOT_AVAILABLE")
    response = world.send(DeleteGroupsRequest(groups_names=["a", "hidden"]), 0)

    assert {each.group_id: code(each.error_code) for each in response.results} == {
        "a": "COORDINATOR_NOT_AVAILABLE",
        "hidden": "GROUP_AUTHORIZATION_FAILED",
    }


# --- the consumer protocol ----------------------------------------------------------------------------


def heartbeat():
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)


def test_the_consumer_protocol_is_refused_unless_it_is_on(world, rights, coordinator):
    assert code(world.send(heartbeat(), 0).error_code) == "UNSUPPORTED_VERSION"
    described = world.send(ConsumerGroupDescribeRequest(group_ids=["g", "h"]), 0)
    assert [code(each.error_code) for each in described.groups] == ["UNSUPPORTED_VERSION"] * 2
    assert (coordinator.asked, rights.asked) == ([], [])


def test_version_1_is_advertised_only_where_the_consumer_protocol_is_on():
    keys = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)

    assert [api_table(PROFILE_3_9)[key].max_version for key in keys] == [0, 0]
    assert [api_table(PROFILE_4_4)[key].max_version for key in keys] == [1, 1]


@pytest.fixture
def consumer_world(make):
    return make(group_coordinator_rebalance_protocols="classic,consumer")


def test_members_of_consumer_groups_need_to_read_the_group(consumer_world, rights, coordinator):
    assert consumer_world.send(heartbeat(), 0).member_epoch == 1
    assert coordinator.asked[0][1].client == ("test", "/127.0.0.1")
    rights.deny(Operation.READ, Resource.GROUP, "g")
    assert code(consumer_world.send(heartbeat(), 0).error_code) == "GROUP_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "Come back."), "Come back."),
        (error("NOT_COORDINATOR"), None),
    ],
    ids=["with words", "without"],
)
def test_a_heartbeat_that_is_refused_says_why_where_there_is_more_to_say(
    consumer_world, coordinator, refusal, words
):
    coordinator.answers["consumer_group_heartbeat"] = refusal
    response = consumer_world.send(heartbeat(), 0)

    assert (response.error_code, response.error_message) == (refusal.code, words)


def test_a_consumer_group_has_a_name(consumer_world, coordinator):
    request = ConsumerGroupHeartbeatRequest(group_id="", member_id="m", member_epoch=0)
    response = consumer_world.send(request, 0)

    assert (code(response.error_code), response.error_message) == (
        "INVALID_REQUEST",
        "GroupId can't be empty.",
    )
    assert coordinator.asked == []


def test_consumer_groups_are_described_to_who_may(consumer_world, rights):
    rights.deny(Operation.DESCRIBE, Resource.GROUP, "hidden")
    request = ConsumerGroupDescribeRequest(group_ids=["g", "hidden"], include_authorized_operations=True)
    hidden, described = consumer_world.send(request, 0).groups

    assert code(hidden.error_code) == "GROUP_AUTHORIZATION_FAILED"
    assert (described.group_state, described.authorized_operations) == ("Empty", 1 << 3 | 1 << 6 | 1 << 8)
