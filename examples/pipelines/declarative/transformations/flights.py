"""A topic into a table, and what is late in it into another topic."""

import os

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

spark = SparkSession.active()
BROKER = os.environ.get("KAFKA", "127.0.0.1:9092")


@pipelines.table
def flights() -> DataFrame:
    """The flights, as they come."""
    records = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", BROKER)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .load()
    )
    values = records.select(
        from_json(col("value").cast("string"), "carrier STRING, delay INT").alias("value")
    )
    return values.select("value.*")


pipelines.create_sink("delays", "barnabas", {"kafka.bootstrap.servers": BROKER, "topic": "delays"})


@pipelines.append_flow(target="delays")
def delays() -> DataFrame:
    """Those of half an hour and more, by carrier."""
    late = spark.readStream.table("flights").filter("delay >= 30")
    return late.selectExpr("carrier AS key", "to_json(struct(*)) AS value")
