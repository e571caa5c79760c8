"""Placement of replicas; the expected tables are worked out by hand from AdminUtils' rules."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.metadata.placement import BrokerRack, alternate_racks, assign_replicas
from barnabas.core.errors import ErrorCode, KafkaError


def brokers(count):
    return [BrokerRack(each) for each in range(count)]


def test_the_table_in_kafkas_documentation():
    """Ten partitions of three replicas on five brokers, start 0."""
    placed = assign_replicas(brokers(5), partitions=10, replication_factor=3, start_index=0)

    assert list(placed.values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_start_and_shift_are_the_fixed_index():
    placed = assign_replicas(brokers(4), partitions=4, replication_factor=2, start_index=2)

    assert list(placed.values()) == [(2, 1), (3, 2), (0, 3), (1, 0)]


def test_added_partitions_go_on_where_the_others_ended():
    all_ = assign_replicas(brokers(5), partitions=10, replication_factor=3, start_index=0)
    added = assign_replicas(brokers(5), partitions=3, replication_factor=3, start_index=0, start_partition=4)

    # The shift begins anew, as in Kafka; the leaders go on.
    assert list(added) == [4, 5, 6]
    assert [added[each][0] for each in added] == [all_[each][0] for each in added]


def test_racks_alternate():
    assert alternate_racks({0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}) == [
        0,
        3,
        1,
        5,
        4,
        2,
    ]
    assert alternate_racks({1: "a", 2: "a", 3: "a", 4: "b"}) == [1, 4, 2, 3]


def test_the_rack_table_in_kafkas_documentation():
    racks = {0: "rack1", 1: "rack2", 2: "rack2", 3: "rack3", 4: "rack3", 5: "rack1"}
    given_ = [BrokerRack(broker, rack) for broker, rack in racks.items()]
    placed = assign_replicas(given_, partitions=7, replication_factor=3, start_index=0)

    # Alternated list: 0, 1, 3, 5, 2, 4.
    assert placed[0] == (0, 1, 3)
    assert placed[5] == (4, 0, 1)
    assert placed[6][0] == 0
    for replicas in placed.values():
        assert {racks[each] for each in replicas} == {"rack1", "rack2", "rack3"}


@given(st.integers(1, 9), st.integers(1, 40), st.data())
def test_replicas_are_distinct_and_leaders_even(count, partitions, data):
    factor = data.draw(st.integers(1, count))
    placed = assign_replicas(
        brokers(count), partitions=partitions, replication_factor=factor, chooser=random.Random(partitions)
    )
    leaders = Counter(replicas[0] for replicas in placed.values())

    assert list(placed) == list(range(partitions))
    assert all(len(set(replicas)) == factor for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.get(each, 0) for each in range(count)) <= 1


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=9), st.integers(1, 20), st.data())
def test_a_rack_gets_a_second_replica_only_when_each_has_one(racks, partitions, data):
    factor = data.draw(st.integers(1, len(racks)))
    placed = assign_replicas(
        [BrokerRack(broker, rack) for broker, rack in enumerate(racks)],
        partitions=partitions,
        replication_factor=factor,
        chooser=random.Random(3),
    )
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        assert len({racks[each] for each in replicas}) == min(factor, len(set(racks)))


@pytest.mark.parametrize(
    ("count", "partitions", "factor", "code", "message"),
    [
        (3, 0, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (3, 1, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
        (
            2,
            1,
            3,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 3 larger than available brokers: 2.",
        ),
    ],
)
def test_refusals(count, partitions, factor, code, message):
    with pytest.raises(KafkaError) as caught:
        assign_replicas(brokers(count), partitions=partitions, replication_factor=factor, start_index=0)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_some_brokers_without_a_rack():
    with pytest.raises(KafkaError, match="Not all brokers have rack information"):
        assign_replicas(
            [BrokerRack(0, "a"), BrokerRack(1)], partitions=1, replication_factor=1, start_index=0
        )
