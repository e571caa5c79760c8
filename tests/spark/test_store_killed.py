"""A server of S3 that is not Python (SeaweedFS) is killed in the middle of batches: each row is in the table
once.
"""

import contextlib
import random
import shutil
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyarrow import fs
from pyiceberg.catalog.sql import SqlCatalog

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.tables.logged import LoggedTable
from barnabas.spark.pipeline.tables.places import Objects
from deaths import deaths
from seeds import drawn_by_this_run
from server_keeper import KeptServer
from serving import free_ports
from stored_table import KINDS, Written
from waiting import until

pytestmark = [pytest.mark.campaign, pytest.mark.spark, pytest.mark.timeout(900)]
KILLS = 20
WEED = Path(sys.executable).with_name("weed")
# The calls by which a batch gets into the store; the server dies at one of them, or while it is answered.
PLACES = [
    (Objects, "_put"), (Objects, "remove"), (LoggedTable, "_publish"), (shutil, "rmtree"),
    (DeltaTable, "create_write_transaction"), (SqlCatalog, "commit_table"),
]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """With a bucket `lake`; it elects itself again within two seconds of its start."""
    first = free_ports(8)
    names = [f"{part}.port{more}" for part in ("s3", "master", "volume", "filer") for more in ("", ".grpc")]
    ports = [f"-{name}={first + number}" for number, name in enumerate(names)]
    master = ["-master.electionTimeout=500ms", "-master.heartbeatInterval=50ms", "-master.telemetry=false"]
    address = f"127.0.0.1:{first}"
    with pytest.MonkeyPatch.context() as environment:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", f"http://{address}"), ("AWS_ALLOW_HTTP", "true"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ):  # fmt: skip
            environment.setenv(name, value)
        running = KeptServer(
            WEED, "-logtostderr=true", "server", f"-dir={tmp_path_factory.mktemp('store')}", "-ip=127.0.0.1",
            "-s3", *ports, *master, "-volume.max=20", "-master.volumeSizeLimitMB=64",
        )  # fmt: skip
        buckets = fs.S3FileSystem(endpoint_override=address, scheme="http", allow_bucket_creation=True)

        def is_made():
            with contextlib.suppress(OSError):
                buckets.create_dir("lake")
                return True

        until(is_made, "the server does not make a bucket")
        yield running
        running.stop()


@pytest.mark.parametrize("kind", drawn_by_this_run(KINDS, "tables whose server of S3 is killed"))
def test_a_server_that_is_killed_at_any_step_of_a_batch_has_each_row_once(store, tmp_path, kind, monkeypatch):
    seed = random.SystemRandom().randrange(1 << 32)
    rng, expected, died = random.Random(seed), [], []
    table = Written(tmp_path, kind, f"{tmp_path.name}-{kind}")

    def answers():
        with contextlib.suppress(OSError):
            buckets, bucket = fs.FileSystem.from_uri("s3://lake")
            return buckets.get_file_info(bucket).type is fs.FileType.Directory

    def kill(name):
        died.append(name)
        store.kill(after_s=rng.choice([0, rng.uniform(0, 0.02)]), down_s=rng.uniform(0.05, 0.5))

    left = deaths(monkeypatch, *PLACES, kill=kill)
    for batch in range(KILLS):
        rows = {2 * batch: "a"}, {2 * batch + 1: "b"}
        left[0] = rng.randrange(4)
        for _ in range(10):  # as the pipeline would start again
            with contextlib.suppress(PipelineError, OSError):
                table.write(batch, *rows)
                break
        left[0] = None
        store.wait_until_dead()
        until(answers, "the server answers again")
        table.write(batch, *rows)
        expected += [(2 * batch, "a"), (2 * batch + 1, "b")]
        assert table.rows() == expected, (seed, died)
    assert len(died) > KILLS // 2, (seed, died)
    table.write(KILLS, {2 * KILLS: "a"})  # behind the next commit nothing is left of other tries
    assert len(table.objects()) == len(table.rows()), (seed, died)
