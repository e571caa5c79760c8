"""`BrokerDelays`: which brokers have taken nothing for a while, so that records without a key avoid them.

(``NodeLatencyStats`` of ``RecordAccumulator``, KIP-794.)
"""

import time


class BrokerDelays:
    """One producer's; used on its loop, asked by any thread."""

    def __init__(self, patience_ms: float) -> None:
        """A broker is slow after this many milliseconds; none ever is where that is 0."""
        self._patience_s = patience_ms / 1000
        self._since: dict[int, float] = {}

    def looked_at(self, node_id: int, *, keeps_waiting: bool) -> None:
        """There were records for the broker, and it took all of them, or has no room for some."""
        if not keeps_waiting:
            self._since.pop(node_id, None)
        elif node_id not in self._since:
            self._since[node_id] = time.monotonic()

    def is_slow(self, node_id: int) -> bool:
        """Whether the broker has kept records waiting for ``partitioner.availability.timeout.ms``."""
        since = self._since.get(node_id) if self._patience_s else None
        return since is not None and time.monotonic() - since > self._patience_s

    def __repr__(self) -> str:
        return f"<BrokerDelays {len(self._since)} brokers keep records waiting>"
