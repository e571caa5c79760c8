"""A few kills at any moment; `python tests/chaos/kills.py --kills 1000` makes many."""

import kills
import pytest


@pytest.mark.timeout(300)
def test_brokers_outlive_kills_at_any_moment_with_nothing_lost():
    total = kills.run_rounds(3, 30, each=10)
    assert not total["problems"], "\n".join(total["problems"])
    assert total["kills"].total() >= 30
    assert total["acknowledged"] > 1000
