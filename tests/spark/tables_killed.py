"""`barnabas pipeline run FILE` into many tables, which ends by kill -9 at a step of a batch.

tables_killed.py FILE STEP NTH, where STEP is one of `POINTS` and NTH says at which of the calls, counted from
0. It prints the point at which it died; one that does not come to it lives to the end.
"""

import os
import signal
import sys
import threading

from barnabas.cli.main import main
from barnabas.spark.pipeline.many_tables import named_tables, routed_sink
from barnabas.spark.pipeline.sinks import sink
from barnabas.spark.pipeline.tables.delta import DeltaFolder
from barnabas.spark.pipeline.tables.iceberg import IcebergFolder
from barnabas.spark.pipeline.tables.logged import LoggedTable

STEPS = {
    "batch": [(routed_sink.RoutedSink, "write")],  # behind it Spark writes its own commit
    "names": [(routed_sink, "named")],
    "open": [(sink.BatchSink, "__enter__")],
    "note": [(named_tables, "remember")],
    "offsets": [(routed_sink, "keep_offsets")],
    "files": [(routed_sink, "write_files")],
    "move": [(sink, "move")],
    "create": [(DeltaFolder, "_prepare"), (IcebergFolder, "_prepare")],
    "publish": [(LoggedTable, "_publish")],
    "commit": [(DeltaFolder, "_commit"), (IcebergFolder, "_commit")],
    "compact": [(DeltaFolder, "compact"), (IcebergFolder, "compact")],
    "clear": [(routed_sink.shutil, "rmtree")],
}
POINTS = [f"{side}-{name}" for name in STEPS for side in ("before", "behind")] + ["in-files"]


def die(point):
    """Ends the process as it is; the JVM ends with it."""
    os.write(1, f"died {point}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point, nth):
    """Plants the end."""
    side, name = point.split("-")
    for owner, attribute in STEPS[name]:
        setattr(owner, attribute, dying(getattr(owner, attribute), point, side, nth))


def dying(original, point, side, nth):
    calls = 0

    def call(*args, **kwargs):
        nonlocal calls
        is_the_one = calls == nth
        calls += 1
        if is_the_one and side == "before":
            die(point)
        if is_the_one and side == "in":  # while Spark's tasks write
            threading.Timer(0.05 * (nth + 1), die, [point]).start()
        found = original(*args, **kwargs)
        if original.__name__ == "write_files":
            found = list(found)  # it is a generator
        if is_the_one and side == "behind":
            die(point)
        return found

    return call


if __name__ == "__main__":
    file, *where = sys.argv[1:]
    if where:
        die_at(where[0], int(where[1]))
    sys.argv = ["barnabas", "pipeline", "run", file]
    main()
