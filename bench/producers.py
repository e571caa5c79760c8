"""An unclean start of a partition with many idempotent producers: time, memory, and how long the event loop
is held.

python -m bench.producers [--producers 20000] [--batches 5] [--source FOLDER/src]

Each producer has sent so many batches of one record when the broker is killed. Recovery runs in a child
process, as it does in a broker; what is left for the loop is to load the log, and that is the longest hold
(in processor time). `--source` measures another tree of the sources with the same directory, for a
comparison. The figures are those of one start; of three, the best.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from barnabas.core.ids import TopicPartition
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending
from barnabas.log.config import LogConfig
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.manager import LogManager
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.testing.clock import VirtualClock

TP = TopicPartition("bench-producers", 0)
ROUNDS = 3
CONFIG = LogConfig(segment_bytes=4 << 20)
NOW_MS = 1_700_000_000_000


class InChild:
    """Runs work in another process and waits for it."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("fork"))
        self._pool.submit(os.getpid).result()  # the child is there before the time counts

    def run(self, work: Callable[..., Any], *args: Any, **options: Any) -> Pending[Any]:
        return InPlace().run(lambda: self._pool.submit(work, *args, **options).result())


def manager(folder: Path, offload: Any) -> LogManager:
    """A log manager on the directory."""
    return LogManager(
        [str(folder)],
        filesystem=OsFilesystem(),
        clock=VirtualClock(),
        offload=offload,
        log_config=lambda _topic: CONFIG,
    )


def fill(folder: Path, producers: int, batches: int) -> None:
    """The directory of a broker that was killed."""
    logs = manager(folder, InPlace())
    logs.start(broker_id=1, cluster_id="bench").result()
    log = logs.get_or_create(TP)
    for sequence in range(batches):
        for producer in range(producers):
            records = [Record(0, NOW_MS, None, b"%d" % producer)]
            batch = build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence)
            log.append(bytearray(batch), 0, NOW_MS)
    logs.shutdown(clean=False)


def start(folder: Path) -> dict[str, float]:
    """One start, in this process."""
    offload = InChild()
    logs = manager(folder, offload)
    before = resident_mb()
    began, worked = time.perf_counter(), time.process_time()
    logs.start(broker_id=1, cluster_id="bench").result()
    took, worked = time.perf_counter() - began, time.process_time() - worked
    log = logs.get(TP)
    assert log is not None
    return {
        "seconds": took,
        "hold_ms": worked * 1000,
        "memory_mb": resident_mb() - before,
        "batches": sum(len(each.batches) for each in log.producers.producers.values()),
    }


def resident_mb() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.producers", description=__doc__.partition("\n")[0])
    parser.add_argument("--producers", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--source", help="the sources to measure, by default these")
    parser.add_argument("--start", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.start:
        print(json.dumps(start(Path(asked.start))))
        return 0
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-", ignore_cleanup_errors=True) as place:
        whole = Path(place) / "whole"
        whole.mkdir()
        fill(whole, asked.producers, asked.batches)
        sources = [None, asked.source] if asked.source else [None]
        found: dict[str | None, list[dict[str, float]]] = {source: [] for source in sources}
        for number in range(ROUNDS):
            for source in sources:
                copy = Path(place) / f"copy-{number}-{source is None}"
                shutil.copytree(whole, copy)
                paths = [*([source] if source else []), str(Path(__file__).parents[1])]
                done = subprocess.run(
                    [sys.executable, "-m", "bench.producers", "--start", str(copy)],
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                found[source].append(json.loads(done.stdout))
    for source, rounds in found.items():
        best = {name: min(each[name] for each in rounds) for name in rounds[0]}
        print(
            f"{source or 'these sources':30} "
            + "  ".join(f"{name} {value:,.2f}" for name, value in best.items())
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
