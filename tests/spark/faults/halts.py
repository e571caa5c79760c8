"""Points of a query at which one process waits, so that a fault happens at a known moment and not at a time.

`arm` names a point; the first process that comes to it (`reach`) stops there until it is killed or `release`
lets it go on. One rename of a file in the folder BARNABAS_HALTS does all of it: it chooses the one that
stops, and says that it has.
"""

import os
import time
from pathlib import Path

from barnabas.spark.offsets import UNRESOLVED
from barnabas.spark.source import StreamTopicReader, TopicSource

LIMIT_S = 120
_PAUSE_S = 0.02


def _file(point, state):
    return Path(os.environ["BARNABAS_HALTS"]) / f"{point}.{state}"


def arm(point):
    _file(point, "released").unlink(missing_ok=True)
    _file(point, "armed").touch()


def reached(point, alive=lambda: True):
    """The process that waits at the point, when it does; fails when the query's process has ended before."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and alive():
        for found in _file(point, "").parent.glob(f"{point}.reached-*"):
            found.unlink()
            return int(found.name.rpartition("-")[2])
        time.sleep(_PAUSE_S)
    raise AssertionError(f"nothing came to {point}")


def release(point):
    _file(point, "released").touch()


def reach(point):
    try:
        _file(point, "armed").rename(_file(point, f"reached-{os.getpid()}"))
    except FileNotFoundError:
        return
    deadline = time.monotonic() + LIMIT_S
    while not _file(point, "released").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody released {point}")
        time.sleep(_PAUSE_S)


class HaltingReader(StreamTopicReader):
    """Names its points by the client id: it is the one option that a pipeline's file may set to anything."""

    def _reach(self, phase):
        reach(f"{phase}.{self._options.client['client.id']}")

    def latestOffset(self, start, limit):
        """Not at the first batch, which has nothing before it that a fault could harm."""
        if start != UNRESOLVED:
            self._reach("planning")
        return super().latestOffset(start, limit)

    def read(self, partition):
        """Before the first fetch, behind the first rows, and when the writer has all rows and its file is
        open.
        """
        for piece in partition.ranges:
            self._reach(f"fetching-{piece.tp.partition}")
        for rows in super().read(partition):
            yield rows
            self._reach("reading")
        self._reach("writing")


class HaltingSource(TopicSource):
    """``format("barnabas")`` with these points."""

    def streamReader(self, schema):
        reader = super().streamReader(schema)
        return HaltingReader(reader._options)
