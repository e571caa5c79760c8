"""Jobs that read streams."""

import json

from pyspark.sql import functions as sql

from parity.connectors import topics
from parity.connectors.connector import Connector, Results, batches, finished, ordered
from parity.connectors.topics import LEFT, MIXED, RIGHT, TIMES

_COLUMNS = ("partition", "offset", "key", "value", "timestamp")


def available_now(connector: Connector) -> Results:
    """What is there, in batches of a size."""
    frame = connector.stream(subscribe=MIXED, startingOffsets="earliest", maxOffsetsPerTrigger=70)
    query = _into_memory(connector, frame.select(*_COLUMNS), "available")
    results: Results = {"batches": batches(query), "rows": ordered(connector.spark.table("available"))}
    if connector.thorough:
        once = connector.stream(subscribe=MIXED, startingOffsets="earliest")
        results["in one batch"] = batches(_into_memory(connector, once.select("offset"), "at_once"))
        results["from latest"] = connector.rows(connector.stream(subscribe=MIXED).select("offset"), "latest")
    return results


def limits(connector: Connector) -> Results:
    """A least number of offsets a batch, which waits no longer than it was told."""
    both = connector.stream(
        subscribe=MIXED, startingOffsets="earliest", minOffsetsPerTrigger=50, maxOffsetsPerTrigger=120
    )
    few = connector.stream(
        subscribe=MIXED, startingOffsets="earliest", minOffsetsPerTrigger=1000, maxTriggerDelay="1s"
    )
    results: Results = {
        "least and most": batches(_into_memory(connector, both.select("offset"), "least_most")),
        "too few, but waited": connector.rows(few.select("partition", "offset"), "waited"),
    }
    if connector.thorough:
        start = json.dumps({MIXED: {"0": 90, "1": -1, "2": -2}})
        cut = connector.stream(subscribe=MIXED, startingOffsets=start, minPartitions=7)
        results["by partition"] = connector.rows(cut.select("partition", "offset"), "by_partition")
    return results


def windows(connector: Connector) -> Results:
    """Counts by window, with a watermark; a window goes out when the watermark has passed it."""
    frame = connector.stream(subscribe=TIMES, startingOffsets="earliest", maxOffsetsPerTrigger=80)
    counted = (
        frame.withWatermark("timestamp", "10 seconds")
        .groupBy(sql.window("timestamp", "20 seconds"), "partition")
        .agg(sql.count("*").alias("rows"), sql.max("offset").alias("newest"))
        .select("window.start", "partition", "rows", "newest")
    )
    return {"windows": connector.rows(counted, "windows")}


def joined(connector: Connector) -> Results:
    """Two streams, joined by key within a time."""

    def side(topic: str, name: str):
        frame = connector.stream(subscribe=topic, startingOffsets="earliest")
        columns = [f"CAST(key AS STRING) {name}_key", f"value {name}_value", f"timestamp {name}_time"]
        return frame.selectExpr(*columns).withWatermark(f"{name}_time", "1 minute")

    near = "l_key = r_key AND r_time BETWEEN l_time - INTERVAL 40 SECONDS AND l_time + INTERVAL 40 SECONDS"
    found = side(LEFT, "l").join(side(RIGHT, "r"), sql.expr(near))
    return {"pairs": connector.rows(found, "pairs")}


def handed_over(connector: Connector) -> Results:
    """A checkpoint of one connector, gone on with by the other."""
    name = f"handed-{connector.format}-{connector.folder.name}"
    topics.create(connector.bootstrap, {name: 2})
    table = str(connector.folder / "handed")

    def run(by: str) -> None:
        frame = connector.stream(by=by, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=30)
        writer = frame.select("partition", "offset", "value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(connector.folder / "handed-checkpoint"))
        finished(writer.option("path", table).trigger(availableNow=True).start())

    turns = (connector.format, connector.other, connector.format)
    for turn, by in enumerate(turns if connector.thorough else turns[:2]):
        topics.fill(connector.bootstrap, name, 40, topics.plain, 2, first=40 * turn)
        run(by)
    found = ordered(connector.spark.read.parquet(table))
    # Either way both connectors read, so the example itself may be wrong: what the topic has is the measure.
    there = ordered(connector.read(subscribe=name).select("partition", "offset", "value"))
    assert found == there, f"of {len(there)} records the table has {len(found)} rows"
    return {"rows": found}


def _into_memory(connector: Connector, frame, name: str):
    """The ended query whose rows are in the table of that name."""
    writer = frame.writeStream.format("memory").queryName(name)
    writer = writer.option("checkpointLocation", str(connector.folder / name))
    return finished(writer.trigger(availableNow=True).start())
