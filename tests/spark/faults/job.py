"""The query's side of `run.py`: one Spark session that runs pipelines as it is asked to, with points to halt
at.

job.py MASTER FOLDER. Each line of its input is a command in JSON, and gets one line in JSON:
{"run": [FILE, ...], "stop": PATH}: these pipelines side by side, until they end or the file PATH is there.
{"options": {...}}: what the source and the sink say to such options.
{"log": DIRECTORY, "topic": NAME}: what `format("barnabas-log")` says about the directory.
"""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from halts import HaltingSource, reach
from rich.console import Console

import java_options
from barnabas.spark import sessions
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file import settings
from barnabas.spark.pipeline.running import supervisor
from barnabas.spark.pipeline.sinks import sink
from barnabas.spark.pipeline.tables.delta import DeltaFolder
from barnabas.spark.pipeline.tables.iceberg import IcebergFolder
from barnabas.spark.pipeline.tables.parquet import ParquetFolder

_LOOK_S = 0.05
CONFIG = {
    "spark.driver.memory": "640m",
    "spark.executor.memory": "512m",
    "spark.cores.max": 2,
    "spark.sql.shuffle.partitions": 1,
    "spark.driver.extraJavaOptions": java_options.SMALL,
    "spark.executor.extraJavaOptions": java_options.SMALL,
    "spark.python.authenticate.socketTimeout": "120s",
}
_current = threading.local()


def halt_around(owner, name, phase, folder_of):
    """Points before and behind `owner.name`: PHASE.NAME.BATCH, where NAME is the folder of the pipeline."""
    original = getattr(owner, name)

    def call(self, *args):
        at = f"{folder_of(self).name}.{_current.batch}"
        reach(f"before-{phase}.{at}")
        found = original(self, *args)
        if name == "_stage":
            found = list(found)  # it is a generator
        reach(f"after-{phase}.{at}")
        return found

    setattr(owner, name, call)


def plant():
    """The points of the driver. The batch's number is kept for the thread, which has one batch at a time."""
    write = sink.BatchSink.write

    def writing(self, frame, batch):
        _current.batch = batch
        write(self, frame, batch)
        reach(f"before-checkpoint.{self._sink.path.parent.name}.{batch}")

    sink.BatchSink.write = writing
    halt_around(sink.BatchSink, "_stage", "write", lambda it: it._sink.path.parent)
    for table, commit in ((ParquetFolder, "_replace"), (DeltaFolder, "_commit"), (IcebergFolder, "_commit")):
        halt_around(table, commit, "commit", lambda it: it.folder.parent)


def run_one(spark, file, stop):
    try:
        outcome = supervisor.run(spark, settings.load(Path(file)), Console(file=sys.stderr), stop)
    except PipelineError as error:
        return {"error": str(error)}
    return {"error": None, "restarts": outcome.restarts}


def run(spark, files, stop_file):
    stop, over = threading.Event(), threading.Event()

    def watch():
        while not over.wait(_LOOK_S):
            if Path(stop_file).exists():
                stop.set()

    if stop_file:
        threading.Thread(target=watch, daemon=True).start()
    with ThreadPoolExecutor(len(files)) as pool:
        found = list(pool.map(lambda file: run_one(spark, file, stop), files))
    over.set()
    return found


def said(action):
    try:
        action()
    except Exception as error:  # what it says is the question
        return str(error)
    return None


def refusals(spark, options):
    """What reading, streaming and writing with these options say."""
    rows = spark.range(1).selectExpr("'a' AS value")
    return [
        said(lambda: spark.read.format("barnabas").options(**options).load().count()),
        said(lambda: spark.readStream.format("barnabas").options(**options).load()),
        said(lambda: rows.write.format("barnabas").options(**options).mode("append").save()),
    ]


def answer(spark, command):
    if "run" in command:
        return run(spark, command["run"], command.get("stop"))
    if "options" in command:
        return refusals(spark, command["options"])
    logs = spark.read.format("barnabas-log").option("subscribe", command["topic"])
    return said(lambda: logs.load(command["log"]).count())


def main(master, folder):
    plant()
    config = {**CONFIG, "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder}"}
    spark = sessions.make("faults", master=master, config=config, log_level="WARN")
    spark.dataSource.register(HaltingSource)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(spark, json.loads(line))) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
