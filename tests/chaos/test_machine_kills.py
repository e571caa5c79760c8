"""A few kills on two machines; `python tests/chaos/machine_kills.py --kills 100` makes many."""

import machine_kills
import pytest


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_with_brokers_nor_with_a_machine():
    done = machine_kills.run_strikes(5, 8)
    assert not done.problems, "\n".join(done.problems)
    assert done.kills["broker"] >= 8
    assert done.kills["whole"] >= 1
    assert min(done.acknowledged.values()) > 100
