"""What the programs of a world log: kept with its virtual time, and judged.

An event that carries an exception is a bug that somebody survived. In a simulation it is an anomaly, unless it was
logged by a process that is dead already, which may find all sorts of things impossible.
"""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.testing.simulation.loop import SimulatedLoop

_REMEMBERED_LINES = 200


class LogCapture(logging.Handler):
    """Takes the place of all handlers of Barnabas's loggers."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__(logging.WARNING)
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

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Inside, nothing of Barnabas is logged anywhere else."""
        logger = logging.getLogger("barnabas")
        before = logger.handlers, logger.propagate, logger.level
        logger.handlers, logger.propagate = [self], False
        logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            logger.handlers, logger.propagate = before[:2]
            logger.setLevel(before[2])
