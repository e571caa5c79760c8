"""The table of member states, and one step of reconciliation from each of them."""

import pytest

from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember, MemberState
from barnabas.coordinator.consumer.reconciliation import TRANSITIONS, Outcome, reconcile
from barnabas.core.errors import ErrorCode, KafkaError

A, B = b"a" * 16, b"b" * 16
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def parts(*numbers, topic=A):
    return {topic: frozenset(numbers)} if numbers else {}


def step(member, target, *, epoch=2, owned=None, changed=False, subscribed=(A, B), others=()):
    group = ConsumerGroup("g")
    group.update_member(member)
    for number, held in enumerate(others):
        group.update_member(ConsumerMember(f"other{number}", member_epoch=1, assigned=held))
    return reconcile(
        group,
        member,
        target_epoch=epoch,
        target=target,
        owned=owned,
        subscribed=frozenset(subscribed),
        subscription_changed=changed,
    )


def outcome(member):
    return member.state, member.member_epoch, dict(member.assigned), dict(member.pending_revocation)


def member(state=STABLE, epoch=1, assigned=(), pending=()):
    return ConsumerMember(
        "m", member_epoch=epoch, state=state, assigned=parts(*assigned), pending_revocation=parts(*pending)
    )


@pytest.mark.parametrize("state", MemberState)
def test_every_state_has_a_way_to_every_outcome_but_holding_what_was_never_asked_back(state):
    table = TRANSITIONS[state]
    assert table[Outcome.REVOKE] is UNREVOKED
    assert table[Outcome.AWAIT] is UNRELEASED
    assert table[Outcome.SETTLE] is STABLE
    assert (Outcome.HOLDS in table) == (state is UNREVOKED)
    assert MemberState.UNKNOWN not in table.values()


def test_a_number_that_nobody_knows_is_the_unknown_state():
    assert [MemberState.of(number) for number in (0, 1, 2, 127, 9)] == [
        *MemberState,
        MemberState.UNKNOWN,
    ]


CASES = {
    "stable, and nothing new": (member(epoch=2, assigned=[1]), [1], {}, (STABLE, 2, [1], [])),
    "stable, the same target in a new epoch": (member(assigned=[1]), [1], {}, (STABLE, 2, [1], [])),
    "stable, and more is free": (member(assigned=[1]), [1, 2], {}, (STABLE, 2, [1, 2], [])),
    "stable, and others hold the rest": (
        member(assigned=[1]),
        [1, 2, 3],
        {"others": [parts(2)]},
        (UNRELEASED, 2, [1, 3], []),
    ),
    "stable, and others hold all that is new": (
        member(assigned=[1]),
        [1, 2],
        {"others": [parts(2)]},
        (UNRELEASED, 2, [1], []),
    ),
    "stable, and something is to go": (member(assigned=[1, 2]), [1], {}, (UNREVOKED, 1, [1], [2])),
    "stable, and what is to go has gone": (
        member(assigned=[1, 2]),
        [1],
        {"owned": parts(1)},
        (STABLE, 2, [1], []),
    ),
    "going first, getting later": (member(assigned=[1, 2]), [1, 3], {}, (UNREVOKED, 1, [1], [2])),
    "still holding, not saying": (
        member(UNREVOKED, assigned=[1], pending=[2]),
        [1, 3],
        {},
        (UNREVOKED, 1, [1], [2]),
    ),
    "still holding, and saying so": (
        member(UNREVOKED, assigned=[1], pending=[2]),
        [1, 3],
        {"owned": parts(1, 2)},
        (UNREVOKED, 1, [1], [2]),
    ),
    "given up": (
        member(UNREVOKED, assigned=[1], pending=[2]),
        [1, 3],
        {"owned": parts(1)},
        (STABLE, 2, [1, 3], []),
    ),
    "given up, and more is to go": (
        member(UNREVOKED, assigned=[1, 3], pending=[2]),
        [1],
        {"owned": parts(1, 3)},
        (UNREVOKED, 1, [1], [3]),
    ),
    "given up, and it comes back": (
        member(UNREVOKED, assigned=[1], pending=[2]),
        [1, 2],
        {"owned": parts(1)},
        (STABLE, 2, [1, 2], []),
    ),
    "waiting on": (
        member(UNRELEASED, epoch=2, assigned=[1]),
        [1, 2],
        {"others": [parts(2)]},
        (UNRELEASED, 2, [1], []),
    ),
    "the wait is over": (member(UNRELEASED, epoch=2, assigned=[1]), [1, 2], {}, (STABLE, 2, [1, 2], [])),
    "waiting, and a newer target": (member(UNRELEASED, assigned=[1]), [2], {}, (UNREVOKED, 1, [], [1])),
    "not subscribed to what it is to get": (
        member(assigned=[1]),
        [1, 2],
        {"subscribed": [B]},
        (UNREVOKED, 1, [], [1]),
    ),
    "an unknown state, and nothing owned": (
        member(MemberState.UNKNOWN, assigned=[1]),
        [1, 2],
        {"owned": {}},
        (STABLE, 2, [1, 2], []),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_step(case):
    before, target, circumstances, (state, epoch, assigned, pending) = CASES[case]
    after = step(before, parts(*target), **circumstances)
    assert outcome(after) == (state, epoch, parts(*assigned), parts(*pending))
    if after is not before:
        assert after.previous_member_epoch == before.member_epoch


@pytest.mark.parametrize("owned", [None, parts(1)])
def test_an_unknown_state_fences_whoever_owns_something(owned):
    with pytest.raises(KafkaError) as caught:
        step(member(MemberState.UNKNOWN, assigned=[1]), parts(1), owned=owned)
    assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("before", "owned", "expected"),
    [
        (member(epoch=2, assigned=[1]), None, (UNREVOKED, 2, {}, parts(1))),
        (member(epoch=2, assigned=[1]), {}, (STABLE, 2, {}, {})),
        (member(UNREVOKED, epoch=2, assigned=[1], pending=[2]), None, (UNREVOKED, 2, {}, parts(1, 2))),
    ],
)
def test_topics_that_a_member_no_longer_reads_go_before_there_is_a_new_target(before, owned, expected):
    after = step(before, parts(1), owned=owned, changed=True, subscribed=[B])
    assert outcome(after) == expected


def test_a_changed_subscription_that_takes_nothing_away_changes_nothing():
    before = member(epoch=2, assigned=[1])
    assert step(before, parts(1), changed=True) is before


@pytest.mark.parametrize(("held", "free"), [(A, B), (B, A)])
def test_a_member_waits_for_each_topic_and_gets_of_the_others_what_is_free(held, free):
    target = {**parts(0, topic=A), **parts(0, topic=B)}
    waiting = step(member(), target, others=[parts(0, topic=held)])
    assert outcome(waiting) == (UNRELEASED, 2, parts(0, topic=free), {})
