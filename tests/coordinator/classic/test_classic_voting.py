"""Votes for a protocol; the ties are as a genuine Kafka 3.9.2 decided them."""

import itertools

import pytest

from barnabas.coordinator.classic.members import winner


def test_most_votes_win():
    assert winner(["roundrobin", "range", "range"]) == "range"
    assert winner(["sticky"]) == "sticky"


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["range", "roundrobin"], "roundrobin"),
        (["range", "sticky"], "range"),
        (["range", "cooperative-sticky"], "cooperative-sticky"),
        (["roundrobin", "sticky"], "roundrobin"),
        (["default", "compatible", "sessioned"], "compatible"),
        (["roundrobin", "cooperative-sticky", "sticky"], "cooperative-sticky"),
        # Names whose hashes share the first five bits, alone and beside one that does not.
        (["p255", "p184"], "p255"),
        (["p79", "p191"], "p191"),
        (["p131", "p47", "p56"], "p56"),
        (["p249", "p126", "p210"], "p210"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_a_tie_is_decided_by_the_names_whoever_came_first(names, chosen):
    for votes in itertools.permutations(names):
        assert winner(votes) == chosen
        assert winner([*votes, *votes]) == chosen


@pytest.mark.parametrize(
    ("tied", "loser", "chosen"),
    [
        (["range", "default"], "sticky", "default"),
        (["range", "sessioned"], "sticky", "sessioned"),
        (["cooperative-sticky", "range"], "eager", "range"),
        (["roundrobin", "eager"], "cooperative-sticky", "roundrobin"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else value,
)
def test_a_protocol_without_a_chance_can_decide_a_tie(tied, loser, chosen):
    """It shares the first five bits of its hash with one of the two."""
    for votes in itertools.permutations([*tied, *tied, loser]):
        assert winner(votes) == chosen


def test_names_of_one_hash_go_by_who_voted_first():
    assert winner(["AaAa", "BBBB"]) == "AaAa"
