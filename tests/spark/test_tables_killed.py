"""A pipeline of one topic into many tables is killed at every step of a batch, while new tables come: at the
end nothing is in any table twice, and nothing is missing. Another program reads the tables.
"""

import json
import random
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

import java_options
from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.many_tables import named_tables, routed_sink
from barnabas.spark.pipeline.many_tables.routed_sink import RoutedSink
from barnabas.spark.pipeline.many_tables.routes import TableRoute
from barnabas.spark.pipeline.sinks import sink
from barnabas.spark.pipeline.sinks.sink import BatchSink, Destination
from barnabas.spark.pipeline.tables.logged import LoggedTable
from barnabas.spark.pipeline.tables.rewriting import Changes
from deaths import Died, deaths
from seeds import drawn_by_this_run
from spark_processes import run_to_its_end

pytestmark = pytest.mark.spark

HERE = Path(__file__).parent
KINDS = ["delta", "iceberg"]


class Sent:
    """The rows that each table must have: new ones at each turn, and each time of a new table too."""

    def __init__(self):
        self.tables, self.rows, self._next = 0, {}, 0

    def more(self, count, newest=0):
        """Rows for the tables that there are, and one more."""
        self.tables += 1
        found = []
        for _ in range(count):
            shop = f"shop{self._next % self.tables if self._next % 3 else self.tables - 1}"
            found.append({"id": self._next, "shop": shop, "text": f"row {self._next}"})
            self.rows.setdefault(shop, {})[self._next] = f"row {self._next}"
            self._next += 1
        return found

    def judged(self):
        """As `table_judge` has to find them."""
        return {
            shop: {
                "keys": dict.fromkeys(map(str, rows), 1),
                "checksum": sum(zlib.crc32(f"{key} {text}".encode()) for key, text in rows.items()),
            }
            for shop, rows in self.rows.items()
        }


def judge(folder):
    """What another program finds in the tables."""
    command = [sys.executable, str(HERE / "table_judge.py"), str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def require_nothing_twice(found, sent, where):
    """Nor anything that was not sent to that table."""
    for shop, said in found.items():
        assert set(said["keys"].values()) <= {1}, (where, shop)
        assert {int(key) for key in said["keys"]} <= sent.rows.get(shop, {}).keys(), (where, shop)


PIPELINE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 9
[format]
kind = "json"
schema = "id INT, shop STRING, text STRING"
[transform]
sql = "SELECT value.* {change} FROM source"
[sink]
kind = "{kind}"
path = "lake/{{shop}}"
compactEvery = 1
{mode}
[spark]
master = "local[2]"
driver.memory = "512m"
sql.shuffle.partitions = 1
driver.extraJavaOptions = "{java}"
"""


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", drawn_by_this_run(["append", "merge"], "mode of killed tables"))
@pytest.mark.parametrize("kind", KINDS)
def test_kills_at_every_step_leave_each_row_once(broker, topic_name, tmp_path, kind, mode):
    import tables_killed

    rng, sent, topic, died = random.Random(f"{kind} {mode}"), Sent(), topic_name("tables"), []
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=2)])
    file, merges = tmp_path / "killed.toml", mode == "merge"
    words = 'mode = "merge"\nkey = ["id", "shop"]' if merges else ""
    file.write_text(
        PIPELINE.format(
            java=java_options.SMALL,
            broker=broker,
            topic=topic,
            kind=kind,
            mode=words,
            change=", _change" if merges else "",
        )
    )
    with Producer(broker) as producer:
        for point in rng.sample(tables_killed.POINTS, len(tables_killed.POINTS)):
            for row in sent.more(9):
                producer.send_and_wait(topic, json.dumps(row).encode(), key=b"%d" % row["id"])
            nth = rng.randrange(3) if point.partition("-")[2] in {"move", "publish", "commit"} else 0
            done = run_to_its_end("tables_killed.py", file, point, nth)
            assert done.returncode in {-signal.SIGKILL, 0}, (point, done.stdout, done.stderr[-2000:])
            if done.returncode:
                assert f"died {point}" in done.stdout, (point, done.stdout)
                died.append(point)
            require_nothing_twice(judge(tmp_path / "lake"), sent, point)
    with Producer(broker) as producer:  # a batch that removes what the last one may have left
        for row in sent.more(9):
            producer.send_and_wait(topic, json.dumps(row).encode(), key=b"%d" % row["id"])
    done = run_to_its_end("tables_killed.py", file)
    assert done.returncode == 0, done.stderr[-2000:]
    assert judge(tmp_path / "lake") == sent.judged(), died
    assert sorted(died) == sorted(tables_killed.POINTS)
    assert list((tmp_path / "checkpoint" / "tables" / "_barnabas").glob("staged-*")) == []


# Each call by which a batch gets from the rows to the tables.
PLACES = [
    (routed_sink, "keep_offsets"), (named_tables, "remember"), (BatchSink, "__enter__"),
    (routed_sink, "write_files"), (sink, "move"), (LoggedTable, "_publish"), (routed_sink.shutil, "rmtree"),
    (DeltaTable, "create_write_transaction"), (SqlCatalog, "commit_table"),
]  # fmt: skip
KILLS = 6


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", drawn_by_this_run(["append", "merge"], "mode of tables whose writer dies"))
@pytest.mark.parametrize("kind", drawn_by_this_run(KINDS, "tables whose writer dies"))
def test_a_writer_that_dies_at_any_step_leaves_each_row_once(spark, tmp_path, kind, mode, monkeypatch):
    """With a seed of its own in each run, and without the start of a process for each death."""
    seed = random.SystemRandom().randrange(1 << 32)
    rng, sent, died, lake = random.Random(seed), Sent(), [], tmp_path / "lake"
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "query"}')
    columns = "id INT, shop STRING, text STRING"
    changes = None
    if mode == "merge":
        columns += ", _change STRUCT<topic: STRING, partition: INT, offset: BIGINT, deleted: BOOLEAN>"
        changes = Changes(("id", "shop"))
    route = TableRoute(("shop",), f"{lake}/{{shop}}", "lake.{shop}" if kind == "iceberg" else "")
    to = Destination(
        Sink(kind, checkpoint / "tables", table=route.table, catalog={"uri": f"sqlite:///{tmp_path}/catalog.db"},
             changes=changes, route=route),
        checkpoint,
        spark.createDataFrame([], columns).schema,
    )  # fmt: skip
    left = deaths(monkeypatch, *PLACES)

    for batch in range(KILLS + 1):
        rows = sent.more(8)
        (checkpoint / "offsets" / str(batch)).touch()
        if changes is not None:
            rows = [{**row, "_change": ("t", 0, row["id"], False)} for row in rows]
        frame = spark.createDataFrame(rows, columns)
        # None in the last batch, which removes what one that died in its end has left.
        left[0] = rng.randrange(3 * sent.tables + 5) if batch < KILLS else None
        try:
            with RoutedSink(to) as tables:
                tables.write(frame, batch)
        except Died as death:
            died.append((batch, str(death)))
            left[0] = None
            if lake.exists():
                require_nothing_twice(judge(lake), sent, (seed, died))
            with RoutedSink(to) as tables:  # a start comes again to the batch
                tables.write(frame, batch)
        left[0] = None
        assert judge(lake) == sent.judged(), (seed, died)
    assert died, seed
    assert list((checkpoint / "tables" / "_barnabas").glob("staged-*")) == []
