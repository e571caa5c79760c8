"""The rules on lag: Burrow's by hand-made windows, one for each rule, and ours where Burrow errs."""

import os

import pytest

from barnabas.client.types import OffsetAndMetadata
from barnabas.console.history import history as histories
from barnabas.console.history.history import ClusterHistory
from barnabas.console.reading import read
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.console.views.lag_rules import lag_rules
from barnabas.core.ids import TopicPartition
from barnabas.operations.clock import now_ms
from barnabas.operations.lag_rules import CommitWindow, LagStatus, NetSlope, SeenCommit, burrow, worst

OK, WARN, STOP, STALL, REWIND = (
    LagStatus.OK,
    LagStatus.WARN,
    LagStatus.STOP,
    LagStatus.STALL,
    LagStatus.REWIND,
)
MINUTE = 60_000


def window(*rows):
    """Commits a second apart: offsets and lags."""
    return [SeenCommit(1000 * number, offset, lag) for number, (offset, lag) in enumerate(rows)]


CLIMBS = window((10, 5), (20, 6), (30, 6), (40, 9))
CASES = {
    "0 no commits": ([], [100], 0, {}, OK),
    "0 no ends": (CLIMBS, [], 3000, {}, OK),
    "0 too few": (CLIMBS, [99], 3000, {"minimum_complete": 0.5}, OK),
    "0 just enough": (CLIMBS, [99], 3000, {"minimum_complete": 0.4}, WARN),
    "1 nothing left": (CLIMBS, [40], 99_000, {}, OK),
    "1 behind an end that was read late": (CLIMBS, [39], 99_000, {}, OK),
    "1 as much as is allowed": (CLIMBS, [49], 99_000, {"allowed_lag": 9}, OK),
    "2 longer than the window": (CLIMBS, [99], 6001, {}, STOP),
    "2 as long as the window": (CLIMBS, [99], 6000, {}, WARN),
    "2 it had read all lately": (CLIMBS, [40, 99], 6001, {}, WARN),
    "2 one commit": (window((10, 5)), [99], 1, {}, STOP),
    "3 it went back": (window((10, 5), (40, 5), (20, 25)), [99], 2000, {}, REWIND),
    "3 and came to where it was": (window((10, 5), (40, 6), (20, 7), (40, 8)), [99], 3000, {}, WARN),
    "3 went back twice, came back once": (
        window((50, 5), (40, 6), (45, 7), (30, 8), (45, 9)), [99], 4000, {}, REWIND,
    ),
    "4 all was read at one of them": (window((10, 5), (20, 0), (30, 6), (40, 9)), [99], 3000, {}, OK),
    "4 as much as is allowed": (window((10, 5), (20, 3), (30, 6)), [99], 2000, {"allowed_lag": 3}, OK),
    "5 always the same": (window((10, 5), (10, 6), (10, 7)), [99], 2000, {}, STALL),
    "5 always the same, less lag": (window((10, 7), (10, 6), (10, 5)), [99], 2000, {}, STALL),
    "6 it never falls": (CLIMBS, [99], 3000, {}, WARN),
    "6 it stays": (window((10, 5), (20, 5)), [99], 1000, {}, WARN),
    "6 what is out of order does not count": (window((10, 5), (20, None), (30, 6)), [99], 2000, {}, WARN),
    "6 nothing to compare": (window((10, None), (20, None)), [99], 1000, {}, WARN),
    "7 one smaller lag hides the climb": (
        window((10, 5), (20, 50), (30, 49), (40, 500)), [999], 3000, {}, OK,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_burrow_says(name):
    commits, ends, now, options, status = CASES[name]
    assert burrow(commits, ends, now, **options) is status


def test_the_window_is_burrows_ring():
    ring = CommitWindow(intervals=3, min_distance_ms=500)
    ring.committed(1000, 1)  # before an end is known: its lag is not
    ring.ended(10)
    ring.committed(2000, 2)
    ring.committed(2400, 3)  # too soon: it takes the place of the one before, with its time
    ring.committed(1500, 9)  # out of order: it has no lag
    assert list(ring._commits) == [
        SeenCommit(1000, 1, None),
        SeenCommit(1500, 9, None),
        SeenCommit(2000, 3, 7),
    ]
    ring.committed(3000, 12)
    assert list(ring._commits) == [SeenCommit(1500, 9, None), SeenCommit(2000, 3, 7), SeenCommit(3000, 12, 0)]
    assert ring.status(3000) is OK


def test_a_group_is_as_bad_as_its_worst_partition():
    assert worst([OK, STALL, WARN]) is STALL
    assert worst([]) is LagStatus.NOTFOUND


def course(rows):
    """A look a minute: offsets and ends."""
    rule = NetSlope()
    return [rule.step(minute * MINUTE, offset, end) for minute, (offset, end) in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(minute, minute) for minute in range(30)], {OK}),
        ([(minute * 10, minute * 10 + 7) for minute in range(30)], {OK}),  # behind, but no further
        ([(minute * 10, minute * 12 + 9) for minute in range(30)], {OK, WARN}),
        ([(5, 5 + minute) for minute in range(30)], {OK, STOP}),
        ([(5, 9)] * 30, {OK, STOP}),
        ([(50, 99)] * 5 + [(20, 99)] * 3 + [(60, 99)] * 2, {OK, REWIND}),
    ],
)
def test_the_net_slope_says(rows, said):
    assert set(course(rows)) == said


def test_a_smaller_lag_in_between_does_not_hide_a_climb_and_the_warning_stays_until_it_is_made_up():
    climbing = [(minute * 10, minute * 15 + 20 - (minute % 4 == 0) * 12) for minute in range(30)]
    said = course(climbing)
    assert set(said[:10]) == {OK}
    assert set(said[12:]) == {WARN}
    catching_up = [*climbing, *[(climbing[-1][0] + each * 30, climbing[-1][1]) for each in range(20)]]
    assert course(catching_up)[-1] is OK


@pytest.fixture
def history(tmp_path, monkeypatch):
    """Three hours: the group stands still in the middle one."""
    monkeypatch.setattr(os, "fdatasync", lambda _: None)  # 180 of them are not what is tested
    kept = ClusterHistory(tmp_path, "c")
    start = now_ms() - 180 * MINUTE
    offset = end = 0
    for minute in range(180):
        end += 10
        stands = 60 <= minute < 120
        samples = {"group.lag/billing": 1.0}
        if not stands:
            offset = end
            samples["group.offset/billing/t-0"] = float(offset)
        samples["group.offset_lag/billing/t-0"] = float(end - offset)
        kept.add(start + minute * MINUTE, samples)
    return kept


class _Watched:
    def __init__(self, history, snapshot):
        self.history, self.snapshot = history, snapshot


def test_few_partitions_are_in_memory_at_once(history, monkeypatch):
    there = {TopicPartition("t", number): OffsetAndMetadata(1800) for number in range(3)}
    snapshot = ClusterSnapshot(positions={"billing": read(there, now_ms())})
    read_points, counts = history.points_of, []

    def points_of(series, *times):
        counts.append(len(series))
        return read_points(series, *times)

    monkeypatch.setattr(history, "points_of", points_of)
    monkeypatch.setattr(histories, "_KEYS_AT_ONCE", 1)
    found = lag_rules(_Watched(history, snapshot), "billing", "6h", now_ms())
    assert [(one.partition, one.looks) for one in found.partitions] == [("t-0", 180), ("t-1", 0), ("t-2", 0)]
    assert counts == [1, 2, 2, 2]  # one series of the group, then two of each partition


def test_both_are_compared_over_what_was_recorded(history, site):
    there = {TopicPartition("t", 0): OffsetAndMetadata(1800)}
    snapshot = ClusterSnapshot(positions={"billing": read(there, now_ms())})
    found = lag_rules(_Watched(history, snapshot), "billing", "6h", now_ms())
    assert (found.burrow, found.ours, found.looks) == ("OK", "OK", 180)
    assert 0.9 < found.agreed / found.looks < 1
    # Burrow sees it when its window of ten minutes has passed once more, ours after one.
    assert {(one.burrow, one.ours) for one in found.spans} <= {("OK", "STOP"), ("STOP", "OK")}

    with site.watched.history.study():
        assert site.request("GET", "/api/v1/clusters/demo/lag-rules/behind").status_code == 503
    shown = site.get("/lag-rules/behind")
    assert [one["partition"] for one in shown["partitions"]] == ["orders-0"]
    page = site.page("/lag-rules/behind")
    assert ("Net slope" in page, "data-refresh" in page) == (True, False)
    assert site.request("GET", "/api/v1/clusters/demo/lag-rules/behind?range=1y").status_code == 409
