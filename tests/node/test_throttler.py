"""A child process that is held to so many bytes a second."""

import pickle

import pytest

from barnabas.node import throttler
from barnabas.node.throttler import SLEEP_S_MAX, Throttler


@pytest.fixture
def slept(monkeypatch):
    """Time that passes only by sleeping; the sleeps."""
    sleeps = []
    monkeypatch.setattr(throttler.time, "monotonic", lambda: 100 + sum(sleeps))
    monkeypatch.setattr(throttler.time, "sleep", sleeps.append)
    return sleeps


def test_bytes_take_as_long_as_the_rate_says(slept):
    throttle = pickle.loads(pickle.dumps(Throttler(1000)))
    for _ in range(5):
        throttle(200, lambda: None)

    assert sum(slept) == pytest.approx(1.0)
    assert max(slept) <= SLEEP_S_MAX


def test_who_waits_looks_whether_the_work_is_still_wanted(slept):
    def check():
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Throttler(1)(10_000, check)
    assert len(slept) == 1


def test_without_a_limit_nothing_waits(slept):
    Throttler(1.7976931348623157e308)(1 << 40, lambda: None)

    assert slept == []
