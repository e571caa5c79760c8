"""How much a micro-batch takes: ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger``, ``maxTriggerDelay``."""

import math
from collections.abc import Mapping

from barnabas.core.ids import TopicPartition
from barnabas.spark.offsets import Positions


def prorate(start: Mapping[TopicPartition, int], end: Positions, limit: int) -> Positions:
    """Ends so that all partitions together give about `limit` offsets, each by its share of the backlog.

    A share below one is rounded up, so that no small partition starves (``KafkaMicroBatchStream.rateLimit``).
    """
    backlog = {tp: end[tp] - start[tp] for tp in end if tp in start and end[tp] > start[tp]}
    total = sum(backlog.values())
    if total <= limit:
        return end
    limited = dict(end)
    for tp, size in backlog.items():
        share = limit * (size / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        limited[tp] = min(start[tp] + step, end[tp])
    return limited


class TriggerDelay:
    """Holds a batch back until it is worth it: enough new offsets, or enough time since the last one."""

    def __init__(self, offsets_min: int | None, delay_max_ms: int) -> None:
        self._offsets_min = offsets_min
        self._delay_max_ms = delay_max_ms
        self._last_trigger_ms: float | None = None

    def should_wait(self, available: int, now_ms: float) -> bool:
        """Whether `available` new offsets are too few yet; when not, the clock starts again."""
        if self._offsets_min is None:
            return False
        # The first batch of a query waits for nothing, as in the official connector.
        last = self._last_trigger_ms
        if available < self._offsets_min and last is not None and now_ms - last < self._delay_max_ms:
            return True
        self._last_trigger_ms = now_ms
        return False

    def __repr__(self) -> str:
        return f"<TriggerDelay min={self._offsets_min} max={self._delay_max_ms} ms>"
