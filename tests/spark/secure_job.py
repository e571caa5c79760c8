"""A job whose options have secrets, on a cluster with an event log: a batch and a stream, written and read,
and everything that Spark shows of them.

secure_job.py OPTIONS FOLDER MASTER, where OPTIONS is a file of JSON: lists of options by name. Relative paths
in them are those of this process alone: no executor has its folder.
"""

import json
import sys
import traceback
import urllib.request
from pathlib import Path

from barnabas.spark import session

SMALL = {"spark.executor.memory": "512m", "spark.cores.max": 2, "spark.sql.shuffle.partitions": 1}
PAGES = (
    "/api/v1/applications/{app}/sql?details=true&planDescription=true",
    "/api/v1/applications/{app}/environment",
    "/api/v1/applications/{app}/stages?details=true",
    "/SQL/",
    "/SQL/execution/?id=0",
    "/SQL/execution/?id=1",
    "/StreamingQuery/",
    "/environment/",
    "/jobs/",
    "/stages/",
)


def show(title, *parts):
    sys.stdout.write(f"== {title}\n" + "\n".join(map(str, parts)) + "\n")


def stream(spark, reading, writing, folder):
    """Copies `first` to `second`, with one list of options and another; what the query says of itself."""
    opened = spark.readStream.format("barnabas").options(**reading, subscribe="first")
    query = (
        opened.option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "value")
        .writeStream.format("barnabas")
        .options(**writing, topic="second")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    show("stream", query, query.lastProgress, query.exception())
    query.explain(True)


def run(spark, options, folder):
    """Every step with its output on stdout; the counts."""
    rows = spark.range(200).selectExpr("cast(id as string) key", "repeat('x', 50) value")
    rows.write.format("barnabas").options(**options["files"], topic="first").mode("append").save()
    counts = {}
    for name in ("files", "inline"):
        frame = spark.read.format("barnabas").options(**options[name], subscribe="first").load()
        counts[name] = frame.count()
        for mode in ("extended", "formatted", "cost"):
            frame.explain(mode)
        show("schema", frame.schema.json(), frame)
    stream(spark, options["files"], options["inline"], folder)
    lag = spark.read.format("barnabas-lag").options(**options["inline"]).load()
    show("lag", lag.collect())
    lag.explain(True)
    second = spark.read.format("barnabas").options(**options["inline"], subscribe="second").load()
    counts["stream"] = second.count()
    for name in ("wrong", "refused"):
        try:
            spark.read.format("barnabas").options(**options[name], subscribe="first").load().count()
        except Exception:  # whatever Spark makes of it
            show(name, traceback.format_exc())
            counts[name] = "failed"
    return counts


def main(options, folder, master):
    """Prints the counts at last."""
    events = Path(folder) / "events"
    events.mkdir()
    logged = {
        "spark.eventLog.enabled": True,
        "spark.eventLog.compress": False,
        "spark.eventLog.dir": events.as_uri(),
        "spark.ui.enabled": True,
        "spark.ui.port": 0,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    spark = session("secure", master=master, config={**SMALL, **logged})
    counts = run(spark, json.loads(Path(options).read_text()), folder)
    app = spark.sparkContext.applicationId
    for page in PAGES:
        with urllib.request.urlopen(spark.sparkContext.uiWebUrl + page.format(app=app)) as answer:
            show(page, answer.read().decode())
    spark.stop()
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
