"""`barnabas pipeline run` is killed while it reads the past from a copy of a log directory, and goes on with
the brokers at the end: each record is in the table once.
"""

import shutil
import signal

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pipeline_killed import POINTS

import java_options
from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from seeds import drawn_by_this_run
from spark_processes import run_to_its_end

pytestmark = [pytest.mark.campaign, pytest.mark.spark, pytest.mark.timeout(3600)]
PAST, LIVE = 30, 10
PIPELINE = """
checkpoint = "checkpoint"
[backfill]
logs = "copy"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "visits"
maxOffsetsPerTrigger = 10
[format]
kind = "json"
schema = "number INT"
[transform]
sql = "SELECT value.number FROM source"
[sink]
kind = "{kind}"
path = "table"
[spark]
master = "local[1]"
driver.memory = "512m"
sql.shuffle.partitions = 1
driver.extraJavaOptions = "{java}"
"""


def numbers(table):
    if (table / "_delta_log").exists():
        return sorted(DeltaTable(str(table)).to_pyarrow_table()["number"].to_pylist())
    files = table.glob("batch-*.parquet")
    return sorted(number for path in files for number in pq.ParquetFile(path).read()["number"].to_pylist())


@pytest.mark.parametrize("kind", drawn_by_this_run(["delta", "parquet"], "killed backfill"))
def test_kills_in_the_past_leave_each_record_once(serve, tmp_path, kind):
    """In each of its batches, and in the first live one; retention goes on meanwhile."""
    data = tmp_path / "data"
    broker = serve(data).wait_until_ready().bootstrap
    tp = TopicPartition("visits", 0)
    with Admin(broker) as admin, Producer(broker) as producer:
        admin.topics.create([NewTopic("visits", partitions=1)])
        for number in range(PAST):
            producer.send_and_wait("visits", b'{"number": %d}' % number)
        shutil.copytree(data, tmp_path / "copy", ignore=shutil.ignore_patterns("*.sessions"))
        for number in range(PAST, PAST + LIVE):
            producer.send_and_wait("visits", b'{"number": %d}' % number)
        file = tmp_path / "visits.toml"
        file.write_text(PIPELINE.format(broker=broker, kind=kind, java=java_options.SMALL))
        for batch in range((PAST + LIVE) // 10):
            admin.partitions.delete_records({tp: min(10 * batch + 5, PAST)})
            for point in POINTS:
                done = run_to_its_end("pipeline_killed.py", file, point, batch)
                assert done.returncode == -signal.SIGKILL, (point, batch, done.stdout, done.stderr[-2000:])
                found = numbers(tmp_path / "table")
                assert found == list(range(len(found))), (point, batch)
    done = run_to_its_end("pipeline_killed.py", file)
    assert done.returncode == 0, done.stderr[-2000:]
    assert numbers(tmp_path / "table") == list(range(PAST + LIVE))
