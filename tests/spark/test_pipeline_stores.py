"""Tables in an object store, judged against moto's S3: what is there is read back by other readers."""

import contextlib
import io
import json
import random
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.spark.errors import PipelineError, first_line
from barnabas.spark.pipeline.file.join_settings import Join
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.joined.joined_tables import Copies, TableAwayError, settled
from barnabas.spark.pipeline.reports.status import status
from barnabas.spark.pipeline.running import supervisor
from barnabas.spark.pipeline.sinks.sink import open_table
from barnabas.spark.pipeline.tables import rest_catalog
from barnabas.spark.pipeline.tables.parquet import ParquetFolder
from barnabas.spark.pipeline.tables.places import Objects, is_address
from barnabas.spark.pipeline.tables.rewriting import Changes
from deaths import Died, deaths
from seeds import drawn_by_this_run
from stored_table import KINDS, SCHEMA, Written


class Server:
    """moto's S3 in a child, whose answers can be spoilt."""

    def __init__(self):
        command = [sys.executable, str(Path(__file__).with_name("store_server.py"))]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = f"http://127.0.0.1:{int(self._child.stdout.readline())}"

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()

    def fault(self, pattern="$^", kind="", **more):
        """From now on requests such as "PUT /lake/.*" are answered so: one of `every`, `times` in all."""
        self.ask("PUT", "/fault", {"pattern": pattern, "kind": kind, **more})

    def faults(self):
        """How many there were."""
        return json.loads(self.ask("GET", "/fault"))["done"]

    def requests_of(self, act):
        """How many requests something makes."""
        self.fault(".*")
        act()
        return self.faults()

    def stop(self):
        self._child.kill()
        self._child.communicate()


@pytest.fixture(scope="module")
def store():
    with pytest.MonkeyPatch.context() as environment:
        running = Server()
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", running.address), ("AWS_ALLOW_HTTP", "true"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ):  # fmt: skip
            environment.setenv(name, value)
        running.ask("PUT", "/lake")
        yield running
        running.stop()


@pytest.fixture(autouse=True)
def no_fault(store):
    store.fault()


@pytest.fixture
def table(store, tmp_path, request):
    kind = getattr(request, "param", "delta")
    return Written(tmp_path, kind, f"{tmp_path.name}-{kind}")


every_kind = pytest.mark.parametrize("table", KINDS, indirect=True)
plain_and_logged = pytest.mark.parametrize("table", KINDS[:2], indirect=True)


@every_kind
def test_batches_are_in_the_store_once_and_not_on_the_disk(table):
    table.write(0, {1: "a"}, {2: "b"})
    table.write(1, {3: "c"})
    table.write(1, {3: "again"})
    assert table.rows() == [(1, "a"), (2, "b"), (3, "c")]
    assert len(table.objects()) == 3
    assert not list(table.sink.path.rglob("*.parquet"))
    with open_table(table.sink) as opened:
        assert opened.state("query").batch == 1
        assert opened.state("another").batch is None
        assert len(opened.sizes()) == 3
        found = [row for batch in opened.rows(["id"]) for row in batch.to_pylist()]
        assert sorted(row["id"] for row in found) == [1, 2, 3]


@pytest.mark.parametrize("table", ["parquet", "iceberg"], indirect=True)
def test_small_files_become_one(table):
    table.write(0, {0: "a"}, {1: "a"}, {2: "a"})
    with open_table(table.sink) as opened:
        planned = opened.compact(1 << 20, lambda *_: None, dry_run=True)
        assert (planned.files_before, planned.files_after) == (3, 1)
        assert opened.compact(1 << 20, lambda *_: None).files_after == 1
    assert not list(table.sink.path.rglob("*.parquet"))
    assert table.rows() == [(0, "a"), (1, "a"), (2, "a")]
    table.write(1, {3: "a"})
    assert len(table.rows()) == 4


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_are_changed_by_their_key(store, tmp_path, kind):
    table = Written(tmp_path, kind, f"{tmp_path.name}-merged", Changes(("id",)))
    table.write(0, {1: "a", 2: "b"}, {7: "g", 9: "i"})
    table.write(1, {2: "B"}, gone=[9])
    assert table.rows() == [(1, "a"), (2, "B"), (7, "g")]
    assert not list(table.sink.path.rglob("*.parquet"))


@plain_and_logged
def test_a_writer_that_is_killed_at_any_step_leaves_each_row_once(table, monkeypatch):
    # The calls by which a batch gets into the store.
    places = (
        (Objects, "_put"),
        (Objects, "remove"),
        (DeltaTable, "create_write_transaction"),
        (shutil, "rmtree"),
    )
    left = deaths(monkeypatch, *places)
    died = []
    for batch in range(20):
        left[0] = batch
        try:
            table.write(batch, {2 * batch: "a"}, {2 * batch + 1: "b"})
        except Died as death:
            died.append(str(death))
        else:
            break
        left[0] = None
        table.write(batch, {2 * batch: "a"}, {2 * batch + 1: "b"})
        expected = [(key, "ab"[key % 2]) for key in range(2 * batch + 2)]
        assert table.rows() == expected, died[-1]
    assert died.count("_put") >= 2
    left[0] = None
    table.write(20, {100: "z"})
    assert len(table.objects()) == len(table.rows())
    assert not list(table.sink.path.rglob("*.parquet"))


@plain_and_logged
def test_a_store_that_is_busy_or_slow_is_asked_again(table, store):
    store.fault("PUT .*", "busy", every=2)
    table.write(0, {1: "a"}, {2: "b"})
    assert store.faults()
    store.fault(".*", "slow")
    table.write(1, {3: "c"})
    store.fault()
    assert table.rows() == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("table", drawn_by_this_run(KINDS, "tables whose store is killed"), indirect=True)
def test_a_store_that_is_killed_at_any_request_of_a_batch_has_each_row_once(table, store):
    """With the request done or not; it is back a moment later, with all that it had."""
    seed = random.SystemRandom().randrange(1 << 32)
    rng, expected, killed = random.Random(seed), [(0, "a"), (1, "b")], 0
    table.write(0, {0: "a"}, {1: "b"})
    requests = store.requests_of(lambda: table.write(1, {2: "a"}, {3: "b"}))
    expected += [(2, "a"), (3, "b")]
    for batch in range(2, 8):
        rows = {2 * batch: "a"}, {2 * batch + 1: "b"}
        store.fault(".*", rng.choice(["killed", "killed-behind"]), every=rng.randint(1, requests), times=1)
        for _ in range(5):
            with contextlib.suppress(PipelineError, OSError):
                table.write(batch, *rows)
                break
        killed += store.faults()
        store.fault()
        table.write(batch, *rows)
        expected += [(2 * batch, "a"), (2 * batch + 1, "b")]
        assert table.rows() == expected, f"seed {seed}, batch {batch}"
    assert killed, seed
    table.write(8, {16: "a"})  # behind the next commit nothing is left of other tries
    assert len(table.objects()) == len(table.rows()), seed


def test_a_commit_whose_answer_is_lost_counts_once(table, store):
    table.write(0, {1: "a"})
    store.fault("PUT .*_delta_log/00000000000000000002.*", "lost", times=1)
    with contextlib.suppress(PipelineError):  # it does not know
        table.write(1, {2: "b"})
    assert store.faults()
    store.fault()
    table.write(1, {2: "b"})
    assert table.rows() == [(1, "a"), (2, "b")]


@every_kind
def test_a_credential_that_has_expired_is_one_line_until_it_is_renewed(table, store):
    table.write(0, {1: "a"})
    store.fault("(PUT|GET|POST|HEAD) .*", "expired")
    with pytest.raises((PipelineError, OSError)) as caught:
        table.write(1, {2: "b"}, {3: "c"})
    assert store.faults()
    # An answer to HEAD, with which pyarrow begins, has no words.
    assert re.search("ExpiredToken|HTTP status 400", first_line(caught.value)), caught.value
    store.fault()
    table.write(1, {2: "b"}, {3: "c"})
    assert table.rows() == [(1, "a"), (2, "b"), (3, "c")]


@plain_and_logged
def test_a_bucket_that_is_not_there_is_one_line(table):
    table = Written(table.sink.path, table.kind, "x")
    table.sink = replace(table.sink, address="s3://nowhere/t")
    with pytest.raises(PipelineError, match=r"s3://nowhere/t|sink\.catalog") as error:
        table.write(0, {1: "a"})
    assert "\n" not in str(error.value)


@every_kind
def test_a_table_in_the_store_is_joined(table, store, tmp_path):
    table.write(0, {1: "a"}, {2: "b"})
    name, catalog = table.sink.address, {}
    if table.kind == "iceberg":
        name, catalog = "lake.t", table.catalog
    join = Join(0, name, table.kind, {"id": "value.id"}, (), "names", catalog=catalog)
    copies = Copies(tmp_path / "c", settled([join]))

    def rows(batch):
        return [tuple(row.values()) for row in pq.read_table(copies.of(batch)).to_pylist()]

    assert sorted(rows(0)) == [(1, "a"), (2, "b")]
    store.fault("GET .*", "busy", times=1)
    table.write(1, {3: "c"})
    assert sorted(rows(1)) == [(1, "a"), (2, "b"), (3, "c")]
    assert store.faults()
    store.fault("(GET|HEAD) .*", "expired")
    with pytest.raises(TableAwayError, match=r"join\[0\]: the table .* cannot be read: ") as away:
        rows(2)
    assert re.search("ExpiredToken|HTTP status 400", str(away.value)), away.value
    store.fault()
    assert len(rows(2)) == 3


def test_what_others_have_put_there_is_not_written_over(table, tmp_path):
    table.write(0, {1: "a"})
    other = Written(tmp_path / "other", "parquet", table.path.removeprefix("lake/"))
    with pytest.raises(PipelineError, match="is not empty"):
        other.write(0, {2: "b"})


@plain_and_logged
def test_a_table_that_others_have_made_since_the_start_is_left_alone(table, tmp_path):
    other = Written(tmp_path / "other", table.kind, table.path.removeprefix("lake/"))

    def stage(folder):
        folder.mkdir(parents=True)
        return [table._file(folder, "0.parquet", {1: "a"})]

    with open_table(table.sink) as opened:
        other.write(0, {2: "b"})
        with pytest.raises(PipelineError, match=r"is not empty|another checkpoint"):
            opened.append("another", 0, SCHEMA, [], stage)
    assert table.rows() == [(2, "b")]


@pytest.mark.parametrize("table", ["parquet"], indirect=True)
def test_of_two_pipelines_that_begin_at_once_one_writes(table, tmp_path, monkeypatch):
    """Each had found the store empty before the other one's files were there, and wrote files of one name."""
    other = Written(tmp_path / "other", "parquet", table.path.removeprefix("lake/"))
    replace_commit, refused = ParquetFolder._replace, []

    def both(self, name, commit):
        monkeypatch.setattr(ParquetFolder, "_replace", replace_commit)
        with pytest.raises(PipelineError, match="is not empty, and nothing there was written with this che"):
            other.write(0, {2: "b"})
        refused.append(name)
        replace_commit(self, name, commit)

    monkeypatch.setattr(ParquetFolder, "_replace", both)
    table.write(0, {1: "a"})
    table.write(1, {3: "c"})
    assert (table.rows(), refused) == ([(1, "a"), (3, "c")], ["commit.json"])


@pytest.mark.parametrize("table", ["parquet"], indirect=True)
def test_a_claim_of_a_pipeline_that_was_killed_is_its_own(table, monkeypatch):
    left = deaths(monkeypatch, (ParquetFolder, "_replace"))
    left[0] = 0
    with pytest.raises(Died):
        table.write(0, {1: "a"})
    left[0] = None
    table.write(0, {1: "a"})
    assert table.rows() == [(1, "a")]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("s3://bucket/a/table", True),
        ("s3://bucket/table/", True),
        ("gs://bucket/table", True),
        ("abfss://files@account.dfs.core.windows.net/table", True),
        ("s3://bucket", False),
        ("s3://key:secret@bucket/table", False),
        ("s3://bucket/table?endpoint_override=x", False),
        ("s3://bucket/../table", False),
        ("s3://bucket/%2e%2e/table", False),
        ("s3://bucket/a/%2E./table", False),
        ("s3://bucket/a%2f..%2ftable", False),
        ("abfss://account.dfs.core.windows.net/table", False),
        ("hdfs://namenode/table", False),
        ("http://bucket/table", False),
    ],
)
def test_which_addresses_there_are(text, is_one):
    assert is_address(text) is is_one


def test_a_catalog_that_is_silent_is_not_waited_for(tmp_path, monkeypatch):
    """PyIceberg's client has no time-out: a batch waited for ever, and the pipeline with it."""
    monkeypatch.setattr(rest_catalog, "SILENT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for more in ({}, {"credential": "id:secret", "oauth2-server-uri": f"{uri}/token"}):
            sink = Sink("iceberg", tmp_path / "t", table="lake.t", catalog={"uri": uri, **more})
            with pytest.raises(PipelineError, match=r"sink\.catalog: ReadTimeout") as caught:
                open_table(sink).state(None)
            assert "secret" not in str(caught.value)


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_pipeline_of_a_store_goes_on_and_puts_its_letters_there(spark, broker, store, tmp_path, topic_name):
    name, place = topic_name("stored"), f"s3://lake/{tmp_path.name}"
    file = tmp_path / "stored.toml"
    file.write_text(f"""
checkpoint = "c"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{name}"
startingOffsets = "earliest"
[format]
kind = "json"
schema = "id INT, name STRING"
[[join]]
table = "{place}/names"
kind = "delta"
on = ["id"]
columns = ["long"]
[sink]
kind = "delta"
path = "{place}/table"
mode = "merge"
key = ["id"]
[deadLetter]
kind = "parquet"
path = "{place}/letters"
""")
    write_deltalake(f"{place}/names", pa.table({"id": pa.array([2], pa.int32()), "long": ["bee"]}))
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(name, partitions=1)])
    for values in (
        [b'{"id": 1, "name": "a"}', b'{"id": 2, "name": "b"}'],
        [b'{"id": 1, "name": "A"}', b"none"],
    ):
        with Producer(broker) as producer:
            for value in values:
                producer.send_and_wait(name, value)
        outcome = supervisor.run(spark, load(file), Console(file=io.StringIO()))
    assert outcome.letters == 1
    rows = DeltaTable(f"{place}/table").to_pyarrow_table().to_pylist()
    found = sorted((row["id"], row["name"], row["names"]) for row in rows)
    assert found == [(1, "A", None), (2, "b", {"long": "bee"})]
    assert [
        row["value"] for row in ds.dataset(f"{place}/letters", format="parquet").to_table().to_pylist()
    ] == [b"none"]
    assert status(load(file)).files == 2
