"""A short storm over groups of real clients; `python tests/chaos/storm.py` lets a longer one blow."""

import pytest
import storm


@pytest.mark.campaign
@pytest.mark.timeout(180)
def test_groups_outlive_a_storm_with_nothing_left_out(tmp_path):
    problems, words = storm.run(tmp_path, 7, 10, broker_kills=1)
    assert not problems, "\n".join([words, *problems[:20]])
