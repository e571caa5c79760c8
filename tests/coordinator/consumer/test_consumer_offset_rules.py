"""What a consumer group lets members do with offsets."""

import pytest

from barnabas.coordinator.consumer.records import current_assignment
from barnabas.coordinator.consumer.replay import replay_record
from barnabas.coordinator.group import GroupType, OffsetExpiry
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition


def commit(group, member_id="m1", generation=1, **fields):
    return code_of(
        group.validate_offset_commit,
        **{
            "member_id": member_id,
            "group_instance_id": None,
            "generation": generation,
            "transactional": False,
            "version": 9,
            "partitions": [TopicPartition("a", 0)],
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


def committed_of(group, generation, *partitions, **fields):
    places = [TopicPartition("a", each) for each in partitions]
    return commit(group, generation=generation, partitions=places, **fields)


@pytest.mark.parametrize("reloaded", [False, True])
def test_what_a_member_has_had_all_the_while_it_commits_in_an_earlier_epoch(world, reloaded):
    world.topics.create("a", 3)
    world.join("m1", "a")
    world.join("m2", "a")
    kept = world.told(world.beat("m1", 1, topic_partitions=world.owning(a=[0, 1, 2])))["a"]
    gone = ({0, 1, 2} - {*kept}).pop()
    # It has not given the third one up yet: what it read of it, it may commit.
    assert committed_of(world.group, 1, *kept, gone) is ErrorCode.NONE
    world.beat("m1", 1, topic_partitions=world.owning(a=kept))
    world.beat("m2", 2)
    if reloaded:
        world = world.reloaded()
        assert world.groups.loaded(world.shard).done
    assert world.group.members["m1"].member_epoch == 2

    assert committed_of(world.group, 1, *kept) is ErrorCode.NONE
    assert committed_of(world.group, 1, *kept, transactional=True) is ErrorCode.NONE
    # Another member has this one now, so the whole commit comes too late.
    assert committed_of(world.group, 1, *kept, gone) is ErrorCode.STALE_MEMBER_EPOCH
    # It has what it was given since epoch 2 alone, and none in an epoch to come.
    assert committed_of(world.group, 1, gone, member_id="m2") is ErrorCode.STALE_MEMBER_EPOCH
    assert committed_of(world.group, 2, gone, member_id="m2") is ErrorCode.NONE
    assert committed_of(world.group, 3, *kept) is ErrorCode.STALE_MEMBER_EPOCH
    unknown = [TopicPartition("b", 0)]
    assert commit(world.group, generation=1, partitions=unknown) is ErrorCode.STALE_MEMBER_EPOCH


def test_what_a_member_is_to_give_up_it_commits_until_it_has(world):
    world.topics.create("a", 6)
    world.join("m1", "a")
    world.join("m2", "a")
    kept = world.told(world.beat("m1", 1, topic_partitions=world.owning(a=range(6))))["a"]
    assert world.beat("m1", 1, topic_partitions=world.owning(a=kept)).member_epoch == 2
    world.join("m3", "a")
    fewer = world.told(world.beat("m1", 2, topic_partitions=world.owning(a=kept)))["a"]
    asked = set(kept) - set(fewer)
    assert world.group.members["m1"].member_epoch == 2
    assert committed_of(world.group, 1, *asked) is ErrorCode.NONE
    world.beat("m1", 2, topic_partitions=world.owning(a=fewer))
    assert committed_of(world.group, 1, *asked) is ErrorCode.STALE_MEMBER_EPOCH
    assert committed_of(world.group, 1, *fewer) is ErrorCode.NONE


def test_a_record_of_before_kafka_44_says_nothing_of_earlier_epochs(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.join("m2", "a")
    world.beat("m1", 1)
    assert committed_of(world.group, 1, 0) is ErrorCode.NONE
    record = current_assignment(world.group.group_id, world.group.members["m1"])
    for topic in record.value.assigned_partitions:
        topic.assignment_epochs = None
    replay_record(world.shard, record.key, record.value)
    assert world.group.members["m1"].member_epoch == 2
    assert committed_of(world.group, 1, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert committed_of(world.group, 2, 0) is ErrorCode.NONE


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
