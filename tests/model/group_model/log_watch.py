"""`LogWatch`: what coordinators log while a history runs becomes part of it.

A warning is a line of the trace. An event with an exception is a bug that the broker survived: an anomaly.
"""

import logging

from barnabas.testing.log_taker import LogTaker
from group_model.observer import Observer


class LogWatch(LogTaker):
    """Hands what is logged to the observer."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        """Hands the line on."""
        text = record.getMessage()
        self._observer.event(f"{record.levelname} {record.name} {text}")
        if record.exc_info and record.exc_info[1] is not None:
            self._observer.crashed(text, record.exc_info[1])
