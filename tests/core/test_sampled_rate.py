"""The rate of Kafka's quotas: sums over windows of time, the oldest of which goes as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.sampled_rate import SampledRate
from standing_clock import Time


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def rate(time):
    return SampledRate(time, samples=3, window_ms=1000)


def test_nothing_is_no_rate(rate):
    assert rate.per_second() == 0


def test_the_first_window_counts_as_a_whole_one(rate, time):
    rate.record(500)
    assert rate.per_second() == 500
    time.now_ms = 500
    rate.record(500)
    assert rate.per_second() == 1000


def test_the_time_since_the_oldest_sample_counts(rate, time):
    for _ in range(2):
        rate.record(1000)
        time.now_ms += 1000
    assert rate.per_second() == 1000
    time.now_ms = 2500
    assert rate.per_second() == 800


def test_a_sample_is_used_again_once_there_is_one_more_than_counts(rate, time):
    for number in range(8):
        rate.record(1000 if number < 4 else 100)
        time.now_ms += 1000
    # Of eight windows the last four are left, one of them for the overlap.
    assert rate.per_second() == 100


def test_the_window_that_lies_partly_in_the_time_counts_as_a_whole(rate, time):
    """One more sample than `samples` is kept: of the last three seconds the first began before them."""
    for time.now_ms in (0, 900, 1000, 2000, 3000):
        rate.record(600)

    time.now_ms = 3000
    assert rate.per_second() == 5 * 600 / 3
    time.now_ms = 3899
    assert rate.per_second() == pytest.approx(5 * 600 / 3.899)
    time.now_ms = 3900
    assert rate.per_second() == pytest.approx(3 * 600 / 2.9)


def test_what_lies_too_far_back_counts_no_more(rate, time):
    rate.record(9000)
    time.now_ms = 2999
    assert rate.per_second() == pytest.approx(9000 / 2.999)
    time.now_ms = 3000
    assert rate.per_second() == 0


def test_with_full_windows_a_burst_is_no_rate_yet_and_an_excess_takes_its_time(time):
    rate = SampledRate(time, samples=3, window_ms=1000, full_windows=True)
    rate.record(20)
    assert rate.per_second() == 10
    assert rate.excess_ms(10) == 0
    rate.record(10)
    assert rate.excess_ms(10) == 1000
    time.now_ms = 2500
    assert rate.per_second() == 12
    assert rate.excess_ms(10) == 500


@given(
    st.lists(st.tuples(st.integers(0, 2500), st.integers(-50, 200), st.integers(1, 100)), max_size=60),
    st.booleans(),
)
def test_what_is_charged_is_recorded_and_measured(steps, full_windows):
    time = Time()
    long, short = (SampledRate(time, samples=3, window_ms=1000, full_windows=full_windows) for _ in range(2))
    for passes_ms, value, bound in steps:
        time.now_ms += passes_ms
        long.record(value)
        assert short.charge(value, bound, time.now_ms) == pytest.approx(long.excess_ms(bound))
        assert short.per_second() == pytest.approx(long.per_second())


def test_a_rate_is_idle_when_nothing_came_for_as_long_as_all_samples_last(rate, time):
    assert rate.is_idle
    rate.record(1)
    time.now_ms = 2999
    assert not rate.is_idle
    time.now_ms = 3000
    assert rate.is_idle
