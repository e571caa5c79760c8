"""The offsets of a streaming read: what the next micro-batch ends with, and what a batch covers.

Pure of Spark: `barnabas.spark.source` hands it the start that Spark knows and the limit that Spark sets.
See `barnabas.spark.offsets` for why the initial offset is a constant.
"""

from collections.abc import Callable

from barnabas.spark.errors import OffsetError
from barnabas.spark.limits import TriggerDelay, prorate
from barnabas.spark.offsets import UNRESOLVED, Positions, SourceOffset, SpecKind, StreamOffset
from barnabas.spark.options import SourceOptions
from barnabas.spark.planner import Planner
from barnabas.spark.ranges import OffsetRange


class TopicStream:
    """The state of one streaming read on the driver: very little, as Spark's checkpoint is the truth."""

    def __init__(self, options: SourceOptions, planner: Planner, monotonic_ms: Callable[[], float]) -> None:
        self._options = options
        self._planner = planner
        self._monotonic_ms = monotonic_ms
        self._delay = TriggerDelay(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._initial: SourceOffset | None = None
        self._latest: SourceOffset | None = None
        self._stops = False
        self._goal: SourceOffset | None = None

    def latest(self) -> Positions:
        """The end of everything that there was when the last batch was planned."""
        return self._latest.positions if self._latest is not None else {}

    def stop_at_latest(self) -> None:
        """Trigger.AvailableNow: what comes after the first batch is planned is not read."""
        self._stops = True

    def next_end(self, start: StreamOffset, limit: int | None) -> StreamOffset:
        """The end of the batch that begins at `start`, at most `limit` offsets on; `start` itself to wait."""
        begin = SourceOffset.decode(start) if start != UNRESOLVED else self._resolved_initial()
        if self._stops and self._goal is None:
            # Behind where the query begins, which may be the latest offsets too, and with the places of
            # topics that are unknown for a moment.
            self._goal = self._planner.latest_place(begin)
        end = self._goal if self._goal is not None else self._planner.latest_place(begin)
        self._latest = end
        known = self._planner.begin_of(begin, end)
        if self._goal is None and self._delay.should_wait(
            _distance(known, end.positions), self._monotonic_ms()
        ):
            return start
        positions = end.positions if limit is None else prorate(known, end.positions, limit)
        if start == UNRESOLVED:
            # Written to the log even when there is nothing to read: from now on the start is pinned.
            return SourceOffset(positions, end.topic_ids, start=begin.positions).encode()
        if positions == begin.positions and not begin.created_again(end.topic_ids):
            return start
        return SourceOffset(positions, end.topic_ids).encode()

    def ranges(self, start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
        """What the batch between two offsets reads; the same after a restart.
        Raises DataLossError, OffsetError.
        """
        finish = SourceOffset.decode(end)
        begin = SourceOffset.decode(start)
        if start == UNRESOLVED:
            first = finish.start if finish.start is not None else self._start_elsewhere()
            begin = SourceOffset(first, finish.topic_ids)
        return self._planner.micro_batch_ranges(begin, finish)

    def _start_elsewhere(self) -> Positions:
        """Where a first batch begins that the official connector planned and did not commit.

        It keeps the start beside the log of offsets, where Spark lets no Python source look. Only offsets
        that the user names can be the same ones; "latest" or "earliest" of now may be others.
        """
        starting = self._options.starting
        if starting.kind is not SpecKind.OFFSETS or min(starting.values.values(), default=0) < 0:
            raise OffsetError(
                "The first batch of this checkpoint was planned by another connector and is not committed. "
                "Set startingOffsets to the JSON text in the file sources/0/0 of the checkpoint and start "
                "the query again."
            )
        return starting.values

    def _resolved_initial(self) -> SourceOffset:
        if self._initial is None:
            self._initial = SourceOffset(self._planner.initial())
        return self._initial

    def __repr__(self) -> str:
        return f"<TopicStream initial={self._initial} goal={self._goal}>"


def _distance(start: Positions, end: Positions) -> int:
    return sum(max(0, offset - start[tp]) for tp, offset in end.items() if tp in start)
