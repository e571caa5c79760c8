"""One topic into many tables, by the values of columns."""

import io
import json
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.spark import ddl
from barnabas.spark.errors import Failure, PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.many_tables import named_tables, routes
from barnabas.spark.pipeline.many_tables.routed_sink import require_columns
from barnabas.spark.pipeline.reports.status import status
from barnabas.spark.pipeline.rows.expectations import Expectation, Tally
from barnabas.spark.pipeline.running import supervisor, trial
from barnabas.spark.pipeline.sinks.sink import BatchSink, Destination, compact, open_table
from seeds import drawn_by_this_run
from waiting import until

FILE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
[format]
kind = "json"
schema = "id INT, shop STRING"
[transform]
sql = "{sql}"
[sink]
kind = "{kind}"
path = "{path}"
{more}
[restart]
attempts = 0
"""
SQL = "SELECT value.* FROM source"
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "integer", "nullable": True, "metadata": {}}]}


def write(folder, *, broker="h:1", topic="t", kind="delta", path="lake/{shop}", sql=SQL, more="", end=""):
    file = folder / "routed.toml"
    text = FILE.format(broker=broker, topic=topic, kind=kind, path=path, sql=sql, more=more)
    file.write_text(text + end)
    return file


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": "lake/{shop"}, "sink.path has a brace that is no column's"),
        ({"path": "lake/{}"}, "sink.path has a brace that is no column's"),
        ({"path": "lake/{shop}-{id}"}, "sink.path has two columns in one folder's name"),
        ({"path": "s3://{shop}/lake"}, "sink.path must be a folder, or an address such as"),
        (
            {"kind": "iceberg", "more": 'table = "lake.all"'},
            "sink.table is 'lake.all': it must have the same",
        ),
        (
            {"kind": "iceberg", "path": "lake", "more": 'table = "lake.{shop}"'},
            "it must have the same columns",
        ),
        (
            {"kind": "iceberg", "path": "lake/{shop}/{id}"},
            "sink.table is 'default.{id}': it must have the same",
        ),
        (
            {"kind": "iceberg", "path": "lake/{shop}/{id}", "more": 'table = "lake.{shop}_{id}"'},
            "sink.table has two columns in one part",
        ),
        ({"more": 'mode = "merge"\nkey = ["id"]'}, "sink.path has columns that are not in sink.key: shop"),
    ],
)
def test_paths_that_name_no_tables_are_refused(tmp_path, given, words):
    with pytest.raises(PipelineError, match=words):
        load(write(tmp_path, **given))


@pytest.mark.parametrize(
    ("given", "place", "table"),
    [
        ({"path": "lake/{shop}"}, "lake/north", ""),
        ({"path": "lake/{shop}/sales-{id}"}, "lake/north/sales-7", ""),
        ({"path": "lake/{shop}/../{id}"}, "lake/7", ""),
        ({"kind": "iceberg"}, "lake/north", "default.north"),
        ({"kind": "iceberg", "more": 'table = "shops.of_{shop}"'}, "lake/north", "shops.of_north"),
        (
            {"kind": "iceberg", "path": "lake/{shop}/{id}", "more": 'table = "{shop}.of_{id}"'},
            "lake/north/7",
            "north.of_7",
        ),
        ({"path": "s3://lake/{shop}", "kind": "parquet"}, "s3://lake/north", ""),
    ],
)
def test_values_name_a_table(tmp_path, given, place, table):
    sink = load(write(tmp_path, **given)).sink
    found = sink.of([{"shop": "north", "id": "7"}[name] for name in sink.route.columns])
    assert (found.table, found.route) == (table, None)
    assert found.where == (place if "://" in place else str(tmp_path / place))
    assert found.path != sink.path
    assert sink.path == tmp_path / "checkpoint" / "tables"


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ("EWR", True), ("2013-01-01", True), ("a.b_c-d", True), ("7", True), ("x" * 200, True),
        (None, False), ("", False), ("..", False), ("../x", False), ("a/b", False), ("_barnabas", False),
        (".hidden", False), ("a b", False), ("a%2fb", False), ("{shop}", False), ("a\n", False),
        ("x" * 201, False), ("Zürich", False),
    ],
)  # fmt: skip
def test_which_values_are_names(value, is_one):
    assert routes.is_name(value, routes.TableRoute(("shop",), "lake/{shop}")) is is_one
    of_catalog = routes.TableRoute(("shop",), "lake/{shop}", "default.{shop}")
    assert routes.is_name(value, of_catalog) is (is_one and "." not in value)


def test_no_value_leads_a_table_to_where_the_letters_are(tmp_path):
    """A row with the shop `letters` ended the query, at each start again."""
    for folder, words in (
        ("lake/letters", "apart from sink.path"),
        ("lake/north/in", "apart from sink.path"),
    ):
        with pytest.raises(PipelineError, match=words):
            load(write(tmp_path, end=f'[deadLetter]\nkind = "delta"\npath = "{folder}"\n'))
    load(write(tmp_path, end='[deadLetter]\nkind = "delta"\npath = "lake/_letters"\n'))
    load(write(tmp_path, end='[deadLetter]\nkind = "delta"\npath = "letters"\n'))


@pytest.mark.parametrize("own", ["checkpoint", "log", "events"])
def test_no_value_leads_a_table_to_what_the_pipeline_keeps(tmp_path, own):
    """A row with the shop `kept` ended the query, at each start again."""
    file = write(tmp_path)
    text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith(f"{own} ="))
    for place in ("lake/kept", "lake", "lake/north/kept"):
        file.write_text(f'{own} = "{place}"\n{text}')
        with pytest.raises(PipelineError, match=rf"{own} .*/{place} could be in a table that a row names"):
            load(file)
    file.write_text(f'{own} = "lake/_kept"\n{text}')
    load(file)


def test_columns_that_name_no_table_are_refused(tmp_path):
    sink = load(write(tmp_path)).sink
    for columns, words in (
        ("id INT", "sink.path: the rows have no column shop; they have id"),
        ("id INT, shop DOUBLE", "column shop is double, which names no table: CAST it"),
        ("id INT, shop STRUCT<a: INT>", "column shop is struct"),
    ):
        with pytest.raises(PipelineError, match=words):
            require_columns(sink, ddl.columns(columns))


def test_the_tables_that_there_are_stand_in_the_checkpoint(tmp_path):
    sink = load(write(tmp_path)).sink
    assert named_tables.known(sink) == []
    note = sink.path / "_barnabas" / "tables.json"
    note.parent.mkdir(parents=True)
    named_tables.remember(sink, sink.route, [("north",), ("south",)])
    assert [one.path for one in named_tables.known(sink)] == [
        tmp_path / "lake" / "north",
        tmp_path / "lake" / "south",
    ]
    for tables in ("north", [["../up"]], [["north", "south"]], [[7]]):
        note.write_text(json.dumps({"columns": ["shop"], "tables": tables}))
        with pytest.raises(PipelineError, match=r"tables\.json is no note of a pipeline's tables"):
            named_tables.known(sink)
    note.write_text(json.dumps({"columns": ["id"], "tables": []}))
    with pytest.raises(PipelineError, match=r"sink\.path names tables by shop, and .* has others"):
        named_tables.known(sink)


def test_all_tables_are_compacted(tmp_path):
    sink = load(write(tmp_path, kind="parquet")).sink
    with pytest.raises(PipelineError, match="has no table yet"):
        compact(sink, 1 << 20, lambda *_: None)
    (sink.path / "_barnabas").mkdir(parents=True)
    named_tables.remember(sink, sink.route, [("north",), ("south",), ("west",)])

    def stage(folder):
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), folder / "0.parquet")
        return ["0.parquet"]

    for one in named_tables.known(sink)[:2]:  # the third one was named, and its writer killed
        with open_table(one) as table:
            for batch in range(3):
                table.append("query", batch, SCHEMA, [], stage)
    found = compact(sink, 1 << 20, lambda *_: None)
    assert (found.files_before, found.files_after, found.folders) == (6, 2, 2)
    assert found.bytes_after is not None
    assert compact(sink, 1 << 20, lambda *_: None, dry_run=True).bytes_after is None


def test_a_table_that_was_named_and_not_made_is_not_merged(tmp_path):
    """Each batch behind which small files are merged failed, from the kill on."""
    sink = load(write(tmp_path, more="compactEvery = 1")).sink.of(["north"])
    with BatchSink(Destination(sink, tmp_path / "checkpoint", ddl.columns("id INT, shop STRING"))) as table:
        table.tidy(0)


class World:
    """A topic, and the pipeline that parts it."""

    def __init__(self, spark, broker, topic, folder):
        self.spark, self.broker, self.topic, self.folder = spark, broker, topic, folder
        self.send({"id": 1, "shop": "north"}, {"id": 2, "shop": "south"}, {"id": 3, "shop": "north"})

    def send(self, *values, topic=None):
        with Producer(self.broker) as producer:
            for value in values:
                producer.send_and_wait(topic or self.topic, json.dumps(value).encode())

    def load(self, **given):
        self.pipeline = load(write(self.folder, broker=self.broker, topic=self.topic, **given))
        return self.pipeline

    def run(self, stop=None, **given):
        return supervisor.run(self.spark, self.load(**given), Console(file=io.StringIO()), stop)

    def tables(self):
        """The rows of each by the last parts of their places, as Arrow reads them."""
        found = {}
        for one in named_tables.known(self.pipeline.sink):
            if (table := open_table(one)).state(None) is not None:
                rows = [row["id"] for batch in table.rows(["id"]) for row in batch.to_pylist()]
                found[one.path.name] = sorted(rows)
        return found


@pytest.fixture
def world(spark, broker, topic_name, tmp_path):
    return World(spark, broker, topic_name("parted"), tmp_path)


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", drawn_by_this_run(["delta", "parquet", "iceberg"], "parted"))
def test_a_batch_that_died_between_two_tables_is_in_each_once(world, kind, monkeypatch):
    taken, take = [], BatchSink.take

    def die(self, written, files, batch):
        if taken:
            self.failure = Failure("the disk is full", is_final=False)
            raise OSError(self.failure.reason)
        take(self, written, files, batch)
        taken.append(batch)

    monkeypatch.setattr(BatchSink, "take", die)
    with pytest.raises(PipelineError, match=r"lake/south: .*the disk is full"):
        world.run(kind=kind)
    monkeypatch.setattr(BatchSink, "take", take)
    assert world.tables() == {"north": [1, 3]}

    outcome = world.run(kind=kind)
    assert world.tables() == {"north": [1, 3], "south": [2]}
    assert (outcome.rows_written, outcome.batches) == (1, 1)
    world.send({"id": 4, "shop": "east"}, {"id": 5, "shop": "north"})
    assert world.run(kind=kind).rows_written == 2
    assert world.tables() == {"north": [1, 3, 5], "south": [2], "east": [4]}
    seen = status(world.pipeline)
    assert (seen.state, seen.files is not None and seen.files >= 4) == ("ended", True)


def test_what_the_rules_say_of_a_batch_that_comes_again_counts_once():
    tally, rules = Tally(), [Expectation("a", "drop"), Expectation("b", "deadLetter")]
    for batch in (0, 1, 1):
        tally.add(rules, {"rule_0": 2, "rule_1": 0, "dropped": 2}, batch)
    assert (tally.rows_dropped, tally.violations) == (4, {"a": 4})


@pytest.mark.spark
def test_rows_that_name_no_table_end_the_query_or_are_letters(world):
    """Unless a rule drops them: then they are counted, and neither end the query nor make a table."""
    rule = '[[expect]]\nrule = "id < 100"\nviolation = "drop"\n'
    world.send({"id": 100, "shop": "west"}, {"id": 101, "shop": "../up"})
    outcome = world.run(end=rule)
    assert (outcome.rows_written, outcome.rows_dropped) == (3, 2)
    assert world.tables() == {"north": [1, 3], "south": [2]}

    world.send({"id": 4, "shop": "../up"}, {"id": 5}, {"id": 102})
    with pytest.raises(PipelineError, match=r"a row has .* in shop, which names no table: letters of ASCII"):
        world.run(end=rule)
    tried = trial.attempt(world.spark, world.pipeline, 10)
    assert (len(tried.rows), len(tried.rejects)) == (3, 5)
    assert [one.partition(": ")[0] for one in tried.rejects[2:]] == [
        "a row names no table by shop", "a row names no table by shop", "a row violates the rule id < 100",
    ]  # fmt: skip
    sql = "SELECT value.*, _record FROM source"
    world.send({"id": 6, "shop": "south"})
    outcome = world.run(sql=sql, end=f'[deadLetter]\nkind = "delta"\npath = "dead"\n{rule}')
    assert (outcome.letters, outcome.rows_written, outcome.rows_dropped) == (2, 1, 1)
    assert world.tables() == {"north": [1, 3], "south": [2, 6]}
    letters = DeltaTable(str(world.folder / "dead")).to_pyarrow_table().to_pylist()
    assert {one["reason"] for one in letters} == {"it names no table by shop"}


@pytest.mark.spark
def test_rows_are_changed_by_their_key_in_their_table(world):
    how = 'mode = "merge"\nkey = ["shop", "id"]\ndeletedBy = "gone"'
    sql = "SELECT value.*, value.id > 9 AS gone, _change FROM source"
    world.send({"id": 3, "shop": "south"}, {"id": 1, "shop": "north"})
    assert world.run(more=how, sql=sql).rows_written == 4
    assert world.tables() == {"north": [1, 3], "south": [2, 3]}
    sql = "SELECT value.*, value.shop = 'south' AS gone, _change FROM source"
    world.send({"id": 3, "shop": "south"}, {"id": 3, "shop": "north"})
    world.run(more=how, sql=sql)
    assert world.tables() == {"north": [1, 3], "south": [2]}


@pytest.mark.spark
def test_a_topic_that_comes_while_it_runs_gets_a_table(world):
    file = write(
        world.folder, broker=world.broker, path="lake/{topic}", sql="SELECT value.*, topic FROM source"
    )
    text = file.read_text().replace('subscribe = "t"', f'subscribePattern = "{world.topic}.*"')
    file.write_text(f'trigger = "100ms"\n{text}')
    world.pipeline = load(file)
    stop, new = threading.Event(), f"{world.topic}.new"
    running = threading.Thread(
        target=supervisor.run, args=(world.spark, world.pipeline, Console(file=io.StringIO()), stop)
    )
    running.start()
    try:
        until(lambda: world.tables() == {world.topic: [1, 2, 3]}, lambda: str(world.tables()))
        with Admin(world.broker) as admin:
            admin.topics.create([NewTopic(new, partitions=1)])
        world.send({"id": 7}, topic=new)
        until(lambda: world.tables() == {world.topic: [1, 2, 3], new: [7]}, lambda: str(world.tables()))
    finally:
        stop.set()
        running.join()
