"""How late the event loop is: how long each callback that is due waits for others."""

from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.metrics import Histogram

INTERVAL_MS: Final = 250.0


class LoopLag:
    """Measures by a timer; `look` is called each `INTERVAL_MS`, as near to that as the loop can."""

    def __init__(self, clock: Clock) -> None:
        self._now_ms = clock.monotonic_ms
        self._looked_ms = self._now_ms()
        self.lag = Histogram()

    def look(self) -> None:
        now_ms = self._now_ms()
        self.lag.record(max(0.0, now_ms - self._looked_ms - INTERVAL_MS))
        self._looked_ms = now_ms

    def __repr__(self) -> str:
        return f"<LoopLag {self.lag}>"
