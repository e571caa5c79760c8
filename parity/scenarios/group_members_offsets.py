"""Positions of groups that have members: who may commit, and what may be deleted while somebody reads."""

from typing import Any

from parity.scenarios.coordinators import coordinator_is_ready
from parity.scenarios.group_members import Member
from parity.scenarios.group_offsets import commit, delete_positions, fetch
from parity.world import World


def member_commits(world: World) -> None:
    """Members commit in their generation, in another one, and in the name of somebody else."""
    coordinator_is_ready(world)
    world.create("grouped-offsets", 2)
    for version in (2, 6, 7, 9):
        group = f"member-commits-{version}"
        member = Member(world, group, f"member {version}", group_instance_id="me" if version >= 7 else None)
        member.join()
        place = ("grouped-offsets", 0, 4)
        mine: dict[str, Any] = {"generation_id_or_member_epoch": member.generation, "member_id": member.id}
        if version >= 7:
            mine["group_instance_id"] = "me"
        world.ask("before the group is stable", commit(group, place, **mine), version)
        member.sync({member.id: b"part"})
        world.ask("good", commit(group, place, **mine), version)
        world.ask("too many words", commit(group, place, metadata="x" * 5000, **mine), version)
        for generation in (-1, 0, 2):
            other = mine | {"generation_id_or_member_epoch": generation}
            world.ask(f"generation {generation}", commit(group, place, **other), version)
        world.ask("somebody else", commit(group, place, **mine | {"member_id": "nobody"}), version)
        world.ask("nobody", commit(group, place, **mine | {"member_id": ""}), version)
        world.ask("from outside", commit(group, place), version)
        if version >= 7:
            world.ask("other name", commit(group, place, **mine | {"group_instance_id": "you"}), version)
        world.ask(f"read back {version}", fetch(group), 9)
        member.leave()
        world.ask("after leaving", commit(group, place, **mine), version)
        world.ask("from outside when all have left", commit(group, ("grouped-offsets", 1, 9)), version)
        world.ask(f"read back at the end {version}", fetch(group), 9)


def offset_delete(world: World) -> None:
    """Positions forgotten, but not those of topics that a member reads."""
    coordinator_is_ready(world)
    world.create("grouped", 2)
    world.create("forgotten", 2)
    everything = [("forgotten", 0), ("forgotten", 1), ("forgotten", 9), ("forgotten-nowhere", 0)]
    world.ask("there", commit("forget", ("forgotten", 0, 5), ("forgotten", 1, 6)), 9)
    world.ask("known and unknown", delete_positions("forget", *everything), 0)
    world.ask("read back", fetch("forget"), 9)
    world.ask("again", delete_positions("forget", *everything[:2]), 0)
    world.ask("unknown group", delete_positions("forget-nowhere", *everything), 0)
    world.ask("unknown group and nothing", delete_positions("forget-nowhere"), 0)
    world.ask("no group", delete_positions("", *everything), 0)
    world.ask("only unknown", delete_positions("forget-nowhere", *everything[2:]), 0)
    member = Member(world, "forget-live", "reader").live()
    mine: dict[str, Any] = {"generation_id_or_member_epoch": member.generation, "member_id": member.id}
    places = [("grouped", 0, 1), ("forgotten", 0, 2)]
    world.ask("member's", commit("forget-live", *places, **mine), 9)
    both = delete_positions("forget-live", ("grouped", 0), ("forgotten", 0), ("forgotten", 9))
    world.ask("of a topic that is read", both, 0)
    world.ask("member's read back", fetch("forget-live"), 9)
    other = Member(world, "forget-connect", "worker", protocol_type="connect")
    other.join()
    world.ask("of another protocol", delete_positions("forget-connect", ("forgotten", 0)), 0)
    member.leave()
    world.ask("when all have left", both, 0)
