from random import Random

import pytest

from barnabas.network.backoff import ExponentialBackoff


def backoff(initial, limit, *, spread=1.0, **kwargs):
    return ExponentialBackoff(initial_ms=initial, max_ms=limit, uniform=lambda _low, _high: spread, **kwargs)


def test_it_doubles_up_to_the_ceiling():
    waits = backoff(50, 1000)

    assert [waits.after(n) for n in range(7)] == [50, 100, 200, 400, 800, 1000, 1000]
    assert waits.after(10**6) == 1000


def test_the_exponent_stops_at_the_ceiling_so_that_jitter_reaches_below_it():
    assert backoff(50, 1000, spread=0.8).after(100) == 800


def test_the_cap_comes_after_the_jitter():
    high = backoff(50, 1000, spread=1.2)

    assert [high.after(n) for n in range(6)] == [60, 120, 240, 480, 960, 1000]


@pytest.mark.parametrize(("initial", "limit"), [(50, 50), (100, 50), (0, 0)])
def test_no_growth_means_no_jitter(initial, limit):
    waits = backoff(initial, limit, spread=1.2)

    assert {waits.after(n) for n in range(10)} == {initial}


def test_fractions_of_a_millisecond_are_dropped():
    assert backoff(5, 100, spread=0.95).after(0) == 4


def test_an_initial_wait_of_nothing_stays_nothing():
    assert backoff(0, 1000).after(50) == 0


def test_without_jitter_chance_is_not_asked():
    waits = ExponentialBackoff(initial_ms=10, max_ms=40, uniform=lambda *_: 1 / 0, jitter=0)

    assert [waits.after(n) for n in range(4)] == [10, 20, 40, 40]


def test_values_lie_where_kafka_says():
    waits = ExponentialBackoff(initial_ms=10_000, max_ms=30_000, uniform=Random(7).uniform)

    for attempts, low, high in [
        (0, 8000, 12_000),
        (1, 16_000, 24_000),
        (2, 24_000, 30_000),
        (9, 24_000, 30_000),
    ]:
        values = [waits.after(attempts) for _ in range(300)]
        assert low <= min(values) < low * 1.05
        assert high * 0.95 < max(values) <= high
