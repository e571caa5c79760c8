"""What is written: Kafka's records in Kafka's order, and what a load makes of them."""

from consumer_world import GROUP

from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS


def types(batch):
    return [(type(record.key).record_type, getattr(record.key, "member_id", None)) for record in batch]


def test_a_new_group_is_written_in_kafkas_order(world):
    world.topics.create("a", 2, {0: frozenset({"r1", "r0"})})
    world.join("m1", "a")
    (batch,) = world.journal.batches
    assert types(batch) == [(5, "m1"), (4, None), (3, None), (7, "m1"), (6, None), (8, "m1")]
    assert [record.value_version for record in batch] == [0] * 6
    topic = batch[1].value.topics[0]
    assert [topic.topic_name, topic.num_partitions] == ["a", 2]
    assert [(one.partition, one.racks) for one in topic.partition_metadata] == [(0, ["r0", "r1"])]
    current = batch[-1].value
    assert (current.member_epoch, current.previous_member_epoch, current.state) == (1, 0, 0)


def test_a_member_is_written_with_empty_texts_as_kafka_has_them(world):
    world.join("m1", "b", "a")
    value = world.journal.batches[0][0].value
    assert value.subscribed_topic_names == ["a", "b"]
    assert (value.subscribed_topic_regex, value.server_assignor, value.classic_member_metadata) == (
        "",
        None,
        None,
    )
    assert (value.client_id, value.client_host, value.rebalance_timeout_ms) == ("test", "/127.0.0.1", 30_000)


def test_only_members_whose_target_changes_are_written(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.join("m2", "a")
    assert types(world.journal.batches[-1]) == [(5, "m2"), (3, None), (7, "m2"), (6, None), (8, "m2")]


def test_a_departure_is_written_as_tombstones(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    world.beat("m1", -1)
    batch = world.journal.batches[-1]
    assert types(batch) == [(8, "m1"), (7, "m1"), (5, "m1"), (4, None), (3, None), (6, None)]
    assert [record.value is None for record in batch] == [True, True, True, False, False, False]
    assert (batch[3].value.topics, batch[4].value.epoch) == ([], 2)
    # The group is empty: who joins next does not wait for an interval.
    assert (batch[5].value.assignment_epoch, batch[5].value.assignment_timestamp) == (2, 0)


def test_a_static_member_that_leaves_for_a_while_is_one_record(world):
    world.topics.create("a", 1)
    world.join("m1", "a", instance_id="i1")
    world.beat("m1", -2, instance_id="i1")
    (record,) = world.journal.batches[-1]
    assert record.value.member_epoch == -2
    assert record.value.assigned_partitions[0].partitions == [0]


def test_a_replaced_static_member_is_written_before_what_it_asks_for(world):
    world.topics.create("a", 1)
    world.join("m1", "a", instance_id="i1")
    world.beat("m1", -2, instance_id="i1")
    world.join("m2", "a", instance_id="i1")
    assert types(world.journal.batches[-1]) == [
        (8, "m1"),
        (7, "m1"),
        (5, "m1"),
        (5, "m2"),
        (7, "m2"),
        (8, "m2"),
        (8, "m2"),
    ]


def test_an_expression_is_written_with_the_topics_that_it_stands_for(world):
    world.topics.create("ab", 1)
    world.join("m1", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    assert types(world.journal.batches[-1])[0] == (5, "m1")
    world.clock.advance()
    expression, metadata, epoch = world.journal.batches[-1]
    assert types([expression, metadata, epoch]) == [(16, None), (4, None), (3, None)]
    assert (expression.key.regular_expression, expression.value.topics) == ("a.*", ["ab"])
    world.beat("m1", -1)
    assert types(world.journal.batches[-1]) == [
        (8, "m1"),
        (7, "m1"),
        (5, "m1"),
        (16, None),
        (4, None),
        (3, None),
        (6, None),
    ]


def test_a_group_is_forgotten_member_by_member(world):
    world.topics.create("a", 2)
    world.topics.create("ab", 2)
    world.join("m1", "a")
    world.join("m2", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    world.clock.advance()
    tombstones = world.group.tombstones()
    assert types(tombstones) == [
        (8, "m1"),
        (8, "m2"),
        (7, "m1"),
        (7, "m2"),
        (6, None),
        (5, "m1"),
        (5, "m2"),
        (16, None),
        (4, None),
        (3, None),
    ]
    for record in tombstones:
        key, value = CONSUMER_OFFSETS.decode(record.key.to_bytes(), None)
        world.groups.replay(world.shard, key, value)
    assert GROUP not in world.shard.groups


def face(group):
    """All that a group is, but for its timers."""
    return {
        "epochs": (group.epoch, group.assignment_epoch),
        "members": dict(group.members),
        "static": group.static_members,
        "targets": {name: dict(group.targets.get(name, {})) for name in group.members},
        "topics": group.subscriptions.topics(),
        "metadata": group.subscription_metadata,
        "expressions": group.subscriptions.resolved,
        "state": group.state_name,
        "classic": group.classic_member_count,
        "held": {
            (topic.id, number): group.partition_epoch(topic.id, number)
            for topic in group.subscription_metadata.values()
            for number in range(topic.partition_count)
        },
    }


def busy(world):
    """A group with something of everything, in the middle of a rebalance."""
    world.topics.create("a", 4, {number: frozenset({"r"}) for number in range(4)})
    world.topics.create("ab", 2)
    first = world.member("m1", "a", "ab", server_assignor="range", instance_id="i1")
    second = world.member("m2", "a", rack_id="r")
    world.join("m3", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    world.clock.advance()
    world.classic_join("c1", "a", instance_id=None)
    for _ in range(3):
        first.beat()
        second.beat()
    gone = world.member("m4", "ab")
    gone.leave()
    world.beat("m1", -2, instance_id="i1")
    return world


def test_a_load_gives_back_the_same_group(world):
    busy(world)
    assert face(world.reloaded().group) == face(world.group)


def test_a_load_of_a_compacted_log_gives_back_the_same_group(world):
    busy(world)
    assert face(world.reloaded(world.journal.compacted()).group) == face(world.group)


def test_a_partition_stays_with_its_new_owner_when_a_load_missed_that_the_old_one_released_it(world):
    """The cleaner swaps segments one by one, so a load may read an old segment and then a new one."""
    world.topics.create("a", 2)
    first = world.member("m1", "a")
    before = len(world.journal.log)
    second = world.member("m2", "a")
    for _ in range(3):
        first.beat()
        second.beat()
    log = world.journal.log
    current = [key for key, value in log[:before] if value is not None and b"m1" in key][-1]
    places = [place for place, (key, _) in enumerate(log) if key == current and place >= before]
    missed = [record for place, record in enumerate(log) if place not in places]
    group = world.reloaded([*missed, log[places[-1]]]).group
    topic_id = world.topics.known["a"].id
    (taken,) = group.members["m2"].assigned[topic_id]
    assert group.partition_epoch(topic_id, taken) == group.members["m2"].member_epoch


def test_records_of_what_is_not_there_are_passed_over(world):
    busy(world)
    tombstones = [(key, None) for key, _ in world.journal.log]
    assert GROUP not in world.reloaded(tombstones).shard.groups


def test_a_group_that_was_loaded_goes_on_where_it_was(world):
    world.topics.create("a", 2)
    first = world.member("m1", "a")
    second = world.member("m2", "a")
    other = world.reloaded()
    other.groups.loaded(other.shard)
    for member in (first, second):
        member.world = other
    for _ in range(3):
        first.beat()
        second.beat()
    assert other.group.state_name == "Stable"
    assert sorted(map(len, (other.assigned("m1")["a"], other.assigned("m2")["a"]))) == [1, 1]


def test_a_state_of_a_later_kafka_makes_the_member_begin_again(world):
    world.topics.create("a", 1)
    world.join("m1", "a")
    key, value = CONSUMER_OFFSETS.decode(*world.journal.log[-1])
    value.state = 77
    world.groups.replay(world.shard, key, value)
    assert world.group.state_name == "Reconciling"
    import pytest

    from barnabas.core.errors import KafkaError

    with pytest.raises(KafkaError, match="unknown state"):
        world.beat("m1", 1)
    assert world.beat("m1", 1, topic_partitions=[]).member_epoch == 1
    assert world.group.state_name == "Stable"
