"""A job for a cluster: writes a topic, reads it in a batch and as a stream, and prints what it found as JSON.

cluster_job.py BOOTSTRAP TOPIC FOLDER [MASTER | sc://...]
"""

import json
import sys

from barnabas.spark import session

SMALL = {"spark.executor.memory": "512m", "spark.cores.max": 2, "spark.sql.shuffle.partitions": 2}


def run(spark, bootstrap, topic, folder):
    """The steps; (rows of the batch, rows of the stream)."""
    rows = spark.range(1000).selectExpr("cast(id as string) key", "repeat('x', 50) value")
    rows.write.format("barnabas").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).mode(
        "append"
    ).save()

    def read(reader):
        opened = reader.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
        return opened.option("subscribe", topic).option("startingOffsets", "earliest").load()

    query = (
        read(spark.readStream)
        .writeStream.format("parquet")
        .option("path", f"{folder}/table")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return read(spark.read).count(), spark.read.parquet(f"{folder}/table").count()


def main(bootstrap, topic, folder, where=None):
    """Prints one line."""
    remote = where is not None and where.startswith("sc://")
    place = {"remote": where} if remote else {"master": where, "config": SMALL}
    spark = session("cluster", **place)
    batch, stream = run(spark, bootstrap, topic, folder)
    found = {"batch": batch, "stream": stream, "zone": spark.conf.get("spark.sql.session.timeZone")}
    if not remote:
        found["master"] = spark.sparkContext.master
        found["executors"] = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
