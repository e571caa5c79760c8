"""The core of the metrics: distributions and the registry."""

import math

import pytest

from barnabas.core.metrics import QUANTILES, RECENT, Histogram, Kind, Registry, distribution


def test_quantiles_lie_between_the_values_as_in_kafkas_histograms():
    found = distribution(100, range(1, 101))

    # Yammer's Snapshot of 1 to 100 answers the same: at q * (n + 1), and the largest where that is beyond.
    assert dict(zip(QUANTILES, found.quantiles, strict=True)) == {
        0.5: 50.5,
        0.75: 75.75,
        0.95: pytest.approx(95.95),
        0.98: pytest.approx(98.98),
        0.99: pytest.approx(99.99),
        0.999: 100,
    }
    assert distribution(1, [7.0]).quantiles == (7.0,) * len(QUANTILES)


def test_a_distribution_without_values_has_no_quantiles():
    found = Histogram().distribution()

    assert found.count == 0
    assert all(map(math.isnan, found.quantiles))


def test_a_histogram_counts_all_and_looks_at_the_last():
    histogram = Histogram()
    for value in (1000.0,) * RECENT + (1.0,) * RECENT:
        histogram.record(value)

    found = histogram.distribution()

    assert found.count == 2 * RECENT
    assert set(found.quantiles) == {1.0}


def test_a_registry_has_each_name_once_and_reads_when_it_is_asked():
    registry, value = Registry(), 1
    registry.gauge("queue_size", "How many wait.", lambda: value)
    registry.counter("seen_total", "How many were seen.", lambda: 5)

    with pytest.raises(AssertionError):
        registry.gauge("queue_size", "The same name.", lambda: 0)

    value = 2
    assert [(each.name, each.kind, list(each.read())) for each in registry] == [
        ("queue_size", Kind.GAUGE, [((), 2)]),
        ("seen_total", Kind.COUNTER, [((), 5)]),
    ]
