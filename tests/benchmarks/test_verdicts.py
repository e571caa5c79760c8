"""What counts as met: the ratio of the rounds in which the machine was fast."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from bench.figures import Figure, Measure, Series
from bench.mood import Mood, mood_meter
from bench.processes import processor_time
from bench.rounds import in_order

FAST, SLOW = Mood(40, 10), Mood(40, 100)
RATE = Measure("requests", "1/s", 2.0, higher_is_better=True)


def figure(measure, ratios, moods, kfake=None):
    rounds = [{"kafka": [100.0], "compiled": [100.0 * ratio]} for ratio in ratios]
    for each in rounds if kfake else ():
        each["kfake"] = [100.0 * kfake]
    return Figure(measure, Series(rounds, moods), 0)


def test_a_budget_is_judged_by_the_median_of_the_fast_rounds():
    moods = [FAST, FAST, FAST, SLOW, SLOW]

    assert figure(RATE, [2.5, 2.1, 1.0, 1.0], moods).verdict() == "met"
    assert figure(RATE, [1.5, 1.5, 9.0, 9.0], moods).verdict() == "missed"


def test_what_holds_in_slow_rounds_only_is_not_met():
    assert figure(RATE, [3.0, 3.0, 3.0], [SLOW] * 4).verdict() == "met, slow"
    assert figure(RATE, [1.0, 1.0, 1.0], [SLOW] * 4).verdict() == "missed"


def test_one_fast_round_of_many_proves_nothing():
    assert figure(RATE, [3.0] * 6, [FAST, FAST, *[SLOW] * 5]).verdict() == "met, slow"


def test_memory_counts_in_any_mood():
    memory = Measure("memory", "MB", 0.1, any_mood=True)

    assert figure(memory, [0.05], [SLOW, SLOW]).verdict() == "met"


def test_a_cost_is_met_below_its_budget():
    cost = Measure("time", "us", 0.5)

    assert figure(cost, [0.4], [FAST, FAST]).verdict() == "met"
    assert figure(cost, [0.6], [FAST, FAST]).verdict() == "missed"


def test_a_budget_in_the_unit_needs_no_other_side():
    share = Measure("share", "%", 35, is_ratio=False)
    alone = Series([{"compiled": [30.0]}], [FAST, FAST])

    assert Figure(share, alone, 0).verdict() == "met"
    assert Figure(RATE, alone, 0).verdict() == ""


def test_a_side_that_must_be_behind():
    ahead = Measure("requests", "1/s", 2.0, higher_is_better=True, ahead_of="kfake")

    assert figure(ahead, [3.0], [FAST, FAST], kfake=2.5).verdict() == "met"
    assert figure(ahead, [3.0], [FAST, FAST], kfake=3.5).verdict() == "missed: behind kfake"
    assert figure(ahead, [3.0], [FAST, FAST]).verdict() == "met"


@pytest.mark.parametrize("sides", [1, 2, 3, 4])
def test_every_side_has_every_place_equally_often(sides):
    names = list("abcd"[:sides])
    orders = [in_order(names, number) for number in range(2 * sides)]

    places = Counter((name, place) for order in orders for place, name in enumerate(order))
    assert places == dict.fromkeys(((name, place) for name in names for place in range(sides)), 2)


def test_processor_time_counts_children_that_ended():
    before = processor_time(os.getpid())

    subprocess.run([sys.executable, "-c", "sum(range(3 * 10**7))"], check=True)

    assert processor_time(os.getpid()).total_s - before.total_s >= 0.05


def test_fast_is_a_machine_that_computes_and_wakes_up_fast():
    assert str(Mood(39.6, 12.3)) == "loop 40 ms, ping-pong 12 us (fast)"
    assert str(Mood(40, 90)) == "loop 40 ms, ping-pong 90 us (slow)"
    assert str(Mood(170, 12)) == "loop 170 ms, ping-pong 12 us (slow)"


def test_a_look_at_the_machine():
    with mood_meter() as meter:
        mood = meter.look()

    assert mood.loop_ms > 0
    assert mood.wake_us > 0


def test_a_difference_is_judged_by_what_there_is_above_the_base():
    latency = Measure("p50", "ms", 40, is_ratio=False, is_difference=True)
    found = [{"connector": [100.0], "barnabas": [139.0]}, {"connector": [200.0], "barnabas": [238.0]}]

    assert Figure(latency, Series(found, [FAST] * 3), 0).verdict() == "met"
    found[0]["barnabas"] = [145.0]
    assert Figure(latency, Series(found, [FAST] * 3), 0).verdict() == "missed"
    assert Figure(latency, Series([{"barnabas": [10.0]}], [FAST] * 2), 0).verdict() == ""
