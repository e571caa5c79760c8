"""Jobs that write to topics; what arrived is looked at by a client that is neither connector."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from parity.connectors import topics
from parity.connectors.connector import Connector, Results, batches, finished, stored, words
from parity.connectors.topics import MIXED


def batch_sink(connector: Connector) -> Results:
    """Keys, no keys, null values, headers; the topic and the partition by option and by column."""
    spark, base = connector.spark, _name(connector, "batch")
    names = {part: f"{base}-{part}" for part in ("keyed", "column", "chosen")}
    topics.create(connector.bootstrap, dict.fromkeys(names.values(), 5))
    rows = spark.range(200).selectExpr(
        "IF(id % 9 = 0, NULL, CAST(concat('key', id) AS BINARY)) key",
        "IF(id % 10 = 0, NULL, CAST(repeat('v', CAST(id AS INT)) AS STRING)) value",
        "IF(id % 4 = 0, array(struct('h' AS key, CAST(CAST(id AS STRING) AS BINARY) AS value)), NULL) "
        "headers",
    )
    connector.write(rows, topic=names["keyed"], includeHeaders=True)
    by_column = rows.withColumn("topic", sql.lit(names["column"]))
    connector.write(by_column)
    chosen = rows.withColumn("partition", sql.expr("CAST(length(value) % 5 AS INT)"))
    connector.write(chosen.where("key IS NOT NULL"), topic=names["chosen"])
    results: Results = {part: stored(connector.bootstrap, name) for part, name in names.items()}
    assert all(results.values()), "a batch was written and nothing is stored"
    return results


def stream_sink(connector: Connector) -> Results:
    """The output modes of a stream, and a batch without a mode."""
    name = _name(connector, "stream")
    topics.create(
        connector.bootstrap, {f"{name}-{mode}": 1 for mode in ("append", "complete", "update", "none")}
    )
    source = connector.stream(subscribe=MIXED, startingOffsets="earliest", maxOffsetsPerTrigger=200)
    counts = (
        source.groupBy("partition")
        .count()
        .selectExpr("CAST(partition AS STRING) key", "CAST(count AS STRING) value")
    )

    def write(frame: DataFrame, mode: str) -> None:
        writer = connector.write_stream(
            frame, topic=f"{name}-{mode}", checkpointLocation=connector.folder / mode
        )
        query = finished(writer.outputMode(mode).trigger(availableNow=True).start())
        assert batches(query)

    results: Results = {}
    for mode, frame in (("append", source.select("key", "value")), ("complete", counts), ("update", counts)):
        results[f"{mode}: ends"] = words(lambda frame=frame, mode=mode: write(frame, mode))
        results[f"{mode}: stored"] = stored(connector.bootstrap, f"{name}-{mode}")
    rows = connector.spark.range(5).selectExpr("CAST(id AS STRING) key", "'v' value")
    results["no mode: ends"] = words(lambda: connector.write(rows, mode=None, topic=f"{name}-none"))
    results["no mode: stored"] = stored(connector.bootstrap, f"{name}-none")
    return results


def _name(connector: Connector, what: str) -> str:
    return f"sink-{what}-{connector.format}"
