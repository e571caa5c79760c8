"""The classic protocol: members that join, agree, live, fall silent and leave."""

from typing import Any

from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from parity.scenarios.coordinators import coordinator_is_ready
from parity.scenarios.group_members import HEARTBEAT, JOIN, LEAVE, SYNC, Member, assignment, subscription
from parity.scenarios.groups import describe, until
from parity.world import World

STATIC_SINCE = 5


def _protocols(*names: str) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=subscription("grouped")) for name in names]


def one_member(world: World) -> None:
    """The life of a group of one, at every version: it joins, syncs, lives, joins again and leaves."""
    coordinator_is_ready(world)
    for version in range(JOIN + 1):
        member = Member(world, f"one-{version}", f"v{version}", version=version)
        member.join()
        describe(world, f"joined {version}", member.group)
        member.beat("is alive before it has synced")
        member.sync({member.id: assignment("grouped", 0, 1)})
        member.sync(what="syncs again")
        member.beat()
        describe(world, f"stable {version}", member.group)
        member.join("joins again")
        member.sync({member.id: b""})
        for generation in (member.generation - 1, member.generation + 1, -1):
            member.beat("is of another generation", generation_id=generation)
            member.sync(what="syncs with another generation", generation_id=generation)
        member.leave()
        member.leave("leaves again")
        member.beat("is alive after it has left")
        member.sync(what="syncs after it has left")
        member.join("comes back with its old id")
        describe(world, f"left {version}", member.group)


def awkward_joins(world: World) -> None:
    """Members that no group takes."""
    coordinator_is_ready(world)
    someone = Member(world, "awkward", "someone").live()
    for what, fields in _AWKWARD.items():
        for version in (0, 4, JOIN):
            other = Member(world, fields.get("group_id", "awkward"), what, version=version, **fields)
            world.ask(what, other.join_request(), version)
    for version in (0, 4, JOIN):
        new = Member(world, f"awkward-new-{version}", "new", version=version)
        for what in ("no protocols", "no protocol type"):
            world.ask(f"{what} in a new group", new.join_request(**_AWKWARD[what]), version)
    someone.beat("is still there")
    for version in range(JOIN + 1):
        stranger = Member(world, "awkward-nowhere", "stranger", version=version, member_id="nobody")
        world.ask("of a group that is not there", stranger.join_request(), version)
    for version in range(SYNC + 1):
        request = SyncGroupRequest(group_id="awkward-nowhere", generation_id=1, member_id="nobody")
        _named(request, version)
        world.ask("sync with a group that is not there", request, version)
        request.group_id = ""
        world.ask("sync without a group", request, version)
        request.group_id = "awkward"
        world.ask("sync of a stranger", request, version)
    for version in range(HEARTBEAT + 1):
        for group in ("awkward-nowhere", "", "awkward"):
            beat = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
            world.ask(f"heartbeat of a stranger in {group!r}", beat, version)
    for version in range(LEAVE + 1):
        for group in ("awkward-nowhere", "", "awkward"):
            for member in ("nobody", ""):
                world.ask(f"{member!r} leaves {group!r}", _leave(group, member, version), version)


_AWKWARD: dict[str, dict[str, Any]] = {
    "session too short": {"session_timeout_ms": 5},
    "session too long": {"session_timeout_ms": 1 << 30},
    "no group": {"group_id": ""},
    "no protocols": {"protocols": []},
    "no protocol type": {"protocol_type": ""},
    "another protocol type": {"protocol_type": "connect"},
    "another protocol": {"protocols": _protocols("roundrobin")},
    "an id of its own": {"member_id": "nobody"},
}


def _named(request: SyncGroupRequest, version: int) -> None:
    if version >= SYNC:
        request.protocol_type, request.protocol_name = "consumer", "range"


def _leave(group: str, member: str, version: int) -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(group_id=group, member_id=member)
    return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)])


def sync_names(world: World) -> None:
    """Protocol type and name, which a member of version 5 must repeat."""
    coordinator_is_ready(world)
    member = Member(world, "sync-names", "member")
    member.join()
    for kind in ("consumer", "connect", "", None):
        for name in ("range", "roundrobin", "", None):
            if (kind, name) != ("consumer", "range"):
                member.sync(what=f"syncs as {kind} by {name}", protocol_type=kind, protocol_name=name)
    member.sync({member.id: assignment("grouped", 0), "nobody": b"x"}, "brings a part for nobody")


def two_members(world: World) -> None:
    """A second member comes and goes; the first hears of it by its heartbeats."""
    coordinator_is_ready(world)
    for version in (3, JOIN):
        first = Member(world, f"two-{version}", f"first {version}", version=version).live()
        second = Member(world, f"two-{version}", f"second {version}", version=version)
        waiting = second.park_join()
        first.beat("hears of a rebalance")
        first.sync(what="syncs while others join")
        describe(world, f"rebalancing {version}", first.group)
        first.join("joins again")
        waiting()
        describe(world, f"both joined {version}", first.group)
        follower, leader = (second, first) if first.leads else (first, second)
        synced = follower.park_sync()
        follower.beat("is alive while it waits for its part")
        leader.sync({leader.id: assignment("grouped", 0), follower.id: assignment("grouped", 1)})
        synced()
        for member in (leader, follower):
            member.beat()
        follower.join("joins again though nothing changed")
        describe(world, f"both stable {version}", first.group)
        follower.leave()
        leader.beat("hears that the other has left")
        leader.join("joins again")
        leader.sync({leader.id: assignment("grouped", 0, 1)})
        leader.leave()
        describe(world, f"both left {version}", first.group)


def votes(world: World) -> None:
    """The protocol that most members prefer among those that all know."""
    coordinator_is_ready(world)
    first = Member(world, "votes", "first", protocols=_protocols("range", "roundrobin", "sticky"))
    first.join()
    first.sync({first.id: b"1"})
    second = Member(world, "votes", "second", protocols=_protocols("sticky", "roundrobin"))
    waiting = second.park_join()
    first.fields["protocols"] = _protocols("sticky", "roundrobin")
    first.join("prefers another now")
    waiting()
    third = Member(world, "votes", "third", protocols=_protocols("range"))
    third.join("shares no protocol")
    describe(world, "a vote", "votes")


def static_members(world: World) -> None:
    """Members with names of their own come back without a rebalance, and fence who comes in their name."""
    coordinator_is_ready(world)
    for version in range(STATIC_SINCE, JOIN + 1):
        group = f"static-{version}"
        member = Member(world, group, f"static {version}", version=version, group_instance_id="me")
        member.live()
        describe(world, f"static {version}", group)
        ghost = Member(world, group, f"ghost {version}", version=version, group_instance_id="me")
        ghost.id, ghost.generation = member.id, member.generation
        again = Member(world, group, f"again {version}", version=version, group_instance_id="me")
        again.join("comes back")
        again.sync()
        again.beat()
        ghost.beat("is fenced")
        ghost.sync(what="is fenced")
        ghost.join("is fenced")
        ghost.leave("is fenced")
        stranger = Member(world, group, f"stranger {version}", version=version, group_instance_id="you")
        stranger.id, stranger.generation = again.id, again.generation
        stranger.beat("has another name")
        stranger.sync(what="has another name")
        stranger.join("has another name")
        stranger.leave("has another name")
        describe(world, f"came back {version}", group)
        by_name = MemberIdentity(member_id="", group_instance_id="me", reason="by name")
        request = LeaveGroupRequest(group_id=group, members=[by_name, by_name])
        world.ask(f"leaves by its name {version}", request, LEAVE)
        describe(world, f"gone {version}", group)


def static_change(world: World) -> None:
    """A static member that comes back with other topics, and one that comes back before the leader has
    synced.
    """
    coordinator_is_ready(world)
    member = Member(world, "static-change", "member", group_instance_id="me").live()
    other = JoinGroupRequestProtocol(name="range", metadata=subscription("grouped", "more"))
    member.id = ""
    member.join("comes back with other topics", protocols=[other])
    member.id = ""
    member.join("comes back before it has synced", protocols=[other])
    member.sync({member.id: b"part"})
    member.fields["protocols"] = _protocols("roundrobin")
    member.id = ""
    member.join("comes back with another protocol")
    describe(world, "static change", "static-change")


def several_leave(world: World) -> None:
    """Several members leave by one request."""
    coordinator_is_ready(world)
    member = Member(world, "several", "member", group_instance_id="me").live()
    identities = [
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id="", group_instance_id="nobody"),
        MemberIdentity(member_id="nobody", group_instance_id="me"),
        MemberIdentity(member_id=member.id, group_instance_id="me"),
    ]
    for version in range(3, LEAVE + 1):
        world.ask("several leave", LeaveGroupRequest(group_id="several", members=identities), version)
    world.ask("nobody leaves", LeaveGroupRequest(group_id="several", members=[]), LEAVE)
    describe(world, "several left", "several")


def pending_member(world: World) -> None:
    """A member that was given its id and has not come back yet."""
    coordinator_is_ready(world)
    pending = Member(world, "pending", "pending")
    world.ask("asks for an id", pending.join_request(), JOIN)
    # Kafka 4 hands out the id before its group is replicated, and describes what is.
    until(world, "pending", "Empty")
    describe(world, "nobody has joined", "pending")
    answer = world.ask("asks for another", pending.join_request(), JOIN)
    request = LeaveGroupRequest(group_id="pending", members=[MemberIdentity(member_id=answer.member_id)])
    pending.id = answer.member_id
    pending.beat("is alive before it has joined")
    pending.sync(what="syncs before it has joined")
    world.ask("leaves before it has joined", request, LEAVE)
    pending.join("joins with an id that has left")
