"""A pipeline's report: what runs have told, read from files that nobody promises anything of, as one page."""

import datetime as dt
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.cli.main import cli
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import PipelineError
from barnabas.spark.follower import lag_of
from barnabas.spark.offsets import SourceOffset
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.reports import report, run_history, status
from barnabas.spark.pipeline.reports.events import Events
from barnabas.spark.pipeline.running import supervisor

FILE = """
checkpoint = "checkpoint"
events = "lake.events"
name = {name}
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 3
[format]
kind = "json"
schema = "shop STRING, id INT"
[transform]
sql = "SELECT value.shop, value.id, _record FROM source"
[sink]
kind = "delta"
path = "lake/{{shop}}"
[deadLetter]
kind = "delta"
path = "letters"
[[expect]]
rule = "id < 100"
violation = "drop"
[[expect]]
rule = "id <> 7 AND '<b>' <> ''"
violation = "deadLetter"
[restart]
attempts = 0
"""
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>$head & $$x$$"
HOSTILE_NAME = HOSTILE.replace("/", "")
_VOID = frozenset({"meta", "img", "br", "link"})


class Page(HTMLParser):
    """What a browser makes of a page: its elements, what it asks others for, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.asked, self.words, self.scripts = [], [], [], 0
        self._open = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.asked += [value for name, value in attrs if name in {"src", "href"} or name.startswith("on")]
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not self._open or self._open[-1] not in {"script", "style"}:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def written(folder, lines, name="lake", **replaced):
    """The file of a pipeline, whose broker is away, and its events."""
    text = FILE.format(name=json.dumps(name), broker="127.0.0.1:1", topic="t")
    for old, new in replaced.items():
        text = text.replace(old, new)
    path = folder / "lake.toml"
    path.write_text(text)
    (folder / "lake.events").write_bytes(b"".join(lines))
    return path


def event(kind, second=0, name="lake", **more):
    time = f"2026-11-29T10:00:{second:02}.000+00:00"
    return json.dumps({"time": time, "pipeline": name, "event": kind, **more}).encode() + b"\n"


def found_in(folder, *lines):
    return run_history.from_events(load(written(folder, lines)).events, "lake")


def test_events_become_runs_batches_and_restarts(tmp_path):
    found = found_in(
        tmp_path,
        event("started", 0, columns={"id": "int"}, batches=0),
        event("batch", 1, batch=0, batch_records=5, batch_s=0.5, lag_records=7, records_read=5),
        event("restart", 2, reason="it broke", restarts=1),
        event(
            "batch",
            3,
            batch=1,
            batch_records=7,
            batch_s=1,
            lag_records=0,
            records_read=12,
            violations={"r": 2},
        ),
        event("ended", 4, records_read=12, restarts=1),
        event("started", 5, columns={"id": "bigint", "name": "string"}, reader_schema="version 1"),
        event("started", 6, columns={"id": "bigint"}, reader_schema="version 2"),
        event("failed", 7, reason="no more"),
    )

    first, killed, failed = found.runs
    assert [one.state for one in found.runs] == ["ended", "killed", "failed"]
    assert (first.figures["records_read"], first.violations, first.figures["restarts"]) == (12, {"r": 2}, 1)
    assert (failed.reason, killed.last, found.runs_seen) == (
        "no more",
        dt.datetime(2026, 11, 29, 10, 0, 5, tzinfo=dt.UTC),
        3,
    )
    assert [(one.number, one.records, one.seconds, one.lag) for one in found.batches] == [
        (0, 5, 0.5, 7),
        (1, 7, 1.0, 0),
    ]
    assert [(one.reason, one.before) for one in found.restarts] == [("it broke", 1)]
    assert [one.words for one in found.schema_changes] == [
        "column id: int became bigint",
        "new column name string",
        "column name string is gone",
        "values are read by version 2, before by version 1",
    ]


@pytest.mark.parametrize(
    "line",
    [
        b'{"time": "2026-11-29T10:0\n',
        b"\xff\xfe\n",
        b"[]\n",
        b"7\n",
        b"[" * 100_000 + b"\n",
        b'{"pipeline": "lake", "event": "batch"}\n',
        b'{"pipeline": "lake", "event": "batch", "time": 7}\n',
        b'{"pipeline": "lake", "event": "batch", "time": "2026-11-29T10:00:00"}\n',
        b'{"pipeline": "lake", "event": 7, "time": "2026-11-29T10:00:00+00:00"}\n',
        b'{"pipeline": "lake", "event": "batch", "batch": 1, "time": "9999-12-31T23:59:59-01:00"}\n',
        event("batch", 0, name="another", batch=1),
        event("batch", 0, batch="one"),
        event("batch", 0, batch=-1),
        event("batch", 0, batch=True),
        event("batch", 0, batch=10**400),
    ],
)
def test_a_line_that_is_no_event_is_passed_over(tmp_path, line):
    found = found_in(tmp_path, line, event("batch", 1, batch=3, batch_records=1))

    assert [one.number for one in found.batches] == [3]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 10**400, "5", None, [], {}, True, -5])
def test_a_figure_that_is_no_number_is_not_known(tmp_path, wrong):
    names = ("batch_records", "batch_s", "lag_records", "columns", "tables", "records_read")
    found = found_in(
        tmp_path,
        event("batch", batch=0, violations={"r": wrong}, **dict.fromkeys(names, wrong)),
    )

    (batch,), (run,) = found.batches, found.runs
    assert (batch.records, batch.seconds, batch.lag) == (None, None, None)
    assert (run.violations, run.figures) == ({}, {})


def test_of_a_long_file_the_end_is_read(tmp_path, monkeypatch):
    lines = [event("batch", number % 60, batch=number) for number in range(50)]
    monkeypatch.setattr(run_history, "_READ_BYTES", len(b"".join(lines[-10:])) + 5)
    found = found_in(tmp_path, *lines)

    assert found.is_cut
    assert [one.number for one in found.batches] == list(range(40, 50))


def test_the_newest_batches_and_runs_are_kept_and_all_are_counted(tmp_path):
    count = run_history.BATCHES_MAX + 7
    lines = [event("started"), *(event("batch", batch=number, batch_records=1) for number in range(count))]
    path = written(tmp_path, lines)
    found = run_history.from_events(load(path).events, "lake")

    assert (len(found.batches), found.batches_seen, found.batches[0].number) == (
        run_history.BATCHES_MAX,
        count,
        7,
    )
    assert f"The newest {run_history.BATCHES_MAX} of {count:,} batches" in Page(report.page(load(path))).text


def test_nothing_that_others_have_named_is_html(tmp_path):
    """Names of columns, tables and registries' schemas, reasons, rules and the pipeline's own name."""
    lines = [
        event("started", 0, HOSTILE_NAME, columns={"a": "int"}, reader_schema="v1"),
        event("started", 0, HOSTILE_NAME, columns={HOSTILE: HOSTILE}, reader_schema=HOSTILE),
        event("restart", 1, HOSTILE_NAME, reason=HOSTILE),
        *(
            event("batch", 2, HOSTILE_NAME, batch=number, batch_records=1, tables={HOSTILE: 4})
            for number in range(3)
        ),
        event("failed", 3, HOSTILE_NAME, reason=HOSTILE),
    ]
    path = written(tmp_path, lines, HOSTILE_NAME, **{"id < 100": f"id < 100 OR '{HOSTILE}' = ''"})
    pipeline = load(path)
    (tmp_path / "plain").mkdir()
    plain = Page(
        report.page(load(written(tmp_path / "plain", [event("batch", 0, batch=1, batch_records=1)] * 3)))
    )
    page = Page(report.page(pipeline))

    assert page.asked == []
    assert not {"img", "iframe", "link", "object"} & set(page.tags)
    assert page.tags.count("script") == plain.tags.count("script")
    assert page.text.count("<img src=x onerror=alert(2)>$head & $$x$$") >= 5


@pytest.mark.parametrize(
    "last", [{"reason": "of \udc80 a file"}, {"reason": 5}, {"records_read": "5"}, {"event": ["failed"]}]
)
def test_the_last_event_may_be_anything(tmp_path, last):
    """A name of a file may be no text, and the note may be edited."""
    path = written(tmp_path, [event("failed", reason="of \udc80 a file")])
    note = load(path).sink.path / "_barnabas" / "run.json"
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"event": "failed", **last}))

    assert "of ? a file" in Page(report.page(load(path)).encode().decode()).text


def test_a_pipeline_that_never_ran_has_a_page(tmp_path):
    page = Page(report.page(load(written(tmp_path, []))))

    assert "t into Delta at" in page.text
    assert "State: new" in page.text
    assert page.asked == []


def test_without_events_the_checkpoint_has_the_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "_TIMEOUT_MS", 500)  # its broker is away
    pipeline = load(written(tmp_path, [], **{'events = "lake.events"\n': ""}))
    for number, (offset, began_ms) in enumerate([(4, 1000), (4, 2000), (10, 3000)]):
        for folder in ("offsets", "commits"):
            (pipeline.checkpoint / folder).mkdir(parents=True, exist_ok=True)
        told = [{"batchTimestampMs": began_ms}, {"t": {"0": offset}}]
        (pipeline.checkpoint / "offsets" / str(number)).write_text("v1\n" + "\n".join(map(json.dumps, told)))
        (pipeline.checkpoint / "commits" / str(number)).write_text("v1\n{}")
    (pipeline.checkpoint / "offsets" / "1").write_text("v1\n{}\n{}")
    found = run_history.from_checkpoint(pipeline.checkpoint)

    assert [(one.number, one.records) for one in found.batches] == [(0, None), (2, None)]
    (pipeline.checkpoint / "offsets" / "1").write_text('v1\n{"batchTimestampMs": 1}\n{"t": {"0": 6}}')
    found = run_history.from_checkpoint(pipeline.checkpoint)
    assert [(one.number, one.records) for one in found.batches] == [(0, None), (1, 2), (2, 4)]
    text = Page(report.page(pipeline)).text
    assert "3 batches, a column each" in text
    assert "from the checkpoint, which remembers a hundred batches or so" in text


@pytest.mark.parametrize(
    ("ends", "lag"),
    [({"t": {"0": 9, "1": 5}}, 6), ('{"t": {"0": 9, "1": 5}}', 6), ({"t": {"0": 2, "1": 5}}, 1), (None, None),
     ({"t": {"0": 9}}, None)],
)  # fmt: skip
def test_the_lag_of_a_batch_is_what_the_brokers_had_behind_it(ends, lag):
    read = SourceOffset({TopicPartition("t", 0): 4, TopicPartition("t", 1): 4}, {"t": "id"}).encode()
    another = {"endOffset": {"u": {"0": 4}}, "latestOffset": {"u": {"0": 9}}}

    assert lag_of({"sources": [another, {"endOffset": read, "latestOffset": ends}]}) == lag
    assert lag_of({"sources": [another]}) is None


def test_an_event_behind_a_torn_one_has_a_line_of_its_own(tmp_path):
    path = written(tmp_path, [event("started"), b'{"time": "2026-'])
    Events(load(path)).emit("started", batches=0)
    Events(load(path)).emit("ended", batches=1)
    text = (tmp_path / "lake.events").read_text()

    assert [one.state for one in run_history.from_events(load(path).events, "lake").runs] == [
        "killed",
        "ended",
    ]
    assert len(text.splitlines()) == 4


def test_lines_that_cannot_be_read_or_written_are_one_error(tmp_path):
    path = written(tmp_path, [])
    refused = CliRunner().invoke(
        cli, ["pipeline", "report", str(path), "--output", str(tmp_path / "no" / "page")]
    )
    assert refused.exit_code == 1
    assert "No such file or directory" in refused.output
    (tmp_path / "lake.events").unlink()
    (tmp_path / "lake.events").mkdir()
    with pytest.raises(PipelineError, match="Is a directory"):
        report.page(load(path))


class World:
    """A topic of two shops, and the pipeline that gives each a table."""

    def __init__(self, spark, broker, topic, folder):
        self.spark, self.broker, self.topic, self.folder = spark, broker, topic, folder
        with Admin(broker) as admin:
            admin.topics.create([NewTopic(topic, partitions=1)])
        self.path = folder / "lake.toml"
        self.path.write_text(FILE.format(name='"lake"', broker=broker, topic=topic))

    def send(self, *values):
        with Producer(self.broker) as producer:
            for value in values:
                producer.send_and_wait(self.topic, json.dumps(value) if isinstance(value, dict) else value)

    def run(self, **changed):
        pipeline = replace(load(self.path), **changed)
        return supervisor.run(self.spark, pipeline, Console(file=io.StringIO()))

    def events(self):
        return [json.loads(line) for line in (self.folder / "lake.events").read_text().splitlines()]


@pytest.fixture
def world(spark, broker, topic_name, tmp_path):
    return World(spark, broker, topic_name("reported"), tmp_path)


@pytest.mark.spark
def test_a_page_tells_of_tables_letters_rules_and_lag(world):
    world.send(
        {"shop": "north", "id": 1},
        {"shop": "south", "id": 2},
        {"shop": "south", "id": 7},
        b"no json",
        {"shop": "north", "id": 101},
        {"shop": "north", "id": 3},
    )
    outcome = world.run()
    assert (outcome.rows_written, outcome.letters, outcome.rows_dropped) == (3, 2, 1)
    assert outcome.violations == {"id < 100": 1, "id <> 7 AND '<b>' <> ''": 1}
    world.send({"shop": "north", "id": 4}, {"shop": "north", "id": 5})
    page = world.folder / "page.html"
    done = CliRunner().invoke(cli, ["pipeline", "report", str(world.path), "--output", str(page)])
    text = Page(page.read_text()).text

    assert done.output == f"lake: {page}\n"
    told = [one for one in world.events() if one["event"] == "batch"]
    assert [one["lag_records"] for one in told] == [3, 0]
    north, south = (str(world.folder / "lake" / shop) for shop in ("north", "south"))
    assert {table for one in told for table in one["tables"]} == {north, south}
    assert re.search(rf"{north} 2 2 \S+ K?B 2 2", text)
    assert re.search(rf"{south} 1 1 \S+ K?B 1 2", text)
    assert f"{world.topic} 0 6 8 2 " in text
    assert "id < 100 drop 1 1 id <> 7 AND '<b>' <> '' deadLetter 1 1" in text
    assert f"{world.topic} it violates the rule id <> 7 AND '<b>' <> '' 1" in text
    assert "2 records behind" in text
    assert "shop string id int" in text
    assert "_record" not in text


@pytest.mark.spark
def test_a_row_that_violates_two_rules_is_dropped_once(world):
    text = world.path.read_text()
    world.path.write_text(text + '[[expect]]\nrule = "id < 200"\nviolation = "drop"\n')
    world.send({"shop": "north", "id": 300}, {"shop": "north", "id": 150})
    outcome = world.run()

    assert (outcome.rows_dropped, outcome.violations) == (2, {"id < 100": 2, "id < 200": 1})
