"""The consumer protocol of groups (KIP-848), asked of brokers that serve it;
Kafka 3.9 with ZooKeeper does not.
"""

from typing import Any

from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from parity.scenarios.coordinators import coordinator_is_ready
from parity.scenarios.group_members import Member
from parity.scenarios.group_offsets import commit, delete_positions, fetch
from parity.scenarios.groups import describe
from parity.world import World

FIRST, SECOND, THIRD, NOBODY = ("A" * 22, "C" * 22, "F" * 22, "B" * 22)
"""Members name themselves from version 1 on."""

LEAVE, LEAVE_FOR_A_WHILE = -1, -2


class NewMember:
    """A member of a consumer group, and its epoch."""

    def __init__(self, world: World, group: str, name: str, topic: str, instance: str | None = None) -> None:
        self._world = world
        self.group = group
        self.topic = topic
        self.id = name
        self.epoch = 0
        self.instance = instance

    def joining(self) -> dict[str, Any]:
        """What a member says when it joins."""
        return {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": 0,
            "instance_id": self.instance,
            "rebalance_timeout_ms": 5000,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": [],
        }

    def send(self, what: str, *, version: int = 1, **fields: Any) -> Any:
        """A heartbeat, in the epoch that it is in."""
        given: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }
        response = self._world.ask(what, ConsumerGroupHeartbeatRequest(**given | fields), version)
        if not response.error_code and not fields.keys() & {"member_epoch", "member_id"}:
            self.epoch = response.member_epoch
        return response

    def join(self, what: str, **fields: Any) -> Any:
        """Joins, or tries to."""
        response = self._world.ask(what, ConsumerGroupHeartbeatRequest(**self.joining() | fields), 1)
        if not response.error_code:
            self.epoch = response.member_epoch
        return response


def _describe(world: World, what: str, *groups: str, version: int = 1, **fields: Any) -> None:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), **fields)
    world.ask(f"{what}: described", request, version)


def consumer_groups(world: World) -> None:
    """All of it."""
    coordinator_is_ready(world)
    world.create("new", 2)
    _awkward(world)
    _two(world)
    _static(world)
    _conversion(world)
    world.ask("listed", ListGroupsRequest(types_filter=["consumer"]), 5)


def _awkward(world: World) -> None:
    owned = [TopicPartitions(topic_id=world.topic_id("new"), partitions=[0])]
    member = NewMember(world, "new-awkward", FIRST, "new")
    wrong: dict[str, dict[str, Any]] = {
        "no group": {"group_id": ""},
        "a blank group": {"group_id": "  "},
        "no member": {"member_id": ""},
        "no member in an epoch": {"member_id": "", "member_epoch": 1},
        "no time-out": {"rebalance_timeout_ms": -1},
        "no topics": {"subscribed_topic_names": None},
        "partitions not told": {"topic_partitions": None},
        "partitions before it has any": {"topic_partitions": owned},
        "a negative epoch": {"member_epoch": -3},
        "leaves for a while without a name": {"member_epoch": LEAVE_FOR_A_WHILE},
        "an empty name": {"instance_id": ""},
        "an empty rack": {"rack_id": ""},
        "an assignor unknown": {"server_assignor": "nope"},
        "an empty assignor": {"server_assignor": ""},
        "a bad pattern": {"subscribed_topic_names": None, "subscribed_topic_regex": "a("},
        "an epoch in an unknown group": {"member_epoch": 1},
        "leaves an unknown group": {"member_epoch": LEAVE},
    }
    for what, fields in wrong.items():
        member.join(what, **fields)
    _describe(world, "unknown", "new-awkward", "", version=1)


def _two(world: World) -> None:
    owned = [TopicPartitions(topic_id=world.topic_id("new"), partitions=[0, 1])]
    elsewhere = [TopicPartitions(topic_id=b"\x11" * 16, partitions=[0])]
    first, second = (NewMember(world, "new-two", name, "new") for name in (FIRST, SECOND))
    first.join("first joins")
    said: dict[str, dict[str, Any]] = {
        "is alive": {},
        "says all": {
            "rebalance_timeout_ms": 5000,
            "subscribed_topic_names": ["new"],
            "topic_partitions": owned,
        },
        "owns less": {"topic_partitions": []},
        "owns others": {"topic_partitions": elsewhere},
        "is ahead": {"member_epoch": first.epoch + 1},
        "is behind": {"member_epoch": first.epoch - 1},
        "is nobody": {"member_id": NOBODY},
        "wants another assignor": {"server_assignor": "range"},
    }
    for what, fields in said.items():
        first.send(f"first {what}", **fields)
    first.send("first, by the oldest version", version=0)
    for version in (0, 1):
        _describe(world, f"one {version}", "new-two", version=version, include_authorized_operations=False)
    describe(world, "as a classic group", "new-two")
    second.join("second joins")
    _describe(world, "second waits", "new-two")
    kept = first.send("first hears what it keeps").assignment
    parts = [
        TopicPartitions(topic_id=each.topic_id, partitions=each.partitions) for each in kept.topic_partitions
    ]
    first.send("first has given up the rest", topic_partitions=parts)
    first.send("first goes on")
    second.send("second gets its part")
    _describe(world, "shared", "new-two")
    _positions(world, first)
    _strangers(world, first)
    second.send("second leaves", member_epoch=LEAVE)
    second.send("second leaves again", member_epoch=LEAVE)
    first.send("first is alone")
    first.send("first leaves", member_epoch=LEAVE)
    _describe(world, "empty", "new-two")
    world.ask("fetch by somebody", fetch("new-two", ("new", 0), member_id="x", member_epoch=3), 9)


def _positions(world: World, member: NewMember) -> None:
    for what, fields in {
        "in its epoch": (member.epoch, member.id),
        "in the epoch before": (member.epoch - 1, member.id),
        "before it had any": (1, member.id),
        "in an epoch to come": (member.epoch + 1, member.id),
        "as nobody": (1, "nobody"),
        "from outside": (-1, ""),
    }.items():
        epoch, name = fields
        given: dict[str, Any] = {"generation_id_or_member_epoch": epoch, "member_id": name}
        for version in (8, 9):
            world.ask(f"commit {what}", commit(member.group, ("new", 0, 1), **given), version)
        both = commit(member.group, ("new", 0, 1), ("new", 1, 1), **given)
        world.ask(f"commit of both partitions {what}", both, 9)
        asked: dict[str, Any] = {"member_id": name or None, "member_epoch": epoch}
        world.ask(f"fetch {what}", fetch(member.group, ("new", 0), **asked), 9)
    world.ask("fetch without an epoch", fetch(member.group, ("new", 0), member_id=member.id), 9)
    world.ask("fetch of old", fetch(member.group, ("new", 0)), 8)
    world.ask("delete positions", delete_positions(member.group, ("new", 0)), 0)
    world.ask("delete the group", DeleteGroupsRequest(groups_names=[member.group]), 2)


def _strangers(world: World, member: NewMember) -> None:
    classic = Member(world, member.group, "connect", protocol_type="connect")
    world.ask("a worker joins", classic.join_request(), 9)
    stranger = Member(world, member.group, "stranger")
    stranger.id, stranger.generation = "nobody", 1
    stranger.beat()
    stranger.sync()
    stranger.leave()


def _static(world: World) -> None:
    member = NewMember(world, "new-static", FIRST, "new", "me")
    member.join("static joins")
    member.join("another of the name joins", member_id=SECOND)
    member.send("static with another name", instance_id="you", member_epoch=member.epoch)
    member.send("static with another id", member_id=SECOND)
    member.send("static goes for a while", member_epoch=LEAVE_FOR_A_WHILE)
    _describe(world, "static is away", "new-static")
    again = NewMember(world, "new-static", THIRD, "new", "me")
    again.join("static comes back")
    member.send("the old id")
    _describe(world, "static is back", "new-static")
    again.send("static leaves for good", member_epoch=LEAVE)
    world.ask("deleted", DeleteGroupsRequest(groups_names=["new-static"]), 2)


def _conversion(world: World) -> None:
    Member(world, "new-from-old", "old").join()
    NewMember(world, "new-from-old", FIRST, "new").join("a new member in an old group")
    described = ConsumerGroupDescribeRequest(group_ids=["new-from-old"])
    world.prepare(described, 1)
