"""Knowing that a pipeline runs: status, events, the webhook of a failure, and a trial that writes nothing."""

import http.server
import io
import json
import socket
import threading
from dataclasses import replace

import pytest
from click.testing import CliRunner
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.cli.main import cli
from barnabas.client import Producer
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.reports import events
from barnabas.spark.pipeline.reports import status as status_module
from barnabas.spark.pipeline.reports.status import problems, status
from barnabas.spark.pipeline.running import supervisor
from barnabas.spark.pipeline.running.trial import attempt
from seeds import drawn_by_this_run

pytestmark = pytest.mark.spark

FILE = """
checkpoint = "checkpoint"
events = "events.jsonl"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 2
[format]
kind = "json"
schema = "id INT"
[transform]
sql = "SELECT value.id FROM source"
[sink]
kind = "{kind}"
path = "table"
[restart]
attempts = 0
"""


class World:
    """A topic and the pipeline that reads it."""

    def __init__(self, spark, broker, topic, folder):
        self.spark, self.broker, self.topic, self.folder = spark, broker, topic, folder
        with Admin(broker) as admin:
            admin.topics.create([NewTopic(topic, partitions=2)])
        self.path = folder / "watched.toml"
        self.write()

    def write(self, kind="delta", more="", **replaced):
        text = FILE.format(broker=self.broker, topic=self.topic, kind=kind) + more
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        self.path.write_text(text)

    def send(self, *values, partition=0):
        with Producer(self.broker) as producer:
            for value in values:
                producer.send_and_wait(self.topic, value, partition=partition)

    def run(self):
        return supervisor.run(self.spark, load(self.path), Console(file=io.StringIO()))

    def status(self):
        return status(load(self.path))

    def events(self):
        return [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]


@pytest.fixture
def world(spark, broker, topic_name, tmp_path):
    return World(spark, broker, topic_name("watched"), tmp_path)


@pytest.mark.parametrize("kind", drawn_by_this_run(["parquet", "delta", "iceberg"], "status"))
def test_the_status_is_that_of_checkpoint_table_and_brokers(world, kind):
    world.write(kind)
    new = world.status()
    assert (new.state, new.batch, new.files, new.lag_records) == ("new", None, None, None)

    world.send(b'{"id": 1}', b'{"id": 2}', b'{"id": 3}')
    world.run()
    world.send(b'{"id": 4}', b'{"id": 5}', partition=1)
    found = world.status()

    assert (found.state, found.batch, found.records_read, found.rows_written) == ("ended", 1, 3, 3)
    assert (found.lag_records, found.lag_error, found.restarts) == (2, None, 0)
    assert found.lag_s is not None
    assert (found.files, found.small_files) == (2, 2)
    assert found.bytes > 0
    assert 0 <= found.batch_age_s < 600


def test_events_are_lines_of_json(world):
    world.send(b'{"id": 1}', b'{"id": 2}', b'{"id": 3}')
    world.run()

    found = world.events()
    assert [one["event"] for one in found] == ["started", "batch", "batch", "ended"]
    assert [one["batch"] for one in found if one["event"] == "batch"] == [0, 1]
    assert sum(one["batch_records"] for one in found if one["event"] == "batch") == 3
    assert (found[-1]["records_read"], found[-1]["rows_written"], found[-1]["pipeline"]) == (3, 3, "watched")


@pytest.fixture
def hook():
    """A server that keeps what is posted to it, and its address."""
    heard = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield heard, f"http://127.0.0.1:{server.server_port}/s3cret"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_failure_is_told_to_the_webhook_and_the_status(world, hook):
    heard, address = hook
    world.write(more=f'[notify]\nwebhook = "{address}"\n')
    world.send(b"no json")
    with pytest.raises(PipelineError):
        world.run()

    (told,) = heard
    assert (told["pipeline"], told["event"]) == ("watched", "failed")
    assert "MALFORMED" in told["reason"]
    found = world.status()
    assert (found.state, found.reason) == ("failed", told["reason"])
    assert problems(found, lag_max=None, age_max_s=None) == ["it has failed"]
    assert world.events()[-1]["event"] == "failed"


def test_a_webhook_that_does_not_answer_changes_nothing(world, caplog):
    world.write(more='[notify]\nwebhook = "http://127.0.0.1:1/s3cret"\n')
    world.send(b"no json")
    with pytest.raises(PipelineError, match="MALFORMED"):
        world.run()
    assert "the webhook of watched was not told" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_webhook_that_answers_byte_by_byte_is_not_waited_for(world, caplog, monkeypatch):
    monkeypatch.setattr(events, "_WEBHOOK_S", 0.5)
    ended = threading.Event()

    def drip(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            while not ended.wait(0.02):
                connection.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener,))
        server.start()
        world.write(more=f'[notify]\nwebhook = "http://127.0.0.1:{listener.getsockname()[1]}/s3cret"\n')
        events.Events(load(world.path)).emit("failed", reason="test")
        ended.set()
        server.join()
    assert "the webhook of watched was not told of the failure: TimeoutError" in caplog.text
    assert "s3cret" not in caplog.text


def test_problems_are_those_that_a_monitor_asks_for(world):
    world.send(b'{"id": 1}')
    world.run()
    found = world.status()

    assert problems(found, lag_max=0, age_max_s=3600) == []
    assert problems(replace(found, lag_records=5), lag_max=4, age_max_s=None) == ["its lag is 5"]
    assert problems(replace(found, lag_records=None), lag_max=4, age_max_s=None) == ["its lag is not known"]
    assert problems(replace(found, batch_age_s=9.0), lag_max=None, age_max_s=8) == [
        "no batch has ended in time"
    ]
    assert problems(replace(found, state="killed"), lag_max=None, age_max_s=None) == ["it was killed"]


def test_the_command_has_an_exit_code_and_json(world):
    world.send(b'{"id": 1}')
    world.run()
    world.send(b'{"id": 2}', b'{"id": 3}')
    good = CliRunner().invoke(cli, ["pipeline", "status", str(world.path), "--json", "--max-lag", "2"])
    bad = CliRunner().invoke(cli, ["pipeline", "status", str(world.path), "--max-lag", "1"])

    assert good.exit_code == 0, good.output
    (found,) = json.loads(good.output)["pipelines"]
    assert (found["name"], found["state"], found["lag_records"], found["problems"]) == (
        "watched",
        "ended",
        2,
        [],
    )
    assert bad.exit_code == 1
    assert "problem: its lag is 2" in bad.output


def test_a_broker_that_is_away_leaves_the_rest_of_the_status(world, monkeypatch):
    monkeypatch.setattr(status_module, "_TIMEOUT_MS", 500)
    world.send(b'{"id": 1}')
    world.run()
    world.path.write_text(world.path.read_text().replace(world.broker, "127.0.0.1:1"))
    found = world.status()

    assert (found.state, found.batch, found.files, found.lag_records) == ("ended", 0, 1, None)
    assert found.lag_error


def test_a_run_that_was_killed_is_told_from_one_that_runs(world):
    from barnabas.spark.pipeline.sinks.sink import open_table

    world.send(b'{"id": 1}')
    world.run()
    run_file = world.folder / "table" / "_barnabas" / "run.json"
    run_file.write_text(run_file.read_text().replace('"ended"', '"batch"'))
    assert world.status().state == "killed"
    with open_table(load(world.path).sink):
        assert world.status().state == "running"


def test_a_trial_shows_rows_types_and_rejects_and_writes_nothing(world):
    rule = '[[expect]]\nrule = "id < 9"\nviolation = "drop"\n'
    world.write(more=rule)
    world.send(b'{"id": 1}', b"no json", b'{"id": 9}')
    world.send(b'{"id": 2}', partition=1)
    before = sorted(path.name for path in world.folder.rglob("*"))
    found = attempt(world.spark, load(world.path), 100)

    assert found.records == 4
    assert found.columns.simpleString() == "struct<id:int>"
    assert sorted(found.rows) == ['{"id":1}', '{"id":2}']
    assert sorted(found.rejects) == [
        'a row violates the rule id < 9: {"id":9}',
        f"{world.topic}-0 offset 1: it is no JSON that fits format.schema",
    ]
    assert sorted(path.name for path in world.folder.rglob("*")) == before
    assert attempt(world.spark, load(world.path), 2).records == 2


def test_a_trial_of_changes_tells_deletes_from_rows(world):
    world.write(more='mode = "merge"\nkey = ["id"]\n', **{"[restart]\nattempts = 0\n": ""})
    text = world.path.read_text().replace('[transform]\nsql = "SELECT value.id FROM source"\n', "")
    world.path.write_text(text.replace('"id INT"', '"id INT"\nkey = { kind = "text", schema = "id INT" }'))
    with Producer(world.broker) as producer:
        producer.send_and_wait(world.topic, b"{}", key=b"1", partition=0)
        producer.send_and_wait(world.topic, None, key=b"2", partition=0)

    with Producer(world.broker) as producer:
        producer.send_and_wait(world.topic, b"{}", key=b"none", partition=0)

    found = attempt(world.spark, load(world.path), 100)
    assert found.rows == ['{"id":1}', 'deletes {"id":2}']
    assert found.rejects == ["a row has null in the key (id): {}"]
    world.path.write_text(world.path.read_text() + '[transform]\nsql = "SELECT value.id FROM source"\n')
    with pytest.raises(PipelineError, match="must hand on the column _change"):
        attempt(world.spark, load(world.path), 100)


def test_a_trial_of_nothing_says_so(world):
    with pytest.raises(PipelineError, match="the topics have no records yet"):
        attempt(world.spark, load(world.path), 100)
    world.path.write_text(world.path.read_text().replace(world.topic, "no-such-topic"))
    with pytest.raises(PipelineError, match="the topic no-such-topic does not exist"):
        attempt(world.spark, load(world.path), 100)
