"""A batch is appended once, wherever its writer is killed; the table belongs to one query and one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import barnabas
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.tables.parquet import ParquetFolder

COMMIT = {
    "query": "query", "batch": 3, "schema": {}, "layout": [], "staging": f"staging-{1:032x}",
    "files": {"a.parquet": "batch-0000000003-00000.parquet"},
}  # fmt: skip
FIRST = ["0 day=1", "0 day=2"]
BOTH = sorted([*FIRST, "1 day=1", "1 day=2"])


def append(table, batch, text="row"):
    def write(staging):
        staging.mkdir()
        (staging / "a.parquet").write_text(text)
        return ["a.parquet"]

    table.append("query", batch, {}, [], write)


def test_a_kill_before_each_step_leaves_every_row_once(tmp_path):
    """The process ends before its first, second, ... change of the folder, until it lives to the end."""
    sources = str(Path(barnabas.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("append_killed.py"), tmp_path],
        capture_output=True, text=True, check=False, timeout=100, env={**os.environ, "PYTHONPATH": sources},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    deaths = [json.loads(line) for line in done.stdout.splitlines()]

    for death in deaths:
        assert death["after"] == BOTH, death
        assert death["left"] == [], death
        # Rows show only of a batch that is committed.
        assert death["before"] == FIRST or death["committed"] == 1, death
    steps = {death["died"].partition(" ")[0] for death in deaths}
    assert {"mkdir", "write_text", "replace", "fsync", "rmtree"} <= steps
    assert {death["committed"] for death in deaths} == {0, 1}
    assert any(death["before"] not in (FIRST, BOTH) for death in deaths), "none died between two moves"


def test_an_append_that_fails_at_a_step_is_tried_again_by_the_same_process(tmp_path, monkeypatch):
    """A disk that is full for a moment kills nothing;
    what was committed by then is published all the same.
    """
    replace, fsync, left = Path.replace, os.fsync, 0

    def failing(original):
        def call(*args):
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(28, "No space left on device")
            return original(*args)

        return call

    monkeypatch.setattr(Path, "replace", failing(replace))
    monkeypatch.setattr(os, "fsync", failing(fsync))
    failed, step = True, 0
    while failed:
        step, failed = step + 1, False
        with ParquetFolder(tmp_path / str(step)) as table:
            left = step
            try:
                append(table, 0, "0")
            except OSError:
                failed = True
            left = 0  # no step fails from here on
            for batch in (0, 1):
                table.recover()
                if not table.has("query", batch):
                    append(table, batch, str(batch))
        files = (tmp_path / str(step)).glob("*.parquet")
        assert sorted(path.read_text() for path in files) == ["0", "1"], step
    assert step > 7


def test_what_was_committed_is_not_appended_again(tmp_path):
    with ParquetFolder(tmp_path / "t") as table:
        append(table, 7)
        assert (table.has("query", 6), table.has("query", 7), table.has("query", 8)) == (True, True, False)
    with ParquetFolder(tmp_path / "t") as table:
        assert table.has("query", 7)
        assert table.last.query == "query"


def test_a_folder_that_goes_while_its_writer_runs_is_not_begun_anew(tmp_path):
    """Later rows stood there without those before."""
    with ParquetFolder(tmp_path / "t") as table:
        append(table, 0)
        (tmp_path / "t").rename(tmp_path / "old")
        (tmp_path / "t").mkdir()
        with pytest.raises(PipelineError, match="was removed or put back from an older copy while"):
            table.recover()


def test_a_folder_takes_batches_of_one_query(tmp_path):
    with ParquetFolder(tmp_path / "t") as table:
        append(table, 3)
        with pytest.raises(PipelineError, match="was written with another checkpoint"):
            table.append("other", 0, {}, [], lambda _: [])


def test_one_process_writes(tmp_path):
    with (
        ParquetFolder(tmp_path / "t"),
        pytest.raises(PipelineError, match="is being written by another process"),
    ):
        ParquetFolder(tmp_path / "t").__enter__()
    with ParquetFolder(tmp_path / "t"):
        pass


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(PipelineError, match="is not empty, and no pipeline has written it"):
        ParquetFolder(tmp_path).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_commit_that_is_damaged_is_named(tmp_path):
    with ParquetFolder(tmp_path / "t") as table:
        append(table, 0)
    (tmp_path / "t" / "_barnabas" / "commit.json").write_text("{")
    with pytest.raises(PipelineError, match=r"commit\.json is no commit of a pipeline"):
        ParquetFolder(tmp_path / "t").__enter__()


@pytest.mark.parametrize(
    "wrong",
    [
        {"layout": None}, {"files": []}, {"schema": None}, {"batch": "3"}, {"staging": "../mine"},
        {"query": 1, "more": 2},
        {"files": {"a.parquet": "../batch-0000000003-00000.parquet"}},
        {"files": {"a.parquet": "mine.parquet"}},
    ],
)  # fmt: skip
def test_a_damaged_commit_is_said_in_one_line_and_moves_nothing(tmp_path, wrong):
    with ParquetFolder(tmp_path / "t"):
        pass
    ours = tmp_path / "t" / "_barnabas"
    staged = ours / COMMIT["staging"] / "a.parquet"
    staged.parent.mkdir()
    staged.write_text("row")
    (ours / "commit.json").write_text(json.dumps(COMMIT | wrong))

    with (
        pytest.raises(PipelineError, match=r"commit\.json is no commit of a pipeline: [^\n]+$"),
        ParquetFolder(tmp_path / "t"),
    ):
        pass
    assert staged.read_text() == "row"
    (ours / "commit.json").write_text(json.dumps(COMMIT))
    with ParquetFolder(tmp_path / "t"):
        assert (tmp_path / "t" / "batch-0000000003-00000.parquet").read_text() == "row"
