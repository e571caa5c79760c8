"""Reads and writes topics through our Spark source and sink and through Spark's own Kafka connector, in one session.

python -m bench.spark [--records 5000000] [--rounds 5] [--bootstrap-server HOST:PORT] [--jars a.jar,b.jar]

The official connector comes from Maven: `--jars` names org.apache.spark:spark-sql-kafka-0-10_2.13 and
spark-token-provider-kafka-0-10_2.13 of the installed PySpark's line, org.apache.kafka:kafka-clients and
org.apache.commons:commons-pool2. Without it only ours is measured. Without a bootstrap server a broker of our
own serves both, and its directories are read by `barnabas-log` too.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from barnabas.admin import BlockingAdmin, NewTopic
from barnabas.core.ids import TopicPartition
from barnabas.spark import sessions
from barnabas.spark.demo.broker import DemoBroker
from barnabas.spark.logs.options import log_options
from barnabas.spark.logs.segments import find_segments, plan_tasks
from barnabas.spark.logs.views import read_pieces

PARTITIONS = 4
QUERIES = {
    "count + sum(length)": lambda frame: frame.selectExpr("count(1)", "sum(length(value))").collect(),
    "all columns to noop": lambda frame: frame.write.format("noop").mode("overwrite").save(),
}
BUDGET_ROWS = 3_000_000
BUDGET_RATIO = 2.5
BUDGET_SINK_RATIO = 1.0
BUDGET_LOG_ROWS = 4_000_000


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


def measure_log(spark: SparkSession, directory: Path, topic: str, records: int, rounds: int) -> bool:
    """Reads the topic's directories without the broker, from the page cache: what a task makes of them alone, which
    has the budget, and through Spark.
    """
    decoded = [decoded_per_second(directory, topic) for _ in range(rounds + 1)][1:]
    line = f"{'decoded in one process':22} barnabas-log {statistics.median(decoded) / 1e6:5.2f} M rows/s"
    for query, run in QUERIES.items():
        found = []
        for _ in range(rounds + 1):
            frame = spark.read.format("barnabas-log").option("subscribe", topic).load(str(directory))
            started = time.monotonic()
            run(frame)
            found.append(records / (time.monotonic() - started))
        line += f"   {query} {statistics.median(found[1:]) / 1e6:5.2f} (first {found[0] / 1e6:.2f})"
    print(line, flush=True)
    return statistics.median(decoded) >= BUDGET_LOG_ROWS


def decoded_per_second(directory: Path, topic: str) -> float:
    """The rows of all tasks, one after the other in this process."""
    options = log_options({"path": str(directory), "subscribe": topic})
    started = time.monotonic()
    tasks = plan_tasks(find_segments(options), options)
    rows = sum(batch.num_rows for task in tasks for batch in read_pieces(task, options))
    return rows / (time.monotonic() - started)


def rows_to_write(spark: SparkSession, records: int) -> DataFrame:
    """Rows of 100 B with keys of 8 B, kept in memory so that making them costs neither sink."""
    key = "cast(lpad(cast(id as string), 8, '0') as binary)"
    value = "cast(concat(lpad(cast(id as string), 8, '0'), repeat('x', 92)) as binary)"
    rows = spark.range(records).selectExpr(f"{key} key", f"{value} value").cache()
    rows.count()
    return rows


def written_per_second(rows: DataFrame, sink: str, bootstrap: str, records: int) -> float:
    """One write of all rows to a new topic."""
    topic = f"sink-{time.time_ns()}"
    with BlockingAdmin(bootstrap) as admin:
        admin.topics.create([NewTopic(topic, partitions=PARTITIONS)])
    started = time.monotonic()
    rows.write.format(sink).option("kafka.bootstrap.servers", bootstrap).option("topic", topic).mode(
        "append"
    ).save()
    took = time.monotonic() - started
    with BlockingAdmin(bootstrap) as admin:
        ends = admin.offsets.list({TopicPartition(topic, number): -1 for number in range(PARTITIONS)})
        admin.topics.delete(topic)
    stored = sum(one.offset for one in ends.values())
    if stored < records:
        raise RuntimeError(f"{sink} stored {stored} of {records} records")
    return records / took


def measure_sinks(spark: SparkSession, sinks: list[str], bootstrap: str, records: int, rounds: int) -> bool:
    """Prints a line; whether the budget is met."""
    rows = rows_to_write(spark, records)
    cold = {sink: written_per_second(rows, sink, bootstrap, records) for sink in sinks}
    warm: dict[str, list[float]] = {sink: [] for sink in sinks}
    for _ in range(rounds):
        for sink in sinks:
            warm[sink].append(written_per_second(rows, sink, bootstrap, records))
    rows.unpersist()
    ours, *official = (statistics.median(warm[sink]) for sink in sinks)
    line = f"{'write to a topic':22} barnabas {ours / 1e6:5.2f} M rows/s (first {cold['barnabas'] / 1e6:.2f})"
    if official:
        line += f"   kafka {official[0] / 1e6:5.2f} (first {cold['kafka'] / 1e6:.2f})   ratio {ours / official[0]:.2f}"
    print(line, flush=True)
    return not official or ours / official[0] >= BUDGET_SINK_RATIO


def measure(
    spark: SparkSession, sources: list[str], bootstrap: str, topic: str, records: int, rounds: int
) -> bool:
    """Prints a line for each query; whether the budgets are met."""
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
            topic = fill(address, asked.records)
            met = [measure(spark, sources, address, topic, asked.records, asked.rounds)]
            if broker:
                met.append(measure_log(spark, Path(folder) / "broker", topic, asked.records, asked.rounds))
            met.append(measure_sinks(spark, sources, address, asked.records // 4, asked.rounds))
            return 0 if all(met) else 1
        finally:
            spark.stop()
            if broker:
                broker.stop()


if __name__ == "__main__":
    raise SystemExit(main())
