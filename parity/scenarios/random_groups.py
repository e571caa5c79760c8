"""Two members who do what comes to their minds, the same on both sides.

One member has a name of its own and forgets who it is now and then; the other leaves and comes back. Each
request goes out on a connection of its own, because joining and syncing may have to wait; what was released
by a step is recorded with it. Two members are as many as Kafka's answers are certain for: among three, who
leads after the leader has gone depends on hashes of random ids.
"""

import random
from typing import Any, Final

from barnabas.protocol.messages.join_group import JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from parity.scenarios.coordinators import coordinator_is_ready
from parity.scenarios.group_members import LEAVE, SYNC, Member, subscription
from parity.scenarios.group_offsets import commit, fetch
from parity.scenarios.groups import describe
from parity.world import Parked, World

SEEDS: Final = range(4)
STEPS: Final = 40
PATIENCE_S: Final = 0.4
"""After so long without an answer a request counts as parked;
both sides take a hundredth of it when they are well.
"""

WEIGHTS: Final = {
    "join": 6,
    "sync": 5,
    "beat": 3,
    "commit": 2,
    "leave": 1,
    "forget": 1,
    "change": 1,
    "lie": 1,
}


def random_groups(world: World) -> None:
    """Some lives of a group, each from a seed."""
    coordinator_is_ready(world)
    world.create("random")
    for seed in SEEDS:
        play(world, seed)


def play(world: World, seed: int, steps: int = STEPS) -> None:
    """One life."""
    rng = random.Random(seed)
    group = f"random-{seed}"
    actors = [
        Actor(world, Member(world, group, "other", version=rng.choice((3, 5, 9)))),
        Actor(world, Member(world, group, "named", version=rng.choice((5, 7, 8, 9)), group_instance_id="me")),
    ]
    for step in range(steps):
        actor = rng.choice(actors)
        verb = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        actor.act(f"{seed}.{step} {actor.member.name}", verb, rng, actors)
        for each in actors:
            each.collect()
    describe(world, f"{seed} in the end", group)
    world.ask(f"{seed} positions in the end", fetch(group), 9)
    for actor in actors:
        actor.go()


class Actor:
    """A member, and the one request that it waits for."""

    def __init__(self, world: World, member: Member) -> None:
        self._world = world
        self.member = member
        self._parked: Parked | None = None
        self._joins = False
        self._protocols = ["range", "roundrobin"]

    def act(self, what: str, verb: str, rng: random.Random, actors: "list[Actor]") -> None:
        """Does what it is told, if it is free to do so; who waits can only be alive."""
        lie = rng.choice((-1, 1))
        if self._parked is not None and verb in {"join", "sync", "forget", "leave"}:
            verb = "beat"
        member, what = self.member, f"{what} {verb}"
        if verb == "join":
            self._park(what, member.join_request(protocols=self._offer()), member.version, joins=True)
        elif verb == "sync":
            parts = {each.member.id: each.member.name.encode() for each in actors} if member.leads else {}
            self._park(what, member.sync_request(parts), min(member.version, SYNC), joins=False)
        elif verb == "commit":
            mine: dict[str, Any] = {
                "generation_id_or_member_epoch": member.generation,
                "member_id": member.id,
            }
            self._world.ask(what, commit(member.group, ("random", 0, rng.randrange(9)), **mine), 6)
        elif verb == "leave":
            identity = MemberIdentity(member_id=member.id, group_instance_id=member.instance)
            request = LeaveGroupRequest(group_id=member.group, members=[identity])
            self._world.ask(what, request, LEAVE)
            member.id = ""
        elif verb == "forget" and member.instance:
            member.id = ""
        elif verb == "change":
            rng.shuffle(self._protocols)
        elif verb in {"beat", "lie"}:
            member.beat(what, generation_id=member.generation + (lie if verb == "lie" else 0))

    def _offer(self) -> list[JoinGroupRequestProtocol]:
        metadata = subscription("random", self.member.name)
        return [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self._protocols]

    def _park(self, what: str, request: object, version: int, *, joins: bool) -> None:
        self._parked, self._joins = self._world.park(what, request, version), joins  # type: ignore[arg-type]

    def collect(self) -> None:
        """Records the answer that it waits for, if that has come."""
        if self._parked is None or not self._parked.answers_within(PATIENCE_S):
            return
        response = self._parked.answer()
        self._parked = None
        if self._joins:
            self.member.joined(response)

    def go(self) -> None:
        """Leaves an answer that has not come behind."""
        if self._parked is not None:
            self._parked.abandon()
