"""`barnabas pipeline run FILE` that ends by kill -9 at a point of a batch; without a point it lives to the
end.

pipeline_killed.py FILE [POINT BATCH], where POINT is one of those in `POINTS`.
"""

import os
import signal
import sys

from barnabas.cli.main import main
from barnabas.spark.pipeline.sinks import sink

POINTS = ("before-write", "after-write", "before-commit", "after-commit", "before-checkpoint")
# The call of a table that is its commit point.
COMMITS = {"ParquetFolder": "_replace", "DeltaFolder": "_commit", "IcebergFolder": "_commit"}

started = []


def die():
    """Ends the process as it is; the JVM ends with it."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_around(owner, name, point, doomed):
    """Has `owner.name` end the process before or behind its work, in the doomed batch."""
    original = getattr(owner, name)

    def call(*args):
        if point.startswith("before") and started[-1:] == [doomed]:
            die()
        found = original(*args)
        if name == "_stage":
            found = list(found)  # it is a generator
        if point.startswith("after") and started[-1:] == [doomed]:
            die()
        return found

    setattr(owner, name, call)


def die_at(point, doomed):
    """Plants the end."""
    write = sink.BatchSink.write

    def writing(self, frame, batch):
        started.append(batch)
        write(self, frame, batch)
        if point == "before-checkpoint" and batch == doomed:
            die()

    sink.BatchSink.write = writing
    if point.endswith("write"):
        die_around(sink.BatchSink, "_stage", point, doomed)
    if point.endswith("commit"):
        opened = sink.open_table

        def opening(settings):
            table = opened(settings)
            die_around(type(table), COMMITS[type(table).__name__], point, doomed)
            return table

        sink.open_table = opening


if __name__ == "__main__":
    file, *where = sys.argv[1:]
    if where:
        die_at(where[0], int(where[1]))
    sys.argv = ["barnabas", "pipeline", "run", file]
    main()
