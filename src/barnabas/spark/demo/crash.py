"""A streaming query that is ended in the middle of a batch, and started again from its checkpoint.

The replay runs meanwhile. Spark writes what a batch is to read before it runs (``offsets/17`` in the
checkpoint) and that it is done behind it (``commits/17``). A query that is stopped between the two has done a
part of a batch: the run after it must do the same batch again, and what the first one left behind must not
count.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.spark.demo.streams import MicroBatch, micro_batches, wait_for_start

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

AT: Final = 0.4
"""The part of the flights that is sent when the query is ended."""
_PATIENCE_S: Final = 10
_POLL_S: Final = 0.01
_INTO_S: Final = 0.2
"""How long a batch has run when it is ended: planned, and its tasks at work."""


@dataclass(frozen=True, slots=True)
class Crash:
    """What happened."""

    stopped: datetime
    restarted: datetime
    """When the first batch of the new run was committed."""
    unfinished: int | None
    """The batch that was planned and not committed; None when the query was between two batches."""
    before: list[MicroBatch]
    """The batches of the run that was ended."""

    @property
    def seconds(self) -> float:
        """How long nothing was committed."""
        return (self.restarted - self.stopped).total_seconds()

    def words(self) -> str:
        """Where it was ended."""
        if self.unfinished is None:
            return "delays ended between two batches"
        return f"delays ended in the middle of batch {self.unfinished}"


class Crasher:
    """Ends a query once `AT` of `total` flights are sent, and starts it again, while the caller keeps
    sending.
    """

    def __init__(
        self, query: "StreamingQuery", start: Callable[[], "StreamingQuery"], checkpoint: Path, total: int
    ) -> None:
        self.query = query
        """The query that runs: the new one after the crash."""
        self._start = start
        self._checkpoint = checkpoint
        self._left = total * AT
        self._thread = threading.Thread(target=self._run, name="demo-crash", daemon=True)
        self._crash: Crash | None = None
        self._failure: BaseException | None = None

    def tick(self, sent: int) -> None:
        """`sent` more flights are sent."""
        self._left -= sent
        if self._left <= 0 and self._thread.ident is None:
            self._thread.start()

    def wait(self) -> Crash:
        """What happened, once the new run has committed a batch. Raises what the new run failed with."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        assert self._crash is not None
        return self._crash

    def _run(self) -> None:
        try:
            self._crash = self._end_and_start()
        except BaseException as failure:
            self._failure = failure

    def _end_and_start(self) -> Crash:
        self._wait_for_a_batch()
        stopped = datetime.now(UTC)
        self.query.stop()
        unfinished, before = unfinished_batch(self._checkpoint), micro_batches(self.query)
        self.query = self._start()
        wait_for_start(self.query)
        return Crash(stopped, micro_batches(self.query)[0].ended, unfinished, before)

    def _wait_for_a_batch(self) -> None:
        """Until a batch has run for a moment. Returns without one when no batch comes."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            running = unfinished_batch(self._checkpoint)
            time.sleep(_INTO_S if running is not None else _POLL_S)
            if running is not None and unfinished_batch(self._checkpoint) == running:
                return


def unfinished_batch(checkpoint: Path) -> int | None:
    """The batch that a query has planned and not committed, if there is one now."""
    planned, committed = (_numbers(checkpoint / name) for name in ("offsets", "commits"))
    return max(planned - committed, default=None)


def _numbers(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.glob("*") if path.name.isdigit()}
