"""The offsets of a streaming read: what the next micro-batch ends with, and what a batch covers.

Pure of Spark: `barnabas.spark.source` hands it the start that Spark knows and the limit that Spark sets.
See `barnabas.spark.offsets` for why the initial offset is a constant.
"""

from collections.abc import Callable

from barnabas.spark.limits import TriggerDelay, prorate
from barnabas.spark.offsets import (
    UNRESOLVED,
    Positions,
    StreamOffset,
    first_offset,
    positions_of,
    start_of,
    to_nested,
)
from barnabas.spark.options import SourceOptions
from barnabas.spark.planner import Planner
from barnabas.spark.ranges import OffsetRange


class TopicStream:
    """The state of one streaming read on the driver: very little, as Spark's checkpoint is the truth."""

    def __init__(self, options: SourceOptions, planner: Planner, monotonic_ms: Callable[[], float]) -> None:
        self._planner = planner
        self._monotonic_ms = monotonic_ms
        self._delay = TriggerDelay(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._initial: Positions | None = None
        self._goal: Positions | None = None

    def latest(self) -> Positions:
        """The end of everything there is now."""
        return self._planner.latest(self._planner.partitions())

    def stop_at_latest(self) -> None:
        """Trigger.AvailableNow: what comes after this moment is not read."""
        self._goal = self.latest()

    def next_end(self, start: StreamOffset, limit: int | None) -> StreamOffset:
        """The end of the batch that begins at `start`, at most `limit` offsets on; `start` itself to wait."""
        begin = positions_of(start) if start != UNRESOLVED else self._resolved_initial()
        end = self._goal if self._goal is not None else self.latest()
        known = {**begin, **self._planner.earliest(end.keys() - begin.keys())}
        if self._goal is None and self._delay.should_wait(_distance(known, end), self._monotonic_ms()):
            return start
        if limit is not None:
            end = prorate(known, end, limit)
        if start == UNRESOLVED:
            # Written to the log even when there is nothing to read: from now on the start is pinned.
            return first_offset(begin, end)
        return to_nested(end) if end != begin else start

    def ranges(self, start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
        """What the batch between two offsets reads; the same after a restart."""
        return self._planner.stream_ranges(start_of(start, end), positions_of(end))

    def _resolved_initial(self) -> Positions:
        if self._initial is None:
            self._initial = self._planner.initial()
        return self._initial

    def __repr__(self) -> str:
        return f"<TopicStream initial={self._initial} goal={self._goal}>"


def _distance(start: Positions, end: Positions) -> int:
    return sum(max(0, offset - start[tp]) for tp, offset in end.items() if tp in start)
