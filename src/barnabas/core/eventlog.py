"""Structured logging: one line an event, ``event key=value key=value``, on the standard library's loggers.

The message is a dotted name that never changes, so that it can be searched for and counted; everything
that varies is a field. Quiet by default: what happens in normal operation is INFO or below, and the
command line shows WARNING unless asked for more. Secrets are never fields.
"""

import logging
from typing import Any


class EventLog:
    """A logger of events for one part of the program."""

    __slots__ = ("_logger",)

    def __init__(self, part: str) -> None:
        self._logger = logging.getLogger(f"barnabas.{part}")

    def debug(self, event: str, **fields: Any) -> None:
        """For whoever debugs this part."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Something that an operator may want to see happen."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something is off; the broker copes."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something was lost or refused; the event says what to do. Give ``exc_info=True`` for a bug."""
        self._write(logging.ERROR, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            exc_info = fields.pop("exc_info", None)
            self._logger.log(level, "%s", format_event(event, fields), exc_info=exc_info)


def format_event(event: str, fields: dict[str, Any]) -> str:
    """``event key=value ...``; a value with a blank, a quote or a line break is quoted, so a line stays one."""
    return " ".join([event, *(f"{name}={_format_value(value)}" for name, value in fields.items())])


def _format_value(value: Any) -> str:
    text = str(value)
    if not text or any(character in text for character in ' "\n\r\t='):
        return (
            '"'
            + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
            + '"'
        )
    return text
