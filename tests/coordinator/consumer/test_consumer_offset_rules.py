"""What a consumer group lets members do with offsets."""

import pytest

from barnabas.coordinator.group import GroupType, OffsetExpiry
from barnabas.core.errors import ErrorCode, KafkaError


def commit(group, member_id="m1", generation=1, **fields):
    return code_of(
        group.validate_offset_commit,
        **{
            "member_id": member_id,
            "group_instance_id": None,
            "generation": generation,
            "transactional": False,
            "version": 9,
            **fields,
        },
    )


def code_of(call, **fields):
    try:
        call(**fields)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


@pytest.fixture
def group(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.classic_join("c1", "a")
    return world.group


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"generation": 2}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"generation": 0}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"generation": -1}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"version": 8}, ErrorCode.UNSUPPORTED_VERSION),
        ({"version": 3, "transactional": True}, ErrorCode.NONE),
        ({"member_id": "c1", "generation": 2, "version": 8}, ErrorCode.NONE),
        ({"member_id": "c1", "generation": 1}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_who_may_commit(group, fields, code):
    assert commit(group, **fields) is code


def test_anybody_may_commit_for_an_empty_group_without_an_epoch(group, world):
    world.beat("m1", -1)
    world.classic_leave(("c1", None))
    assert commit(group, member_id="", generation=-1) is ErrorCode.NONE
    assert commit(group) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("m1", 1, ErrorCode.NONE),
        ("m1", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("c1", 9, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_who_may_read(group, member_id, epoch, code):
    assert code_of(group.validate_offset_fetch, member_id=member_id, member_epoch=epoch) is code


def test_offsets_of_topics_that_are_read_stay(group, world):
    assert group.offset_expiry() == OffsetExpiry(None, frozenset({"a"}))
    assert (group.is_subscribed_to("a"), group.is_subscribed_to("b")) == (True, False)
    group.validate_offset_delete()
    world.beat("m1", -1)
    world.classic_leave(("c1", None))
    assert group.offset_expiry() == OffsetExpiry(None, frozenset())


def test_topics_of_an_expression_are_read_too(world):
    world.topics.create("ab", 1)
    world.join("m1", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    world.clock.advance()
    assert world.group.is_subscribed_to("ab")


def test_only_an_empty_group_may_be_deleted(group, world):
    assert code_of(group.validate_delete) is ErrorCode.NON_EMPTY_GROUP
    world.beat("m1", -1)
    world.classic_leave(("c1", None))
    group.validate_delete()
    assert (group.type, group.protocol_type, group.state_name) == (GroupType.CONSUMER, "consumer", "Empty")
