"""The soak counts what is lost and what came twice, and its short form runs."""

import pytest
from bench.soak.__main__ import Look, Outcome, report, soak
from bench.soak.programs import Runs, judged, lost_and_twice


@pytest.mark.parametrize(
    ("runs", "lost", "twice"),
    [
        ([[0, 9]], 0, 0),
        ([], 10, 0),
        ([[0, 3], [4, 9]], 0, 0),
        ([[4, 9], [0, 3]], 0, 0),
        ([[0, 3], [5, 9]], 1, 0),
        ([[1, 9]], 1, 0),
        ([[0, 8]], 1, 0),
        ([[0, 5], [3, 9]], 0, 3),
        ([[0, 9], [2, 4]], 0, 3),
        ([[0, 9], [2, 4], [9, 9]], 0, 4),
        ([[0, 9], [0, 9]], 0, 10),
    ],
)
def test_numbers_that_are_missing_or_came_again_are_counted(runs, lost, twice):
    assert lost_and_twice(10, runs) == (lost, twice)


def test_a_member_remembers_runs_not_records():
    runs = Runs()
    for number in (*range(1000), *range(990, 2000)):
        runs.add(0, number)
    runs.add(1, 7)

    assert runs.by_partition == {0: [[0, 999], [990, 1999]], 1: [[7, 7]]}


def test_members_are_judged_together():
    first, second = {0: [[0, 4]], 1: [[0, 2]]}, {0: [[5, 9]], 1: [[2, 8]]}

    assert judged({0: 10, 1: 10}, [first, second]) == (1, 1)


def outcome(**changed):
    look = {"broker-1": Look(50.0, 0, 1)}
    known = {"sent": 10, "failed": 0, "lost": 0, "twice": 0, "restarts": 3, "begun": look, "logs": {}}
    return Outcome(**{**known, "ended": {"broker-1": Look(51.5, 2, 2)}, **changed})


@pytest.mark.parametrize(
    ("changed", "holds"),
    [({}, True), ({"twice": 3}, True), ({"lost": 1}, False), ({"failed": 1}, False), ({"sent": 0}, False)],
)
def test_what_is_lost_or_failed_fails_the_command(changed, holds):
    assert outcome(**changed).holds is holds


def test_memory_and_lines_are_said_for_both_ends():
    lines = list(report(outcome(logs={"broker-1": ["one line", "another"]})))

    assert "| broker-1 | 2 | 50.0 MB | 51.5 MB | 0 | 2 |" in lines
    assert lines[-2:] == ["  one line", "  another"]


@pytest.mark.campaign
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rolling_restart_loses_nothing(tmp_path, protocol):
    found = soak(tmp_path, seconds=4, roll_every_s=60, rate=300, protocol=protocol)

    assert (found.restarts, found.failed, found.lost) == (3, 0, 0)
    assert found.sent > 300
    assert {name: look.starts for name, look in found.ended.items() if look.starts == 2} == dict.fromkeys(
        ["broker-1", "broker-2", "broker-3"], 2
    )
    assert all(look.memory_mb > 5 for look in (*found.begun.values(), *found.ended.values()))
