"""Groups described, listed and deleted;
and the consumer protocol, which a broker in ZooKeeper mode refuses.
"""

import time
from typing import Any

from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from parity.scenarios.coordinators import coordinator_is_ready
from parity.scenarios.group_members import Member
from parity.scenarios.group_offsets import commit, fetch
from parity.world import PATIENCE_S, World


def describe(world: World, what: str, *groups: str, version: int = 5, **fields: Any) -> Any:
    """What is told of groups."""
    return world.ask(f"{what}: described", DescribeGroupsRequest(groups=list(groups), **fields), version)


def until(world: World, group: str, state: str) -> None:
    """Waits until the group is told to be in a state."""
    deadline = time.monotonic() + PATIENCE_S
    request = DescribeGroupsRequest(groups=[group])
    while world.prepare(request, 5).groups[0].group_state != state:
        assert time.monotonic() < deadline, f"{world.side!r}: {group} does not come to be {state}"
        time.sleep(0.05)


def describe_groups(world: World) -> None:
    """Groups in several states, unknown ones, and those without a name."""
    coordinator_is_ready(world)
    Member(world, "described", "member").live()
    for version in range(6):
        describe(world, "live", "described", version=version)
        describe(world, "unknown and bad", "described-nowhere", "", "a/b", version=version)
        describe(world, "several", "described", "described", "described-nowhere", version=version)
        describe(world, "none", version=version)
    for version in (3, 5):
        describe(
            world,
            "with operations",
            "described",
            "described-nowhere",
            version=version,
            include_authorized_operations=True,
        )


def list_groups(world: World) -> None:
    """Groups by state and by type."""
    coordinator_is_ready(world)
    world.create("listed")
    stable = Member(world, "listed-stable", "stable").live()
    gone = Member(world, "listed-empty", "gone").live()
    gone.leave()
    Member(world, "listed-other", "other", protocol_type="connect").join()
    world.ask("simple", commit("listed-simple", ("listed", 0, 1)), 9)
    stable.beat()
    for version in range(6):
        world.ask("all", ListGroupsRequest(), version)
    for states in (["Stable"], ["stable", "EMPTY"], ["Dead"], ["nothing"], [""], ["Empty", "Empty"]):
        for version in (4, 5):
            world.ask(f"states {states}", ListGroupsRequest(states_filter=states), version)
    for types in (["classic"], ["Classic"], ["consumer"], ["nothing"], ["consumer", "classic"], [""]):
        world.ask(f"types {types}", ListGroupsRequest(types_filter=types), 5)
    both = ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"])
    world.ask("state and type", both, 5)


def delete_groups(world: World) -> None:
    """Groups that may be deleted, and those that may not."""
    coordinator_is_ready(world)
    world.create("deleted-from")
    member = Member(world, "deleted-live", "live").live()
    for version in range(3):
        world.ask(f"offsets {version}", commit(f"deleted-{version}", ("deleted-from", 0, 7)), 9)
        names = [f"deleted-{version}", "deleted-nowhere", "deleted-live", ""]
        world.ask("several", DeleteGroupsRequest(groups_names=names), version)
        world.ask("again", DeleteGroupsRequest(groups_names=names[:1]), version)
        world.ask("twice the same", DeleteGroupsRequest(groups_names=["deleted-nowhere"] * 2), version)
        world.ask("none", DeleteGroupsRequest(), version)
        world.ask(f"what is left {version}", fetch(f"deleted-{version}", ("deleted-from", 0)), 9)
        describe(world, f"deleted {version}", f"deleted-{version}")
    member.leave()
    world.ask("after all have left", DeleteGroupsRequest(groups_names=["deleted-live"]), 2)
    member.beat("is of a group that was deleted")


def consumer_protocol(world: World) -> None:
    """Kafka 3.9 with ZooKeeper advertises the consumer protocol and refuses it."""
    coordinator_is_ready(world)
    Member(world, "new-protocol", "classic").live()
    for group in ("new-protocol", "new-protocol-nowhere", ""):
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["grouped"],
            topic_partitions=[],
        )
        world.ask(f"heartbeat in {group!r}", heartbeat, 0)
        for operations in (False, True):
            request = ConsumerGroupDescribeRequest(
                group_ids=[group, "other"], include_authorized_operations=operations
            )
            world.ask(f"describe {group!r} {operations}", request, 0)
    world.ask("describe none", ConsumerGroupDescribeRequest(), 0)
