"""Subscriptions by regular expression."""

import itertools

import pytest

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS


def subscribe(world, member_id, expression, *names):
    return world.join(member_id, *names, subscribed_topic_regex=expression)


def test_the_topics_come_with_the_heartbeat_after_the_lookup(world):
    world.topics.create("ab", 1)
    world.topics.create("cab", 1)
    first = subscribe(world, "m1", "a.*")
    assert (first.member_epoch, world.told(first)) == (1, {})
    world.clock.advance()
    second = world.beat("m1", 1)
    assert (second.member_epoch, world.told(second)) == (2, {"ab": [0]})


def test_names_and_expression_add_up(world):
    for name in ("ab", "x"):
        world.topics.create(name, 1)
    assert world.told(subscribe(world, "m1", "a.*", "x")) == {"x": [0]}
    world.clock.advance()
    assert world.told(world.beat("m1", 1)) == {"ab": [0], "x": [0]}


def test_an_expression_that_cannot_be_read_is_refused(world, capfd):
    with pytest.raises(KafkaError) as caught:
        subscribe(world, "m1", "(")
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert caught.value.message == (
        "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    )
    assert world.group is None
    assert capfd.readouterr().err == ""


def test_an_expression_that_would_hang_pythons_own_is_harmless(world):
    world.topics.create("a" * 200 + "!", 1)
    subscribe(world, "m1", "(a|a)*b")
    world.clock.advance()
    assert world.beat("m1", 1).member_epoch == 1


def test_a_second_member_with_the_same_expression_needs_no_lookup(world):
    world.topics.create("ab", 2)
    subscribe(world, "m1", "a.*")
    world.clock.advance()
    second = subscribe(world, "m2", "a.*")
    assert second.member_epoch == 3
    assert world.group.targets.get("m2", {})


def test_expressions_are_looked_up_together_and_not_more_often_than_every_ten_seconds(world):
    world.topics.create("ab", 1)
    world.topics.create("cd", 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance()
    subscribe(world, "m2", "c.*")
    world.clock.advance()
    assert set(world.group.subscriptions.resolved) == {"a.*"}
    world.clock.advance(10_001)
    world.beat("m2", 2)
    world.clock.advance()
    assert set(world.group.subscriptions.resolved) == {"a.*", "c.*"}
    assert world.told(world.beat("m2", 2)) == {"cd": [0]}


def test_new_topics_are_found(world):
    world.topics.create("ab", 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance()
    world.beat("m1", 1)
    world.clock.advance(10_001)
    world.topics.create("ac", 1)
    world.groups.metadata_changed(world.shard, {"ac"})
    world.beat("m1", 2)
    world.clock.advance()
    assert world.told(world.beat("m1", 2)) == {"ab": [0], "ac": [0]}


def test_old_topics_start_no_lookup(world):
    world.topics.create("ab", 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance()
    world.clock.advance(10_001)
    written = len(world.journal.batches)
    world.groups.metadata_changed(world.shard, {"ab"})
    world.beat("m1", 1, topic_partitions=[])
    world.clock.advance()
    assert len(world.journal.batches) == written + 1  # the member's new epoch and nothing else


def test_a_topic_that_is_made_anew_is_found_again(world):
    world.topics.create("ab", 1)
    world.topics.create("ac", 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance()
    world.beat("m1", 1)
    before = world.group.subscriptions.resolved["a.*"].timestamp
    old = world.topics.known.pop("ac")
    world.groups.metadata_changed(world.shard, {"ac"})
    world.clock.advance(10_001)
    world.topics.known["ac"] = old
    world.groups.metadata_changed(world.shard, {"ac"})
    world.beat("m1", 2, topic_partitions=world.owning(ab=[0]))
    world.clock.advance()
    assert world.group.subscriptions.resolved["a.*"].timestamp > before


def test_a_lookup_comes_at_least_every_ten_minutes(world):
    world.topics.create("ab", 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance()
    world.beat("m1", 1)
    world.topics.create("ac", 1)  # and nobody told the coordinator
    for _ in range(16):
        world.clock.advance(40_000)
        world.beat("m1", 2)
    world.clock.advance()
    assert world.told(world.beat("m1", 2)) == {"ab": [0], "ac": [0]}


def test_giving_an_expression_up_takes_its_topics_away(world):
    world.topics.create("ab", 1)
    world.topics.create("x", 1)
    subscribe(world, "m1", "a.*", "x")
    world.clock.advance()
    world.beat("m1", 1)
    asked = world.beat("m1", 2, subscribed_topic_regex="")
    assert world.told(asked) == {"x": [0]}
    assert world.group.subscriptions.resolved == {}
    assert world.beat("m1", 2, topic_partitions=world.owning(x=[0])).member_epoch == 3


def test_topics_of_the_old_expression_go_before_the_new_one_is_known(world):
    world.topics.create("ab", 1)
    world.topics.create("cd", 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance()
    world.beat("m1", 1)
    asked = world.beat("m1", 2, subscribed_topic_regex="c.*")
    assert (asked.member_epoch, world.told(asked)) == (2, {})


def test_a_member_that_goes_takes_no_expression_of_others_with_it(world):
    world.topics.create("ab", 2)
    world.topics.create("cd", 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance()
    subscribe(world, "m2", "a.*")
    world.clock.advance(10_001)
    subscribe(world, "m3", "c.*")
    world.clock.advance()
    for leaving, left in (("m2", {"a.*", "c.*"}), ("m3", {"a.*"})):
        world.beat(leaving, -1)
        assert set(world.group.subscriptions.resolved) == left
        assert set(world.reloaded().group.subscriptions.resolved) == left


def test_new_topics_of_the_first_expression_are_found_as_those_of_the_last(world):
    """All are looked up together, and any of them may have news."""
    for name in ("ab", "cd"):
        world.topics.create(name, 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance(10_001)
    subscribe(world, "m2", "c.*")
    world.clock.advance()
    for created, member_id in (("ac", "m1"), ("ce", "m2")):
        epoch = world.group.epoch
        world.clock.advance(10_001)
        world.topics.create(created, 1)
        world.groups.metadata_changed(world.shard, {created})
        world.beat(member_id, world.group.members[member_id].member_epoch)
        world.clock.advance()
        assert world.group.epoch == epoch + 1, created


@pytest.mark.parametrize(("member_id", "topic"), [("m1", "ac"), ("m2", "ce")])
def test_an_expression_gets_a_topic_that_another_member_has_by_name(world, member_id, topic):
    """The group's topics stay the same, and still its members are to share them another way."""
    for name in ("ab", "cd"):
        world.topics.create(name, 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance(10_001)
    subscribe(world, "m2", "c.*")
    world.clock.advance()
    topic_id = world.topics.create(topic, 3)
    world.join("m3", topic)
    epoch = world.group.epoch
    world.clock.advance(10_001)
    world.groups.metadata_changed(world.shard, {topic})
    world.beat("m1", world.group.members["m1"].member_epoch)
    world.clock.advance()

    assert world.group.epoch == epoch + 1
    world.beat("m1", world.group.members["m1"].member_epoch)
    assert [len(world.group.targets[each][topic_id]) for each in (member_id, "m3")] == [1, 2]


def test_nothing_is_written_for_a_group_that_went_away_meanwhile(world):
    world.topics.create("ab", 1)
    subscribe(world, "m1", "a.*")
    group = world.shard.groups.pop("orders")
    group.close()
    written = len(world.journal.batches)
    world.clock.advance()
    assert len(world.journal.batches) == written


def test_a_refused_lookup_is_made_again(world):
    world.topics.create("ab", 1)
    subscribe(world, "m1", "a.*")
    world.journal.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.clock.advance()
    world.journal.refusal = None
    world.beat("m1", 1)
    world.clock.advance()
    assert world.told(world.beat("m1", 1)) == {"ab": [0]}


def test_a_coordinator_that_takes_over_looks_up_anew(world):
    world.topics.create("ab", 1)
    subscribe(world, "m1", "a.*")
    world.clock.advance()
    world.beat("m1", 1)
    world.clock.advance(10_001)
    world.topics.create("ac", 1)
    other = world.reloaded()
    other.groups.loaded(other.shard)
    other.beat("m1", 2)
    other.clock.advance()
    assert other.told(other.beat("m1", 2)) == {"ab": [0], "ac": [0]}


def test_an_expression_that_only_java_can_read_stands_for_nothing(world):
    world.topics.create("ab", 1)
    subscribe(world, "m1", "a.*")
    key, value = CONSUMER_OFFSETS.decode(*world.journal.log[0])
    value.subscribed_topic_regex = "("
    world.groups.replay(world.shard, key, value)
    world.beat("m1", 1)
    world.clock.advance()
    assert world.group.subscriptions.resolved["("].topics == frozenset()


def test_many_topics_are_looked_up_in_slices(world):
    for number in range(50):
        world.topics.create(f"t{number}", 1)
    subscribe(world, "m1", "t.*")
    moments = itertools.count(world.clock.now_ms, 5)
    world.clock.monotonic_ms = lambda: float(next(moments))
    turns = 0
    while world.group.epoch == 1:
        world.clock.advance()
        turns += 1
        assert turns < 100
    assert len(world.group.subscriptions.resolved["t.*"].topics) == 50
