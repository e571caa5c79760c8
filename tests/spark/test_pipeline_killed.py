"""`barnabas pipeline run` is killed before and after each commit, and has each row once at the end."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from barnabas.admin import BlockingAdmin, NewTopic
from barnabas.client import Producer
from spark_processes import environment

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.timeout(600)]

# Each number comes twice, in other batches: what the query knows of earlier batches must outlive the kills as well.
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
kind = "parquet"
path = "table"
partitionBy = ["third"]
[spark]
master = "local[1]"
driver.memory = "512m"
sql.shuffle.partitions = 1
driver.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""
# The first kill is also one behind the checkpoint's commit of batch 0, the second one before that of batch 1.
KILLS = [("before-commit", 1), ("after-commit", 1)]


def run(file, *point):
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name("pipeline_killed.py")), str(file), *map(str, point)],
        capture_output=True, text=True, check=False, env=environment(), timeout=180,
    )  # fmt: skip


def test_every_row_is_there_once_after_kills_at_each_commit(broker, topic_name, tmp_path):
    topic = topic_name("killed")
    with BlockingAdmin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=1)])
    with Producer(broker) as producer:
        for number in range(30):
            producer.send_and_wait(topic, b'{"number": %d}' % (number % 15))
    (tmp_path / "killed_job.py").write_text(MODULE)
    file = tmp_path / "killed.toml"
    file.write_text(PIPELINE.format(broker=broker, topic=topic))

    for point, batch in KILLS:
        done = run(file, point, batch)
        assert done.returncode == -signal.SIGKILL, (point, done.stdout, done.stderr[-2000:])
        commit = json.loads((tmp_path / "table" / "_barnabas" / "commit.json").read_text())
        assert commit["batch"] == (batch - 1 if point == "before-commit" else batch), point
    done = run(file)
    assert done.returncode == 0, done.stderr[-2000:]

    files = list((tmp_path / "table").glob("third=*/*.parquet"))
    numbers = [number for path in files for number in pq.ParquetFile(path).read()["number"].to_pylist()]
    assert sorted(numbers) == list(range(15))
    assert list((tmp_path / "table" / "_barnabas").glob("staging-*")) == []
