"""ConsumerGroupHeartbeat: joining, living, leaving, and every refusal, with Kafka's words."""

import pytest
from consumer_world import CLIENT, GROUP, REBALANCE_MS, World, settled

from barnabas.coordinator.group import Client
from barnabas.core.broker_config import broker_config, with_profile
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from handled import handled


def refused(call, *arguments, **fields):
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **fields)
    return caught.value.code, caught.value.message


def test_the_first_member_gets_everything_at_once(world):
    world.topics.create("a", 2)
    world.topics.create("b", 1)
    response = world.join("m1", "a", "b")
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("m1", 1, 5000)
    assert world.told(response) == {"a": [0, 1], "b": [0]}
    assert world.group.state_name == "Stable"


def test_the_coordinator_names_a_member_that_has_no_id_in_version_0(world):
    world.topics.create("a", 1)
    assert world.join("", "a", version=0).member_id == "uuid-1"


def test_partitions_move_only_when_the_member_that_had_them_says_so(world):
    world.topics.create("a", 4)
    world.join("m1", "a")
    second = world.join("m2", "a")
    assert (second.member_epoch, world.told(second)) == (2, {})

    asked = world.beat("m1", 1, topic_partitions=world.owning(a=[0, 1, 2, 3]))
    kept = world.told(asked)["a"]
    assert (asked.member_epoch, len(kept)) == (1, 2)
    assert world.told(world.beat("m2", 2)) is None
    assert world.group.state_name == "Reconciling"

    freed = world.beat("m1", 1, topic_partitions=world.owning(a=kept))
    assert (freed.member_epoch, freed.assignment) == (2, None)
    assert world.told(world.beat("m2", 2)) == {"a": sorted({0, 1, 2, 3} - set(kept))}
    assert world.group.state_name == "Stable"


def test_a_vote_for_another_assignor_is_a_new_epoch(world):
    world.topics.create("a", 2)
    world.join("m1", "a")
    assert world.beat("m1", 1, server_assignor="range").member_epoch == 2
    assert world.beat("m1", 2, server_assignor="range").member_epoch == 2


@pytest.mark.parametrize(("profile", "first"), [("3.9", 1), ("4.4", 2)])
def test_a_new_group_begins_with_the_epoch_of_the_kafka_that_clients_find(world_with, profile, first):
    world = world_with(config={"barnabas.api.profile": profile})
    world.topics.create("a", 2)
    assert world.join("m1", "a").member_epoch == first
    assert world.beat("m1", -1).member_epoch == -1
    # Who comes later goes on from there.
    assert world.join("m1", "a").member_epoch == first + 2


def test_the_first_epoch_follows_the_profile(world_with):
    """With ZooKeeper ``auto`` is another Kafka while the broker runs; groups that are there go on."""
    zookeeper = {"zookeeper.connect": "127.0.0.1:2181", "barnabas.api.profile": "auto"}
    world = world_with(config=zookeeper)
    world.topics.create("a", 2)
    world.group_configs.broker_configured(with_profile(broker_config(zookeeper), "4.4"))
    assert world.join("m1", "a").member_epoch == 2

    world.group_configs.broker_configured(with_profile(broker_config(zookeeper), "3.9"))
    assert world.beat("m1", 2, server_assignor="range").member_epoch == 3
    other = world_with(config=zookeeper)
    other.topics.create("a", 2)
    assert other.join("m1", "a").member_epoch == 1


def test_a_heartbeat_that_changes_nothing_writes_nothing(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    written = len(world.journal.batches)
    response = world.beat("m1", 1)
    assert (response.member_epoch, response.assignment, len(world.journal.batches)) == (1, None, written)


def test_a_mere_sign_of_life_waits_for_what_is_not_confirmed_either(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.journal.holds = True
    written, waits = world.beat("m1", 1, rack_id="r"), world.beat("m1", 1)
    assert not written.done
    assert not waits.done
    world.journal.waiting.pop().complete(0)
    assert (written.result().member_epoch, waits.result().member_epoch) == (1, 1)
    assert world.beat("m1", 1).member_epoch == 1
    assert world.journal.waiting == []


def test_a_member_that_says_all_about_itself_is_told_all(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    full = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": ["a"]}
    assert world.told(world.beat("m1", 1, topic_partitions=world.owning(a=[0]), **full)) == {"a": [0]}
    assert world.told(world.beat("m1", 1, **full)) is None


def test_the_answer_waits_until_the_replicas_have_it(world):
    world.topics.create("a", 1)
    world.journal.holds = True
    answer = world.join("m1", "a")
    assert not answer.done
    world.journal.waiting.pop().complete(0)
    assert answer.result().member_epoch == 1


def test_nothing_happens_when_the_log_refuses(world):
    world.topics.create("a", 1)
    world.journal.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(world.join, "m1", "a")[0] is ErrorCode.NOT_COORDINATOR
    assert world.group is None
    assert world.clock.waiting == 0


@pytest.mark.parametrize(
    ("logs", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_what_the_log_says_is_told_as_kafka_tells_it(world, logs, told):
    world.topics.create("a", 1)
    world.journal.refusal = logs
    assert refused(world.join, "m1", "a")[0] is told
    world.journal.refusal, world.journal.holds = None, True
    answer = world.join("m1", "a")
    world.journal.waiting.pop().fail(KafkaError(logs))
    assert answer.error.code is told


def test_a_second_member_finds_the_group_as_planned_only_once_it_is_written(world):
    world.topics.create("a", 2)
    world.join("m1", "a")
    world.journal.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    refused(world.join, "m2", "a")
    assert list(world.group.members) == ["m1"]
    assert world.group.epoch == 1
    world.journal.refusal = None
    assert world.join("m2", "a").member_epoch == 2


# Requests that cannot be right


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": "", "member_epoch": 1}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": 0}, "MemberId can't be empty."),
        ({"member_id": "m", "member_epoch": 1, "group_id": " "}, "GroupId can't be empty."),
        ({"member_id": "m", "member_epoch": 1, "instance_id": ""}, "InstanceId can't be empty."),
        ({"member_id": "m", "member_epoch": 1, "rack_id": ""}, "RackId can't be empty."),
        ({"member_id": "m", "member_epoch": 0}, "RebalanceTimeoutMs must be provided in first request."),
        (
            {"member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            {"member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1, "topic_partitions": []},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_id": "m", "member_epoch": -2}, "InstanceId can't be null."),
        ({"member_id": "m", "member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_a_request_that_cannot_be_right_is_refused(world, fields, message):
    request = ConsumerGroupHeartbeatRequest(**{"group_id": GROUP, **fields})
    assert refused(handled, world, request) == (ErrorCode.INVALID_REQUEST, message)


def owned(topics, partitions):
    return [
        TopicPartitions(topic_id=number.to_bytes(16, "big"), partitions=list(range(partitions)))
        for number in range(topics)
    ]


@pytest.mark.parametrize(
    ("fields", "is_refused"),
    [
        ({"subscribed_topic_names": [f"t{number}" for number in range(10_000)]}, False),
        ({"subscribed_topic_names": ["t"] * 10_001}, True),
        ({"topic_partitions": owned(10_000, 10)}, False),
        ({"topic_partitions": owned(10_001, 0)}, True),
        ({"topic_partitions": [*owned(9_999, 10), *owned(1, 11)]}, True),
    ],
)
def test_a_heartbeat_names_no_more_than_one_piece_of_work_has_room_for(world, fields, is_refused):
    epoch = world.join("m1", "a").member_epoch
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m1", member_epoch=epoch, **fields)
    if is_refused:
        assert refused(handled, world, request)[0] is ErrorCode.INVALID_REQUEST
        assert world.group.epoch == epoch
    else:
        assert handled(world, request) is not None


def test_an_assignor_that_nobody_configured_is_refused(world):
    code, message = refused(world.join, "m1", "a", server_assignor="mine")
    assert code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert message == "ServerAssignor mine is not supported. Supported assignors: uniform, range."


def test_a_full_group_takes_nobody_else(world_with):
    world = world_with(consumer_max_size=1)
    world.topics.create("a", 1)
    world.join("m1", "a")
    code, message = refused(world.join, "m2", "a")
    assert code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert message == "The consumer group has reached its maximum capacity of 1 members."
    assert world.join("m1", "a").member_epoch == 1


def test_a_group_that_does_not_exist_has_no_members(world):
    code, message = refused(world.beat, "m1", 3)
    assert (code, message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group orders not found.")
    assert refused(world.beat, "m1", -1)[0] is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_stranger_is_unknown(world):
    world.join("m1")
    code, message = refused(world.beat, "m2", 1)
    assert (code, message) == (ErrorCode.UNKNOWN_MEMBER_ID, "Member m2 is not a member of group orders.")


# Epochs


def test_a_member_ahead_of_the_coordinator_is_fenced(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    code, message = refused(world.beat, "m1", 2)
    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert message.startswith("The consumer group member has a greater member epoch (2)")


def test_the_previous_epoch_is_good_while_only_the_answer_was_lost(world):
    world.topics.create("a", 2)
    world.join("m1", "a")
    world.join("m2", "a")
    kept = world.told(world.beat("m1", 1, topic_partitions=world.owning(a=[0, 1])))["a"]
    world.beat("m1", 1, topic_partitions=world.owning(a=kept))  # and this answer is lost
    assert world.beat("m1", 1, topic_partitions=world.owning(a=kept)).member_epoch == 2
    for owned in (None, world.owning(a=[0, 1])):
        assert refused(world.beat, "m1", 1, topic_partitions=owned)[0] is ErrorCode.FENCED_MEMBER_EPOCH


def test_an_epoch_before_the_previous_one_is_fenced_whatever_the_member_owns(world):
    world.topics.create("a", 1)
    world.topics.create("b", 1)
    world.join("m1", "a")
    for epoch, name in ((1, "b"), (2, "a")):
        world.beat("m1", epoch, subscribed_topic_names=[name])
        assert world.beat("m1", epoch, topic_partitions=[]).member_epoch == epoch + 1
    code, message = refused(world.beat, "m1", 1, topic_partitions=[])
    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert message.startswith("The consumer group member has a smaller member epoch (1)")


def test_a_member_that_joins_again_starts_with_what_it_has(world):
    world.topics.create("a", 2)
    world.join("m1", "a")
    again = world.join("m1", "a")
    assert (again.member_epoch, world.told(again)) == (1, {"a": [0, 1]})


# Changing one's mind


def test_a_new_subscription_is_a_new_epoch(world):
    world.topics.create("a", 1)
    world.topics.create("b", 1)
    world.join("m1", "a")
    asked = world.beat("m1", 1, subscribed_topic_names=["b"])
    assert (asked.member_epoch, world.told(asked)) == (1, {})
    answered = world.beat("m1", 1, topic_partitions=[])
    assert (answered.member_epoch, world.told(answered)) == (2, {"b": [0]})


def test_a_new_rack_is_written_but_moves_nothing(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    assert world.beat("m1", 1, rack_id="r1").member_epoch == 1
    assert [type(record.key).record_type for record in world.journal.batches[-1]] == [5]
    assert world.group.members["m1"].rack_id == "r1"


def test_the_assignor_that_most_members_ask_for_is_taken(world):
    world.topics.create("a", 2)
    world.topics.create("b", 2)
    for name, assignor in (("m1", "range"), ("m2", "range"), ("m3", "uniform")):
        world.join(name, "a", "b", server_assignor=assignor)
    assert world.described().assignor_name == "range"
    # Range gives the third member nothing, for each topic has two partitions only.
    assert [len(world.group.targets.get(name, {})) for name in ("m1", "m2", "m3")] == [2, 2, 0]


# Topics that come and go


def test_topics_are_looked_at_when_they_change(world):
    world.topics.create("a", 1)
    world.join("m1", "a", "later")
    assert world.told(world.beat("m1", 1)) is None
    world.topics.create("later", 1)
    assert world.beat("m1", 1).member_epoch == 1
    world.groups.metadata_changed(world.shard, {"later"})
    grown = world.beat("m1", 1)
    assert (grown.member_epoch, world.told(grown)) == (2, {"a": [0], "later": [0]})


def test_news_of_a_topic_that_nobody_reads_change_nothing(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.topics.create("b", 1)
    world.groups.metadata_changed(world.shard, {"b"})
    assert world.beat("m1", 1).member_epoch == 1
    world.groups.metadata_changed(world.shard, {"a"})
    assert world.beat("m1", 1).member_epoch == 1


def test_new_partitions_are_shared(world):
    topic_id = world.topics.create("a", 1)
    world.join("m1", "a")
    world.topics.known["a"] = world.topics.known["a"]._replace(partition_count=3)
    world.groups.metadata_changed(world.shard, {"a"})
    assert world.told(world.beat("m1", 1)) == {"a": [0, 1, 2]}
    assert world.group.subscription_metadata["a"].id == topic_id


def test_a_deleted_topic_is_given_up(world):
    world.topics.create("a", 1)
    world.topics.create("b", 1)
    world.join("m1", "a", "b")
    owned = world.owning(a=[0])
    del world.topics.known["b"]
    world.groups.metadata_changed(world.shard, {"b"})
    assert world.told(world.beat("m1", 1)) == {"a": [0]}
    assert world.beat("m1", 1, topic_partitions=owned).member_epoch == 2


# Leaving


def test_a_member_that_leaves_makes_room(world):
    world.topics.create("a", 2)
    first, second = world.member("m1", "a"), world.member("m2", "a")
    first.beat()
    first.beat()
    second.beat()
    first.leave()
    assert list(world.group.members) == ["m2"]
    second.beat()
    assert world.assigned("m2") == {"a": [0, 1]}
    response = world.beat("m2", -1)
    assert (response.member_id, response.member_epoch) == ("m2", -1)
    assert world.group.state_name == "Empty"
    assert world.clock.waiting == 0


def test_static_members_come_back_to_what_they_had(world):
    world.topics.create("a", 2)
    world.join("m1", "a", instance_id="i1")
    world.join("m2", "a", instance_id="i2")
    kept = world.told(world.beat("m1", 1, instance_id="i1", topic_partitions=world.owning(a=[0, 1])))["a"]
    world.beat("m1", 1, instance_id="i1", topic_partitions=world.owning(a=kept))
    left = world.beat("m1", -2, instance_id="i1")
    assert (left.member_epoch, world.group.epoch) == (-2, 2)

    back = world.join("m3", "a", instance_id="i1")
    assert (back.member_epoch, world.told(back)) == (2, {"a": kept})
    assert sorted(world.group.members) == ["m2", "m3"]
    assert world.group.epoch == 2


def test_an_instance_that_is_there_is_not_given_to_another(world):
    world.join("m1", instance_id="i1")
    code, message = refused(world.join, "m2", instance_id="i1")
    assert code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert message == (
        "Static member m2 with instance id i1 cannot join the group because the instance id is owned by m1 "
        "member."
    )


def test_an_instance_id_that_was_given_up_is_nobodys(world):
    """The member may come back without it, under the id that it had."""
    world.join("m1", instance_id="i1")
    world.beat("m1", -1, instance_id="i1")
    world.join("m1")
    world.join("m2", instance_id="i1")
    assert sorted(world.group.members) == ["m1", "m2"]
    assert world.beat("m1", world.group.members["m1"].member_epoch).error_code == 0


def test_whoever_was_replaced_is_fenced(world):
    world.join("m1", instance_id="i1")
    world.beat("m1", -2, instance_id="i1")
    world.join("m2", instance_id="i1")
    code, message = refused(world.beat, "m1", 1, instance_id="i1")
    assert code is ErrorCode.FENCED_INSTANCE_ID
    assert message == "Static member m1 with instance id i1 was fenced by member m2."
    assert refused(world.beat, "m1", -1, instance_id="i1")[0] is ErrorCode.FENCED_INSTANCE_ID
    assert refused(world.beat, "m9", 1, instance_id="i9")[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_may_come_back_under_the_id_that_it_had(world):
    world.topics.create("a", 1)
    world.join("m1", "a", instance_id="i1")
    world.beat("m1", -2, instance_id="i1")
    assert world.told(world.join("m1", "a", instance_id="i1")) == {"a": [0]}
    assert sorted(world.group.members) == ["m1"]


def test_describe_tells_what_is_and_what_is_to_be(world):
    world.topics.create("a", 2)
    world.join("m1", "a", rack_id="r1", instance_id="i1")
    world.join("m2", "a")
    described = world.described()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    first, second = described.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("m1", "i1", "r1", 1)
    assert [
        len(part.topic_partitions[0].partitions) for part in (first.assignment, first.target_assignment)
    ] == [2, 1]
    assert second.assignment.topic_partitions == []
    assert second.target_assignment.topic_partitions[0].topic_name == "a"
    assert (first.client_id, first.client_host, first.member_type) == ("test", "/127.0.0.1", 1)
    assert first.subscribed_topic_names == ["a"]
    for version in (0, 1):
        assert described.group_state  # both versions can be written
        from barnabas.core.chunks import materialize
        from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse

        assert materialize(ConsumerGroupDescribeResponse(groups=[described]).encode(version))


def test_a_group_has_a_repr_that_shows_its_state():
    world = World()
    world.join("m1")
    assert repr(world.group) == "<ConsumerGroup orders Stable epoch=1 assignment=1 members=1>"


@pytest.mark.parametrize("client", [Client("other", CLIENT.host), Client(CLIENT.id, "/10.0.0.9")])
def test_a_member_that_comes_from_elsewhere_is_written_down(world, client):
    world.topics.create("a", 1)
    world.join("m1", "a")
    for _ in range(2):
        world.beat("m1", 1)  # nothing is new any more
    written = len(world.journal.batches)
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m1", member_epoch=1)
    settled(handled(world, request, client_id=client.id, host=client.host[1:]))
    member = world.reloaded().group.members["m1"]
    assert (member.client_id, member.client_host) == client
    assert len(world.journal.batches) == written + 1
