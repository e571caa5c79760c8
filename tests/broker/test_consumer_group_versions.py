"""Groups of the consumer protocol whose members are of different age, or name topics that are not theirs."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import GROUP_METADATA_TOPIC, ZERO_UUID
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

OLD = b"\x01" * 16
NEW = b"\x02" * 16
OTHERS = b"\x04" * 16
NOBODYS = b"\x03" * 16
REBALANCE_MS = 60_000
PARTITIONS = 4


@pytest.fixture
def world(make_world):
    """`orders` is there, and a coordinator that assigns at once."""
    world = make_world(barnabas_api_profile="4.4", group_consumer_assignment_interval_ms="0")
    world.create("orders", PARTITIONS, topic_id=OLD)
    world.create(GROUP_METADATA_TOPIC, 50)
    world.clock.advance(1)
    return world


class Member:
    """What a client does: it joins, says what it owns, and takes what it is given."""

    def __init__(self, world, version, member_id="", **joined):
        self.world, self.version = world, version
        self.member_id, self.epoch, self.owned = member_id, 0, {}
        self.beat(topic_partitions=[], rebalance_timeout_ms=REBALANCE_MS, **joined)

    def send(self, **fields):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=self.member_id, member_epoch=self.epoch, **fields
        )
        return self.world.send(request, self.version)

    def beat(self, **fields):
        """A heartbeat, and another one that confirms what came of it."""
        answer = self.send(**fields)
        assert answer.error_code == ErrorCode.NONE, (ErrorCode.of(answer.error_code), answer.error_message)
        self.member_id, self.epoch = answer.member_id, answer.member_epoch
        if answer.assignment is not None:
            self.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
            self.beat(topic_partitions=self.parts(self.owned))

    @staticmethod
    def parts(owned):
        return [
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in owned.items()
        ]


def settle(*members):
    """Heartbeats until nobody is given anything else."""
    world = members[0].world
    before = None
    while before != (before := [(each.epoch, dict(each.owned)) for each in members]):
        world.clock.advance(1)  # patterns are looked up between two heartbeats
        for each in members * 2:
            each.beat()


def shares(*members):
    return [sum(map(len, each.owned.values())) for each in members]


def test_members_of_both_versions_share_a_group(world):
    """Those of v0 get an id and have no patterns; those of v1 bring their own id (KIP-1082)."""
    first = Member(world, 0, subscribed_topic_names=["orders"])
    assert first.member_id
    second = Member(world, 1, "mine", subscribed_topic_names=["orders"])
    settle(first, second)
    assert (second.member_id, shares(first, second)) == ("mine", [2, 2])
    assert first.epoch == second.epoch

    third = Member(world, 1, "by-pattern", subscribed_topic_regex="ord.*")
    settle(first, second, third)
    fourth = Member(world, 0, "named", subscribed_topic_names=["orders"])
    settle(first, second, third, fourth)
    assert (fourth.member_id, shares(first, second, third, fourth)) == ("named", [1, 1, 1, 1])

    # What one version refuses costs the members of the other nothing.
    nameless = ConsumerGroupHeartbeatRequest(group_id="g", member_epoch=0, subscribed_topic_names=["orders"])
    assert world.send(nameless, 1).error_code == ErrorCode.INVALID_REQUEST
    second.epoch = -1
    assert second.send().member_epoch == -1
    settle(first, third, fourth)
    assert sorted(shares(first, third, fourth)) == [1, 1, 2]


def test_a_client_that_changes_its_version_is_the_same_member(world):
    member = Member(world, 1, "mine", subscribed_topic_names=["orders"])
    member.version = 0
    member.beat()
    assert (member.member_id, shares(member)) == ("mine", [PARTITIONS])


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("claimed", [OLD, NOBODYS, ZERO_UUID])
def test_a_member_that_claims_what_it_was_not_given_gets_nothing_by_it(world, version, claimed):
    """Ids that no topic has are not looked up: a member owns what it was given, whatever it says."""
    member = Member(world, version, "mine", subscribed_topic_names=["orders"])
    other = Member(world, version, "other", subscribed_topic_names=["orders"])
    settle(member, other)
    beyond = Member.parts({claimed: [*range(PARTITIONS), 99]})

    assert member.send(topic_partitions=beyond).error_code == ErrorCode.NONE
    behind = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="mine", member_epoch=member.epoch - 1, topic_partitions=beyond
    )
    assert world.send(behind, version).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    settle(member, other)
    assert shares(member, other) == [2, 2]


@pytest.mark.parametrize("version", [0, 1])
def test_members_of_a_topic_that_is_made_again_get_the_new_one(world, version):
    first = Member(world, version, "first", subscribed_topic_names=["orders"])
    second = Member(world, 1 - version, "second", subscribed_topic_names=["orders"])
    settle(first, second)
    assert first.owned.keys() == second.owned.keys() == {OLD}

    world.delete_replicas("orders", PARTITIONS)
    world.delete("orders")
    world.create("orders", PARTITIONS, topic_id=NEW)
    world.create("others", 1, topic_id=OTHERS)
    settle(first, second)
    # Whoever still says that it owns the old one is told again.
    first.beat(topic_partitions=Member.parts({OLD: [0, 1]}))
    settle(first, second)

    assert first.owned.keys() == second.owned.keys() == {NEW}
    assert sorted(first.owned[NEW] + second.owned[NEW]) == list(range(PARTITIONS))
