"""The seeds of every run, that they replay, and that they would find what they are meant to find."""

import asyncio
import os
import subprocess
import sys

import pytest

from barnabas.core.pending import Pending
from barnabas.log.flush import GroupCommit
from barnabas.log.log import Log
from barnabas.log.producers import ProducerStateManager
from barnabas.log.scan import SegmentScan
from barnabas.log.segment import LogSegment
from barnabas.testing import simulate
from seeds import first_seeds

SEEDS = 200


@pytest.mark.timeout(300)
def test_no_seed_finds_anything():
    failed = [verdict for verdict in simulate.run_seeds(first_seeds(SEEDS)) if verdict.anomalies]
    assert not failed, "\n".join(map(str, failed))


def test_a_seed_is_the_same_history_in_every_process():
    def histories(hash_seed):
        command = [
            sys.executable,
            "-m",
            "barnabas.testing.simulate",
            "--seeds",
            "4",
            "--first",
            "7",
            "--verbose",
        ]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=50, check=True
        )
        return done.stdout

    one = histories("1")
    assert one.count("trace ") == 4
    assert one == histories("2")


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


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
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
    ],
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
