"""`LogWatch`: what coordinators log while a history runs becomes part of it.

A warning is a line of the trace. An event with an exception is a bug that somebody survived: an anomaly.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.testing.groups.observer import Observer


class LogWatch(logging.Handler):
    """Takes the place of all handlers of Barnabas's loggers."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(logging.WARNING)
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        """Hands the line on."""
        text = record.getMessage()
        self._observer.event(f"{record.levelname} {record.name} {text}")
        if record.exc_info and record.exc_info[1] is not None:
            self._observer.crashed(text, record.exc_info[1])

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
