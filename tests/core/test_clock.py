"""Repeating work."""

from barnabas.core.clock import every
from standing_clock import Clock


def test_work_runs_after_its_delay_and_then_once_an_interval():
    clock, runs = Clock(), []
    timer = every(clock, "count", 100, lambda: runs.append(clock.monotonic_ms()), delay_ms=30)
    begin = clock.monotonic_ms()
    for _ in range(25):
        clock.advance(10)
    assert [at - begin for at in runs] == [30, 130, 230]

    timer.cancel()
    clock.advance(1000)
    assert len(runs) == 3


def test_without_a_delay_the_first_interval_is_waited_for():
    clock, runs = Clock(), []
    every(clock, "count", 100, lambda: runs.append(1))
    clock.advance(99)
    assert not runs
    clock.advance(1)
    assert runs


def test_work_that_fails_is_logged_and_runs_again(caplog):
    clock, runs = Clock(), []

    def fail():
        runs.append(1)
        raise OSError("full")

    every(clock, "checkpoint", 100, fail)
    clock.advance(100)
    clock.advance(100)
    assert len(runs) == 2
    assert caplog.text.count("timer.failed work=checkpoint") == 2
