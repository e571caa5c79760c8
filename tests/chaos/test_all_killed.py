"""A few rounds of killing all brokers at once; `python tests/chaos/all_killed.py --rounds 100` makes many."""

import all_killed
import pytest


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_what_was_on_its_way_when_all_brokers_died_is_stored_once_and_in_order():
    done = all_killed.run_rounds(7, 2)
    assert not done.problems, "\n".join(done.problems)
    assert done.rounds == 2
