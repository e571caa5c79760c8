"""A real broker whose disk refuses one call: a short form of refusals.py, at places that the day chooses."""

import time

import pytest
import refusals


@pytest.mark.timeout(180)
def test_nothing_that_was_acknowledged_is_lost(tmp_path):
    seed = int(time.time()) // 86_400
    done = refusals.run_rounds(seed, 6, tmp_path)
    if done is None:
        pytest.skip("there is no C compiler (cc, gcc) for the library that refuses calls")
    problems, figures = done

    assert problems == [], f"python tests/chaos/refusals.py --seed {seed} --rounds 6"
    assert figures["acknowledged"] > 0
    assert figures["compacted"] > 0
