"""`barnabas pipeline run` is killed before and after each commit, and has each row once at the end."""

import json
import signal

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

import java_options
from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from seeds import drawn_by_this_run
from spark_processes import run_to_its_end

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.timeout(2400)]

KILLED = "pipeline_killed.py"

# Each number comes twice, in other batches: what the query knows of earlier batches must outlive the kills as
# well.
MODULE = """
def once(rows):
    return rows.selectExpr("value.number", "value.number % 3 AS third").dropDuplicates(["number"])
"""
PIPELINE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 10
[format]
kind = "json"
schema = "number INT"
[transform]
python = "killed_job:once"
[sink]
kind = "{kind}"
path = "table"
partitionBy = ["third"]
[spark]
master = "local[1]"
driver.memory = "512m"
sql.shuffle.partitions = 1
driver.extraJavaOptions = "{java}"
"""
# Where batch 1 is killed, and the table's last batch then. Between the kills before its commit it is written
# again; a start behind the commit finds it in the table. test_pipeline_parquet.py kills an append to plain
# files before each step, and tests/spark/faults/run.py kills at more points.
PHASES = [("before-commit", 0), ("after-commit", 1), ("before-checkpoint", 1)]


def parquet(folder):
    commit = json.loads((folder / "_barnabas" / "commit.json").read_text())
    files = folder.glob("third=*/*.parquet")
    return commit["batch"], [
        row for path in files for row in pq.ParquetFile(path).read()["number"].to_pylist()
    ]


def delta(folder):
    table = DeltaTable(str(folder))
    versions = [
        json.loads(path.read_text().splitlines()[-1]) for path in (folder / "_delta_log").glob("*.json")
    ]
    batch = max(version["txn"]["version"] for version in versions)
    return batch, table.to_pyarrow_table()["number"].to_pylist()


def iceberg(folder):
    table = load_catalog("default", uri=f"sqlite:///{folder.parent}/catalog.db").load_table("default.table")
    return int(table.properties["barnabas.batch"]), table.scan().to_arrow()["number"].to_pylist()


@pytest.mark.parametrize("reader", drawn_by_this_run([parquet, delta, iceberg], "table of a killed job"))
def test_every_row_is_there_once_after_kills_in_each_phase(broker, topic_name, tmp_path, reader):
    kills = [("after-commit", 1)] if reader is parquet else PHASES
    topic = topic_name("killed")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=1)])
    with Producer(broker) as producer:
        for number in range(30):
            producer.send_and_wait(topic, b'{"number": %d}' % (number % 15))
    (tmp_path / "killed_job.py").write_text(MODULE)
    file = tmp_path / "killed.toml"
    file.write_text(
        PIPELINE.format(broker=broker, topic=topic, kind=reader.__name__, java=java_options.SMALL)
    )

    for point, last in kills:
        done = run_to_its_end(KILLED, file, point, 1)
        assert done.returncode == -signal.SIGKILL, (point, done.stdout, done.stderr[-2000:])
        batch, numbers = reader(tmp_path / "table")
        assert batch == last, point
        if point != "after-commit":  # plain files are not all in their places then
            assert sorted(numbers) == list(range(10 if last == 0 else 15)), point
    done = run_to_its_end(KILLED, file)
    assert done.returncode == 0, done.stderr[-2000:]

    _, numbers = reader(tmp_path / "table")
    assert sorted(numbers) == list(range(15))
    assert list((tmp_path / "table" / "_barnabas").glob("staging-*")) == []


CHANGED = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 10
[format]
kind = "json"
schema = "number INT"
key = {{ kind = "text", schema = "id INT" }}
[sink]
kind = "{kind}"
path = "table"
mode = "merge"
key = ["id"]
[spark]
master = "local[1]"
driver.memory = "512m"
sql.shuffle.partitions = 1
driver.extraJavaOptions = "{java}"
"""


@pytest.mark.parametrize("reader", drawn_by_this_run([delta, iceberg], "changed table of a killed job"))
def test_a_table_that_is_changed_is_as_the_topic_says_after_kills(broker, topic_name, tmp_path, reader):
    topic = topic_name("changed")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=1)])
    with Producer(broker) as producer:
        for number in range(30):  # ten keys, each three times; at last the even ones are deleted
            value = None if number >= 20 and number % 2 == 0 else b'{"number": %d}' % number
            producer.send_and_wait(topic, value, key=b"%d" % (number % 10))
    file = tmp_path / "killed.toml"
    file.write_text(CHANGED.format(broker=broker, topic=topic, kind=reader.__name__, java=java_options.SMALL))

    for point, last, numbers in (
        ("after-write", 0, range(10)),
        ("before-commit", 0, range(10)),
        ("after-commit", 1, range(10, 20)),
    ):
        done = run_to_its_end(KILLED, file, point, 1)
        assert done.returncode == -signal.SIGKILL, (point, done.stdout, done.stderr[-2000:])
        batch, found = reader(tmp_path / "table")
        assert (batch, sorted(found)) == (last, list(numbers)), point
    done = run_to_its_end(KILLED, file)
    assert done.returncode == 0, done.stderr[-2000:]

    assert sorted(reader(tmp_path / "table")[1]) == [21, 23, 25, 27, 29]
