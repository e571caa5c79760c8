"""`barnabas pipeline run FILE` that ends by kill -9 at a point of a batch; without a point it lives to the end.

pipeline_killed.py FILE [before-commit|after-commit BATCH]
"""

import os
import signal
import sys

from barnabas.cli.main import main
from barnabas.spark.pipeline.commits import TableFolder


def die():
    """Ends the process as it is; the JVM ends with it."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point, doomed):
    """Plants the end."""
    replace, publish = TableFolder._replace, TableFolder._publish

    def replacing(self, commit):
        if point == "before-commit" and commit.batch == doomed:
            die()
        replace(self, commit)

    def publishing(self, commit):
        if point == "after-commit" and commit.batch == doomed:
            die()
        publish(self, commit)

    TableFolder._replace, TableFolder._publish = replacing, publishing


if __name__ == "__main__":
    file, *where = sys.argv[1:]
    if where:
        die_at(where[0], int(where[1]))
    sys.argv = ["barnabas", "pipeline", "run", file]
    main()
