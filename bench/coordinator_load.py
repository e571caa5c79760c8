"""How long a broker takes to become coordinator of a big partition, and what others notice of it.

python -m bench.coordinator_load [--of offsets|transactions] [--records 1000000] [--batches 10000]

Writes a partition of ``__consumer_offsets`` with so many offsets, all of different keys, or one of
``__transaction_state`` with so many ids; elects a coordinator of it and prints how long it loaded, how long
the loop was held at a stretch meanwhile, and how much memory it took. A coordinator of transactions writes
each change as a batch of its own: ``--batches 1000000``.
"""

import argparse
import asyncio
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.offsets.group_offsets import CommittedOffset
from barnabas.coordinator.offsets.records import commit_record
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.runtime.loading import Loader
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch, TransactionMetadata
from barnabas.coordinator.transaction.records import transaction_record
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from barnabas.core.broker_config import broker_config
from barnabas.core.config import Config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.core.offload import InPlace
from barnabas.log.config import LogConfig
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.log import Log
from barnabas.log.manager import LogManager
from barnabas.log.producers import AppendOrigin
from barnabas.network.clock import LoopClock
from barnabas.node.broker_node import wait
from barnabas.node.coordinators import group_coordinator, transaction_coordinator
from barnabas.node.environment import settle_memory
from barnabas.node.offload import ProcessOffload
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.listeners import Listeners
from barnabas.replica.produce import Appender, Wake
from barnabas.replica.purgatory import Purgatory

PRODUCER = ProducerIdAndEpoch(1000, 3)
TOPICS = {"offsets": GROUP_METADATA_TOPIC, "transactions": TRANSACTION_STATE_TOPIC}
PARTITIONS = ("offsets.topic", "transaction.state.log")
TICK_S = 0.001
NOW_MS = 1_700_000_000_000


class Hosted:
    """The one partition that this broker leads."""

    def __init__(self, log: Log, clock: LoopClock) -> None:
        self.leader_log = log
        self.listeners = Listeners()
        waiting = Purgatory("nothing", clock)
        self.appender = Appender(HostedPartitions(MetadataCache(1)), waiting, Wake(waiting, waiting, waiting))

    def partition(self, tp: TopicPartition) -> "Hosted":
        del tp
        return self


async def _open_log(folder: str, topic: str, clock: LoopClock) -> Log:
    config = LogConfig(segment_bytes=100 << 20, cleanup_policy=("compact",))
    logs = LogManager(
        [folder], filesystem=OsFilesystem(), clock=clock, offload=InPlace(), log_config=lambda _: config
    )
    await wait(logs.start(broker_id=1, cluster_id="bench"))
    return logs.get_or_create(TopicPartition(topic, 0))


def _offset(batch: int, place: int) -> CoordinatorRecord:
    return commit_record(
        f"consumers-of-orders-{batch:06}",
        TopicPartition("orders", place),
        CommittedOffset(batch * 1000 + place, 3, "", NOW_MS + batch),
    )


def _transactional_id(batch: int, place: int) -> CoordinatorRecord:
    transactional_id = f"copier-of-orders-{batch:07}-{place}"
    metadata = TransactionMetadata(
        transactional_id,
        producer_id=PRODUCER.producer_id,
        producer_epoch=PRODUCER.epoch,
        timeout_ms=60_000,
        last_update_ms=NOW_MS,
        state=TransactionState.PREPARE_COMMIT,
        start_ms=NOW_MS,
    )
    return transaction_record(transactional_id, metadata.prepare_complete(NOW_MS))


RECORDS = {GROUP_METADATA_TOPIC: _offset, TRANSACTION_STATE_TOPIC: _transactional_id}


async def _write(folder: str, topic: str, records: int, batches: int) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    log = await _open_log(folder, topic, clock)
    make = RECORDS[topic]
    for number in range(batches):
        made = [make(number, place) for place in range(records // batches)]
        batch = [Record(place, NOW_MS + number, *record.encode()) for place, record in enumerate(made)]
        log.append(bytearray(build_batch(batch)), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.close()


class Coordinated(NamedTuple):
    """A coordinator of the partition."""

    coordinator: GroupCoordinator | TransactionCoordinator
    is_loading: Callable[[], bool]
    found: Callable[[], str]
    """Something of what was loaded."""


def _groups(config: Config, clock: LoopClock, log: Log, loader: Loader) -> Coordinated:
    replicas: Any = Hosted(log, clock)
    coordinator = group_coordinator(
        config, clock, random.Random(1), replicas=replicas, metadata=MetadataCache(1), loader=loader
    )
    asked = OffsetFetchRequestGroup(group_id="consumers-of-orders-000000", topics=None)

    def found() -> str:
        topics = coordinator.offset_fetch(asked, require_stable=False).topics
        return f"the first group has {sum(len(topic.partitions) for topic in topics)} offsets"

    return Coordinated(coordinator, lambda: bool(coordinator.loading), found)


def _transactions(config: Config, clock: LoopClock, log: Log, loader: Loader) -> Coordinated:
    nothing: Any = None
    replicas: Any = Hosted(log, clock)
    coordinator = transaction_coordinator(
        config, clock, replicas=replicas, channel=nothing, new_producer_id=nothing, loader=loader
    )

    def state() -> str:
        return coordinator.describe("copier-of-orders-0000000-0").state.label

    def is_loading() -> bool:
        try:
            return not state()
        except KafkaError as error:
            return error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    return Coordinated(coordinator, is_loading, lambda: f"the first id is {state()}")


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


async def _load(folder: str, topic: str, records: int) -> None:
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    log = await _open_log(folder, topic, clock)
    config = broker_config(dict.fromkeys((f"{kind}.num.partitions" for kind in PARTITIONS), "1"))
    offload = ProcessOffload(loop)
    buffer_bytes = config["offsets.load.buffer.size"]
    loader = Loader(clock, offload, OsFilesystem(), buffer_bytes=buffer_bytes, settle=settle_memory)
    make = _groups if topic == GROUP_METADATA_TOPIC else _transactions
    coordinator, is_loading, found = make(config, clock, log, loader)
    coordinator.startup(1)
    settle_memory()
    await asyncio.sleep(0.05)
    before = resource.getrusage(resource.RUSAGE_SELF)
    writer = resource.getrusage(resource.RUSAGE_CHILDREN)
    pulse = Pulse(loop)
    started = time.perf_counter()
    coordinator.elected(0, 0)
    while is_loading():  # noqa: ASYNC110 - the coordinator knows of no event loop
        await asyncio.sleep(TICK_S)
    took_s = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    offload.close()
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    late, worked = sorted(pulse.late_ms), sorted(pulse.worked_ms)
    print(f"partition: {records} records, {log.size / 1e6:.0f} MB; loaded in {took_s:.2f} s (budget 5 s)")
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
    print(f"check: {found()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--of", choices=TOPICS, default="offsets")
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    topic = TOPICS[given.of]
    if given.write is not None:
        asyncio.run(_write(str(given.write), topic, given.records, given.batches))
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
                "--batches",
                str(given.batches),
                "--of",
                given.of,
            ],
            check=True,
        )
        asyncio.run(_load(folder, topic, given.records))


if __name__ == "__main__":
    main()
