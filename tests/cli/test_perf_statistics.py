"""The figures of the perf tools, printed as Java prints them."""

import math
import os
import time

import pytest

from barnabas.cli.java_date_format import SimpleDateFormat
from barnabas.cli.java_numbers import divide, fixed
from barnabas.cli.perf_statistics import ConsumerStatistics, ProducerStatistics
from barnabas.cli.throughput_throttler import ThroughputThrottler


@pytest.fixture
def utc():
    """Local time is UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


# What `String.format` and `SimpleDateFormat` of OpenJDK 17 print.
@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.25, 1, "0.3"),
        (0.15, 1, "0.2"),
        (2.5, 0, "3"),
        (-0.125, 2, "-0.13"),
        (2118.644067796610, 6, "2118.644068"),
        (7, 4, "7.0000"),
        (math.nan, 2, "NaN"),
        (math.inf, 2, "Infinity"),
        (-math.inf, 2, "-Infinity"),
    ],
)
def test_numbers(value, digits, text):
    assert fixed(value, digits) == text


def test_division_by_zero():
    assert math.isnan(divide(0, 0))
    assert (divide(1, 0), divide(-1.0, 0)) == (math.inf, -math.inf)
    assert divide(1, 4) == 0.25


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2020-09-13 12:26:40:007"),
        ("yy/M/d h a, k:K", "20/9/13 12 PM, 12:0"),
        ("EEE EEEE MMM MMMM D u", "Sun Sunday Sep September 257 7"),
        ("'at' ''HH'o''clock' Z X G", "at '12o'clock +0000 Z AD"),
    ],
)
def test_dates(utc, pattern, text):
    assert SimpleDateFormat(pattern).format(1_600_000_000_007) == text


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("b", "Illegal pattern character 'b'"),
        ("'open", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
        ("ww", "Pattern character 'w' counts weeks, which this tool does not"),
    ],
)
def test_patterns_that_are_none(pattern, reason):
    with pytest.raises(ValueError, match=f"^{reason}$"):
        SimpleDateFormat(pattern)


def test_producer_lines():
    statistics = ProducerStatistics(4, 5000, 1000)

    assert statistics.record(10, 1024 * 1024, 1500) is None
    assert statistics.record(30, 1024 * 1024, 6000) == (
        "2 records sent, 0.4 records/sec (0.40 MB/sec), 20.0 ms avg latency, 30.0 ms max latency."
    )
    assert statistics.record(1, 0, 6500) is None
    assert statistics.record(2, 0, 9000) is None
    assert statistics.total(9000) == (
        "4 records sent, 0.500000 records/sec (0.25 MB/sec), 10.75 ms avg latency, 30.00 ms max latency,"
        " 10 ms 50th, 30 ms 95th, 30 ms 99th, 30 ms 99.9th."
    )


def test_producer_lines_without_a_record():
    assert ProducerStatistics(4, 5000, 0).total(1000) == (
        "0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max latency,"
        " 0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th."
    )


def test_percentiles_come_from_a_sample_of_many_records():
    statistics = ProducerStatistics(1_000_000, 2**60, 0)
    for number in range(1000):
        statistics.record(number % 2, 1, 0)

    assert "0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th." in statistics.total(1), "each second one is kept"


def test_consumer_lines(utc):
    statistics = ConsumerStatistics(SimpleDateFormat("s"), 0)
    statistics.revoked(500)
    statistics.assigned(1000)
    statistics.messages, statistics.bytes = 10, 2 * 1024 * 1024

    assert not statistics.is_due(1999, 2000)
    assert statistics.is_due(2000, 2000)
    assert statistics.interval(2000) == "2, 0, 2.0000, 1.0000, 10, 5.0000, 500, 1500, 1.3333, 6.6667"
    statistics.messages = 30
    assert statistics.interval(4000) == "4, 0, 2.0000, 0.0000, 30, 10.0000, 0, 2000, 0.0000, 10.0000"
    assert statistics.total(8000) == "0, 8, 2.0000, 0.2500, 30, 3.7500, 500, 7500, 0.2667, 4.0000"


def test_a_throttler_holds_back_what_is_above_the_rate():
    throttler = ThroughputThrottler(100, 0)

    assert not throttler.should_throttle(5, 0), "there was no time yet"
    assert not throttler.should_throttle(10, 100)
    assert throttler.should_throttle(11, 100)
    assert not ThroughputThrottler(-1, 0).should_throttle(10**9, 1)
