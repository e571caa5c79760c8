"""Whatever members do, in whatever order: no partition has two owners, and the group always settles."""

from collections import Counter

from consumer_world import SESSION_MS, World, assignment_read
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.core.errors import ErrorCode, KafkaError

TOPICS = ("a", "b", "c")
EXPRESSIONS = ("[ab]", "c?", ".*")
REJOIN = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class Consumer:
    """A member of the consumer protocol. It revokes at any time, and owns only what it was assigned."""

    def __init__(self, member_id, wishes, instance_id=None):
        self.member_id = member_id
        self.wishes = wishes
        self.instance_id = instance_id
        self.epoch = 0
        self.owned = set()
        self.says_all = True

    def ask(self, world, *, lost=False):
        """One heartbeat; a member that got no answer to the last one sends all its fields in the next."""
        topics = world.topics.known
        if self.epoch == 0:
            self.owned = set()
        owned = {name: [number for topic, number in self.owned if topic == name] for name, _ in self.owned}
        fields = {"topic_partitions": world.owning(**{name: owned[name] for name in owned if name in topics})}
        if self.says_all or self.epoch == 0:
            fields.update({"rebalance_timeout_ms": 30_000, **self.wishes})
        if self.instance_id is not None:
            fields["instance_id"] = self.instance_id
        try:
            response = world.beat(self.member_id, self.epoch, **fields)
        except KafkaError as error:
            if error.code not in REJOIN:
                raise
            self.epoch, self.owned = 0, set()
            return
        self.says_all = lost
        if lost:
            return
        self.epoch = response.member_epoch
        told = world.told(response)
        if told is not None:
            self.owned = {(name, number) for name, numbers in told.items() for number in numbers}

    def leave(self, world):
        world.beat(self.member_id, -1, instance_id=self.instance_id)
        self.owned = set()


class Classic:
    """A member of the classic protocol that keeps what it can (cooperative)."""

    def __init__(self, member_id, topics):
        self.member_id = member_id
        self.topics = topics
        self.generation = 0
        self.owned = set()

    def ask(self, world, *, lost=False):
        if lost:
            return
        try:
            code = ErrorCode.REBALANCE_IN_PROGRESS
            if self.generation:
                code = world.classic_beat(self.member_id, self.generation)
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._rejoin(world)
        except KafkaError as error:
            if error.code not in REJOIN:
                raise
            if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self.owned = set()
            self.generation = 0

    def _rejoin(self, world):
        owned = {name: [number for topic, number in self.owned if topic == name] for name, _ in self.owned}
        joined = world.classic_join(self.member_id, *self.topics, owned=owned)
        self.generation = joined.generation_id
        told = assignment_read(world.classic_sync(self.member_id, self.generation).assignment)
        self.owned = {(name, number) for name, numbers in told.items() for number in numbers}

    def leave(self, world):
        world.classic_leave((self.member_id, None))
        self.owned = set()


class Groups(RuleBasedStateMachine):
    """Members come, ask, lose answers, fall silent and go; topics come and grow; coordinators change."""

    @initialize()
    def begin(self):
        self.world = World()
        self.world.topics.create("a", 3)
        self.world.topics.create("b", 1)
        self.members = {}
        self.count = 0

    @rule(
        names=st.frozensets(st.sampled_from(TOPICS), min_size=1),
        expression=st.none() | st.sampled_from(EXPRESSIONS),
        assignor=st.none() | st.sampled_from(["uniform", "range"]),
    )
    def a_consumer_comes(self, names, expression, assignor):
        wishes = {"subscribed_topic_names": sorted(names), "server_assignor": assignor}
        if expression is not None:
            wishes["subscribed_topic_regex"] = expression
        self._add(Consumer(self._name(), wishes))

    @rule(number=st.integers(0, 2))
    def a_static_consumer_comes(self, number):
        instance_id = f"i{number}"
        if all(getattr(member, "instance_id", None) != instance_id for member in self.members.values()):
            self._add(Consumer(self._name(), {"subscribed_topic_names": ["a"]}, instance_id))

    @rule(names=st.frozensets(st.sampled_from(TOPICS), min_size=1))
    def a_classic_member_comes(self, names):
        if self.world.group is not None and not self.world.group.is_empty:
            self._add(Classic(self._name(), sorted(names)))

    def _name(self):
        self.count += 1
        return f"m{self.count}"

    def _add(self, member):
        if len(self.members) < 6:
            self.members[member.member_id] = member
            member.ask(self.world)

    def _some(self, data):
        return self.members[data.draw(st.sampled_from(sorted(self.members)))] if self.members else None

    @rule(data=st.data(), lost=st.booleans())
    def a_member_asks(self, data, lost):
        member = self._some(data)
        if member is not None:
            member.ask(self.world, lost=lost)

    @rule(data=st.data(), names=st.frozensets(st.sampled_from(TOPICS)))
    def a_consumer_changes_its_mind(self, data, names):
        member = self._some(data)
        if isinstance(member, Consumer):
            member.wishes = {"subscribed_topic_names": sorted(names)}
            member.epoch = 0
            member.owned = set()
            member.ask(self.world)

    @rule(data=st.data())
    def a_member_goes(self, data):
        member = self._some(data)
        if member is not None and self._is_known(member):
            del self.members[member.member_id]
            member.leave(self.world)

    def _is_known(self, member):
        group = self.world.group
        return group is not None and member.member_id in group.members

    @rule(data=st.data())
    def a_member_falls_silent(self, data):
        member = self._some(data)
        if member is not None:
            del self.members[member.member_id]
            self._live_for(SESSION_MS + 5_000)

    def _live_for(self, span_ms):
        for _ in range(span_ms // 2_500):
            for member in self.members.values():
                member.ask(self.world)
            self.world.clock.advance(2_500)

    @rule(name=st.sampled_from(TOPICS))
    def a_topic_grows(self, name):
        topics = self.world.topics
        if name in topics.known:
            topics.known[name] = topics.known[name]._replace(
                partition_count=min(topics.known[name].partition_count + 1, 6)
            )
        else:
            topics.create(name, 2)
        self.world.groups.metadata_changed(self.world.shard, {name})
        for member in self.members.values():
            if isinstance(member, Classic) and name in member.topics:
                # No heartbeat of the classic protocol looks at topics: its clients do, and join again.
                member.generation = 0

    @rule(compacted=st.booleans())
    def the_coordinator_changes(self, compacted):
        journal = self.world.journal
        log = journal.compacted() if compacted else journal.log
        other = self.world.reloaded(log)
        other.journal.log = list(log)
        if self.world.group is not None:
            self.world.group.close()
        other.groups.loaded(other.shard)
        self.world = other

    @invariant()
    def nobody_shares_a_partition(self):
        group = getattr(self, "world", None) and self.world.group
        if group is None:
            return
        held = Counter(
            (topic_id, number)
            for member in group.members.values()
            for part in (member.assigned, member.pending_revocation)
            for topic_id, numbers in part.items()
            for number in numbers
        )
        assert not held or max(held.values()) == 1
        owned = Counter(one for member in self.members.values() for one in member.owned)
        assert not owned or max(owned.values()) == 1

    def teardown(self):
        if not hasattr(self, "world") or not self.members:
            return
        self._live_for(2 * SESSION_MS)
        group = self.world.group
        assert set(group.members) == set(self.members)
        assert group.state_name == "Stable", group
        owned = Counter(one for member in self.members.values() for one in member.owned)
        read = {topic for topic in group.subscriptions.topics() if topic in self.world.topics.known}
        counts = {name: self.world.topics.known[name].partition_count for name in read}
        assert owned == Counter((name, number) for name in read for number in range(counts[name]))
        for member_id, member in self.members.items():
            known = group.subscriptions.topics_of(group.members[member_id])
            assert {name for name, _ in member.owned} <= known


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=40, stateful_step_count=25)
