"""The lines of the log about what peers did wrong: as many as a reader can use, and how many more there were.

Theory of operation
-------------------
A client can be refused a thousand times a second, or do as often what a member of a group must not, and each
time has a line. So there is room for `LINES_MAX` lines at once, and then for `LINES_A_SECOND`; what comes
beyond is counted, and one line says how many those were (docs/decisions/0102). A line that is not shown takes
no room.
"""

from typing import Any, Final

from barnabas.core.clock import Clock, Timer
from barnabas.core.eventlog import EventLog

LINES_MAX: Final = 1000
LINES_A_SECOND: Final = 10
"""A disk that keeps all of them fills by 150 MB a day."""
SUMMARY_MS: Final = 10_000


class FaultLog:
    """The lines of one part of a broker about its peers."""

    __slots__ = ("_clock", "_left_out", "_log", "_part", "_room", "_room_ms", "_timer")

    def __init__(self, clock: Clock, log: EventLog, part: str) -> None:
        """Writes to `log`; how many lines were left out is its event `part`.lines_left_out."""
        self._clock = clock
        self._log = log
        self._part = part
        self._room = float(LINES_MAX)
        self._room_ms = clock.monotonic_ms()
        """When `_room` was that."""
        self._left_out = 0
        self._timer: Timer | None = None

    def info(self, event: str, **fields: Any) -> None:
        """As `EventLog.info`, if there is room."""
        if self._log.has_info and self._has_room():
            self._log.info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """As `EventLog.warning`, if there is room."""
        if self._has_room():
            self._log.warning(event, **fields)

    def _has_room(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        more = (now_ms - self._room_ms) * LINES_A_SECOND / 1000
        self._room, self._room_ms = min(float(LINES_MAX), self._room + more), now_ms
        if self._room >= 1:
            self._room -= 1
            return True
        self._left_out += 1
        if self._timer is None:
            self._timer = self._clock.call_later(SUMMARY_MS, self._summarize)
        return False

    def _summarize(self) -> None:
        self._timer = None
        count, self._left_out = self._left_out, 0
        self._log.warning(f"{self._part}.lines_left_out", count=count)

    def close(self) -> None:
        """Says what is yet to be said."""
        if self._timer is not None:
            self._timer.cancel()
            self._summarize()

    def __repr__(self) -> str:
        return f"<FaultLog room={self._room:.0f} left_out={self._left_out}>"
