"""The seeds of every run, that they replay, and that they would find what they are meant to find."""

import asyncio

import pytest

from barnabas.core.pending import Pending
from barnabas.log.flush import GroupCommit
from barnabas.log.log import Log
from barnabas.log.producers import ProducerStateManager
from barnabas.log.scan import SegmentScan
from barnabas.log.segment import LogSegment
from barnabas.testing import simulate
from barnabas.testing.sometimes import RARE, sometimes
from seeds import check_first_seeds, drawn_by_this_run, printed_histories

SEEDS = 200


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_no_seed_finds_anything():
    check_first_seeds("nodes", SEEDS)


def test_a_campaign_that_never_came_to_a_rare_state_fails(monkeypatch, capsys):
    """Even though no seed of it found anything."""
    there, missing = RARE["nodes"][0], RARE["nodes"][1]

    def run(arguments, reached):
        monkeypatch.setattr("sys.argv", ["simulate", *arguments])
        monkeypatch.setattr(
            simulate,
            "run_seeds",
            lambda seeds, *_: (
                simulate.SeedVerdict(seed, "", "", [], "", 1.0, 0.5, dict.fromkeys(reached, 1))
                for seed in seeds
            ),
        )
        return simulate.main(), capsys.readouterr().out

    code, output = run(["--seeds", "200"], RARE["nodes"])
    assert (code, "200 seeds, 0 failed, 0.06 simulated hours in 0.028 processor hours" in output) == (0, True)
    code, output = run(["--seeds", "200"], [state for state in RARE["nodes"] if state != missing])
    assert code == 1
    assert f"    200 times: {there}\n" in output
    assert f"      0 times: {missing}\n" in output
    assert run(["--seeds", "20"], [])[0] == 0, "too few to say"


def test_a_state_that_is_on_no_list_is_no_mark():
    with pytest.raises(AssertionError, match="on no list"):
        sometimes("a state that nobody has thought of")


def test_a_seed_is_the_same_history_in_every_process():
    program = ["-m", "barnabas.testing.simulate", "--seeds", "4", "--first", "7"]
    one = printed_histories(program, "1")

    assert one.count("trace ") == 4
    assert one == printed_histories(program, "2")


class AppendsLater:
    """Says that it wrote, and writes a little later."""

    def __init__(self, file):
        self._file = file

    def pwrite(self, data, position):
        asyncio.get_running_loop().call_later(0.02, self._file.pwrite, bytes(data), position)

    def pwritev(self, buffers, position):
        self.pwrite(b"".join(buffers), position)


def acknowledge_before_append(monkeypatch):
    file_for_appends = LogSegment.file_for_appends
    monkeypatch.setattr(
        LogSegment, "file_for_appends", lambda segment: AppendsLater(file_for_appends(segment))
    )


def skip_truncation(monkeypatch):
    monkeypatch.setattr(SegmentScan, "is_whole", True)


def acknowledge_before_sync(monkeypatch):
    monkeypatch.setattr(GroupCommit, "request", lambda *_: Pending.of(None))
    monkeypatch.setattr(Log, "flush_needed", False)


def forget_producers(monkeypatch):
    monkeypatch.setattr(ProducerStateManager, "find_duplicate", lambda *_: None)
    monkeypatch.setattr(ProducerStateManager, "check", lambda *_: None)


PLANTED = [
    pytest.param(
        acknowledge_before_append,
        {"lost", "unread", "hole", "complaint", "stale", "crash"},
        marks=pytest.mark.interpreted("barnabas.log.segment"),
    ),
    (skip_truncation, {"complaint", "lost", "crash"}),
    pytest.param(
        acknowledge_before_sync, {"lost", "unread"}, marks=pytest.mark.interpreted("barnabas.log.log")
    ),
    pytest.param(
        forget_producers,
        {"duplicated", "reordered"},
        marks=pytest.mark.interpreted("barnabas.log.producers"),
    ),
]


@pytest.mark.parametrize(
    ("plant", "kinds"),
    drawn_by_this_run(PLANTED, "planted in simulation", 2),
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_bug_is_found_and_replayed(plant, kinds, monkeypatch):
    healthy = simulate.run_seed
    with monkeypatch.context() as planted:
        plant(planted)
        found = next(verdict for verdict in map(healthy, range(SEEDS)) if verdict.anomalies)
        again = simulate.run_seed(found.seed)

    assert {anomaly.partition(":")[0] for anomaly in found.anomalies} & kinds
    assert (again.anomalies, again.digest) == (found.anomalies, found.digest)
    assert f"--seed {found.seed}" in str(found)
    assert not simulate.run_seed(found.seed).anomalies, "without the bug the same seed finds nothing"
