"""Reads the same topic through our Spark source and through Spark's own Kafka connector, in one session.

python -m bench.spark [--records 5000000] [--rounds 5] [--bootstrap-server HOST:PORT] [--jars a.jar,b.jar]

The official connector comes from Maven: `--jars` names org.apache.spark:spark-sql-kafka-0-10_2.13 and
spark-token-provider-kafka-0-10_2.13 of the installed PySpark's line, org.apache.kafka:kafka-clients and
org.apache.commons:commons-pool2. Without it only ours is measured. Without a bootstrap server a broker of our
own serves both.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from barnabas.admin import BlockingAdmin, NewTopic
from barnabas.spark import sessions
from barnabas.spark.demo.broker import DemoBroker

PARTITIONS = 4
QUERIES = {
    "count + sum(length)": lambda frame: frame.selectExpr("count(1)", "sum(length(value))").collect(),
    "all columns to noop": lambda frame: frame.write.format("noop").mode("overwrite").save(),
}
BUDGET_ROWS = 3_000_000
BUDGET_RATIO = 2.5


def fill(bootstrap: str, records: int) -> str:
    """A new topic with records of 100 B and keys of 8 B."""
    topic = f"spark-{time.time_ns()}"
    with BlockingAdmin(bootstrap) as admin:
        admin.topics.create([NewTopic(topic, partitions=PARTITIONS)])
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1 << 18})
    value = b"x" * 92
    for number in range(records):
        while True:
            try:
                producer.produce(topic, b"%08d" % number + value, b"%08d" % number, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    return topic


def rows_per_second(
    spark: SparkSession, source: str, bootstrap: str, topic: str, query: str, records: int
) -> float:
    """One run of one query through one source."""
    frame = (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )
    started = time.monotonic()
    found = QUERIES[query](frame)
    took = time.monotonic() - started
    if found is not None and found[0][0] != records:
        raise RuntimeError(f"{source} read {found[0][0]} of {records} records")
    return records / took


def measure(spark: SparkSession, sources: list[str], bootstrap: str, records: int, rounds: int) -> bool:
    """Prints a line for each query; whether the budgets are met."""
    topic = fill(bootstrap, records)
    met = True
    print(
        f"{records:,} records of 100 B in {PARTITIONS} partitions, {spark.sparkContext.master}, Spark {spark.version}"
    )
    for query in QUERIES:
        cold = {
            source: rows_per_second(spark, source, bootstrap, topic, query, records) for source in sources
        }
        warm: dict[str, list[float]] = {source: [] for source in sources}
        for _ in range(rounds):
            for source in sources:
                warm[source].append(rows_per_second(spark, source, bootstrap, topic, query, records))
        ours, *official = (statistics.median(warm[source]) for source in sources)
        line = f"{query:22} barnabas {ours / 1e6:5.2f} M rows/s (first {cold['barnabas'] / 1e6:.2f})"
        met = met and ours >= BUDGET_ROWS
        if official:
            line += f"   kafka {official[0] / 1e6:5.2f} (first {cold['kafka'] / 1e6:.2f})   ratio {ours / official[0]:.2f}"
            met = met and ours / official[0] >= BUDGET_RATIO
        print(line, flush=True)
    return met


def main() -> int:
    """0 when the budgets are met."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bootstrap-server")
    parser.add_argument("--jars", help="the official connector's jars, separated by commas")
    asked = parser.parse_args()
    config = {"spark.driver.memory": "2g"} | ({"spark.jars": asked.jars} if asked.jars else {})
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
        broker = None if asked.bootstrap_server else DemoBroker(Path(folder))
        spark = sessions.make("bench", master="local[2]", config=config, log_file=Path(folder) / "spark.log")
        try:
            sources = ["barnabas", "kafka"] if asked.jars else ["barnabas"]
            address = broker.address if broker else asked.bootstrap_server
            return 0 if measure(spark, sources, address, asked.records, asked.rounds) else 1
        finally:
            spark.stop()
            if broker:
                broker.stop()


if __name__ == "__main__":
    raise SystemExit(main())
