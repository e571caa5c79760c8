"""Puts our Spark source and sink beside Spark's own Kafka connector: one session, one broker, in turn.

python -m bench.spark [--quick] [--rows count,sink,...] [--records N] [--jars a.jar,b.jar] [--connector
VERSION]

A broker of our own serves both, local[2], 4 partitions, records of 100 B. The official connector comes by
Maven (4.2.0, or what `--connector` names). Without Maven only ours is measured, and nothing that needs a
comparison is judged.
"""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark

from barnabas.spark import sessions
from barnabas.spark.demo.broker import DemoBroker
from bench import options, report
from bench.mood import mood_meter
from bench.rounds import FULL, QUICK
from bench.sides import TITLES, UnavailableError, kafka_harness
from bench.spark import pipelines, rates, streams, tables
from bench.spark.world import Connector, World, add_connector, fill, new_topic

ROWS = {**rates.ROWS, **streams.ROWS, **tables.ROWS, **pipelines.ROWS}
TITLES.setdefault("connector", "official connector")
TITLES.setdefault("barnabas", "Barnabas")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few records and rounds: a look, not a result")
    parser.add_argument("--rows", default=",".join(ROWS), help="which ones (default: %(default)s)")
    parser.add_argument("--records", type=int, help="in the topic that is read (5 million; --quick: 500,000)")
    parser.add_argument("--jars", help="the official connector's jars, separated by commas; else Maven's")
    add_connector(parser)
    return parser.parse_args()


def jars_for(asked: argparse.Namespace) -> str:
    """The official connector's jars; empty, with a line that says so, where they cannot be had."""
    try:
        return asked.jars or kafka_harness.connector_jars(asked.connector)
    except UnavailableError as missing:
        print(
            f"bench: ONLY OURS IS MEASURED, there is nothing to compare with: {missing}."
            " Name the jars (--jars) or a version that Maven has (--connector 4.2.0).",
            file=sys.stderr,
        )
        return ""


@contextlib.contextmanager
def running_sides(folder: Path, jars: str, records: int) -> Iterator[Sequence[Connector]]:
    """The connectors, the official one first, with a broker, a filled topic and a session."""
    config = {"spark.driver.memory": "2g"} | ({"spark.jars": jars} if jars else {})
    broker = DemoBroker(folder)
    try:
        spark = sessions.make("bench", master="local[2]", config=config, log_file=folder / "spark.log")
        try:
            topic = new_topic(broker.address, "spark")
            fill(broker.address, topic, records)
            world = World(spark, broker.address, folder, folder / "broker", jars, records, topic)
            official = [Connector("connector", "kafka", world)] if jars else []
            yield [*official, Connector("barnabas", "barnabas", world)]
        finally:
            spark.stop()
    finally:
        broker.stop()


def main() -> int:
    """Runs the rows; 0 when every budget is met, 1 otherwise."""
    asked = arguments()
    rows = options.chosen_rows(asked.rows, ROWS)
    records = asked.records or (500_000 if asked.quick else 5_000_000)
    jars = jars_for(asked)
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder,
        mood_meter() as meter,
        running_sides(Path(folder), jars, records) as sides,
    ):
        found = report.compare(rows, sides, QUICK if asked.quick else FULL, meter)
    print(f"{records:,} records of 100 B in 4 partitions, local[2], PySpark {pyspark.__version__}")
    print(f"The official connector: {Path(jars.split(',')[0]).name or 'none'}\n")
    print(report.table(found))
    return 0 if found.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
