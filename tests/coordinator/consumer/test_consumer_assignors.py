"""The assignors: complete, balanced, sticky; and exactly Kafka's ranges."""

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.coordinator.consumer.assignment import pairs
from barnabas.coordinator.consumer.assignors import ASSIGNORS, assignor_name
from barnabas.coordinator.consumer.assignors.range import assign_ranges
from barnabas.coordinator.consumer.assignors.spec import GroupSpec, MemberSpec
from barnabas.coordinator.consumer.assignors.uniform import assign_uniformly
from barnabas.core.slices import in_one_piece

# Other work on the machine must not make a right answer wrong.
few = settings(max_examples=60)


def uniform(group):
    return in_one_piece(assign_uniformly(group))


def ranges(group):
    return in_one_piece(assign_ranges(group))


TOPICS = [bytes([number]) * 16 for number in range(1, 6)]


def spec(members, counts):
    subscriptions = {member.subscribed for member in members.values()}
    return GroupSpec(members, counts, homogeneous=len(subscriptions) <= 1)


@st.composite
def groups(draw, homogeneous=None):
    counts = {topic: draw(st.integers(0, 7)) for topic in TOPICS}
    size = draw(st.integers(1, 7))
    same = draw(st.booleans()) if homogeneous is None else homogeneous
    some = st.frozensets(st.sampled_from(TOPICS))
    common = draw(some)
    names = draw(st.permutations([f"m{number}" for number in range(size)]))
    return spec({name: MemberSpec(common if same else draw(some)) for name in names}, counts)


def owners(targets):
    found = {}
    for member_id, assignment in targets.items():
        for pair in pairs(assignment):
            assert pair not in found, f"{pair} has two owners"
            found[pair] = member_id
    return found


def check_complete(group, targets):
    """Every partition of every topic that somebody reads has one owner, who reads it."""
    found = owners(targets)
    read = {topic for member in group.members.values() for topic in member.subscribed}
    assert set(found) == {
        (topic, number) for topic in read for number in range(group.partition_counts[topic])
    }
    for (topic, _), member_id in found.items():
        assert topic in group.members[member_id].subscribed


def sizes(targets):
    return {member_id: sum(map(len, assignment.values())) for member_id, assignment in targets.items()}


def with_targets(group, targets, members=None):
    members = group.members if members is None else members
    return spec(
        {name: member._replace(assigned=targets.get(name, {})) for name, member in members.items()},
        group.partition_counts,
    )


@few
@given(group=groups(), name=st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_has_one_owner_who_reads_it(group, name):
    check_complete(group, in_one_piece(ASSIGNORS[name](group)))


@few
@given(group=groups(homogeneous=True))
def test_uniform_gives_everybody_the_same_number_give_or_take_one(group):
    counts = sizes(uniform(group)).values()
    assert max(counts) - min(counts) <= 1


@few
@given(group=groups())
def test_uniform_leaves_no_move_that_would_make_it_more_even(group):
    targets = uniform(group)
    counts = sizes(targets)
    for (topic, _), owner in owners(targets).items():
        for other, member in group.members.items():
            if topic in member.subscribed:
                assert counts[owner] <= counts[other] + 1


@few
@given(group=groups())
def test_uniform_changes_nothing_when_nothing_changed(group):
    targets = uniform(group)
    assert uniform(with_targets(group, targets)) == targets


@few
@given(group=groups(), data=st.data())
def test_uniform_does_not_depend_on_the_order_of_members(group, data):
    targets = uniform(group)
    order = data.draw(st.permutations(sorted(group.members)))
    shuffled = with_targets(group, targets, {name: group.members[name] for name in order})
    assert uniform(shuffled) == targets


@few
@given(group=groups(homogeneous=True), data=st.data())
def test_uniform_moves_no_more_than_a_departure_or_an_arrival_asks_for(group, data):
    before = uniform(group)
    if len(group.members) > 1 and data.draw(st.booleans()):
        gone = data.draw(st.sampled_from(sorted(group.members)))
        members = {name: member for name, member in group.members.items() if name != gone}
    else:
        gone = None
        members = {**group.members, "new": MemberSpec(next(iter(group.members.values())).subscribed)}
    after = uniform(with_targets(group, before, members))
    check_complete(spec(members, group.partition_counts), after)
    moved = sum(owner != owners(after)[pair] for pair, owner in owners(before).items() if owner != gone)
    # Those who stay only ever give up what brings them down to the new quota.
    total = len(owners(before))
    low, extra = divmod(total, len(members))
    surplus = sum(max(count - low, 0) for name, count in sizes(before).items() if name != gone)
    assert moved <= max(surplus, 0)
    if gone is not None:
        assert moved <= extra + len(members)


@few
@given(group=groups(), data=st.data())
def test_uniform_stays_complete_when_members_come_and_go_and_topics_grow(group, data):
    targets = uniform(group)
    for step in range(4):
        members = dict(group.members)
        if len(members) > 1 and data.draw(st.booleans()):
            del members[data.draw(st.sampled_from(sorted(members)))]
        else:
            members[f"new{step}"] = MemberSpec(data.draw(st.frozensets(st.sampled_from(TOPICS))))
        counts = {
            topic: count + data.draw(st.integers(0, 1)) for topic, count in group.partition_counts.items()
        }
        group = with_targets(GroupSpec(members, counts, homogeneous=False), targets)
        targets = uniform(group)
        check_complete(group, targets)


def test_uniform_prefers_the_member_that_had_a_partition_before():
    a, b = TOPICS[:2]
    members = {
        "one": MemberSpec(frozenset({a, b}), {a: frozenset({0, 1}), b: frozenset({0, 1})}),
        "two": MemberSpec(frozenset({b})),
    }
    targets = uniform(spec(members, {a: 2, b: 2}))
    assert targets == {"one": {a: frozenset({0, 1})}, "two": {b: frozenset({0, 1})}}


def test_ranges_share_each_topic_in_the_order_of_the_members():
    a, b = TOPICS[:2]
    both = frozenset({a, b})
    group = spec({"c": MemberSpec(both), "a": MemberSpec(both), "b": MemberSpec(both)}, {a: 4, b: 2})
    assert ranges(group) == {
        "a": {a: frozenset({0, 1}), b: frozenset({0})},
        "b": {a: frozenset({2}), b: frozenset({1})},
        "c": {a: frozenset({3})},
    }


def test_ranges_put_static_members_first_by_their_instance():
    (a,) = TOPICS[:1]
    one = frozenset({a})
    members = {
        "a": MemberSpec(one),
        "x": MemberSpec(one, instance_id="i2"),
        "y": MemberSpec(one, instance_id="i1"),
    }
    targets = ranges(spec(members, {a: 3}))
    assert [targets[name][a] for name in ("y", "x", "a")] == [frozenset({0}), frozenset({1}), frozenset({2})]


def test_ranges_leave_out_who_does_not_read_a_topic():
    a, b = TOPICS[:2]
    members = {
        "m1": MemberSpec(frozenset({a, b})),
        "m2": MemberSpec(frozenset({b})),
        "m3": MemberSpec(frozenset()),
    }
    assert ranges(spec(members, {a: 2, b: 3})) == {
        "m1": {a: frozenset({0, 1}), b: frozenset({0, 1})},
        "m2": {b: frozenset({2})},
        "m3": {},
    }


def test_nobody_gets_nothing():
    group = GroupSpec({}, {}, homogeneous=True)
    assert [in_one_piece(assign(group)) for assign in ASSIGNORS.values()] == [{}, {}]


def test_kafkas_classes_name_the_same_assignors():
    package = "org.apache.kafka.coordinator.group.assignor"
    assert assignor_name(f"{package}.UniformAssignor") == "uniform"
    assert assignor_name(f"{package}.RangeAssignor") == "range"
    assert assignor_name("range") == "range"
