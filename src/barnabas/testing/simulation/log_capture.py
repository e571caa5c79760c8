"""What the programs of a world log: kept with its virtual time, and judged.

An event that carries an exception is a bug that the program survived. In a simulation it is an anomaly,
unless it was logged by a process that is dead already, which may fail in every way.
"""

import logging
from collections import deque

from barnabas.testing.log_taker import LogTaker
from barnabas.testing.simulation.loop import SimulatedLoop

_REMEMBERED_LINES = 200


class LogCapture(LogTaker):
    """Keeps the last lines of a world."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the line, and notes a problem where it has an exception."""
        if self._loop.runs_the_dead:
            return
        text = record.getMessage()
        self.lines.append(f"{self._loop.time():.6f} {record.levelname} {record.name} {text}")
        if record.exc_info and record.exc_info[1] is not None:
            self._loop.problems.append(f"{text}: {record.exc_info[1]!r}")
