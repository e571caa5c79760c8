"""Members that fall silent, and groups that are full: what happens without anybody asking for it."""

from typing import Final

from parity.scenarios.coordinators import coordinator_is_ready
from parity.scenarios.group_members import JOIN, Member
from parity.scenarios.groups import describe, until
from parity.world import World

SHORT_MS: Final = 1500
MOST: Final = 4
"""Members that a group may have, by what both sides are told."""


def silence(world: World) -> None:
    """A member alone, one of two, a leader that brings no assignment, one that does not come back to a
    rebalance.
    """
    coordinator_is_ready(world)
    for version in (0, JOIN):
        alone = Member(world, f"silent-{version}", f"alone {version}", version=version)
        alone.fields["session_timeout_ms"] = SHORT_MS
        alone.live()
        until(world, alone.group, "Empty")
        describe(world, f"silent {version}", alone.group)
        alone.beat("wakes up")
    _never_synced(world)
    _never_back(world)
    _static(world)


def _never_synced(world: World) -> None:
    leader = Member(world, "silent-leader", "leader", rebalance_timeout_ms=SHORT_MS)
    leader.join()
    until(world, leader.group, "Empty")
    describe(world, "without an assignment", leader.group)
    leader.sync({leader.id: b"late"}, "syncs too late")
    leader.join("joins too late")


def _never_back(world: World) -> None:
    stays_away = Member(world, "silent-away", "away", rebalance_timeout_ms=SHORT_MS).live()
    comes = Member(world, "silent-away", "comes", rebalance_timeout_ms=SHORT_MS)
    waiting = comes.park_join()
    waiting()
    describe(world, "one stayed away", comes.group)
    stays_away.beat("is alive after the rebalance")
    stays_away.sync(what="syncs after the rebalance")
    stays_away.join("joins after the rebalance")
    comes.sync({comes.id: b"all"})
    comes.beat()


def _static(world: World) -> None:
    """A static member that stays away from a rebalance keeps its place until its session ends."""
    away = Member(
        world, "silent-static", "static", group_instance_id="me", rebalance_timeout_ms=SHORT_MS
    ).live()
    comes = Member(world, "silent-static", "dynamic", rebalance_timeout_ms=SHORT_MS)
    waiting = comes.park_join()
    waiting()
    describe(world, "a static member stayed away", comes.group)
    comes.beat("is alive before it syncs")
    comes.sync({comes.id: b"a part", away.id: b"the other"})
    away.beat("wakes up in time", generation_id=comes.generation)
    describe(world, "a static member woke up", comes.group)


def full_group(world: World) -> None:
    """One member more than a group may have."""
    coordinator_is_ready(world)
    first = Member(world, "full", "first", group_instance_id="first").live()
    others = [Member(world, "full", f"member {n}", group_instance_id=f"{n}") for n in range(1, MOST)]
    waiting = [other.park_join() for other in others]
    first.join("joins again")
    for wait in waiting:
        wait()
    for version in (3, JOIN):
        late = Member(world, "full", f"late {version}", version=version)
        world.ask("comes too late", late.join_request(), version)
    late.id = "nobody"
    world.ask("comes too late with an id", late.join_request(), JOIN)
    describe(world, "full", "full")
