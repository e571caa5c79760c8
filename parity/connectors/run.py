"""Runs jobs by each connector on each broker and says where they differ from the official one on Apache Kafka."""

import contextlib
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.spark import sessions
from parity import sides
from parity.connectors import errors, reading, streaming, topics, writing
from parity.connectors.connector import OFFICIAL, OURS, Connector, Results
from parity.sides import kafka_harness

JOBS: Final[dict[str, Callable[[Connector], Results]]] = {
    "all columns": reading.all_columns,
    "offsets": reading.offsets,
    "times": reading.times,
    "topics": reading.topics,
    "partitions": reading.partitions,
    "codecs": reading.codecs,
    "holes": reading.holes,
    "available now": streaming.available_now,
    "limits": streaming.limits,
    "windows": streaming.windows,
    "joined": streaming.joined,
    "handed over": streaming.handed_over,
    "batch sink": writing.batch_sink,
    "stream sink": writing.stream_sink,
    "refusals": errors.refusals,
}
DIFFERENCES: Final = Path(__file__).with_name("differences.toml")
_BROKER_SETTINGS: Final = {
    "log.cleaner.backoff.ms": 200,
    "log.initial.task.delay.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}
_SPARK: Final = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.streaming.numRecentProgressUpdates": 1000,
    "spark.python.authenticate.socketTimeout": "120s",
}


class Difference(NamedTuple):
    """A result that is not that of the official connector on Apache Kafka."""

    job: str
    name: str
    side: str
    theirs: object
    ours: object

    def __str__(self) -> str:
        return f"{self.job} / {self.name} ({self.side})\n  theirs: {_short(self.theirs)}\n  ours:   {_short(self.ours)}"


class Entry(NamedTuple):
    """What may differ, and why."""

    job: str
    name: str
    side: str
    reason: str

    def fits(self, found: Difference) -> bool:
        pairs = zip((found.job, found.name, found.side), (self.job, self.name, self.side), strict=True)
        return all(fnmatchcase(value, pattern) for value, pattern in pairs)


def entries() -> list[Entry]:
    """The differences that are explained."""
    with DIFFERENCES.open("rb") as file:
        return [Entry(**entry) for entry in tomllib.load(file)["difference"]]


def run(jobs: Sequence[str], *, thorough: bool) -> Iterator[tuple[str, list[Difference]]]:
    """Runs the jobs; yields each one's name and differences. The official connector asks ours only if `thorough`.

    Raises kafka_harness.UnavailableError without Java, Maven or the artifacts.
    """
    jars = ",".join(str(jar) for jar in sorted(kafka_harness.connector_jars().glob("*.jar")))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="barnabas-connectors-")))
        brokers = dict(
            zip(
                ("Kafka", "Barnabas"),
                stack.enter_context(sides.two_sides(folder, _BROKER_SETTINGS)),
                strict=True,
            )
        )
        for side in brokers.values():
            topics.make(f"127.0.0.1:{side.port}")
        spark = sessions.make(
            "connectors",
            master="local[2]",
            config={**_SPARK, "spark.jars": jars},
            log_file=folder / "spark.log",
        )
        stack.callback(spark.stop)
        for number, job in enumerate(jobs):
            found = {}
            for broker, side in brokers.items():
                for name in (OFFICIAL, OURS):
                    if name == OFFICIAL and broker != "Kafka" and not thorough:
                        continue
                    place = folder / f"{number}-{broker}-{name}"
                    place.mkdir()
                    connector = Connector(spark, name, f"127.0.0.1:{side.port}", place)
                    found[f"{name} on {broker}"] = JOBS[job](connector)
            yield job, _compare(job, found)


def _compare(job: str, found: dict[str, Results]) -> list[Difference]:
    (_, theirs), *others = found.items()
    return [
        Difference(job, name, side, theirs.get(name), results.get(name))
        for side, results in others
        for name in {**theirs, **results}
        if theirs.get(name) != results.get(name)
    ]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 400 else f"{text[:400]}... ({len(text)} characters)"
