"""Values at the edge of what a type holds, and what a disk, a store or a second run do in the middle of it:
each is in the table as it was sent, or is one line.
"""

import datetime as dt
import io
import json
import math
import os
import shutil
import subprocess
import threading
from decimal import Decimal

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Consumer, Producer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.many_tables import named_tables
from barnabas.spark.pipeline.running import supervisor
from barnabas.spark.pipeline.sinks.sink import open_table
from seeds import drawn_by_this_run
from waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

LARGE = 5 << 20
FILE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
[format]
kind = "json"
schema = "{schema}"
[transform]
sql = "{sql}"
[sink]
kind = "{kind}"
path = "{path}"
[restart]
attempts = 0
{end}
"""
SCHEMA = "id INT, at TIMESTAMP, day DATE, amount DECIMAL(38,10), whole DECIMAL(38,0), x DOUBLE, text STRING"
SQL = "SELECT value.*, key, timestamp FROM source"
FIRST_DAY, LAST_DAY = dt.date(1, 1, 1), dt.date(9999, 12, 31)
LAST_MS = 253_402_300_799_999


def created(admin, topic):
    """Whether it was: not while one of its name is being deleted."""
    try:
        admin.topics.create([topic])
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


class World:
    """A topic that takes large records of any time, and a pipeline that reads it."""

    def __init__(self, spark, broker, topic, folder):
        self.spark, self.broker, self.topic, self.folder = spark, broker, topic, folder
        configs = {"max.message.bytes": "8000000", "message.timestamp.after.max.ms": str(2**63 - 1)}
        with Admin(broker) as admin:
            until(lambda: created(admin, NewTopic(topic, partitions=1, configs=configs)), lambda: topic)

    def send(self, *values, key=None, **how):
        with Producer(self.broker, max_request_size=LARGE + 1000) as producer:
            for value in values:
                sent = value if isinstance(value, bytes) else json.dumps(value).encode()
                producer.send_and_wait(self.topic, sent, key, **how)

    def load(self, kind="delta", path="table", schema=SCHEMA, sql=SQL, end=""):
        file = self.folder / "extremes.toml"
        given = {"schema": schema, "sql": sql, "end": end}
        file.write_text(FILE.format(broker=self.broker, topic=self.topic, kind=kind, path=path, **given))
        self.pipeline = load(file)
        return self.pipeline

    def run(self, stop=None, **given):
        return supervisor.run(self.spark, self.load(**given), Console(file=io.StringIO()), stop)

    def rows(self, kind, **where):
        """As the formats' own readers see them."""
        if kind == "delta":
            found = DeltaTable(str(self.folder / "table")).to_pyarrow_dataset().to_table(**where)
        elif kind == "iceberg":
            catalog = load_catalog("default", uri=f"sqlite:///{self.folder}/catalog.db")
            found = catalog.load_table("default.table").scan().to_arrow()
        else:
            found = ds.dataset(self.folder / "table", format="parquet").to_table(**where)
        return sorted(found.to_pylist(), key=lambda row: row["id"])


@pytest.fixture
def world(spark, broker, topic_name, tmp_path):
    return World(spark, broker, topic_name("extremes"), tmp_path)


@pytest.mark.parametrize("kind", drawn_by_this_run(["parquet", "delta", "iceberg"], "extremes"))
def test_values_at_the_edge_of_their_types_come_back_as_they_were(world, kind):
    most = "9" * 38
    world.send(
        {
            "id": 1, "at": "0001-01-01T00:00:00Z", "day": "0001-01-01", "amount": f"-{most[:28]}.{most[:10]}",
            "whole": f"-{most}", "x": "NaN", "text": "",
        },
        {
            "id": 2, "at": "9999-12-31T23:59:59.999999Z", "day": "9999-12-31",
            "amount": f"{most[:28]}.{most[:10]}", "whole": most, "x": "Infinity", "text": "\u0000 \U0001f600",
        },
        key=b"\xff\x00",
    )  # fmt: skip
    world.send({"id": 3, "x": 1.5, "text": "x" * LARGE}, timestamp_ms=LAST_MS)
    world.send({"id": 4}, key=b"", timestamp_ms=0)
    assert world.run(kind=kind).rows_written == 4

    first, last, large, none = world.rows(kind)
    assert (first["at"], first["day"]) == (dt.datetime(1, 1, 1, tzinfo=dt.UTC), FIRST_DAY)
    assert (last["at"], last["day"]) == (dt.datetime.max.replace(tzinfo=dt.UTC), LAST_DAY)
    amount = Decimal(f"{most[:28]}.{most[:10]}")
    assert (first["amount"], last["amount"]) == (amount.copy_negate(), amount)
    assert (first["whole"], last["whole"]) == (Decimal(f"-{most}"), Decimal(most))
    assert math.isnan(first["x"])
    assert (last["x"], large["x"], none["x"]) == (math.inf, 1.5, None)
    assert (first["text"], last["text"], large["text"]) == ("", "\u0000 \U0001f600", "x" * LARGE)
    assert (first["key"], large["key"], none["key"]) == (b"\xff\x00", None, b"")
    assert large["timestamp"] == dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, dt.UTC)
    assert none["timestamp"] == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize("kind", drawn_by_this_run(["parquet", "delta", "iceberg"], "texts that are none"))
def test_text_that_is_no_utf_8_leaves_a_table_that_all_can_read(world, kind):
    """Readers of Arrow refuse a whole column for one such text."""
    world.send(b'{"id": 1, "text": "\xff\xfe broken \xc3"}', b'{"id": 2, "text": "whole"}')
    world.send({"id": 3}, key=b"\xc3(")
    sql = """SELECT value.id, value.text, CAST(key AS STRING) AS named,
        CASE WHEN value.id = 3 THEN named_struct('a b', struct(CAST(key AS STRING) AS c)) END AS deep
        FROM source""".replace("\n", " ")
    world.run(kind=kind, sql=sql)
    first, second, third = world.rows(kind)
    assert (second["text"], second["named"]) == ("whole", None)
    assert "broken" in first["text"]
    assert third["named"] == "\ufffd("
    assert (second["deep"], third["deep"]) == (None, {"a b": {"c": "\ufffd("}})


@pytest.mark.campaign
def test_large_records_go_to_topics_too(world, topic_name):
    """To that of dead letters as they came."""
    letters = topic_name("letters")
    with Admin(world.broker) as admin:
        admin.topics.create([NewTopic(letters, partitions=1, configs={"max.message.bytes": "8000000"})])
    world.send(b"no JSON " * (LARGE // 8), {"id": 1})
    outcome = world.run(
        sql="SELECT value.id, _record FROM source", end=f'[deadLetter]\nkind = "topic"\ntopic = "{letters}"'
    )
    assert (outcome.letters, outcome.rows_written) == (1, 1)
    with Consumer(world.broker, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(letters, 0)])
        (letter,) = consumer.poll(30_000)
    assert letter.value == b"no JSON " * (LARGE // 8)


def test_a_topic_that_is_made_again_between_two_runs_is_one_line(world):
    world.send({"id": 1}, {"id": 2})
    world.run(sql="SELECT value.id FROM source")
    with Admin(world.broker) as admin:
        admin.topics.delete(world.topic)
    world = World(world.spark, world.broker, world.topic, world.folder)
    world.send({"id": 3})
    with pytest.raises(PipelineError, match="has been deleted and created again") as caught:
        world.run(sql="SELECT value.id FROM source")
    assert "\n" not in str(caught.value)
    assert [row["id"] for row in world.rows("delta")] == [1, 2]


def test_of_two_runs_of_one_file_the_second_ends_with_one_line(world):
    """Also while there is no table yet that both could write to."""
    world.send({"id": 1, "text": "north"})
    sql = "SELECT value.id, value.text AS shop FROM source"
    stop = threading.Event()
    file = world.load(sql=sql, path="lake/{shop}")
    running = threading.Thread(
        target=supervisor.run, args=(world.spark, file, Console(file=io.StringIO()), stop)
    )
    with open_table(file.sink), pytest.raises(PipelineError, match="by another process") as caught:
        world.run(sql=sql, path="lake/{shop}")
    assert "\n" not in str(caught.value)
    assert named_tables.known(file.sink) == []
    running.start()
    running.join()
    assert DeltaTable(str(world.folder / "lake" / "north")).to_pyarrow_table().to_pylist()


IDS = "SELECT value.id FROM source"


def ids(world, kind="parquet"):
    return [row["id"] for row in world.rows(kind)]


def refused(world, words):
    with pytest.raises(PipelineError, match=words) as caught:
        world.run(kind="parquet", sql=IDS)
    assert "\n" not in str(caught.value)


def test_a_table_or_a_checkpoint_that_was_put_back_from_an_older_copy_is_one_line(world):
    """What Spark would make of it is a table in which rows are missing, and nobody hears of it."""
    table, checkpoint = world.folder / "table", world.folder / "checkpoint"
    for number in (1, 2):
        world.send({"id": number})
        world.run(kind="parquet", sql=IDS)
        for folder in (table, checkpoint):
            shutil.copytree(folder, world.folder / f"{folder.name}-{number}")

    def put(folder, number):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(world.folder / f"{folder.name}-{number}", folder)

    world.send({"id": 3})
    put(checkpoint, 1)
    refused(world, "has batch 1, which .*checkpoint has not begun")
    put(checkpoint, 2)
    put(table, 1)
    refused(world, "table ends with batch 0, but .*checkpoint says that batch 1 is done")
    shutil.rmtree(table)
    refused(world, "table is not there, but .*checkpoint says that batch 1 is done")
    put(table, 2)
    world.run(kind="parquet", sql=IDS)
    assert ids(world) == [1, 2, 3]


def test_a_checkpoint_whose_newest_files_a_loss_of_power_has_emptied_goes_on(world):
    """Spark does not have them on the disk when it goes on, and does not start with them."""
    checkpoint = world.folder / "checkpoint"
    for number in (1, 2):
        world.send({"id": number})
        world.run(kind="parquet", sql=IDS)
    for number in (0, 1):
        (checkpoint / "commits" / str(number)).write_bytes(b"")
    (checkpoint / "offsets" / "2").write_bytes(bytes(300))
    world.send({"id": 3})
    world.run(kind="parquet", sql=IDS)
    assert ids(world) == [1, 2, 3]
    (checkpoint / "offsets" / "2").write_bytes(b"")
    refused(world, "offsets/2 is damaged, and batch 2 is done")


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of a megabyte, and what makes it larger."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root mounts a disk that can be full")
    yield place, lambda: subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize(
    "path", drawn_by_this_run(["disk/table", "disk/lake/{shop}"], "tables on a full disk")
)
@pytest.mark.parametrize("kind", drawn_by_this_run(["parquet", "delta", "iceberg"], "full disk"))
def test_a_disk_that_is_full_is_one_line_and_takes_the_batch_once_it_has_room(world, small_disk, kind, path):
    _, enlarge = small_disk
    for number in range(3):
        world.send({"id": number, "text": os.urandom(400_000).hex()})
    sql = "SELECT value.id, value.text, concat('s', value.id % 2) AS shop FROM source"
    for _ in range(2):
        with pytest.raises(PipelineError, match="No space left on device") as caught:
            world.run(kind=kind, path=path, sql=sql)
        assert "\n" not in str(caught.value)
    enlarge()
    assert world.run(kind=kind, path=path, sql=sql).rows_written in {1, 3}  # the second table's, or all
    found = [
        row["id"]
        for one in named_tables.known(world.pipeline.sink)
        for rows in open_table(one).rows(["id"])
        for row in rows.to_pylist()
    ]
    assert sorted(found) == [0, 1, 2]
