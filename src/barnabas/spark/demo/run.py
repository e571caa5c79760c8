"""The demo from its first step to its last; see `barnabas.spark.demo`."""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.processors import cores
from barnabas.log.directory import LOCK_FILE
from barnabas.spark import java, sessions
from barnabas.spark.demo import data as tables
from barnabas.spark.demo import report
from barnabas.spark.demo.broker import DemoBroker
from barnabas.spark.demo.crash import Crasher
from barnabas.spark.demo.errors import DemoError
from barnabas.spark.demo.findings import Findings
from barnabas.spark.demo.jobs import ALERTS, FLIGHTS, PARTITIONS, Jobs
from barnabas.spark.demo.next_steps import Run
from barnabas.spark.demo.replay import FlightReplay
from barnabas.spark.demo.story import Story
from barnabas.spark.demo.streams import (
    check_alive,
    micro_batches,
    rows_read,
    wait_for_rows,
    wait_for_start,
)
from barnabas.spark.errors import first_line

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

STEPS: Final = 11
_MARKER: Final = ".barnabas-demo"
"""The file that says whose the folder of the results is."""
_SPARK: Final = {
    "spark.sql.streaming.numRecentProgressUpdates": 10_000,
    # The JVM's first compiler alone: the second one would work longer than the demo runs.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asks for."""

    out: Path
    bootstrap_server: str | None = None
    """A cluster to use instead of a broker of its own."""
    keep: bool = False
    limit: int | None = None
    """Only the first flights of the year."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Options of the client that is the first to ask the cluster: how long it may take to answer."""


@dataclass
class DemoOutcome:
    """What is left when the demo has ended."""

    findings: Findings
    report: Path
    table: Path
    broker: DemoBroker | None
    run: Run


def run(settings: Settings, console: Console) -> DemoOutcome:
    """All steps. Raises DemoError, JavaNotFoundError and what the clients raise, each in one line."""
    java.java_home()  # before anything is started: the lack of a Java shows at once
    story = Story(console, STEPS)
    with _plain_failures(), contextlib.ExitStack() as stack, contextlib.ExitStack() as brokers:
        make_room(settings.out)
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="barnabas-demo-")))
        with story.step("flights") as say:
            flights = tables.load(settings.limit)
            say(f"{len(flights.flights):,} departures from New York in 2013")
        with story.step("broker") as say:
            broker = None if settings.bootstrap_server else _own_broker(settings.out, brokers)
            address = broker.address if broker else str(settings.bootstrap_server)
            say(f"{'started on' if broker else 'using'} {address}")
        with story.step("topics") as say:
            make_topics(address, settings.limits)
            say(f"{FLIGHTS} with {PARTITIONS} partitions, {ALERTS} with 1")
        with story.step("spark") as say:
            spark = sessions.make("barnabas demo", config=_SPARK, log_file=settings.out / "spark.log")
            stack.callback(spark.stop)
            say(f"{spark.version} on {cores()} cores")
        jobs = Jobs(spark, address, flights, work=work, table=settings.out / "delays.parquet")
        findings = answer(jobs, flights, address, story)
        with story.step("report") as say:
            path = settings.out / "report.html"
            findings.timings = story.timings
            left = Run(
                address if settings.keep or settings.bootstrap_server else None,
                settings.out.resolve(),
                broker=broker is not None,
            )
            path.write_text(report.html(findings, left), encoding="utf-8")
            say(path.resolve().as_uri())
        if settings.keep:
            brokers.pop_all()
        return DemoOutcome(findings, path, jobs.table, broker, left)


@contextlib.contextmanager
def _plain_failures() -> Iterator[None]:
    """An error of Spark or of the system becomes one line."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped, unused-ignore]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as failure:
        raise DemoError(f"Spark failed: {first_line(failure)}") from failure
    except OSError as failure:
        place = f" ({failure.filename})" if failure.filename else ""
        raise DemoError(f"{failure.strerror or failure}{place}") from failure


def make_room(folder: Path) -> None:
    """Takes a folder for the results and removes what an earlier demo left in it.

    Raises DemoError for a folder that is another's, and where a broker that was kept still runs on its own.
    """
    marker = folder / _MARKER
    if folder.exists() and any(folder.iterdir()) and not marker.exists():
        raise DemoError(f"{folder} is not empty, and no demo has written it: give another --out")
    if _in_use(folder / "broker"):
        raise DemoError(
            f"the broker that an earlier demo kept still runs on {folder / 'broker'}: end it, or give "
            "another --out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    marker.touch()
    for name in ("broker", "delays.parquet"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("report.html", "spark.log", "broker.log"):
        (folder / name).unlink(missing_ok=True)


def _in_use(directory: Path) -> bool:
    """Whether a broker holds the lock of its data directory."""
    try:
        with (directory / LOCK_FILE).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _own_broker(folder: Path, brokers: contextlib.ExitStack) -> DemoBroker:
    """A broker that ends, with its data, when `brokers` is closed."""
    brokers.callback(shutil.rmtree, folder / "broker", ignore_errors=True)
    broker = DemoBroker(folder)
    brokers.callback(broker.stop)
    return broker


def make_topics(address: str, limits: Mapping[str, int]) -> None:
    """Creates both topics, by an admin client with these options. Raises DemoError when those of an earlier
    demo are in the way.
    """
    # Time goes by the flights: retention counted from 2013 would remove them.
    forever = {"retention.ms": "-1"}
    topics = [
        NewTopic(FLIGHTS, partitions=PARTITIONS, configs=forever),
        NewTopic(ALERTS, partitions=1, configs=forever),
    ]
    with Admin({"bootstrap.servers": address, **limits}) as admin:
        try:
            admin.topics.create(topics)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            raise DemoError(
                f"the topics of an earlier demo exist at {address}: barnabas topics --bootstrap-server "
                f"{address} --delete --topic '{FLIGHTS}|{ALERTS}'"
            ) from error


def answer(jobs: Jobs, flights: tables.FlightData, address: str, story: Story) -> Findings:
    """Replays while the streams read, then asks the batch questions and checks all answers."""
    replay = FlightReplay(address, FLIGHTS, PARTITIONS)
    with story.step("streams") as say:
        queries = []
        # One after the other: Spark gives each of their Python processes ten seconds to come up.
        for start in (jobs.start_delays, jobs.start_alerts):
            queries.append(start())
            wait_for_start(queries[-1])
        say("delays by airport and hour → Parquet, very late departures → topic alerts")
    total = len(flights.flights)
    crasher = Crasher(queries[0], jobs.start_delays, jobs.checkpoint("delays"), total)
    with story.bar("replay", total) as tick:

        def sent(more: int) -> None:
            tick(more)
            crasher.tick(more)

        replay.run(flights, sent)
    with story.step("crash") as say:
        crash = crasher.wait()
        queries[0] = crasher.query
        say(f"{crash.words()}; started again from its checkpoint, {crash.seconds:.1f} s without a commit")
    for query in queries:
        check_alive(query)
    with story.step("streaming") as say:
        _finish(queries, replay)
        delays = jobs.delays().toPandas()
        batches = {str(query.name): micro_batches(query) for query in queries}
        batches["delays"] = crash.before + batches["delays"]
        say(f"{sum(1 for batch in batches['delays'] if batch.rows)} micro-batches, {len(delays):,} windows")
    with story.step("batch query") as say:
        routes = jobs.routes().toPandas()
        alerts = jobs.alerts().first()
        assert alerts is not None
        say("minutes lost by route, airline and weather")
    findings = Findings(
        data=flights,
        delays=delays,
        routes=routes,
        alerts=(alerts["rows"], alerts["different"]),
        batches=batches,
        crash=crash,
        records_read={str(query.name): rows_read(query) for query in queries},
    )
    with story.step("checks") as say:
        findings.verify(replay)
        say(f"{len(findings.checks)} numbers equal those of pandas; no row dropped by the watermark")
    for query in queries:
        query.stop()
    story.console.print(report.terminal_table(findings))
    return findings


def _finish(queries: "list[StreamingQuery]", replay: FlightReplay) -> None:
    """Until the streams have everything and every window is out."""
    for query in queries:
        wait_for_rows(query, replay.count)
    # Only now: a closing record pushes the watermark beyond all flights, read or not.
    replay.close()
    for query in queries:
        wait_for_rows(query, replay.count + PARTITIONS)
        query.processAllAvailable()
