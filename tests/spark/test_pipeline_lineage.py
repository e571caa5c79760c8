"""What a catalog of lineage is told of a pipeline: by the client's own transport, and without Spark."""

import http.server
import json
import sys
import threading

import pytest
from openlineage.client import OpenLineageClient

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.reports import lineage
from barnabas.spark.pipeline.reports.events import Events

FILE = """
name = "flights"
checkpoint = "c"
trigger = "10s"
[source]
kafka.bootstrap.servers = "one:9092,two:9092"
subscribe = "flights,weather"
[sink]
kind = "delta"
path = "s3://lake/tables/flights"
[notify]
openLineage = "warehouse"
"""


@pytest.fixture
def catalog(monkeypatch):
    """What is posted to a server that the client finds by its usual variable."""
    heard = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
    yield heard
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "flights.toml"
    path.write_text(FILE)
    return load(path)


def test_a_run_is_told_from_its_start_to_its_failure(catalog, pipeline):
    events = Events(pipeline)
    events.emit("started", rows_written=0)
    events.emit("batch", rows_written=7)
    events.emit("restart", reason="away")
    events.emit("failed", reason="no brokers")

    told = [body for _, body in catalog]
    assert [one["eventType"] for one in told] == ["START", "RUNNING", "FAIL"]
    assert len({one["run"]["runId"] for one in told}) == 1
    assert {(one["job"]["namespace"], one["job"]["name"]) for one in told} == {("warehouse", "flights")}
    assert [(one["namespace"], one["name"]) for one in told[0]["inputs"]] == [
        ("kafka://one:9092", "flights"),
        ("kafka://one:9092", "weather"),
    ]
    (output,) = told[1]["outputs"]
    assert (output["namespace"], output["name"]) == ("s3://lake", "tables/flights")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert told[2]["run"]["facets"]["errorMessage"]["message"] == "no brokers"
    assert told[0]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"


def test_a_catalog_that_is_away_is_a_line(pipeline, monkeypatch, caplog):
    def fail(*_):
        raise ConnectionError("no route")

    monkeypatch.setattr(OpenLineageClient, "emit", fail)
    Events(pipeline).emit("ended")
    assert "the lineage of flights was not told of ended: no route" in caplog.text


def test_a_catalog_that_hangs_holds_up_nothing(pipeline, monkeypatch, caplog):
    """The loop that looks for SIGTERM tells of batches: it stood as long as the client waited."""
    answer, callers = threading.Event(), set()

    def hang(*_):
        callers.add(threading.current_thread())
        if threading.current_thread() is not threading.main_thread():
            answer.wait(60)

    monkeypatch.setattr(OpenLineageClient, "emit", hang)
    monkeypatch.setattr(lineage, "_END_S", 0.1)
    events = Events(pipeline)
    try:
        for _ in range(lineage._WAITING_MAX + 2):
            events.emit("batch")
        assert "not told of batch: the catalog does not answer, and 100 events wait" in caplog.text
        events.emit("failed", reason="no brokers")
        assert "events: the catalog has not answered within 0.1 seconds" in caplog.text
        assert threading.main_thread() not in callers
    finally:
        answer.set()


def test_a_password_in_its_address_is_not_shown(pipeline, monkeypatch, caplog):
    def fail(*_):
        raise ConnectionError("401 for url: http://user:p@ss@catalog:5000/api/v1/lineage")

    monkeypatch.setattr(OpenLineageClient, "emit", fail)
    Events(pipeline).emit("ended")
    assert "http://***@catalog:5000" in caplog.text
    assert "p@ss" not in caplog.text


def test_packages_that_are_missing_are_named(pipeline, monkeypatch):
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with pytest.raises(PipelineError, match=r"pip install 'barnabas\[lineage\]'"):
        Events(pipeline)
