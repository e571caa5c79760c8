"""How long a broker takes to become coordinator of a big partition, and what others notice of it.

python -m bench.coordinator_load [--records 1000000] [--groups 10000]

Writes a partition of ``__consumer_offsets`` with so many offsets, all of different keys, elects a coordinator
of it and prints how long it loaded, how long the loop was held at a stretch meanwhile, and how much memory it
took.
"""

import argparse
import asyncio
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.coordinator.offsets.group_offsets import CommittedOffset
from barnabas.coordinator.offsets.records import commit_record
from barnabas.coordinator.runtime.loading import Loader
from barnabas.core.broker_config import broker_config
from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.core.offload import InPlace
from barnabas.log.config import LogConfig
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.log import Log
from barnabas.log.manager import LogManager
from barnabas.log.producers import AppendOrigin
from barnabas.network.clock import LoopClock
from barnabas.node.broker_node import wait
from barnabas.node.coordinators import group_coordinator
from barnabas.node.environment import settle_memory
from barnabas.node.offload import ProcessOffload
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.listeners import Listeners

TP = TopicPartition(GROUP_METADATA_TOPIC, 0)
TICK_S = 0.001
NOW_MS = 1_700_000_000_000


class Hosted:
    """The one partition that this broker leads."""

    def __init__(self, log: Log) -> None:
        self.leader_log = log
        self.listeners = Listeners()
        self.appender = None  # nothing is written

    def partition(self, tp: TopicPartition) -> "Hosted":
        del tp
        return self


async def _open_log(folder: str, clock: LoopClock) -> Log:
    config = LogConfig(segment_bytes=100 << 20, cleanup_policy=("compact",))
    logs = LogManager(
        [folder], filesystem=OsFilesystem(), clock=clock, offload=InPlace(), log_config=lambda _: config
    )
    await wait(logs.start(broker_id=1, cluster_id="bench"))
    return logs.get_or_create(TP)


async def _write(folder: str, records: int, groups: int) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    log = await _open_log(folder, clock)
    each = records // groups
    for group in range(groups):
        made = [
            commit_record(
                f"consumers-of-orders-{group:06}",
                TopicPartition("orders", partition),
                CommittedOffset(group * 1000 + partition, 3, "", NOW_MS + group),
            )
            for partition in range(each)
        ]
        batch = [Record(place, NOW_MS + group, *record.encode()) for place, record in enumerate(made)]
        log.append(bytearray(build_batch(batch)), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.close()


class Pulse:
    """Ticks once a millisecond, and knows how late each tick was, and what the loop had worked before it.

    On a shared machine only the processor time says how long the loop would have been held alone.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due_s = loop.time() + TICK_S
        self.late_ms: list[float] = []
        self.worked_ms: list[float] = []
        self._worked_s = time.thread_time()
        loop.call_at(self._due_s, self._tick)

    def _tick(self) -> None:
        now_s = self._loop.time()
        worked_s = time.thread_time()
        self.late_ms.append((now_s - self._due_s) * 1000)
        self.worked_ms.append((worked_s - self._worked_s) * 1000)
        self._worked_s = worked_s
        self._due_s = now_s + TICK_S
        self._loop.call_at(self._due_s, self._tick)


async def _load(folder: str, records: int) -> None:
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    log = await _open_log(folder, clock)
    config = broker_config({"offsets.topic.num.partitions": "1"})
    offload = ProcessOffload(loop)
    coordinator = group_coordinator(
        config,
        clock,
        random.Random(1),
        replicas=Hosted(log),  # type: ignore[arg-type]
        metadata=MetadataCache(1),
        loader=Loader(
            clock,
            offload,
            OsFilesystem(),
            buffer_bytes=config["offsets.load.buffer.size"],
            settle=settle_memory,
        ),
    )
    coordinator.startup(1)
    settle_memory()
    await asyncio.sleep(0.05)
    before = resource.getrusage(resource.RUSAGE_SELF)
    writer = resource.getrusage(resource.RUSAGE_CHILDREN)
    pulse = Pulse(loop)
    started = time.perf_counter()
    coordinator.elected(0, 0)
    while coordinator.loading:  # noqa: ASYNC110 - the coordinator knows of no event loop
        await asyncio.sleep(TICK_S)
    took_s = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    offload.close()
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = coordinator.offset_fetch(
        OffsetFetchRequestGroup(group_id="consumers-of-orders-000000", topics=None), require_stable=False
    )
    late, worked = sorted(pulse.late_ms), sorted(pulse.worked_ms)
    print(f"partition: {records} offsets, {log.size / 1e6:.0f} MB; loaded in {took_s:.2f} s (budget 5 s)")
    print(
        f"loop held at a stretch: max {late[-1]:.1f} ms, p99 {late[int(len(late) * 0.99)]:.1f} ms; "
        f"of it own work max {worked[-1]:.1f} ms, p99 {worked[int(len(worked) * 0.99)]:.1f} ms"
    )
    print(
        f"processor: {after.ru_utime - before.ru_utime:.2f} s on the loop's process, "
        f"{child.ru_utime - writer.ru_utime:.2f} s in the child"
    )
    print(
        f"memory: {after.ru_maxrss / 1024:.0f} MB at most ({before.ru_maxrss / 1024:.0f} MB before), "
        f"{child.ru_maxrss / 1024:.0f} MB in the child (budget 700 MB)"
    )
    print(f"check: the first group has {sum(len(topic.partitions) for topic in found.topics)} offsets")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write is not None:
        asyncio.run(_write(str(given.write), given.records, given.groups))
        return
    with tempfile.TemporaryDirectory(prefix="barnabas-load-") as folder:
        # In a process of its own, whose memory is not counted.
        subprocess.run(
            [
                sys.executable,
                "-m",
                "bench.coordinator_load",
                "--write",
                folder,
                "--records",
                str(given.records),
                "--groups",
                str(given.groups),
            ],
            check=True,
        )
        asyncio.run(_load(folder, given.records))


if __name__ == "__main__":
    main()
