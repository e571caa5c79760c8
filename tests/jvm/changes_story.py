"""A database under load becomes two tables while what stands between them is killed; in the end both are the
database's table, row by row.

    python tests/jvm/changes_story.py brokers [--brokers jvm] [--minutes 10]
    python tests/jvm/changes_story.py sources [--brokers jvm] [--kills 20] [--seed 1] [--at-least-once]

pgbench changes a table of PostgreSQL (`changing_database`). Debezium's connector in a worker of Kafka Connect
writes the changes into a topic of three partitions on three brokers, and two pipelines, each a process of its
own, merge them into a table of Delta and one of Iceberg, which they compact now and then. In the middle the
pipelines are stopped, get a file with a column more and go on, and the database gets that column.

brokers: every 30 seconds one of the brokers is killed (kill -9) and started again. sources: the worker is
killed, and PostgreSQL stopped at once (`pg_ctl stop -m immediate`), so many times each, at moments that the
seed draws: under load, or while what was killed last still starts.

Connect writes each record once (KIP-618) and the pipelines read what is committed. With --at-least-once it
has no transactions: what a worker had sent when it was killed comes again. Then the database sends whole rows
(REPLICA IDENTITY FULL): a change that comes again behind the delete of its row has no earlier row that could
have the values which it lacks.

Another program reads the tables (`lake_judge`). Pipelines may start their queries again, and must not have
ended; brokers of ours may not have logged a traceback, and the copies of each partition are equal.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))

import kafka_harness
from changing_database import ADDED, FIRST_ROWS, SCHEMA, TABLE, ChangingDatabase
from connect_worker import ConnectWorker
from postgres import postgres
from three_brokers import JVM, OURS, SESSION_MS, ThreeBrokers

import java_options
from barnabas.client import Consumer
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from serving import die_with_parent
from spark_processes import environment
from waiting import until

TOPIC = f"shop.public.{TABLE}"
PARTITIONS = 3
KINDS = ("delta", "iceberg")
LIMIT_S = 900
RATE = 40
"""Transactions a second, of which some change several rows."""
KILL_EVERY_S = 30
AWAY_S = 8
SESSION_ENDS_S = 1.5 * SESSION_MS / 1000
"""Kafka's brokers refuse to start while the session of their former life is there."""
BARNABAS = [sys.executable, "-m", "barnabas"]
PIPELINE = """
checkpoint = "{kind}.checkpoint"
events = "{kind}.events"
trigger = "5s"
[source]
kafka.bootstrap.servers = "{bootstrap}"
kafka.isolation.level = "read_committed"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 10000
[format]
kind = "json"
envelope = "debezium"
schema = "{schema}"
key = {{ schema = "id INT" }}
[sink]
kind = "{kind}"
path = "lake/{kind}"
{table}
mode = "merge"
key = ["id"]
compactEvery = 10
[spark]
master = "local[1]"
driver.memory = "512m"
sql.shuffle.partitions = 1
driver.extraJavaOptions = "{java}"
"""


class TablePipeline:
    """`barnabas pipeline run` of one table."""

    def __init__(self, folder, kind, bootstrap):
        self.kind = kind
        self._folder, self._bootstrap, self._file = folder, bootstrap, folder / f"{kind}.toml"
        self._process = None

    def start(self, schema):
        table = 'table = "lake.iceberg"' if self.kind == "iceberg" else ""
        self._file.write_text(
            PIPELINE.format(
                kind=self.kind, bootstrap=self._bootstrap, topic=TOPIC, schema=schema, table=table,
                java=java_options.SMALL,
            )
        )  # fmt: skip
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [*BARNABAS, "pipeline", "run", str(self._file)],
                stdout=output, stderr=output, env=environment(), preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread runs while servers are started
            )  # fmt: skip

    @property
    def _output(self):
        return self._folder / f"{self.kind}.out"

    def look(self):
        assert self._process.poll() is None, self.tail()

    def tail(self):
        return f"the pipeline of {self.kind}: {self._output.read_text()[-3000:]}"

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(LIMIT_S) == 0, self.tail()

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def figures(self):
        """Batches, records and restarts of all runs."""
        told = (self._folder / f"{self.kind}.events").read_text().splitlines()
        ended = [event for event in map(json.loads, told) if event["event"] == "ended"]
        names = ("batches", "records_read", "restarts")
        return {name: sum(event[name] for event in ended) for name in names}


class ChangesStory:
    """All that is between the database and its tables."""

    def __init__(self, folder, cluster, database, plugins, *, seed=1, exactly_once=True, rate=RATE):
        self.cluster, self.rng, self.kills = cluster, random.Random(seed), {}
        self._folder, self._exactly_once = folder, exactly_once
        self.database = ChangingDatabase(database, folder, rate)
        self.worker = ConnectWorker(folder, plugins, cluster.bootstrap, exactly_once=exactly_once)
        self.pipelines = [TablePipeline(folder, kind, cluster.bootstrap) for kind in KINDS]

    def run(self, plot):
        """The problems that are left when the story has ended; `plot` gets this story."""
        try:
            self.cluster.start_all()
            self.database.make()
            if not self._exactly_once:
                self.database.database.sql(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
            self.database.look()
            self.worker.start()
            self.worker.configure(self._connector())
            # A snapshot that is broken off is begun again, and misses what was deleted meanwhile.
            self.until_changes(FIRST_ROWS + 500, since=0)
            for each in self.pipelines:
                each.start(SCHEMA)
            self.cluster.tell("PostgreSQL, Connect and two pipelines run")
            plot(self)
            return self._judge()
        finally:
            for each in (self.database, *self.pipelines, self.worker):
                each.kill()
            self.cluster.close()

    def _connector(self):
        return {
            "name": "shop", "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": 1, "database.hostname": "127.0.0.1", "database.port": self.database.database.port,
            "database.user": "postgres", "database.password": "none", "database.dbname": "postgres",
            "topic.prefix": "shop", "table.include.list": f"public.{TABLE}", "plugin.name": "pgoutput",
            "publication.autocreate.mode": "filtered", "poll.interval.ms": 200,
            "topic.creation.default.replication.factor": 3, "topic.creation.default.partitions": PARTITIONS,
            "slot.retry.delay.ms": 500, "slot.max.retries": 60, "retriable.restart.connector.wait.ms": 500,
        }  # fmt: skip

    # --- steps --------------------------------------------------------------------------------------------

    def look(self):
        """The load goes on, and so does whatever may end."""
        self.database.look()
        self.worker.look()
        for each in self.pipelines:
            each.look()

    def wait(self, seconds):
        """Lets the load go on for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.look()
            time.sleep(min(left, 1))

    def until_changes(self, count, since=None):
        """Waits until the topic has so many records more than now, or than it had once."""
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        with Consumer(self.cluster.bootstrap, default_api_timeout_ms=2000) as consumer:
            first = [] if since is None else [since]

            def there():
                self.database.look()
                self.worker.look()
                try:
                    end = sum(consumer.end_offsets(places).values())
                except BarnabasError:  # Connect has not made it yet, or a broker is away
                    return False
                first.append(end)
                return end >= first[0] + count

            until(there, f"{count} changes come", LIMIT_S)

    def strike(self, what, blow):
        blow()
        self.kills[what] = self.kills.get(what, 0) + 1

    def add_column(self):
        """First to what reads it, then to the database."""
        for each in self.pipelines:
            each.stop()
            each.start(SCHEMA + ADDED)
        self.database.add_column()
        self.cluster.tell("the database and the tables have a column more")

    # --- what has to hold ---------------------------------------------------------------------------------

    def _judge(self):
        self.database.rest()
        began, wanted = time.monotonic(), self.database.rows()
        problems = self._until_equal(wanted)
        self.cluster.tell(
            f"{len(wanted)} rows, {len(problems)} problems {time.monotonic() - began:.0f} s later"
        )
        for each in self.pipelines:
            each.stop()
        if not problems:
            problems = self._unequal(wanted)
        self.worker.stop()
        self.cluster.until_in_sync()
        for number in list(self.cluster.running):
            self.cluster.stop(number)
        # Groups and transactions of Connect may still end while the first broker has stopped.
        problems += [each for each in self.cluster.unequal_logs() if each.startswith(TOPIC)]
        if tracebacks := self.cluster.our_warnings()["Traceback"]:
            problems.append(f"brokers of ours logged {tracebacks} tracebacks")
        figures = {each.kind: each.figures() for each in self.pipelines}
        self.cluster.tell(f"kills {self.kills}, restarts of the connector {self.worker.restarts}, {figures}")
        return problems

    def _until_equal(self, wanted):
        """Waits until both tables have what the database has; what they have not."""
        deadline = time.monotonic() + LIMIT_S
        while problems := self._unequal(wanted):
            for each in (self.worker, *self.pipelines):
                each.look()
            if time.monotonic() > deadline:
                break
            time.sleep(2)  # the judge takes a second of a core that the pipelines need
        return problems

    def _unequal(self, wanted):
        judge = Path(__file__).with_name("lake_judge.py")
        command = [sys.executable, str(judge), str(self._folder / "lake")]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        return [problem for kind in KINDS for problem in differences(kind, found.get(kind), wanted)]


def differences(kind, found, wanted):
    """Between the rows of a table, as the judge has read them, and those of the database."""
    if found is None:
        yield f"{kind}: there is no table"
        return
    there = found["digests"]
    if found["rows"] != len(there):
        yield f"{kind}: {found['rows']} rows of {len(there)} keys"
    for words, keys in (
        ("not in the table", wanted.keys() - there.keys()),
        ("not in the database", there.keys() - wanted.keys()),
        ("other values", {key for key in wanted.keys() & there.keys() if wanted[key] != there[key]}),
    ):
        if keys:
            yield f"{kind}: {len(keys)} rows: {words}, as {sorted(keys, key=int)[:8]}"


def brokers(story, seconds):
    """One broker after the other is killed and started again; the column comes half-way."""
    turns = max(2, round(seconds / KILL_EVERY_S))
    for turn in range(turns):
        began, number = time.monotonic(), 1 + turn % len(story.cluster.kinds)
        if turn == turns // 2:
            story.add_column()
        story.strike(story.cluster.name(number), lambda number=number: story.cluster.kill(number))
        least = SESSION_ENDS_S if story.cluster.kinds[number] == JVM else 0
        story.wait(least + story.rng.uniform(0, AWAY_S))
        story.cluster.start(number)
        story.wait(KILL_EVERY_S - (time.monotonic() - began))
        story.cluster.until_in_sync()


def sources(story, kills):
    """Connect's worker and PostgreSQL are killed and started again; the column comes half-way."""

    def worker_dies():
        story.worker.kill()
        story.worker.start()

    blows = {"Connect": worker_dies, "PostgreSQL": story.database.crash}
    for turn, what in enumerate(story.rng.sample(list(blows), 2 * kills, counts=[kills, kills])):
        if turn == kills:
            story.add_column()
        if story.rng.random() < 0.6:
            story.until_changes(story.rng.randint(1, 200))
        story.wait(story.rng.uniform(0, 5))
        story.strike(what, blows[what])
    story.until_changes(100)


def play(folder, plot, kind, database, plugins, connect=None, **options):
    """Plays a story in this folder; its problems."""
    # The topic is Connect's to make.
    cluster = ThreeBrokers(folder, [kind] * 3, connect, {"auto.create.topics.enable": "false"})
    return ChangesStory(folder, cluster, database, plugins, **options).run(plot)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("story", choices=["brokers", "sources"])
    parser.add_argument("--brokers", choices=[JVM, OURS], default=OURS)
    parser.add_argument("--minutes", type=float, default=10, help="of load, for brokers")
    parser.add_argument("--kills", type=int, default=20, help="of each, for sources")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=RATE, help="transactions a second")
    parser.add_argument("--at-least-once", action="store_true", help="Connect without transactions")
    parser.add_argument("--keep", type=Path, help="leave tables, data and logs here")
    given = parser.parse_args()

    def plot(story):
        if given.story == "brokers":
            brokers(story, given.minutes * 60)
        else:
            sources(story, given.kills)

    options = {"seed": given.seed, "exactly_once": not given.at_least_once, "rate": given.rate}
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        plugins, zookeeper, connect = kafka_harness.debezium_jars(), None, None
        if given.brokers == JVM:
            (folder / "zookeeper").mkdir()
            zookeeper = kafka_harness.start_zookeeper(folder / "zookeeper")
            connect = f"{kafka_harness.wait_until_serving(zookeeper).bootstrap}/changes"
        try:
            with postgres() as database:
                problems = play(folder, plot, given.brokers, database, plugins, connect, **options)
        finally:
            if zookeeper is not None:
                zookeeper.kill()
    sys.stdout.write("\n".join([*problems[:60], f"{len(problems)} problems", ""]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
