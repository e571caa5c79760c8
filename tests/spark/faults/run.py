"""A crash matrix of the Spark source and the pipeline's tables: one fault a cell, and exact contents at the
end.

    python tests/spark/faults/run.py [--place local|cluster] [--faults a,b] [--seed N] [--short] [--keep
    FOLDER]

The places are local[2] and a standalone cluster of two workers that is started for it; both unless one is
named. The seed chooses the kind of table of each cell. A fault happens while a process of the query waits at
a point (`halts`), so nothing depends on how fast the machine is. docs/spark.md has the table of what happens.
Exit code 1 if a cell fails.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import fastavro
import halts
import process_tree
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from schema_registry import SchemaRegistry
from server_keeper import KeptServer
from serving import ServeProcess, free_port
from spark_processes import environment, standalone_cluster

HERE = Path(__file__).resolve().parent
KINDS = ("parquet", "delta", "iceberg")
PARTITIONS, BATCHES, BATCH_RECORDS = 3, 4, 10
RECORDS = PARTITIONS * BATCHES * BATCH_RECORDS
SECRET = "pl4nted-s3cret"
POINTS = (
    # Where the driver is killed, and the last batch that the table has then. Batch 1 is planned again with
    # the offsets that it had, once they are written.
    ("planning", 0), ("before-write", 0), ("after-write", 0), ("before-commit", 0), ("after-commit", 1),
    ("before-checkpoint", 1),
)  # fmt: skip
# Behind the files and before the commit nothing happens but their synchronisation.
SHORT_POINTS = tuple(point for point in POINTS if point[0] != "after-write")
MODULE = """
def numbers(rows):
    return rows.selectExpr("value.number", "value.number % 3 AS third")
def once(rows):
    return numbers(rows).dropDuplicates(["number"])
"""
PIPELINE = """
checkpoint = "checkpoint"
trigger = "{trigger}"
[source]
kafka.bootstrap.servers = "{broker}"
kafka.client.id = "{name}"
kafka.max.partition.fetch.bytes = 300
subscribe = "{topic}"
startingOffsets = "earliest"
{options}
[format]
{format}
[transform]
python = "faults_job:{function}"
[sink]
kind = "{kind}"
path = "table"
partitionBy = ["third"]
[restart]
attempts = {attempts}
backoff = "100ms"
"""


JSON = 'kind = "json"\nschema = "number INT"'
REGISTRY = """kind = "avro"
header = "confluent"
schema = "latest"
registry = {{ url = "http://127.0.0.1:{port}", subject = "numbers", timeout = "5s" }}"""
# Each is a moment of a batch at which something else than the query is killed, and so many of them are.
STEPS = (
    "planning", "fetching-0", "reading", "writing", "before-write.{}.1", "after-write.{}.1",
    "before-commit.{}.1", "after-commit.{}.1", "before-checkpoint.{}.1",
)  # fmt: skip
KILLS = 20


def as_json(number):
    return b'{"number": %d}' % number


class Job:
    """The process of the query; its group has the JVM too, so both are killed at one moment."""

    def __init__(self, master, folder):
        self._log = (folder / "job.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "job.py"), master, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment(),
            start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n", "Spark did not start, see job.log"

    def alive(self):
        return self.process.poll() is None

    def ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline() or "null")

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self._closed()

    def close(self):
        """Ends it in order."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        if self.alive():
            os.killpg(self.process.pid, signal.SIGKILL)
        self._closed()

    def _closed(self):
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._log.close()


class Query:
    """A pipeline with a folder and a topic of its own."""

    def __init__(self, rig, name, kind, *, records=RECORDS, encode=as_json, **settings):
        self.name, self.kind, self.topic, self._rig = name, kind, name, rig
        self.folder = rig.folder / name
        self.folder.mkdir()
        self.file = self.folder / f"{name}.toml"
        with Admin(rig.bootstrap) as admin:
            admin.topics.create([NewTopic(self.topic, partitions=PARTITIONS)])
        self.write(**settings)
        self.numbers = rig.produce(self.topic, records, encode=encode)
        """By partition, in their order."""

    def write(self, *, trigger="availableNow", attempts=5, function="numbers", form=JSON, **options):
        lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
        (self.folder / "faults_job.py").write_text(MODULE)
        self.file.write_text(
            PIPELINE.format(
                broker=self._rig.bootstrap, name=self.name, topic=self.topic, options=lines, kind=self.kind,
                trigger=trigger, attempts=attempts, function=function, format=form,
            )
        )  # fmt: skip

    def all_numbers(self):
        return sorted(number for numbers in self.numbers.values() for number in numbers)

    def found(self):
        """The numbers that the table's own reader finds; of plain files those that are in their places."""
        table = self.folder / "table"
        if self.kind == "parquet":
            files = table.glob("third=*/*.parquet")
            found = [pq.ParquetFile(file).read()["number"].to_pylist() for file in files]
            return sorted(number for numbers in found for number in numbers)
        if self.kind == "delta":
            return sorted(DeltaTable(str(table)).to_pyarrow_table()["number"].to_pylist())
        catalog = load_catalog("default", uri=f"sqlite:///{self.folder}/catalog.db")
        return sorted(catalog.load_table("default.table").scan().to_arrow()["number"].to_pylist())

    def last_batch(self):
        table = self.folder / "table"
        if self.kind == "parquet":
            return json.loads((table / "_barnabas" / "commit.json").read_text())["batch"]
        if self.kind == "delta":
            query = json.loads((self.folder / "checkpoint" / "metadata").read_text())["id"]
            return DeltaTable(str(table)).transaction_version(query)
        catalog = load_catalog("default", uri=f"sqlite:///{self.folder}/catalog.db")
        return int(catalog.load_table("default.table").properties["barnabas.batch"])

    def expect(self, numbers):
        found = self.found()
        lost, more = sorted(set(numbers) - set(found)), sorted(set(found) - set(numbers))
        twice = sorted(number for number in set(found) if found.count(number) > 1)
        assert found == sorted(numbers), f"{self.name}: lost {lost}, too many {more}, double {twice}"


class Rig:
    """A place: a broker, perhaps a cluster, and the job of the cells that do not kill it."""

    def __init__(self, folder, master, rng, *, short):
        self.folder, self.master, self.rng, self.short = folder, master, rng, short
        self.port = free_port()
        self.data = folder / "broker"
        self._serve()
        self._job = None

    def _serve(self):
        self._broker = ServeProcess(self.data, port=self.port)
        self.bootstrap = self._broker.wait_until_ready().bootstrap

    def restart_broker(self):
        """kill -9, and the same again."""
        self._broker.kill()
        self._serve()

    def produce(self, topic, records, *, partitions=range(PARTITIONS), first=0, encode=as_json):
        """Numbers from `first` on, `BATCH_RECORDS` a batch, in turn to the partitions; which went where."""
        numbers = {partition: [] for partition in partitions}
        with Producer(self.bootstrap, linger_ms=60_000) as producer:
            for start in range(first, first + records, BATCH_RECORDS):
                partition = list(partitions)[(start - first) // BATCH_RECORDS % len(partitions)]
                for number in range(start, start + BATCH_RECORDS):
                    producer.send(topic, encode(number), partition=partition)
                    numbers[partition].append(number)
                producer.flush()
        return numbers

    @property
    def job(self):
        if self._job is None or not self._job.alive():
            self._job = Job(self.master, self.folder)
        return self._job

    @property
    def on_cluster(self):
        return self.master.startswith("spark:")

    def query(self, name, **settings):
        return Query(self, name, self.rng.choice(KINDS), **settings)

    def run(self, query, point, fault, stop=None):
        """Runs the pipeline, and does `fault` with the process that waits at the point."""
        point = f"{point}.{query.name}" if "." not in point else point
        halts.arm(point)
        self.job.ask(run=[str(query.file)], stop=stop)
        fault(halts.reached(point, self.job.alive))
        halts.release(point)

    def outcome(self, error=None):
        """How the one pipeline ended: well, or with such words."""
        (found,) = self.job.answer()
        said = found["error"] or ""
        assert (error in said) if error else not said, f"it said {said!r}"
        return found

    def finish(self, query):
        """Runs the pipeline to its end."""
        self.job.ask(run=[str(query.file)])
        self.outcome()

    def written(self):
        """All that the run wrote, but for what was given to it and what brokers keep."""
        for path in self.folder.rglob("*"):
            if path.is_file() and path.suffix != ".toml" and self.data not in path.parents:
                yield path, path.read_bytes()

    def close_job(self):
        """The next cell gets another one."""
        if self._job is not None:
            self._job.close()
            self._job = None

    def close(self):
        self.close_job()
        self._broker.stop()


# --- the driver


def drivers(rig):
    """kill -9 of the driver at each point of batch 1, in three queries at once, each with another kind of
    table.
    """
    # Each number comes twice, in other batches: what the query knows of earlier batches must outlive the
    # kills as well.
    options = {"function": "once", "maxOffsetsPerTrigger": 30, "records": 60}
    queries = [Query(rig, f"driver-{kind}", kind, **options) for kind in KINDS]
    for query in queries:
        rig.produce(query.topic, 60)
    for point, last in SHORT_POINTS if rig.short else POINTS:
        points = [f"{point}.{query.name}{'' if point == 'planning' else '.1'}" for query in queries]
        for one in points:
            halts.arm(one)
        job = Job(rig.master, rig.folder)
        job.ask(run=[str(query.file) for query in queries])
        try:
            for one in points:
                halts.reached(one, job.alive)
        finally:
            job.kill()
        for query in queries:
            assert query.last_batch() == last, f"{query.name}, {point}"
            if (query.kind, point) != ("parquet", "after-commit"):  # not all files are in their places then
                query.expect(range(30 * (last + 1)))
    rig.job.ask(run=[str(query.file) for query in queries])
    assert [one["error"] for one in rig.job.answer()] == [None] * len(queries)
    for query in queries:
        query.expect(range(60))
        assert list((query.folder / "table" / "_barnabas").glob("staging-*")) == []


def jvm(rig):
    """kill -9 of the driver's JVM alone, while a worker reads: the pipeline ends with one line."""
    query = rig.query("jvm-reading")
    rig.run(query, "reading", lambda _: process_tree.kill(process_tree.below(os.getpid(), process_tree.JVM)))
    rig.outcome(error="Spark's JVM has ended")
    rig.close_job()
    rig.finish(query)
    query.expect(query.all_numbers())


# --- workers and executors


def _killed_at(rig, fault, point, victims, **settings):
    query = rig.query(f"{fault}-{point.partition('.')[0]}", maxOffsetsPerTrigger=60, **settings)
    point = f"{point}.{query.name}.0" if point == "after-write" else point
    rig.run(query, point, lambda waiting: process_tree.kill(victims(waiting)))
    rig.outcome()
    query.expect(query.all_numbers())


def workers(rig):
    """kill -9 of the Python process that waits: the one that plans, or a worker in a task;
    behind the files, all of them.
    """
    points = ("planning", "reading") if rig.short else ("planning", "fetching-0", "reading", "writing")
    for point in points:
        _killed_at(rig, "worker", point, lambda waiting: [waiting])
    root = os.getpid()
    _killed_at(rig, "worker", "after-write", lambda _: process_tree.below(root, process_tree.DAEMON))


def daemons(rig):
    """kill -9 of the process that a worker was forked from, while it reads."""
    _killed_at(rig, "daemon", "reading", lambda waiting: [process_tree.parent_of(waiting)])


def executors(rig):
    """kill -9 of an executor: the one whose worker waits, or both while the driver plans or is about to
    commit.
    """
    if not rig.on_cluster:
        return "no executors of their own"
    root = os.getpid()
    for point in ("planning", "after-write"):
        _killed_at(rig, "executor", point, lambda _: process_tree.below(root, process_tree.EXECUTOR))
    for point in ("fetching-0", "reading", "writing"):
        _killed_at(
            rig, "executor", point, lambda waiting: [process_tree.above(waiting, process_tree.EXECUTOR)]
        )
    return None


# --- brokers and topics


def _kills(rig, fault, short, strike, **settings):
    """Strikes at each step of a batch, twenty times in all; in the short form at those that are named."""
    steps = short if rig.short else [STEPS[turn % len(STEPS)] for turn in range(KILLS)]
    for turn, step in enumerate(steps):
        query = rig.query(f"{fault}-{turn}", maxOffsetsPerTrigger=60, **settings)
        rig.run(query, step.format(query.name), strike)
        rig.outcome()
        query.expect(query.all_numbers())


def broker(rig):
    """kill -9 of the broker at each step of a batch, and a start on the same port and data."""
    _kills(rig, "broker", ["reading"], lambda _: rig.restart_broker())


def registry(rig):
    """kill -9 of the schema registry at each step of a batch; it is back a moment later. Each batch of
    records has a schema that the query has not seen.
    """
    known = SchemaRegistry()
    for number in range(RECORDS // BATCH_RECORDS):
        more = {"name": f"more_{number}", "type": "int", "default": 0}
        fields = [{"name": "number", "type": "int"}, more]
        known.register("numbers", json.dumps({"type": "record", "name": "N", "fields": fields}))

    def encode(number):
        schema = number // BATCH_RECORDS + 1
        body = io.BytesIO()
        fields = json.loads(known.schemas[schema]["schema"])
        fastavro.schemaless_writer(body, fastavro.parse_schema(fields), {"number": number})
        return struct.pack(">bI", 0, schema) + body.getvalue()

    saved, port = rig.folder / "registry.json", free_port()
    saved.write_text(json.dumps({"schemas": known.schemas, "subjects": known.subjects}))
    server = KeptServer(sys.executable, HERE.parents[1] / "schema_registry.py", port, saved)
    try:
        _kills(
            rig, "registry", ["reading"], lambda _: server.kill(down_s=rig.rng.uniform(0.1, 2)),
            encode=encode, form=REGISTRY.format(port=port),
        )  # fmt: skip
        server.wait_until_dead()
    finally:
        server.stop()


def partitions(rig):
    """A topic grows while a batch is read, and the new partitions get records:
    the running query reads them.
    """
    query = rig.query("partitions-reading", trigger="100ms")
    stop = query.folder / "stop"

    def grow(_):
        with Admin(rig.bootstrap) as admin:
            admin.topics.create_partitions({query.topic: PARTITIONS + 2})
        more = range(PARTITIONS, PARTITIONS + 2)
        query.numbers |= rig.produce(query.topic, 60, partitions=more, first=RECORDS)

    rig.run(query, "reading", grow, stop=str(stop))
    deadline = time.monotonic() + halts.LIMIT_S
    while len(query.found()) < len(query.all_numbers()) and time.monotonic() < deadline:
        time.sleep(0.2)
    stop.touch()
    rig.outcome()
    query.write()
    rig.finish(query)  # what would come a second time, comes now
    query.expect(query.all_numbers())


def retention(rig):
    """Records are deleted between planning and the first fetch, with failOnDataLoss and without."""
    for fails in (True, False):
        query = rig.query(f"retention-{str(fails).lower()}", attempts=0, failOnDataLoss=fails)
        gone = 2 * BATCH_RECORDS

        def delete(_, query=query, gone=gone):
            with Admin(rig.bootstrap) as admin:
                admin.partitions.delete_records({TopicPartition(query.topic, 0): gone})

        rig.run(query, "fetching-0", delete)
        if fails:
            rig.outcome(error="KAFKA_DATA_LOSS")
            query.write(failOnDataLoss=False)
            rig.finish(query)
        else:
            rig.outcome()
        del query.numbers[0][:gone]
        query.expect(query.all_numbers())


def _flip(log, number):
    """Flips a bit in the records of the batch of this number, counted from 0; its first and last offset."""
    data = bytearray(log.read_bytes())
    position = 0
    for _ in range(number):
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    offset, length = struct.unpack_from(">qi", data, position)
    with log.open("r+b") as file:
        file.seek(position + 12 + length - 4)
        file.write(bytes([data[position + 12 + length - 4] ^ 1]))
    return offset, offset + struct.unpack_from(">i", data, position + 23)[0]


def corruption(rig):
    """A bit of a batch is flipped in the broker's file: it is named;
    with corruptBatches=skip the others are read.
    """
    query = rig.query("corruption", attempts=0)
    log = rig.data / f"{query.topic}-0" / f"{0:020d}.log"
    offset, last = _flip(log, 1)
    rig.job.ask(run=[str(query.file)])
    rig.outcome(error=f"Record batch for partition {query.topic}-0 at offset {offset} is invalid")
    rig.job.ask(log=str(rig.data), topic=query.topic)
    said = rig.job.answer()
    assert f"at offset {offset}" in said, said
    assert str(log) in said, said
    query.write(corruptBatches="skip")
    rig.finish(query)
    del query.numbers[0][offset : last + 1]
    query.expect(query.all_numbers())
    line = f"corrupt batch skipped: offsets {offset} to {last} of {query.topic}-0"
    assert any(line.encode() in data for _, data in rig.written()), f"no log has: {line}"


def secrets(rig):
    """Passwords are refused by the name of their option, and nothing that the run wrote has one of them."""
    names = ("kafka.sasl.jaas.config", "kafka.sasl.password", "kafka.ssl.keystore.password")
    for number, name in enumerate(names):
        query = rig.query(f"secrets-{number}", records=0, **{name: SECRET})
        rig.job.ask(run=[str(query.file)])
        rig.outcome(error=name.removeprefix("kafka."))
        given = {"kafka.bootstrap.servers": rig.bootstrap, "subscribe": query.topic, "topic": query.topic}
        rig.job.ask(options={**given, name: SECRET})
        for said in rig.job.answer():
            assert name.removeprefix("kafka.") in said, said
            assert SECRET not in said, said
    leaks = [str(path) for path, data in rig.written() if SECRET.encode() in data]
    assert not leaks, f"the secret is in {', '.join(leaks)}"


FAULTS = {
    cell.__name__: cell
    for cell in (
        drivers, workers, daemons, executors, jvm, broker, registry, partitions, retention, corruption,
        secrets,
    )
}  # fmt: skip


def run_place(place, folder, faults, seed, *, short):
    """The cells of one place; how many failed."""
    failed = 0
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        (folder / "halts").mkdir()
        os.environ["BARNABAS_HALTS"] = str(folder / "halts")
        master = "local[2]" if place == "local" else stack.enter_context(standalone_cluster(folder))
        rig = Rig(folder, master, random.Random(seed), short=short)
        stack.callback(rig.close)
        for fault in faults:
            started = time.monotonic()
            try:
                note = FAULTS[fault](rig) or "each number once"
            except Exception:  # a cell that fails must not hide the others
                failed += 1
                note = f"FAILED\n{traceback.format_exc()}"
                rig.close_job()
            print(f"{place:8}{fault:12}{time.monotonic() - started:6.1f} s  {note}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--place", choices=["local", "cluster"], help="one place instead of both")
    parser.add_argument("--faults", default=",".join(FAULTS), help="some of them, with commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="leaves out kills that another one covers")
    parser.add_argument("--keep", type=Path, help="a new folder for all that is written, which stays")
    given = parser.parse_args()
    faults = given.faults.split(",")
    if unknown := sorted(set(faults) - FAULTS.keys()):
        parser.error(f"no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    # Every Python process of Spark imports the points.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    folder = given.keep or Path(tempfile.mkdtemp(prefix="spark-faults-"))
    places = [given.place] if given.place else ["local", "cluster"]
    failed = sum(run_place(each, folder / each, faults, given.seed, short=given.short) for each in places)
    if failed:
        print(f"{failed} failed with --seed {given.seed}; what was written is in {folder}")
    elif given.keep is None:
        shutil.rmtree(folder)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
