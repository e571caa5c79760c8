"""A few kills at any moment; `python tests/chaos/kills.py --kills 1000` makes many."""

import kills
import pytest


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_brokers_outlive_kills_at_any_moment_with_nothing_lost():
    total = kills.run_rounds(3, 30, each=10)
    assert not total["problems"], "\n".join(total["problems"])
    assert total["kills"].total() >= 30
    assert total["acknowledged"] > 1000


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_brokers_outlive_kills_while_partitions_move_between_their_log_directories():
    total = kills.run_rounds(11, 16, brokers=(1, 2), each=8, moves=True)
    assert not total["problems"], "\n".join(total["problems"])
    assert total["kills"].total() >= 16
    assert total["moves"] > 0
    assert total["acknowledged"] > 1000
