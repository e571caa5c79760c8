"""Pipelines on Spark: the page's file as it stands, formats, transformations, columns that grow, and
failures.
"""

import io
import re
import shutil
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql.types import IntegerType, LongType, NullType, StringType, StructField, StructType
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import Failure, PipelineError, TransientError
from barnabas.spark.pipeline.file.format_settings import Format
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.running import supervisor
from barnabas.spark.pipeline.sinks import checkpoint
from barnabas.spark.pipeline.sinks.sink import BatchSink
from barnabas.spark.pipeline.tables.evolution import merged

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
FILE = PAGE.partition("```toml\n")[2].partition("```")[0]
RECORDS = PAGE.partition("<<END\n")[2].partition("END\n")[0].splitlines()
SHOWN = PAGE.partition("pipeline check flights.toml\n")[2].partition("$ ")[0].splitlines()


def quiet():
    return Console(file=io.StringIO())


@pytest.fixture
def topic(broker, topic_name):
    """The name of a new topic of one partition."""
    name = topic_name("lake")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(name, partitions=1)])
    return name


def produce(broker, topic, *values):
    with Producer(broker) as producer:
        for value in values:
            producer.send_and_wait(topic, value.encode())


@pytest.fixture
def pipeline(broker, topic, tmp_path):
    """The page's pipeline on the topic, with some of its text replaced."""

    def make(*replaced):
        text = FILE.replace("127.0.0.1:9092", broker).replace('= "flights"\nstart', f'= "{topic}"\nstart')
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "flights.toml"
        path.write_text(text)
        return load(path)

    return make


def rows(spark, pipeline, *columns):
    """What the table holds, as another reader than the writer sees it."""
    table = spark.read.option("mergeSchema", "true").parquet(str(pipeline.sink.path))
    return sorted(tuple(row) for row in table.select(*columns).collect())


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_page_works_as_it_stands_and_its_table_grows(spark, broker, topic, pipeline):
    produce(broker, topic, *RECORDS)
    first = pipeline()

    columns = supervisor.check(spark, first).fields
    assert [f"{field.name} {field.dataType.simpleString()}" for field in columns] == SHOWN
    done = supervisor.run(spark, first, quiet())

    assert (
        f"{done.records_read} records read, {done.rows_written} rows written in {done.batches} batches"
        in PAGE
    )
    files = [
        f"flights/{path.relative_to(first.sink.path)}" for path in first.sink.path.rglob("*=*/*.parquet")
    ]
    assert all(file in PAGE for file in files)
    assert rows(spark, first, "carrier", "delay") == [("AA", 33), ("UA", 2)]

    produce(broker, topic, '{"carrier": "DL", "delay": 5, "departed": "2013-01-02T10:00:00Z"}')
    grown = pipeline(
        ("value.carrier,", "value.carrier, 2 * value.delay AS twice,"),
        ("[sink]", f'[follow]\ngroup = "{topic}-table"\nmetricsPort = 0\n[sink]'),
    )
    done = supervisor.run(spark, grown, quiet())
    assert (done.records_read, done.rows_written) == (1, 1)
    assert rows(spark, grown, "carrier", "delay", "twice") == [
        ("AA", 33, None),
        ("DL", 5, 10),
        ("UA", 2, None),
    ]

    with Admin(broker) as admin:
        committed = admin.groups.offsets([f"{topic}-table"], [TopicPartition(topic, 0)])
    assert committed[f"{topic}-table"][TopicPartition(topic, 0)].offset == 4
    with pytest.raises(PipelineError, match="column delay is string now and int in the table"):
        supervisor.check(spark, pipeline(("value.delay,", "CAST(value.delay AS STRING) AS delay,")))
    with pytest.raises(PipelineError, match="was written with another checkpoint"):
        supervisor.run(spark, pipeline(("flights.checkpoint", "other")), quiet())
    with pytest.raises(PipelineError, match="is partitioned by departed_day, not by departed_hour"):
        supervisor.check(spark, pipeline(('"day"', '"hour"')))


@pytest.mark.spark
def test_without_a_broker_it_says_so_before_the_stream_does(spark, broker, pipeline, monkeypatch):
    monkeypatch.setattr(supervisor, "_ANSWER_MS", 500)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and no listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        lonely = pipeline(
            (
                f'"{broker}"',
                (
                    f'"{address}"\nkafka.request.timeout.ms = 1000\nkafka.default.api.timeout.ms = '
                    "1000\nfetchOffset.numRetries = 0"
                ),
            ),
            ("[sink]", "[restart]\nattempts = 0\n[sink]"),
        )
        console = quiet()
        with pytest.raises(PipelineError) as ended:
            supervisor.run(spark, lonely, console)

    assert f"no broker has answered yet (No broker of {address} answered in 500 ms" in console.file.getvalue()
    assert str(ended.value).startswith(f"flights: No broker of {address} answered in 1000 ms: ")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("FROM source", "FROM sorce", "transform.sql: [TABLE_OR_VIEW_NOT_FOUND]"),
        ("FROM source", "FRM source", "transform.sql: [PARSE_SYNTAX_ERROR]"),
        ("FROM source", "FROM (SELECT 1 AS value)", "transform.sql: [INVALID_EXTRACT_BASE_FIELD_TYPE]"),
        ('"departed"', '"delay"', "sink.eventTime.column: delay is int: it must be a timestamp or a date"),
        ("value.departed", "value.departed, 1 AS departed_day", ("sink.eventTime: the rows have a column "
                                                                 "departed_day already")),
        ('path = "flights"', 'path = "t"\npartitionBy = ["none"]', ("sink.partitionBy: the rows have no "
                                                                   "column none")),
    ],
)  # fmt: skip
def test_what_spark_refuses_is_one_line_that_names_the_key(spark, pipeline, old, new, words):
    with pytest.raises(PipelineError, match=re.escape(words)) as caught:
        supervisor.check(spark, pipeline((old, new)))
    assert "\n" not in str(caught.value)


@pytest.mark.spark
def test_what_the_command_prints_of_it_is_that_line_alone(pipeline, tmp_path):
    """PySpark prints an error of SQL with all of Java's stack: that is for the log."""
    pipeline(("value.delay,", "value.dely,"))
    command = "from barnabas.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "pipeline", "check", str(tmp_path / "flights.toml")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    (line,) = (done.stdout + done.stderr).splitlines()
    assert line.startswith("Error: transform.sql: [FIELD_NOT_FOUND] No such struct field `dely`")
    assert "FIELD_NOT_FOUND" in (tmp_path / "flights.log").read_text()


@pytest.mark.spark
def test_a_query_of_something_else_is_refused(spark, pipeline):
    with pytest.raises(PipelineError, match="must give a DataFrame of what `source` has"):
        supervisor.check(spark, pipeline((FILE.partition('"""')[2].partition('"""')[0], "SELECT 1 AS one")))


@pytest.mark.spark
def test_a_python_transformation_beside_the_file(spark, pipeline, tmp_path, topic_name):
    module = topic_name("module").replace("-", "_")
    (tmp_path / f"{module}.py").write_text(
        "def late(rows):\n    return rows.select('value.delay', 'value.departed').where('delay > 10')\n"
        "def wrong(rows):\n    return rows.nothing\n"
        "def count(rows):\n    return 5\n"
    )
    sql = FILE.partition("[transform]\n")[2].partition("[sink]")[0]

    def checked(function):
        return supervisor.check(spark, pipeline((sql, f'python = "{module}:{function}"\n')))

    assert checked("late").names == ["delay", "departed", "departed_day"]
    with pytest.raises(PipelineError, match=r"transform\.python: \w*AttributeError: .*nothing"):
        checked("wrong")
    with pytest.raises(PipelineError, match=r"transform\.python: AttributeError: .*none"):
        checked("none")
    with pytest.raises(PipelineError, match=r"transform\.python must give a DataFrame"):
        checked("count")


@pytest.mark.spark
def test_malformed_values_end_a_query_or_are_kept(spark):
    from barnabas.spark.pipeline.rows.frames import decoded

    for kind, good, bad in (("json", '{"a": 1, "b": 2}', '{"a": 1, "b": "x"}'), ("csv", "1;2", "1;x")):
        frame = spark.createDataFrame([(good.encode(),), (bad.encode(),), (None,)], "value binary")
        kept = decoded(frame, Format(kind, "a INT, b INT", ";", keep_malformed=True)).select("value.*")
        assert [tuple(row) for row in kept.collect()] == [(1, 2, None), (1, None, bad), (None, None, None)]
        # The field that is wrong is none of those that are asked for.
        failing = decoded(frame, Format(kind, "a INT, b INT", ";")).select("value.a")
        with pytest.raises(Py4JJavaError, match="MALFORMED_RECORD"):
            failing.collect()


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_stream_that_cannot_work_ends_with_one_line(spark, broker, topic, pipeline):
    produce(broker, topic, "no JSON")
    broken, console = pipeline(), quiet()

    with pytest.raises(
        PipelineError, match=r"^flights: \[MALFORMED_RECORD.*\(more in .*flights\.log\)"
    ) as caught:
        supervisor.run(spark, broken, console)
    assert "\n" not in str(caught.value)
    assert "restart" not in console.file.getvalue()
    assert rows_on_disk(broken) == []


@pytest.mark.spark
def test_a_table_that_others_make_another_one_ends_the_run_at_once(
    spark, broker, topic, pipeline, monkeypatch
):
    """Its columns are looked at when a run begins; between two batches somebody replaces it."""
    produce(broker, topic, RECORDS[0], RECORDS[1])
    running, console, write = (
        pipeline(
            ('kind = "parquet"', 'kind = "delta"'),
            ('eventTime = { column = "departed", by = "day" }', ""),
            ("[format]", "maxOffsetsPerTrigger = 1\n[format]"),
        ),
        quiet(),
        BatchSink.write,
    )

    def replacing(self, frame, batch):
        if batch == 1:
            other = pa.table({"carrier": ["UA"], "delay": ["two"]})
            write_deltalake(running.sink.path, other, mode="overwrite", schema_mode="overwrite")
        write(self, frame, batch)

    monkeypatch.setattr(BatchSink, "write", replacing)
    with pytest.raises(PipelineError, match=r"^flights: column delay is int now and string in the table"):
        supervisor.run(spark, running, console)
    assert "restart" not in console.file.getvalue()


@pytest.mark.spark
def test_a_checkpoint_that_is_removed_while_it_runs_ends_the_run(spark, broker, topic, pipeline, monkeypatch):
    """The next start began a new query, which read all records again into the same table."""
    produce(broker, topic, RECORDS[0], RECORDS[1])
    running, write = pipeline(("[format]", "maxOffsetsPerTrigger = 1\n[format]")), BatchSink.write

    def removing(self, frame, batch):
        if batch == 1:
            shutil.rmtree(running.checkpoint)
            raise OSError("the batch fails as well")
        write(self, frame, batch)

    monkeypatch.setattr(BatchSink, "write", removing)
    running = replace(running, backoff_ms=1)
    with pytest.raises(PipelineError, match=r"flights\.checkpoint was removed or replaced while"):
        supervisor.run(spark, running, quiet())
    assert rows(spark, running, "carrier") == [("UA",)]


@pytest.mark.spark
def test_a_checkpoint_that_cannot_be_used_is_one_line(spark, topic, pipeline):
    """It ended in a traceback of Python's."""
    running = pipeline()
    running.checkpoint.write_text("a file")
    with pytest.raises(PipelineError, match=r"flights\.checkpoint: File exists$"):
        supervisor.run(spark, running, quiet())
    running.checkpoint.unlink()
    with checkpoint.used(running.checkpoint), pytest.raises(PipelineError, match="is being used by another"):
        supervisor.run(spark, running, quiet())


@pytest.mark.spark
def test_what_sparks_jvm_raises_is_its_cause_in_one_line(spark, topic, pipeline):
    """It was said that the JVM had ended."""
    running = pipeline()
    (running.checkpoint / "metadata").mkdir(parents=True)
    with pytest.raises(PipelineError) as caught:
        supervisor.run(spark, running, quiet())
    assert "\n" not in str(caught.value)
    assert "metadata" in str(caught.value)


def rows_on_disk(pipeline):
    return list(pipeline.sink.path.glob("*.parquet"))


class Stop(threading.Event):
    """Never set; keeps the pauses and does not make them."""

    def __init__(self):
        super().__init__()
        self.pauses = []

    def wait(self, timeout=None):
        self.pauses.append(timeout)
        return False


def supervised(outcomes, restarts=3, said=None, joins=()):
    """Supervises queries that end so: a reason, a failure or None, and how many batches ended well before.
    The pauses; the lines are in `said`.
    """
    stop, sink, coming = Stop(), SimpleNamespace(batches=0, failure=None), iter(outcomes)
    pipeline = SimpleNamespace(name="p", restarts=restarts, backoff_ms=1000, log="p.log", joins=joins)

    def follow(_query):
        why, batches = next(coming)
        sink.batches += batches
        return Failure(why, is_final=False) if isinstance(why, str) else why

    said = [] if said is None else said
    watch = SimpleNamespace(
        pipeline=pipeline,
        stop=stop,
        outcome=supervisor.RunOutcome(),
        follow=follow,
        say=said.append,
        events=SimpleNamespace(emit=lambda *_, **__: None),
    )
    watch.count_restart = partial(supervisor._Watch.count_restart, watch)
    try:
        supervisor._supervise(object, sink, watch)
    finally:
        assert next(coming, None) is None
        assert watch.outcome.restarts == len(stop.pauses) == len(said)
    return stop.pauses


def test_pauses_grow_and_a_batch_that_ends_well_starts_the_count_again():
    assert supervised([("x", 0), ("x", 0), ("x", 1), ("x", 0), ("x", 0), (None, 0)]) == [1, 2, 1, 2, 4]
    assert supervised([("x", 0)] * 9 + [(None, 0)], restarts=9)[-3:] == [60, 60, 60]


def test_pauses_grow_while_something_is_away():
    """Each start writes an error of Spark's to the log, which a day without a registry filled."""
    away = ("[SCHEMA_REGISTRY_AWAY] x", 0)
    assert supervised([away] * 9 + [(away[0], 1), away, (None, 0)], restarts=0) == [
        1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 2
    ]  # fmt: skip


def test_a_reason_that_comes_again_is_said_in_full_once():
    said = []
    supervised([("x", 0), ("x", 0), ("y", 0), ("x", 0), (None, 0)], restarts=4, said=said)
    assert said == [
        "failed: x; restart 1 of 4 in 1 s",
        "failed: the same again; restart 2 of 4 in 2 s",
        "failed: y; restart 3 of 4 in 4 s",
        "failed: x; restart 4 of 4 in 8 s",
    ]


def test_it_gives_up_when_nothing_gets_done():
    with pytest.raises(PipelineError, match=r"^p: gave up after 3 restarts: x "):
        supervised([("x", 0)] * 4)
    with pytest.raises(PipelineError, match=r"^p: x "):
        supervised([("x", 0)], restarts=0)


def test_what_no_start_can_mend_ends_at_once_unless_a_joined_table_may():
    final = Failure("x", is_final=True)
    with pytest.raises(PipelineError, match=r"^p: x "):
        supervised([("y", 0), (final, 0)])
    assert supervised([(final, 0), (None, 0)], joins=["airlines"]) == [1]


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        (PipelineError("transform.sql: [UNRESOLVED_COLUMN.WITH_SUGGESTION] x"), True),
        (AnalysisException("[UNRESOLVED_COLUMN.WITH_SUGGESTION] x"), True),
        (TransientError("s3://lake/t: AWS Error SLOW_DOWN"), False),
        (OSError(28, "No space left on device"), False),
        (RuntimeError("[STREAM_FAILED] Query [id = 1]\nbarnabas.spark.errors.OptionError: wrong"), True),
        (RuntimeError("x\nbarnabas.spark.errors.PipelineError: [MALFORMED_RECORD] t-0 offset 3"), True),
        (RuntimeError("x\nbarnabas.spark.errors.TransientError: t-0 offset 3 cannot be read yet"), False),
        (RuntimeError("[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed"), True),
        (RuntimeError("[USER_RAISED_EXCEPTION] t-0 offset 3 is no change"), True),
        (RuntimeError("barnabas.operations.schemas.registry.RegistryError: refuses the user x"), True),
        (RuntimeError("barnabas.operations.schemas.registry.RegistryAwayError: does not answer"), False),
        (RuntimeError("barnabas.network.sasl.mechanism.SaslAuthenticationError: failed"), True),
        (RuntimeError("barnabas.spark.errors.DataLossError: [KAFKA_DATA_LOSS.START_OFFSET_RESET] x"), True),
        # A broker that has just begun may know fewer topics than there are.
        (RuntimeError("barnabas.spark.errors.DataLossError: [KAFKA_DATA_LOSS.PARTITIONS_DELETED] x"), False),
        (RuntimeError("barnabas.core.errors.KafkaError: Topic authorization failed."), False),
    ],
)  # fmt: skip
def test_which_errors_no_start_can_mend(error, is_final):
    assert Failure.of(error).is_final is is_final


@pytest.mark.parametrize(
    "words", ["Python worker failed to connect back.", "[CANNOT_OPEN_SOCKET] Can not open socket"]
)
def test_a_query_whose_python_did_not_start_is_started_again_beside_the_attempts(words):
    """On a machine that is busy; nothing of the pipeline has run by then."""
    late = (f"p terminated with exception: {words}", 0)
    assert supervised([late] * 10 + [(None, 0)], restarts=0) == [1] * 10
    assert supervised([late, ("x", 0), *[late] * 10, ("x", 0), (None, 0)], restarts=2) == [1, 1, *[1] * 10, 2]
    assert supervised([late] * 9 + [(late[0], 1)] * 9 + [(None, 0)], restarts=0) == [1] * 18
    with pytest.raises(PipelineError, match=f"^p: {late[0]}".replace("[", r"\[")):
        supervised([late] * 11, restarts=0)


def columns(*fields):
    return StructType([StructField(name, kind, nullable=False) for name, kind in fields])


def test_columns_are_added_behind_those_of_the_table_and_never_changed():
    table = merged(None, columns(("a", IntegerType()), ("b", StringType())))
    grown = merged(table, columns(("c", LongType()), ("b", StringType())))

    assert grown.names == ["a", "b", "c"]
    assert all(field.nullable for field in grown.fields)
    for kind, words in (
        (LongType(), "column a is bigint now and int in the table"),
        (NullType(), "has no type"),
    ):
        with pytest.raises(PipelineError, match=words):
            merged(table, columns(("a", kind)))
    with pytest.raises(PipelineError, match="column A is a in the table: only upper and lower case differ"):
        merged(table, columns(("A", IntegerType())))
