"""Members that join, sync, leave, vanish and come back at random; journals that fail; coordinators that move.

Every client behaves as Kafka's own do, but at any moment it may do something else. Whatever happens, the
rules of `GroupStorm` hold after each step, and once everybody behaves again the group settles.
"""

import os

import hypothesis.strategies as st
from classic_world import GROUP, REBALANCE_MS, SESSION_MS, World, subscription
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError

STORMS = int(os.environ.get("BARNABAS_STORMS", "30"))
"""How many random histories are tried; by hand, more of them."""
PARTITIONS = range(4)
OFFERS = [
    (("range", subscription("t")), ("sticky", subscription("t"))),
    (("sticky", subscription("t")), ("range", subscription("t"))),
    (("range", subscription("t", "u")),),
]
FORGET = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


class Actor:
    """One process that wants to be a member."""

    def __init__(self, name, instance):
        self.name = name
        self.instance = instance
        self.offer = OFFERS[0]
        self.parts = None
        self.forget()

    def forget(self):
        self.member_id = ""
        self.generation = -1
        self.protocol = None
        self.everybody = []
        self.join = self.sync = None
        self.leads = False
        self.parts = None

    @property
    def waits(self):
        return any(parked is not None and parked.waits for parked in (self.join, self.sync))

    def __repr__(self):
        return f"<Actor {self.name} {self.member_id} generation={self.generation} parts={self.parts}>"


class GroupStorm(RuleBasedStateMachine):
    """Rules that hold: one leader and one protocol a generation; no partition with two owners in one; only
    the current generation is heard; no request waits without being remembered; each member that is awaited
    has a deadline.
    """

    @initialize(max_size=st.sampled_from([2, 2**31 - 1]), delay_ms=st.sampled_from([0, 3_000]))
    def begin(self, max_size, delay_ms):
        self.world = World(max_size=max_size, initial_rebalance_delay_ms=delay_ms)
        self.actors = [Actor(f"dynamic{each}", None) for each in range(3)]
        self.actors += [Actor(f"static{each}", f"static{each}") for each in range(2)]
        self.truth = {}
        self.owners = {}
        self.generations = [0]

    # What a client does

    def send_join(self, actor):
        actor.join = self.world.join(
            actor.member_id, instance=actor.instance, protocols=actor.offer, rebalance_ms=30_000
        )
        actor.sync = None
        actor.join._answer.when_done(lambda _, sent=actor.join: sent is actor.join and self.read(actor))

    def send_sync(self, actor):
        parts = {}
        if actor.leads:
            parts = dict.fromkeys(actor.everybody, b"")
            for partition in PARTITIONS:
                member_id = actor.everybody[partition % len(actor.everybody)]
                parts[member_id] += bytes([partition])
        try:
            actor.sync = self.world.sync(
                actor.member_id,
                actor.generation,
                parts,
                instance=actor.instance,
                protocol_name=actor.protocol,
            )
        except KafkaError as refused:
            self.refused(actor, refused.code)
        else:
            actor.sync._answer.when_done(lambda _, sent=actor.sync: sent is actor.sync and self.read(actor))

    def refused(self, actor, code):
        actor.join = actor.sync = None
        if code in FORGET:
            actor.forget()
        else:
            actor.parts, actor.generation = None, -1

    def read(self, actor):
        """Looks at an answer as soon as it comes."""
        if actor.join is not None and not actor.join.waits:
            result, actor.join = actor.join.result, None
            self.joined(actor, result)
        if actor.sync is not None and not actor.sync.waits:
            result, actor.sync = actor.sync.result, None
            if result.error_code:
                self.refused(actor, ErrorCode.of(result.error_code))
            else:
                self.assigned(actor, result.assignment)

    def joined(self, actor, result):
        code = ErrorCode.of(result.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            actor.member_id = result.member_id
            return
        if code is not ErrorCode.NONE:
            self.refused(actor, code)
            if code is ErrorCode.GROUP_MAX_SIZE_REACHED:
                actor.forget()
            return
        actor.member_id, actor.generation = result.member_id, result.generation_id
        actor.protocol, actor.parts = result.protocol_name, None
        actor.everybody = [each.member_id for each in result.members]
        actor.leads = result.leader == result.member_id and not result.skip_assignment
        if result.leader == result.member_id:
            assert actor.member_id in actor.everybody
            assert {each.member_id for each in result.members} == set(self.group.members.ids)
        else:
            assert actor.everybody == []
        truth = self.truth.setdefault(result.generation_id, (result.protocol_name, result.protocol_type))
        assert truth == (result.protocol_name, result.protocol_type)

    def assigned(self, actor, assignment):
        actor.parts = set(assignment)
        for partition in actor.parts:
            owner = self.owners.setdefault((actor.generation, partition), actor.name)
            assert owner == actor.name, f"two owners of {partition} in generation {actor.generation}"

    def behave(self, actor):
        """What Kafka's own client would do next."""
        if actor.waits:
            return
        if actor.generation < 0:
            self.send_join(actor)
        elif actor.parts is None:
            self.send_sync(actor)
        else:
            self.beat(actor)

    def beat(self, actor):
        code = self.world.heartbeat(actor.member_id, actor.generation, actor.instance)
        if code is not ErrorCode.NONE:
            self.refused(actor, code)

    @property
    def group(self):
        return self.world.shard.groups.get(GROUP)

    # What happens

    some_actor = st.integers(0, 4)

    @rule(number=some_actor)
    def takes_the_next_step(self, number):
        self.behave(self.actors[number])

    @rule(number=some_actor, offer=st.sampled_from(OFFERS))
    def joins_with_something_new_to_say(self, number, offer):
        actor = self.actors[number]
        actor.offer = offer
        self.send_join(actor)

    @rule(number=some_actor)
    def leaves(self, number):
        actor = self.actors[number]
        self.world.leave((actor.member_id, actor.instance, None))
        actor.forget()

    @rule(number=some_actor)
    def starts_anew_without_a_word(self, number):
        self.actors[number].forget()

    @rule(number=some_actor, stale=st.integers(-1, 3))
    def says_something_out_of_date(self, number, stale):
        actor = self.actors[number]
        group = self.group
        current = group is not None and group.generation_id == stale and actor.member_id in group.members
        beaten = self.world.heartbeat(actor.member_id, stale, actor.instance)
        if not current:
            assert beaten not in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}

    @rule(ms=st.sampled_from([1, 1_000, 3_000, SESSION_MS, 30_000, REBALANCE_MS]))
    def time_passes(self, ms):
        self.world.clock.advance(ms)

    @rule(holds=st.booleans())
    def replicas_are_slow(self, holds):
        self.world.journal.holds = holds

    @precondition(lambda self: self.world.journal.waiting)
    @rule(code=st.sampled_from([None, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def replicas_answer(self, code):
        if code is None:
            self.world.journal.acknowledge()
        else:
            self.world.journal.fail(code)

    @precondition(lambda self: self.group is not None and not self.world.journal.waiting)
    @rule()
    def another_broker_becomes_the_coordinator(self):
        world, journal = self.world, self.world.journal
        self.group.close()
        world.shard = Shard(0, 1, journal)
        if journal.batches:
            world.classic.replay(world.shard, journal.batches[-1][0].key, journal.last())
        world.classic.loaded(world.shard)
        # Generations that were never written down are counted again.
        known = 0 if self.group is None else self.group.generation_id
        self.generations.append(known)
        self.truth = {each: truth for each, truth in self.truth.items() if each <= known}
        self.owners = {each: owner for each, owner in self.owners.items() if each[0] <= known}

    # What must hold

    @invariant()
    def generations_never_go_back(self):
        if self.group is not None:
            assert self.group.generation_id >= self.generations[-1]
            self.generations.append(self.group.generation_id)

    @invariant()
    def counts_are_right(self):
        if self.group is None:
            return
        members = list(self.group.members)
        assert self.group.members.joined == sum(member.parked_join is not None for member in members)
        assert self.group.members.static == {
            member.group_instance_id: member.member_id for member in members if member.is_static
        }
        assert self.group.is_empty <= (not members)
        assert (self.group.members.leader_id in self.group.members) == bool(members)
        assert self.group.unsynced <= set(self.group.members.ids)

    @invariant()
    def whoever_is_awaited_has_a_deadline(self):
        group = self.group
        if group is None:
            return
        assert (group.delayed_join is not None) == (group.state_name == "PreparingRebalance")
        assert (group.delayed_sync is not None) == bool(group.unsynced)
        for member in group.members:
            assert member.is_parked or member.session.running
            assert not member.is_new or member.session.running

    @invariant()
    def whoever_waits_is_remembered(self):
        parked = set()
        for member in self.group.members if self.group is not None else ():
            parked |= {id(member.parked_join)} if member.parked_join else set()
            parked |= {id(member.parked_sync)} if member.parked_sync else set()
        for actor in self.actors:
            for request in (actor.join, actor.sync):
                assert request is None or not request.waits or id(request.parked) in parked

    def teardown(self):
        if not hasattr(self, "world"):
            return
        journal = self.world.journal
        journal.holds = False
        for _ in range(200):
            while journal.waiting:
                journal.acknowledge()
            for actor in self.actors:
                self.behave(actor)
            self.world.clock.advance(1_000)
            self.check_invariants_again()
        self.settled()

    def check_invariants_again(self):
        self.counts_are_right()
        self.whoever_is_awaited_has_a_deadline()
        self.whoever_waits_is_remembered()

    def settled(self):
        assert self.group.state_name == "Stable", self.group
        inside = [actor for actor in self.actors if actor.parts is not None]
        assert len(inside) == min(len(self.actors), self.world.settings.max_size)
        assert sorted(part for actor in inside for part in actor.parts) == list(PARTITIONS)
        assert {actor.generation for actor in inside} == {self.group.generation_id}


TestGroupStorm = GroupStorm.TestCase
TestGroupStorm.settings = settings(
    max_examples=STORMS,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
