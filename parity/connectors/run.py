"""Runs jobs by each connector on each broker and says where they differ from the official one on the first
broker.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from barnabas.spark import sessions
from parity import sides
from parity.connectors import errors, reading, streaming, topics, writing
from parity.connectors.connector import OFFICIAL, OURS, SPARK_ERRORS, Connector, Results
from parity.connectors.differences import Difference, Outcome
from parity.sides import kafka_harness

JOBS: Final[dict[str, Callable[[Connector], Results]]] = {
    "all-columns": reading.all_columns,
    "offsets": reading.offsets,
    "times": reading.times,
    "topics": reading.topics,
    "partitions": reading.partitions,
    "codecs": reading.codecs,
    "holes": reading.holes,
    "available-now": streaming.available_now,
    "limits": streaming.limits,
    "windows": streaming.windows,
    "joined": streaming.joined,
    "handed-over": streaming.handed_over,
    "batch-sink": writing.batch_sink,
    "stream-sink": writing.stream_sink,
    "refusals": errors.refusals,
}
BROKERS: Final = ("kafka", "barnabas")
"""In the order of `sides.beside_kafka_3_9`."""

_BROKER_SETTINGS: Final = {
    "log.cleaner.backoff.ms": 200,
    "log.initial.task.delay.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}
_SPARK: Final = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.extraJavaOptions": kafka_harness.java_options.QUICK,
    "spark.sql.streaming.numRecentProgressUpdates": 1000,
    "spark.python.authenticate.socketTimeout": "120s",
}


def run(jobs: Sequence[str], brokers: Sequence[str], *, thorough: bool) -> Iterator[Outcome]:
    """Runs the jobs, each on each broker.

    The first broker's official connector is the example; it asks the others only if the run is `thorough`.
    Raises kafka_harness.UnavailableError without Java, Maven or the artifacts.
    """
    jars = kafka_harness.connector_jars()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="barnabas-connectors-")))
        both = stack.enter_context(sides.beside_kafka_3_9(folder, settings=_BROKER_SETTINGS))
        addresses = {
            name: f"127.0.0.1:{side.port}"
            for name, side in zip(BROKERS, both, strict=True)
            if name in brokers
        }
        for address in addresses.values():
            topics.make(address)
        spark = sessions.make(
            "connectors",
            master="local[2]",
            config={**_SPARK, "spark.jars": jars},
            log_file=folder / "spark.log",
        )
        stack.callback(spark.stop)
        for job in jobs:
            theirs: Results | None = None
            for broker, address in addresses.items():
                started = time.monotonic()
                found = {}
                for connector in (OFFICIAL, OURS):
                    if connector == OFFICIAL and theirs is not None and not thorough:
                        continue
                    place = folder / f"{job}-{broker}-{connector}"
                    place.mkdir()
                    found[connector] = _results(job, Connector(spark, connector, address, place, thorough))
                if theirs is None:
                    theirs = found.pop(OFFICIAL)
                yield _outcome(job, broker, theirs, found, time.monotonic() - started)


def _results(job: str, connector: Connector) -> Results:
    """What a job found. One that fails as a whole equals no other, not even another that fails."""
    try:
        return JOBS[job](connector)
    except (*SPARK_ERRORS, AssertionError, TimeoutError) as error:
        return {"the job": f"failed by {connector.format} on {connector.bootstrap}: {error}"}


def _outcome(job: str, broker: str, theirs: Results, found: dict[str, Results], seconds: float) -> Outcome:
    compared, different = [], []
    for connector, results in found.items():
        for name in {**theirs, **results}:
            compared.append((connector, name))
            expected, given = theirs.get(name, "nothing"), results.get(name, "nothing")
            if expected != given:
                different.append(Difference(job, name, connector, expected, given))
    return Outcome(job, broker, compared, different, seconds)
