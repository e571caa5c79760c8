"""Work that repeats: each on a timer of its own, all stopped together (``KafkaScheduler``)."""

from collections.abc import Callable

from barnabas.core.clock import Clock, Timer
from barnabas.core.eventlog import EventLog

_log = EventLog("node.timers")


class Timers:
    """Repeats work until `stop`; work that fails is logged and tried again at its next time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, Timer] = {}

    def repeat(
        self, name: str, interval_ms: float, work: Callable[[], object], *, delay_ms: float = 0
    ) -> None:
        """Runs the work first after the delay, and from then on once an interval."""

        def run() -> None:
            self._waiting[name] = self._clock.call_later(interval_ms, run)
            try:
                work()
            except Exception:
                _log.error("timer.failed", work=name, exc_info=True)

        self._waiting[name] = self._clock.call_later(delay_ms, run)

    def stop(self) -> None:
        """Nothing runs any more."""
        for timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()

    def __repr__(self) -> str:
        return f"<Timers {' '.join(sorted(self._waiting))}>"
