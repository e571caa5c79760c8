"""Structured logging: one line an event, ``event key=value key=value``, on the standard library's loggers.

The message is a dotted name that never changes, so that it can be searched for and counted; everything
that varies is a field. Quiet by default: what happens in normal operation is INFO or below, and the
command line shows WARNING unless asked for more. Secrets are never fields.

A field may come from a client or from a damaged file: characters that are not printable are escaped, so that
none of them moves the cursor of a terminal or breaks a line, and a long value is cut.
"""

import logging
from typing import Any, Final

VALUE_CHARACTERS_MAX: Final = 1000
"""More of one field says nothing to a reader, and would fill the disk that the log goes to."""
TRACEBACK_LINES_MAX: Final = 200
"""Of a longer traceback the end is shown: it says what was wrong and where."""
VALUE_ITEMS_MAX: Final = 20
"""How many elements of a collection are shown; the rest is counted."""
STATE_CHANGES: Final = "state.change.logger"
"""What the controller sends to brokers, and what they make of it; each partition at DEBUG."""
REQUESTS: Final = "kafka.request.logger"
"""A line for each request that was answered, at DEBUG: from where, how large, how long it took.
No contents.
"""
AUTHORIZER: Final = "kafka.authorizer.logger"
"""A line for each question whether a client may do something: denials at INFO, grants at DEBUG."""
KAFKA_LOGGERS: Final = (STATE_CHANGES, REQUESTS, AUTHORIZER)
"""Logs that have Kafka's own names; they are off until they get a level of their own (``serve --log``)."""


class EventLog:
    """A logger of events for one part of the program."""

    __slots__ = ("_logger",)

    def __init__(self, part: str) -> None:
        self._logger = logging.getLogger(part if part in KAFKA_LOGGERS else f"barnabas.{part}")

    @property
    def has_info(self) -> bool:
        """Whether INFO is shown: to be asked before what a line says is counted."""
        return self._logger.isEnabledFor(logging.INFO)

    @property
    def has_debug(self) -> bool:
        """Whether DEBUG is shown: to be asked before a line is made for each of many things."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, **fields: Any) -> None:
        """For debugging this part."""
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
            # A formatter with words of its own for the event needs its name and its fields.
            parts = {"event": event, "fields": fields}
            self._logger.log(level, "%s", format_event(event, fields), exc_info=exc_info, extra=parts)


def format_event(event: str, fields: dict[str, Any]) -> str:
    """``event key=value ...``; a value with a blank, a quote or a control character is quoted:
    a line stays one.
    """
    return " ".join([event, *(f"{name}={_format_value(value)}" for name, value in fields.items())])


def shown(value: Any) -> str:
    """The value of a field as harmless text: cut, and without characters that a terminal would obey."""
    text = _cut(value)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _cut(value: Any) -> str:
    text = str(_few(value)) if isinstance(value, (list, set, frozenset, dict)) else str(value)
    if len(text) > VALUE_CHARACTERS_MAX:
        text = f"{text[:VALUE_CHARACTERS_MAX]}... ({len(text)} characters)"
    return text


def _format_value(value: Any) -> str:
    text = _cut(value)
    if text and text.isprintable() and not any(character in text for character in ' "='):
        return text
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text if text.isprintable() else "".join(map(_escaped, text))}"'


def _few(values: Any) -> Any:
    """The collection, or as much of it as a line takes:
    text of a million elements would be made to be cut.
    """
    if len(values) <= VALUE_ITEMS_MAX:
        return values
    shown = ", ".join(repr(value) for value, _ in zip(values, range(VALUE_ITEMS_MAX), strict=False))
    return f"[{shown}, ... ({len(values)} in all)]"


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


class EventFormatter(logging.Formatter):
    """A formatter whose tracebacks are as harmless as fields:
    the text of an exception may repeat what a client sent.
    """

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        """The traceback, with every line escaped and cut, and only the last of many lines."""
        lines = super().formatException(ei).split("\n")
        if len(lines) > TRACEBACK_LINES_MAX:
            lines = [f"... ({len(lines) - TRACEBACK_LINES_MAX} lines)", *lines[-TRACEBACK_LINES_MAX:]]
        return "\n".join(map(_harmless, lines))


def _harmless(line: str) -> str:
    if len(line) > VALUE_CHARACTERS_MAX:
        line = f"{line[:VALUE_CHARACTERS_MAX]}... ({len(line)} characters)"
    return line if line.isprintable() else "".join(map(_escaped, line))
