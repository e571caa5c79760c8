"""A real broker whose disk refuses one call: a short form of refusals.py, at places that the day chooses."""

import errno
import time

import pytest
import refusals
import refusing

from seeds import drawn_by_this_run


@pytest.fixture
def library(tmp_path):
    found = refusing.build(tmp_path)
    if found is None:
        pytest.skip("there is no C compiler (cc, gcc) for the library that refuses calls")
    return found


@pytest.mark.campaign
@pytest.mark.timeout(180)
@pytest.mark.parametrize("brokers", drawn_by_this_run([1, 3], "brokers"))
@pytest.mark.parametrize("suffix", [".log.swap", f"{0:020d}.index"])
def test_a_cleaned_segment_that_cannot_take_its_place_costs_nothing(tmp_path, library, suffix, brokers):
    """The next cleaning removed the file that the log read;
    with three replicas, a follower cut what the leader had lost.
    """
    done = refusals.Round(
        tmp_path, library, kind="rename", place=0, code=errno.ENOSPC, suffix=suffix, brokers=brokers
    ).run()

    assert done.calls["rename"] > 0
    assert done.problems == []
    assert done.compacted > 0


@pytest.mark.campaign
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
