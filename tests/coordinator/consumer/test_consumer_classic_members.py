"""Members of the classic protocol inside a consumer group."""

import pytest
from consumer_world import GROUP, assignment_read, settled, subscription

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from handled import handled


@pytest.fixture
def mixed(world):
    """A consumer member that has four partitions, and a classic one that has joined and got none yet."""
    world.topics.create("a", 4)
    world.consumer = world.member("m1", "a")
    world.joined = world.classic_join("c1", "a")
    return world


def refused(call, *arguments, **fields):
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **fields)
    return caught.value.code


def test_a_join_is_answered_at_once_with_the_epoch_as_generation(mixed):
    joined = mixed.joined
    assert (joined.error_code, joined.member_id, joined.generation_id) == (0, "c1", 2)
    assert (joined.protocol_type, joined.protocol_name, joined.leader, joined.members) == (
        "consumer",
        "range",
        "",
        [],
    )


def test_a_sync_fetches_what_is_there(mixed):
    answer = mixed.classic_sync("c1", 2)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert assignment_read(answer.assignment) == {}


def test_a_sync_waits_until_the_assignment_is_sure_to_last(mixed):
    mixed.journal.holds = True
    joined = mixed.classic_join("c2", "a")
    answer = mixed.classic_sync("c2", 3)
    assert not joined.done
    assert not answer.done
    mixed.journal.waiting[0].complete(0)
    assert joined.result().generation_id == 3
    assert assignment_read(answer.result().assignment) == {}


def test_a_heartbeat_calls_the_member_back_when_there_is_something_to_get(mixed):
    mixed.classic_sync("c1", 2)
    assert mixed.classic_beat("c1", 2) is ErrorCode.NONE
    mixed.consumer.beat()
    assert mixed.classic_beat("c1", 2) is ErrorCode.NONE
    mixed.consumer.beat()
    assert mixed.classic_beat("c1", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    again = mixed.classic_join("c1", "a")
    assert again.generation_id == 2
    assert len(assignment_read(mixed.classic_sync("c1", 2).assignment)["a"]) == 2
    assert mixed.group.state_name == "Stable"


def settle(world):
    """The classic member has its two partitions."""
    world.classic_sync("c1", 2)
    world.consumer.beat()
    world.consumer.beat()
    world.classic_join("c1", "a")
    return assignment_read(world.classic_sync("c1", 2).assignment)["a"]


def test_a_member_gives_up_by_joining_without_what_it_gave_up(mixed):
    owned = settle(mixed)
    mixed.member("m2", "a")
    assert mixed.classic_beat("c1", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert refused(mixed.classic_sync, "c1", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    asked = mixed.classic_join("c1", "a", owned={"a": owned})
    assert asked.generation_id == 2
    kept = assignment_read(mixed.classic_sync("c1", 2).assignment)["a"]
    assert set(kept) < set(owned)
    assert mixed.classic_beat("c1", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert mixed.classic_join("c1", "a", owned={"a": kept}).generation_id == 3
    assert assignment_read(mixed.classic_sync("c1", 3).assignment)["a"] == kept


def test_a_member_without_id_is_given_one_first(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    first = world.classic_join("", "a")
    assert (first.error_code, first.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    assert list(world.group.members) == ["m1"]
    assert world.classic_join(first.member_id, "a").generation_id == 2
    old = world.classic_join("", "a", version=3)
    assert old.generation_id == 3
    assert old.member_id in world.group.members


def test_static_members_are_replaced_without_having_left(world):
    world.topics.create("a", 2)
    world.join("m1", "a")
    first = world.classic_join("", "a", instance_id="i1")
    second = world.classic_join("", "a", instance_id="i1")
    assert first.member_id not in world.group.members
    assert second.generation_id == first.generation_id == 2
    assert refused(world.classic_beat, first.member_id, 2, "i1") is ErrorCode.FENCED_INSTANCE_ID
    assert refused(world.classic_sync, first.member_id, 2, instance_id="i1") is ErrorCode.FENCED_INSTANCE_ID
    assert refused(world.classic_beat, "x", 2, "i9") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.classic_join(second.member_id, "a", instance_id="i1").generation_id == 2
    assert refused(world.classic_join, first.member_id, "a", instance_id="i1") is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_may_change_its_protocol(world):
    world.topics.create("a", 1)
    world.join("m1", "a", instance_id="i1")
    classic = world.classic_join("", "a", instance_id="i1")
    assert world.group.classic_member_count == 1
    assert assignment_read(world.classic_sync(classic.member_id, 1, instance_id="i1").assignment) == {
        "a": [0]
    }
    back = world.join("m2", "a", instance_id="i1")
    assert world.told(back) == {"a": [0]}
    assert world.group.classic_member_count == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ("sticky",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_protocols_must_go_together(mixed, fields, code):
    assert refused(mixed.classic_join, "c2", "a", **fields) is code


def test_what_no_consumer_says_is_not_understood(mixed):
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        member_id="c2",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"x")],
    )
    assert refused(handled, mixed, request, 5) is ErrorCode.UNKNOWN_SERVER_ERROR
    request.session_timeout_ms = 1
    assert refused(handled, mixed, request, 5) is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize(
    "metadata",
    [
        subscription(["a"] * 10_001),
        subscription(["a"], {str(number): () for number in range(10_001)}),
        subscription(["a"], {"a": range(100_001)}),
    ],
    ids=["names", "topics", "partitions"],
)
def test_a_classic_member_names_no_more_than_a_heartbeat_may(mixed, metadata):
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        member_id="c2",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    assert refused(handled, mixed, request, 5) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_version_0_knows_one_timeout_for_both(mixed):
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\1a\xff\xff\xff\xff")],
    )
    answer = settled(handled(mixed, request, 0))
    assert mixed.group.members[answer.member_id].rebalance_timeout_ms == 10_000


@pytest.mark.parametrize(("asked_ms", "has_ms"), [(-1, 10_000), (0, 0), (1, 1)])
def test_from_version_1_on_the_timeout_of_a_rebalance_is_what_was_asked_for(mixed, asked_ms, has_ms):
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=asked_ms,
        member_id="c2",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\1a\xff\xff\xff\xff")],
    )
    answer = settled(handled(mixed, request, 5))
    assert mixed.group.members[answer.member_id].rebalance_timeout_ms == has_ms


def test_a_sync_must_name_the_protocol_of_the_join(mixed):
    assert refused(mixed.classic_sync, "c1", 2, protocol_name="x") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(mixed.classic_sync, "c1", 2, protocol_type="x") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert mixed.classic_sync("c1", 2, version=4, protocol_type=None, protocol_name=None).error_code == 0


def test_generations_are_epochs(mixed):
    assert refused(mixed.classic_sync, "c1", 1) is ErrorCode.ILLEGAL_GENERATION
    assert refused(mixed.classic_beat, "c1", 3) is ErrorCode.ILLEGAL_GENERATION
    assert refused(mixed.classic_beat, "nobody", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_consumer_member_has_no_business_there(mixed):
    assert refused(mixed.classic_beat, "m1", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(mixed.classic_sync, "m1", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_leave_in_batches_each_with_its_own_result(mixed):
    mixed.join("m2", "a", instance_id="i2")
    codes = mixed.classic_leave(("c1", None), ("nobody", None), ("", "i2"), ("m1", "i2"), ("", "i9"))
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(mixed.group.members) == ["m1"]
    epoch = mixed.group.epoch
    assert mixed.classic_leave(("nobody", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert mixed.group.epoch == epoch


def test_described_members_show_their_protocol(mixed):
    described = mixed.described()
    assert [(one.member_id, one.member_type) for one in described.members] == [("m1", 1), ("c1", 0)]


def test_classic_members_are_written_with_what_they_brought(mixed):
    value = mixed.journal.batches[-1][0].value
    classic = value.classic_member_metadata
    assert (classic.session_timeout_ms, [one.name for one in classic.supported_protocols]) == (
        10_000,
        ["range"],
    )
    assert mixed.reloaded().group.members == mixed.group.members
