"""What the console remembers: on disk, readable by others, unharmed by a kill and by a full disk."""

import errno
import os
import re
import threading
from array import array

import pytest

from barnabas.console.history.change_store import ChangeStore
from barnabas.console.history.history import ClusterHistory
from barnabas.console.history.parquet import ParquetField, ParquetFile, write
from barnabas.console.history.samples import DAY_MS, HOUR_MS, SampleStore
from barnabas.console.snapshot import ClusterChange
from barnabas.console.views.history import Plot, Step, steps_of
from barnabas.console.web.chart import chart

pyarrow = pytest.importorskip("pyarrow.parquet")

DAY = 20_000 * DAY_MS
"""The first ms of a day."""
MINUTE = 60_000
FOREVER = 1 << 50


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "samples"


def opened(folder, now_ms=DAY, **more):
    store = SampleStore(folder, **more)
    store.open(now_ms)
    return store


def fill(store, start, count, every=MINUTE, **series):
    for place in range(count):
        at = start + place * every
        assert store.add(at, {name: float(at % 1000 + number) for number, name in enumerate(series or "ab")})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_pyarrow_reads_what_is_written_and_so_do_we(tmp_path):
    path = tmp_path / "t.parquet"
    fields = [
        ParquetField("series", "text"),
        ParquetField("at_ms", "time"),
        ParquetField("value", "double"),
        ParquetField("n", "int64"),
    ]
    groups = [
        [[("b" * 300, 300), ("ä", 2)], array("q", range(302)), array("d", [0.5] * 302),
         array("q", [-1] * 302)],
        [[(str(n), 1) for n in range(1000)], array("q", range(1000)), array("d", range(1000)),
         array("q", range(-500, 500))],
    ]  # fmt: skip
    with path.open("wb") as file:
        assert write(file, fields, groups) == 1302

    table = pyarrow.read_table(path)
    texts = [text for each in groups for text, count in each[0] for _ in range(count)]
    assert table["series"].to_pylist() == texts
    assert table["value"].to_pylist() == [0.5] * 302 + list(map(float, range(1000)))
    assert table["n"].to_pylist() == [-1] * 302 + list(range(-500, 500))
    assert str(table.schema.field("at_ms").type) == "timestamp[ms, tz=UTC]"
    statistics = pyarrow.ParquetFile(path).metadata.row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == ("b" * 300, "ä"), statistics
    with ParquetFile(path) as file:
        assert [file.read(group) for group in file.groups] == groups


def test_a_table_without_rows_can_be_read(tmp_path):
    path = tmp_path / "t.parquet"
    with path.open("wb") as file:
        write(file, [ParquetField("value", "double")], [])
    assert pyarrow.read_table(path).num_rows == 0
    with ParquetFile(path) as file:
        assert file.groups == []


@pytest.mark.parametrize("cut", [0, 3, 11, -1, -5, -40])
def test_a_damaged_file_is_refused_and_never_half_read(tmp_path, cut):
    path = tmp_path / "t.parquet"
    with path.open("wb") as file:
        write(file, [ParquetField("value", "double")], [[array("d", [1.0] * 50)]])
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"footer|cut off|these files"):
        ParquetFile(path)


def test_samples_are_read_back_from_the_hour_the_files_and_the_day(folder):
    store = opened(folder)
    expected = {}
    for place in range(50):
        at = DAY + place * HOUR_MS // 2
        expected[at] = float(place)
        store.add(at, {"group.lag/a": float(place), "group.lag/b": 0.0})

    assert "20" in names(folder)[0]
    assert [one for one in names(folder) if one.endswith(".journal")] == ["2024-10-05T00.journal"]
    assert "2024-10-04.parquet" in names(folder)  # the hours of the day before are one file
    assert store.read("group.lag/a", 0, FOREVER) == sorted(expected.items())
    assert store.read("group.lag/a", DAY + HOUR_MS, DAY + 2 * HOUR_MS) == [
        (DAY + HOUR_MS, 2.0), (DAY + HOUR_MS * 3 // 2, 3.0), (DAY + 2 * HOUR_MS, 4.0)
    ]  # fmt: skip
    assert store.read("nobody", 0, FOREVER) == []
    rows = pyarrow.read_table(folder / "2024-10-04.parquet")
    assert rows.num_rows == 48 * 2


def test_many_series_are_read_with_each_file_opened_once(folder, monkeypatch):
    store = opened(folder)
    names_of = [f"group.lag/{number:03}" for number in range(100)]
    for place in range(3):
        store.add(DAY + place * HOUR_MS, {name: float(place) for name in names_of})
    files = []
    whole = ParquetFile.__init__
    monkeypatch.setattr(
        ParquetFile, "__init__", lambda self, path: (files.append(path), whole(self, path))[1]
    )
    wanted = [*names_of[10:60], "nobody"]
    found = store.read_all(wanted, DAY, FOREVER)
    assert found == {
        name: [] if name == "nobody" else [(DAY + place * HOUR_MS, float(place)) for place in range(3)]
        for name in wanted
    }
    assert len(files) == len(set(files)) == 2


def test_what_a_restart_finds_is_all_that_was_there(folder):
    fill(opened(folder), DAY, 90)
    store = opened(folder, DAY + 90 * MINUTE)

    assert len(store.read("a", 0, FOREVER)) == 90
    fill(store, DAY + 90 * MINUTE, 5)
    assert len(opened(folder, DAY + 95 * MINUTE).read("b", 0, FOREVER)) == 95


@pytest.mark.parametrize("left", [1, 7, 20, 60])
def test_a_kill_in_the_middle_of_a_write_loses_that_sample_alone(folder, left):
    fill(opened(folder), DAY, 10)
    (path,) = folder.glob("*.journal")
    whole = path.stat().st_size
    fill(opened(folder), DAY + 10 * MINUTE, 1)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - left if left < path.stat().st_size - whole else whole + 1)

    store = opened(folder, DAY + 11 * MINUTE)
    assert len(store.read("a", 0, FOREVER)) == 10
    fill(store, DAY + 12 * MINUTE, 3)
    assert len(opened(folder, DAY + 15 * MINUTE).read("a", 0, FOREVER)) == 13


def test_a_frame_that_was_damaged_is_not_believed(folder):
    fill(opened(folder), DAY, 10)
    (path,) = folder.glob("*.journal")
    data = bytearray(path.read_bytes())
    data[-3] ^= 0x40  # in the last value
    path.write_bytes(data)
    assert len(opened(folder, DAY + 10 * MINUTE).read("b", 0, FOREVER)) == 9


def test_a_kill_between_a_file_and_what_it_was_made_of_counts_nothing_twice(folder):
    fill(opened(folder), DAY, 60)
    (journal,) = folder.glob("*.journal")
    kept = journal.read_bytes()
    opened(folder, DAY + HOUR_MS)
    assert names(folder) == ["2024-10-04T00.parquet"]
    journal.write_bytes(kept)
    store = opened(folder, DAY + HOUR_MS)
    assert len(store.read("a", 0, FOREVER)) == 60
    assert names(folder) == ["2024-10-04T00.parquet"]

    hour = folder / "2024-10-04T00.parquet"
    kept = hour.read_bytes()
    opened(folder, DAY + DAY_MS)
    hour.write_bytes(kept)
    assert len(opened(folder, DAY + DAY_MS).read("a", 0, FOREVER)) == 60
    assert names(folder) == ["2024-10-04.parquet"]


def test_days_that_are_too_old_or_too_large_go(folder):
    store = opened(folder, days=3)
    fill(store, DAY, 10, every=DAY_MS // 2)
    assert names(folder)[0][:10] == "2024-10-05"
    opened(folder, DAY + 5 * DAY_MS, days=90, bytes_max=1)
    assert [one for one in names(folder) if len(one) == 18] == []


def test_a_clock_that_was_set_back_overwrites_nothing(folder):
    store = opened(folder)
    fill(store, DAY, 3)
    fill(store, DAY + HOUR_MS, 3)
    assert not store.add(DAY + 4 * MINUTE, {"a": 9.0})
    assert not store.add(DAY + HOUR_MS, {"a": 9.0})
    assert len(store.read("a", 0, FOREVER)) == 6


def test_a_damaged_file_hides_no_other(folder):
    fill(opened(folder), DAY, 60)
    fill(opened(folder, DAY + HOUR_MS), DAY + HOUR_MS, 60)
    store = opened(folder, DAY + 2 * HOUR_MS)
    (folder / "2024-10-04T00.parquet").write_bytes(b"PAR1 nonsense PAR1")
    assert len(store.read("a", 0, FOREVER)) == 60


def test_many_series_are_found_by_row_group(folder):
    store = opened(folder)
    samples = {f"topic.records_per_s/t{number:05}": float(number) for number in range(3000)}
    for place in range(60):
        store.add(DAY + place * MINUTE, samples)
    store.add(DAY + HOUR_MS, {"x": 1.0})

    assert pyarrow.ParquetFile(folder / "2024-10-04T00.parquet").metadata.num_row_groups > 1
    for number in (0, 1092, 1093, 2999):
        points = store.read(f"topic.records_per_s/t{number:05}", 0, FOREVER)
        assert [value for _, value in points] == [float(number)] * 60


def test_a_full_disk_is_said_and_harms_nothing_else(tmp_path, monkeypatch):
    history = ClusterHistory(tmp_path, "c/../x")
    history.add(DAY, {"a": 1.0})
    assert history.problem is None
    change = ClusterChange(DAY, "leader", "t-0", "1", "2")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        history.add(DAY + MINUTE, {"a": 2.0}, [change])
    assert "No space left" in history.problem
    assert history.points("a", 0, FOREVER) == [(DAY, 1.0)]
    assert history.changes(0, FOREVER) == [change]

    history.add(DAY + 2 * MINUTE, {"a": 3.0})
    assert history.problem is None
    again = ClusterHistory(tmp_path, "c/../x")
    again.add(DAY + 3 * MINUTE, {})
    assert again.points("a", 0, FOREVER) == [(DAY, 1.0), (DAY + 2 * MINUTE, 3.0)]
    assert again.changes(0, FOREVER) == [change]
    assert [one.name for one in tmp_path.iterdir()] == ["c%2F..%2Fx"]


def test_the_looks_do_not_wait_for_an_hour_that_is_made_a_file(tmp_path, monkeypatch):
    history = ClusterHistory(tmp_path, "c")
    history.add(DAY, {"a": 1.0})
    sealing, go_on = threading.Event(), threading.Event()

    def slow(*_):
        sealing.set()
        assert go_on.wait(30)

    monkeypatch.setattr(SampleStore, "_merge_days", slow)
    history.remember(DAY + HOUR_MS, {"a": 2.0})
    assert sealing.wait(30)
    for minute in range(1, 70):  # more than may wait: the oldest samples go, changes never
        change = ClusterChange(DAY + HOUR_MS + minute, "leader", f"t-{minute}", "1", "2")
        history.remember(DAY + HOUR_MS + minute * MINUTE // 2, {"a": float(minute)}, [change])
    assert not history.is_due(DAY + HOUR_MS + 35 * MINUTE)
    assert not history.settle(0.01)
    go_on.set()
    assert history.settle(30)
    values = [value for _, value in history.points("a", 0, FOREVER)]
    assert values == [1.0, 2.0, *map(float, range(10, 70))]
    assert len(history.changes(0, FOREVER)) == 69


def test_changes_are_kept_by_day_and_a_torn_line_is_passed_over(tmp_path):
    store = ChangeStore(tmp_path / "changes")
    store.open(DAY)
    one = ClusterChange(DAY + 1, "isr", "t-0", "1,2", "1")
    two = ClusterChange(DAY + 2, "leader", "t-0", "1", "2")
    store.add([one])
    with (tmp_path / "changes" / "2024-10-04.jsonl").open("a") as file:
        file.write('{"at_ms": 5, "wh')
    store.add([two])
    assert store.read(0, FOREVER) == [two, one]

    three = ClusterChange(DAY + DAY_MS, "group", "g", "Empty, 0 members", "Stable, 2 members")
    store.add([three])
    assert names(tmp_path / "changes") == ["2024-10-04.parquet", "2024-10-05.jsonl"]
    assert store.read(0, FOREVER) == [three, two, one]
    assert store.read(DAY, DAY + 1) == [one]
    assert pyarrow.read_table(tmp_path / "changes" / "2024-10-04.parquet").num_rows == 2


def test_a_range_is_cut_into_steps_and_a_gap_stays_one():
    steps = steps_of([(0, 1.0), (1, 3.0), (9, 5.0)], 0, 10, count=5)
    assert [one and (one.low, one.mean, one.high) for one in steps] == [
        (1.0, 2.0, 3.0), None, None, None, (5.0, 5.0, 5.0)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "axis"), [([5.0], ["5", "0"]), ([0.0], ["1", "0"]), ([100.0, 110.0], ["110", "100"])]
)
def test_a_plot_of_a_sample_or_of_one_number_is_seen(values, axis):
    steps = [None, *(Step(at, one, one, one) for at, one in enumerate(values))]
    plot = Plot("s", "records", "number", steps, len(values), min(values), values[-1], max(values))
    drawn = str(chart(plot, 0, HOUR_MS))
    assert re.findall(r"<span>([\d,.]+)</span>", drawn.partition("<svg")[0]) == axis
    (height,) = re.findall(r'class="dot" x1="[\d.]+" x2="[\d.]+" y1="([\d.]+)"', drawn)
    ends = sorted(map(float, re.findall(r'<line x2="600" y1="([\d.]+)"', drawn)))
    # What is not zero is not drawn where zero is.
    assert float(height) == ends[0 if values[-1] else 1]


def test_pages_and_rest_show_what_is_remembered(site):
    plots = {one["series"]: one for one in site.get("/history")["plots"]}
    assert plots["cluster.brokers/"]["last"] == 2
    group = site.get("/history", kind="group", subject="behind", range="1h")
    assert {one["series"]: one["last"] for one in group["plots"]}["group.lag/behind"] == 7
    for path in ("", "/topics/orders", "/groups/behind", "/brokers/0", "/history"):
        page = site.page(path, range="24h")
        assert 'class="chart"' in page, path
        assert 'href="?range=7d#history"' in page
    assert site.request("GET", "/api/v1/clusters/demo/history", params={"kind": "x"}).status_code == 422
