"""Logs of lines: bounded, read from the newest back; and what the audit log makes of them."""

import json
import os

import pytest

from barnabas.console.actions.audit import AuditLog
from barnabas.console.actions.plans import Effect
from barnabas.console.stores import line_log
from barnabas.console.stores.line_log import LineLog
from barnabas.operations.errors import OperationError

LONG = "x" * 200_000


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


def lines(log):
    return [one.decode() for one in log.newest() if one]


def files(folder):
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.parametrize(
    "written", [[], ["a"], ["a", "b", "c"], ["a", LONG, "b"], [LONG, LONG], ["\u00e4"] * 9]
)
def test_lines_are_read_from_the_newest_back(tmp_path, written):
    log = LineLog(tmp_path / "there" / "audit.jsonl")
    for one in written:
        log.append(one)
    assert lines(log) == written[::-1]


def test_a_file_that_is_full_makes_room_and_the_oldest_goes(tmp_path):
    log = LineLog(tmp_path / "audit.jsonl", file_bytes=100, files_max=3)
    for number in range(100):
        log.append(f"{number:09}")
    names = files(tmp_path)
    assert len(names) == 4
    assert all((tmp_path / one).stat().st_size <= 100 for one in names)
    assert lines(log) == [f"{number:09}" for number in reversed(range(60, 100))]
    assert lines(LineLog(tmp_path / "audit.jsonl")) == lines(log)


def test_a_clock_that_is_set_back_puts_no_file_over_another(tmp_path, monkeypatch):
    log = LineLog(tmp_path / "audit.jsonl", file_bytes=1)
    clock = iter([1000, 1000, 3, 5000])
    monkeypatch.setattr(line_log, "now_ms", lambda: next(clock))
    for number in range(5):
        log.append(str(number))
    assert files(tmp_path) == [
        *(f"audit-{at}.jsonl" for at in (1000, 1001, 1002, 5000)),
        "audit.jsonl",
    ]
    assert lines(log) == ["4", "3", "2", "1", "0"]


def test_a_file_that_is_full_while_it_is_read_is_read_once(tmp_path):
    log = LineLog(tmp_path / "audit.jsonl", file_bytes=10)
    for number in range(4):
        log.append(f"number {number}")
    reading = log.newest()
    seen = [next(reading), next(reading)]
    log.append("later")
    seen += reading
    assert [one.decode() for one in seen if one] == [f"number {number}" for number in (3, 2, 1, 0)]


def test_a_torn_line_swallows_no_other(tmp_path):
    log = LineLog(tmp_path / "audit.jsonl")
    log.append("whole")
    with log.path.open("a") as file:
        file.write("cut o")
    log.append("next")
    assert lines(log) == ["next", "cut o", "whole"]


def test_a_short_write_is_an_error(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    said = r"audit\.jsonl cannot be written: No space left"
    with (
        pytest.raises(OperationError, match=said),
        AuditLog(tmp_path).change("c", "u", "k", "s", []),
    ):
        pytest.fail("what cannot be written down is not done")


def test_a_change_whose_last_line_cannot_be_written_was_done(tmp_path, monkeypatch):
    with (
        pytest.raises(OperationError, match=r"it was done, but the audit log"),
        AuditLog(tmp_path).change("c", "u", "k", "s", []),
    ):
        monkeypatch.setattr(os, "write", lambda _file, _data: 0)


def test_an_audit_log_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(OperationError, match=r"audit\.jsonl cannot be read: "):
        AuditLog(tmp_path).entries("c")


def test_the_name_of_a_new_file_is_on_the_disk_when_its_line_is(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(line_log, "synchronise", lambda _folder: synced.append(files(tmp_path)))
    log = LineLog(tmp_path / "audit.jsonl", file_bytes=1)
    log.append("first")
    assert synced == [["audit.jsonl"]]
    log.append("second")
    assert synced[-1] == files(tmp_path)
    assert len(synced[-1]) == 2


def test_a_change_that_fails_is_written_down_whatever_the_error(tmp_path):
    audit = AuditLog(tmp_path)
    with pytest.raises(ZeroDivisionError), audit.change("c", "u", "k", "s", [Effect("s", "1", "2")]):
        _ = 1 / 0
    assert [(one.outcome, one.error) for one in audit.entries("c")] == [
        ("failed", "division by zero"),
        ("begun", None),
    ]


def test_entries_are_of_one_cluster_and_as_many_as_are_asked_for(tmp_path):
    audit = AuditLog(tmp_path)
    for number in range(20):
        cluster = 'odd "name" \u00e4' if number % 2 else "even"
        with audit.change(cluster, "u", "k", f"{number} even", []):
            pass
    assert [one.subject for one in audit.entries('odd "name" \u00e4', 3)] == ["19 even", "19 even", "17 even"]
    assert len(audit.entries("even")) == 20
    assert audit.entries("eve") == []


def test_a_change_is_found_however_long_ago_it_was(tmp_path):
    audit = AuditLog(tmp_path)
    with audit.change("c", "u", "first", "s", []):
        pass
    first = audit.entries("c")[0]
    line = next(LineLog(tmp_path / "audit.jsonl").newest())
    more = json.dumps({"cluster": "c", "plan": "other"}).encode()
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.writelines(more + b"\n" for _ in range(2_000))
    assert audit.done("c", first.plan) == first
    assert (audit.done("other", first.plan), audit.done("c", "none"), line) == (None, None, b"")
