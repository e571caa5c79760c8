"""How the leader divides partitions: Kafka's documented examples, and what must hold for any group."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.client.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
    assignors_named,
    common_protocol,
)
from barnabas.client.assignors.sticky_user_data import read_owned, write_owned
from barnabas.client.errors import GroupError
from barnabas.client.group.assignment import divide, offered_protocols, read_assignment, read_subscriptions
from barnabas.core.errors import BarnabasError, ConfigError, ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.join_group import JoinGroupResponseMember

NOWHERE = frozenset()


def topics(**counts):
    return {name: [NOWHERE] * count for name, count in counts.items()}


def tps(text):
    """``t0 t1 u0`` as partitions."""
    return [TopicPartition(one.rstrip("0123456789"), int(one.lstrip("abctuv"))) for one in text.split()]


def texts(assignment):
    return {
        member: " ".join(f"{tp.topic}{tp.partition}" for tp in sorted(partitions))
        for member, partitions in assignment.items()
    }


def wanting(names, *members, **options):
    return {member: Subscription(list(names), **options) for member in members}


def test_range_gives_consecutive_partitions_of_each_topic():
    divided = RangeAssignor().assign(topics(t=3, u=3), wanting("tu", "C0", "C1"))
    assert texts(divided) == {"C0": "t0 t1 u0 u1", "C1": "t2 u2"}


def test_range_serves_only_those_who_subscribe():
    members = {**wanting("tu", "C1"), **wanting("t", "C0", "C2")}
    divided = RangeAssignor().assign(topics(t=4, u=2, v=9), members)
    assert texts(divided) == {"C0": "t0 t1", "C1": "t2 u0 u1", "C2": "t3"}


def test_static_members_keep_their_places_whatever_their_ids():
    members = {
        "z": Subscription(["t"], group_instance_id="A"),
        "a": Subscription(["t"], group_instance_id="B"),
        "0": Subscription(["t"]),
    }
    for assignor in (RangeAssignor(), RoundRobinAssignor()):
        assert texts(assignor.assign(topics(t=3), members)) == {"z": "t0", "a": "t1", "0": "t2"}


def test_range_prefers_near_replicas_without_losing_balance():
    near = {"t": [frozenset("ab"), frozenset("bc"), frozenset("ca")]}
    members = {name: Subscription(["t"], rack=rack) for name, rack in zip("xyz", "cab", strict=True)}
    assert texts(RangeAssignor().assign(near, members)) == {"x": "t1", "y": "t0", "z": "t2"}
    members["z"] = Subscription(["t"], rack="c")
    divided = RangeAssignor().assign(near, members)
    assert sorted(map(len, divided.values())) == [1, 1, 1]


def test_range_keeps_topics_of_one_size_together_when_racks_matter():
    near = {name: [frozenset("a"), frozenset("b"), frozenset("c")] for name in "tu"}
    members = {name: Subscription(["t", "u"], rack=rack) for name, rack in zip("xyz", "cab", strict=True)}
    divided = RangeAssignor().assign(near, members)
    assert texts(divided) == {"x": "t2 u2", "y": "t0 u0", "z": "t1 u1"}


def test_round_robin_deals_all_topics_to_those_who_want_them():
    members = {
        "C0": Subscription(["t"]),
        "C1": Subscription(["t", "u"]),
        "C2": Subscription(["t", "u", "v"]),
    }
    divided = RoundRobinAssignor().assign(topics(t=1, u=2, v=3), members)
    assert texts(divided) == {"C0": "t0", "C1": "u0", "C2": "u1 v0 v1 v2"}


def sticky(assignment, generation=1):
    members = {}
    for member, partitions in assignment.items():
        assignor = StickyAssignor()
        assignor.on_assignment(partitions, generation)
        members[member] = Subscription(["t", "u"], assignor.user_data(["t", "u"]))
    return members


def cooperative(assignment, generation=1, names=("t", "u")):
    return {
        member: Subscription(list(names), owned=partitions, generation=generation)
        for member, partitions in assignment.items()
    }


def test_sticky_moves_only_what_the_balance_asks_for():
    members = sticky({"a": tps("t0 t1 t2"), "b": tps("u0 u1 u2"), "c": []})
    divided = StickyAssignor().assign(topics(t=3, u=3), members)
    assert texts(divided) == {"a": "t0 t1", "b": "u0 u1", "c": "t2 u2"}


def test_sticky_members_without_a_past_are_balanced():
    assert texts(StickyAssignor().assign(topics(t=3, u=2), wanting("tu", "a", "b"))) == {
        "a": "t0 t2 u1",
        "b": "t1 u0",
    }


def test_what_an_older_generation_claims_does_not_count():
    members = {**sticky({"old": tps("t0 t1")}, 1), **sticky({"new": tps("t0 t1")}, 2)}
    assert texts(StickyAssignor().assign(topics(t=2, u=2), members)) == {"old": "u0 u1", "new": "t0 t1"}


def test_what_two_claim_in_one_generation_has_no_owner_at_first():
    members = cooperative({"a": tps("t0"), "b": tps("t0")}, names="t")
    assert texts(CooperativeStickyAssignor().assign(topics(t=1), members)) == {"a": "", "b": ""}


def test_cooperative_lets_go_before_it_gives():
    assignor = CooperativeStickyAssignor()
    first = assignor.assign(topics(t=4), cooperative({"a": tps("t0 t1 t2 t3"), "b": []}, names="t"))
    assert texts(first) == {"a": "t0 t1", "b": ""}
    second = assignor.assign(topics(t=4), cooperative(first, 2, names="t"))
    assert texts(second) == {"a": "t0 t1", "b": "t2 t3"}


def test_a_generation_in_the_user_data_counts_where_the_subscription_says_nothing():
    assignor = CooperativeStickyAssignor()
    assignor.on_assignment([], 5)
    members = {
        "a": Subscription(["t"], assignor.user_data(["t"]), tps("t0")),
        "b": Subscription(["t"], None, tps("t0"), 4),
    }
    assert texts(assignor.assign(topics(t=2), members)) == {"a": "t0", "b": "t1"}


def test_sticky_prefers_members_in_the_rack_of_a_replica():
    near = {"t": [frozenset("a"), frozenset("b"), frozenset("a"), frozenset("b")]}
    members = {
        "x": Subscription(["t"], owned=tps("t0 t1"), generation=1, rack="b"),
        "y": Subscription(["t"], owned=tps("t2 t3"), generation=1, rack="a"),
    }
    assignor = CooperativeStickyAssignor()
    first = assignor.assign(near, members)
    assert texts(first) == {"x": "t1", "y": "t2"}
    members = {
        member: Subscription(["t"], owned=first[member], generation=2, rack=rack)
        for member, rack in (("x", "b"), ("y", "a"))
    }
    assert texts(assignor.assign(near, members)) == {"x": "t1 t3", "y": "t0 t2"}


@st.composite
def groups(draw):
    names = draw(st.lists(st.sampled_from("tuvw"), min_size=1, unique=True))
    racks = draw(st.sampled_from([[None], [None, "a", "b"], ["a", "b", "c"]]))
    replicas = st.sets(st.sampled_from("abc"), min_size=1).map(frozenset)
    existing = {name: draw(st.lists(replicas, min_size=1, max_size=7)) for name in names}
    members = draw(st.lists(st.sampled_from("ABCDEF"), min_size=1, unique=True))
    equal = draw(st.booleans())
    wanted = st.lists(st.sampled_from(names), min_size=1, unique=True)
    same = draw(wanted)
    return existing, {
        member: (same if equal else draw(wanted), draw(st.sampled_from(racks))) for member in members
    }


def loads(divided):
    return sorted(len(partitions) for partitions in divided.values())


MIXED = topics(t=2, u=4), {"A": (["t", "u"], None), "B": (["t"], None), "C": (["u"], None)}
"""Dealt out one by one, A gets three and B one."""


@example(MIXED, StickyAssignor)
@given(groups(), st.sampled_from([RangeAssignor, RoundRobinAssignor, StickyAssignor]))
def test_every_partition_that_a_member_wants_has_one_owner_that_wants_it(group, kind):
    existing, members = group
    subscriptions = {member: Subscription(names, rack=rack) for member, (names, rack) in members.items()}
    divided = kind().assign(existing, subscriptions)
    assert divided.keys() == members.keys()
    owners = [(tp, member) for member, partitions in divided.items() for tp in partitions]
    assert len({tp for tp, _ in owners}) == len(owners)
    assert all(tp.topic in members[member][0] for tp, member in owners)
    wanted = {name for names, _ in members.values() for name in names}
    assert len(owners) == sum(len(existing[name]) for name in wanted)
    if kind is StickyAssignor:
        # Nobody has two more than another one that could have one of them.
        for (tp, owner), (other, (names, _)) in itertools.product(owners, members.items()):
            assert tp.topic not in names or len(divided[owner]) <= len(divided[other]) + 1


@given(groups(), groups())
def test_cooperative_rounds_end_and_never_move_a_partition_directly(before, after):
    existing, members = before
    assignor = CooperativeStickyAssignor()

    def divide_from(owned, generation):
        subscriptions = {
            member: Subscription(names, None, owned.get(member, []), generation, rack)
            for member, (names, rack) in members.items()
        }
        divided = assignor.assign(existing, subscriptions)
        holders = {tp: member for member in members for tp in owned.get(member, [])}
        for member, partitions in divided.items():
            assert all(holders.get(tp, member) == member for tp in partitions)
        return divided

    owned = divide_from({}, -1)
    _, members = after
    members = {
        member: ([name for name in names if name in existing] or list(existing), rack)
        for member, (names, rack) in members.items()
    }
    owned = {member: partitions for member, partitions in owned.items() if member in members}
    for generation in range(1, 10):
        following = divide_from(owned, generation)
        if generation > 6:
            assert {m: set(p) for m, p in following.items()} == {m: set(owned.get(m, ())) for m in following}
        owned = following
    wanted = {name for names, _ in members.values() for name in names}
    assert sum(loads(owned)) == sum(len(existing[name]) for name in wanted)


@given(st.lists(st.builds(TopicPartition, st.sampled_from(["t", "µ"]), st.integers(0, 99)), unique=True))
def test_sticky_user_data_makes_the_round(partitions):
    read = read_owned(write_owned(partitions, 7))
    assert (sorted(read.partitions), read.generation) == (sorted(partitions), 7)


def test_sticky_user_data_is_written_as_java_does():
    data = bytes.fromhex("00000001 0001 74 00000002 00000000 00000003 00000009")
    assert write_owned(tps("t3 t0"), 9) == data
    without_generation = read_owned(data[:-4])
    assert (without_generation.partitions, without_generation.generation) == (tps("t0 t3"), None)


@given(st.binary())
def test_any_user_data_is_taken(data):
    members = {"a": Subscription(["t"], data), "b": Subscription(["t"], data, generation=None)}
    for assignor in (StickyAssignor(), CooperativeStickyAssignor()):
        assert loads(assignor.assign(topics(t=2), members)) == [1, 1]


def test_what_members_tell_each_other_makes_the_round():
    assignor = CooperativeStickyAssignor()
    assignor.on_assignment([], 4)
    (offered,) = offered_protocols([assignor], {"u", "t"}, tps("t1 u0"), 4, "r")
    assert offered.name == "cooperative-sticky"
    member = JoinGroupResponseMember(member_id="m", group_instance_id="i", metadata=offered.metadata)
    assert read_subscriptions([member]) == {
        "m": Subscription(["t", "u"], b"\0\0\0\4", tps("t1 u0"), 4, "r", "i")
    }


def test_an_assignment_makes_the_round_and_an_empty_one_is_an_error():
    divided = divide(RangeAssignor(), RebalanceProtocol.EAGER, topics(t=2), wanting("t", "a"))
    assert read_assignment(divided["a"]) == tps("t0 t1")
    with pytest.raises(
        GroupError, match="0 bytes", check=lambda error: error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    ):
        read_assignment(b"")


class Careless(Assignor):
    name = "careless"
    protocols = frozenset(RebalanceProtocol)

    def assign(self, topics, subscriptions):
        return {"a": [], "b": tps("t0")}


def test_an_assignor_that_moves_a_partition_directly_is_stopped():
    members = cooperative({"a": tps("t0"), "b": []}, names="t")
    with pytest.raises(BarnabasError, match="gave away t-0"):
        divide(Careless(), RebalanceProtocol.COOPERATIVE, topics(t=1), members)


def test_assignors_go_by_their_names_or_as_they_are():
    mine = Careless()
    chosen = assignors_named(
        ["range", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor", StickyAssignor, mine]
    )
    assert [type(one) for one in chosen[:3]] == [RangeAssignor, CooperativeStickyAssignor, StickyAssignor]
    assert chosen[3] is mine
    with pytest.raises(ConfigError, match="best for configuration partition"):
        assignors_named(["best"])


def test_the_most_advanced_common_protocol_is_followed():
    assert common_protocol(assignors_named(["range", "cooperative-sticky"])) is RebalanceProtocol.EAGER
    assert common_protocol(assignors_named(["cooperative-sticky"])) is RebalanceProtocol.COOPERATIVE
    with pytest.raises(ConfigError):
        common_protocol([])
