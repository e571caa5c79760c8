"""Log lines of `barnabas serve` for a person: the time of day, the level in colour, the event in words.

Only where standard error is a terminal. A pipe, a file and a service manager get the lines that programs
read, with dates, loggers and names of events that never change.
"""

import logging
from typing import TYPE_CHECKING, Any, Final, TextIO

from barnabas.core.eventlog import EventFormatter, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLORS: Final = {"WARNING": "33", "ERROR": "31", "CRITICAL": "31", "DEBUG": "2"}
_WIDTH: Final = 8


class TerminalFormatter(EventFormatter):
    """``14:02:07 warning  broker ended  broker 2, exit_code 9``."""

    def __init__(self) -> None:
        super().__init__("%(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """The line without a traceback, which `format` adds below it."""
        level = f"{record.levelname.lower():<{_WIDTH}}"
        color = _COLORS.get(record.levelname)
        if color is not None:
            level = f"\x1b[{color}m{level}\x1b[0m"
        return f"{self.formatTime(record, self.datefmt)} {level} {_words(record)}"


def _words(record: logging.LogRecord) -> str:
    event: str | None = getattr(record, "event", None)
    if event is None:  # of a library
        return f"{record.name}: {shown(record.getMessage())}"
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    words = event.replace(".", " ").replace("_", " ")
    if not fields:
        return words
    return f"{words}  {', '.join(f'{name} {shown(value)}' for name, value in fields.items())}"


def line_formatter(stream: TextIO) -> logging.Formatter:
    """For a person where the stream is a terminal, else for programs."""
    if stream.isatty():
        return TerminalFormatter()
    return EventFormatter("%(asctime)s %(levelname)s %(name)s %(message)s")
