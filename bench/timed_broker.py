"""A broker of ours that writes down how long its event loop was busy.

    python -m bench.timed_broker FILE serve --data ...

It is `barnabas` with the arguments after FILE. For each turn of the loop that takes longer than
`LEAST_MS` there is a line in FILE: when it ended, by the clock of `time.monotonic`, and how long it took, in
ms of the processor time of the loop's thread, so that other programs of the machine do not count. A turn is
all that is done between two waits: who asks in the meantime waits for all of it.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from barnabas.cli.main import main
from barnabas.network import event_loop

LEAST_MS: Final = 1.0


class TimedEventLoop(event_loop.BrokerEventLoop):
    """The loop of `barnabas serve`, which times its turns."""

    turns: TextIO

    def _run_once(self) -> None:
        began_s = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        took_ms = (time.thread_time() - began_s) * 1000
        if took_ms > LEAST_MS:
            self.turns.write(f"{time.monotonic()} {took_ms}\n")


def turns_between(file: Path, began_s: float, ended_s: float) -> Iterator[float]:
    """The ms of the turns in the file that ended between these times of `time.monotonic`."""
    for line in file.read_text().splitlines():
        at_s, took_ms = map(float, line.split())
        if began_s <= at_s <= ended_s:
            yield took_ms


if __name__ == "__main__":
    # Line by line, as the file is read while the broker runs.
    with Path(sys.argv[1]).open("w", buffering=1) as TimedEventLoop.turns:
        event_loop.BrokerEventLoop = TimedEventLoop  # type: ignore[misc]
        sys.argv[1:] = sys.argv[2:]
        main()
