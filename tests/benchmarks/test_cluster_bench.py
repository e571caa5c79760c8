"""What `bench.cluster` counts as a gap, and that its topics put replicas where the rows say."""

import pytest

pytest.importorskip("confluent_kafka")

from bench.cluster import ROWS, Stream, rotated


def test_the_longest_gap_is_between_two_acknowledgements_after_the_failure():
    stream = Stream.__new__(Stream)
    stream.acknowledged = [1.0, 9.0, 10.0, 10.1, 12.6, 12.7]
    assert stream.longest_gap(9.9) == pytest.approx(2.5)
    assert stream.longest_gap(12.65) == pytest.approx(0.05)


def test_brokers_lead_in_turn_and_all_have_a_replica():
    assert [rotated(number) for number in range(4)] == [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3)]


def test_each_budget_of_a_cluster_has_a_row():
    budgets = {name: [measure.budget_text for measure in row.measures] for name, row in ROWS.items()}
    assert budgets["acks-100"][0] == budgets["acks-1k"][0] == ">= 1x"
    assert budgets["kill"][0] == "<= 1.5 s"
    assert budgets["idle"][0] == "<= 3 %"
