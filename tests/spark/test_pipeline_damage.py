"""Small files of a pipeline that are damaged: each is one line that names it, or is taken for missing."""

import errno
import json
import os
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql.types import IntegerType, StructField, StructType

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.dead_letters.replay import replay
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.reports.events import Events, last_event
from barnabas.spark.pipeline.reports.status import status
from barnabas.spark.pipeline.sinks.sink import open_table, query_id, table_schema

DAMAGED = ("", "{", "[]", "null", "7", '"text"', '{"batch": []}', "\x00\x00", "[" * 100_000)
ROWS = StructType([StructField("id", IntegerType())])
FILE = """
checkpoint = "checkpoint"
events = "events"
[source]
kafka.bootstrap.servers = "127.0.0.1:1"
subscribe = "t"
[format]
kind = "json"
schema = "id INT"
[sink]
kind = "{kind}"
path = "table"
[deadLetter]
kind = "parquet"
path = "letters"
"""


def pipeline(folder, kind="parquet"):
    path = folder / "damaged.toml"
    path.write_text(FILE.format(kind=kind))
    return load(path)


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def one_line(call, name):
    """Does it, or says in one line which file is damaged."""
    error = None
    try:
        call()
    except PipelineError as caught:
        error = str(caught)
    assert error is None or ("\n" not in error and name in error)


@pytest.mark.parametrize("text", DAMAGED)
def test_the_last_event(tmp_path, text):
    put(tmp_path / "table/_barnabas/run.json", text)
    found = last_event(tmp_path / "table")
    assert isinstance(found, dict)
    assert status(pipeline(tmp_path)).state in {"new", "killed"}


@pytest.mark.parametrize("text", DAMAGED)
def test_the_query_of_the_checkpoint(tmp_path, text):
    put(tmp_path / "checkpoint/metadata", text)
    with pytest.raises(PipelineError, match=r"metadata is no checkpoint's") as caught:
        query_id(tmp_path / "checkpoint")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", DAMAGED)
def test_the_offsets_of_the_checkpoint(tmp_path, text):
    put(tmp_path / "checkpoint/commits/3", "v1\n{}")
    put(tmp_path / "checkpoint/offsets/3", f"v1\n{{}}\n{text}")
    one_line(lambda: status(pipeline(tmp_path)), "offsets/3")


@pytest.mark.parametrize("kind", ["parquet", "delta"])
@pytest.mark.parametrize("text", DAMAGED)
def test_how_rows_are_told_apart(tmp_path, kind, text):
    put(tmp_path / "table/_barnabas/changes.json", text)
    found = pipeline(tmp_path, kind)
    one_line(lambda: table_schema(open_table(found.sink), found.sink, found.checkpoint, ROWS), "changes.json")


@pytest.mark.parametrize("text", DAMAGED)
def test_the_last_commit_of_a_folder(tmp_path, text):
    put(tmp_path / "table/_barnabas/commit.json", text)
    found = pipeline(tmp_path)
    with pytest.raises(PipelineError, match=r"commit\.json is no commit") as caught, open_table(found.sink):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", DAMAGED)
def test_a_compaction_of_a_folder(tmp_path, text):
    put(tmp_path / "table/_barnabas/compaction.json", text)
    found = pipeline(tmp_path)
    with pytest.raises(PipelineError, match=r"compaction\.json is no compaction"), open_table(found.sink):
        pass


@pytest.mark.parametrize("text", DAMAGED)
def test_what_was_sent_again(tmp_path, text):
    put(tmp_path / "letters/_barnabas/replayed.json", text)
    one_line(lambda: replay(pipeline(tmp_path)), "replayed.json")


@pytest.mark.parametrize("text", DAMAGED)
def test_the_log_of_a_delta_table(tmp_path, text):
    DeltaTable.create(str(tmp_path / "table"), schema=_one_column())
    log = next((tmp_path / "table/_delta_log").glob("*.json"))
    log.write_text(text)
    one_line(lambda: status(pipeline(tmp_path, "delta")), "table")


def _one_column():
    from deltalake import Schema

    return Schema.from_json(
        json.dumps({"type": "struct", "fields": [
            {"name": "id", "type": "integer", "nullable": True, "metadata": {}}
        ]})
    )  # fmt: skip


def test_a_disk_that_is_full_leaves_the_last_event(tmp_path, monkeypatch, caplog):
    (tmp_path / "table/_barnabas").mkdir(parents=True)
    events = Events(pipeline(tmp_path))
    events.emit("started")
    write = Path.write_text

    def full(self, text, **more):
        write(self, text[:5], **more)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    events.emit("failed", reason="x")
    assert last_event(tmp_path / "table")["event"] == "started"
    assert "No space left" in caplog.text


def test_events_that_are_a_folder_are_a_line_of_the_log(tmp_path, caplog):
    (tmp_path / "table/_barnabas").mkdir(parents=True)
    (tmp_path / "events").mkdir()
    Events(pipeline(tmp_path)).emit("started")
    assert "was not written" in caplog.text
