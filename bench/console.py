"""The console with a large cluster: how long pages take and how much memory it holds.

    python -m bench.console [--topics 10000] [--groups 2500]

The snapshot is generated: topics of four partitions with three replicas on six brokers, groups that are
behind in sixteen partitions each. Pages are asked one after the other, while a thread makes verdicts as the
collector does after each round. Printed are the median and the 95th of a hundred answers of each page, and
the memory of the process.
"""

import argparse
import asyncio
import resource
import statistics
import threading
import time

import httpx

from barnabas.admin import (
    ClusterDescription,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    OffsetAndMetadata,
    TopicDescription,
)
from barnabas.client.metadata import Broker, PartitionMetadata
from barnabas.console.app import application
from barnabas.console.collector import Collector, Pace
from barnabas.console.console import Console
from barnabas.console.reading import read
from barnabas.console.snapshot import ClusterSnapshot, NextRecord
from barnabas.console.watched import WatchedCluster
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.operations.clock import now_ms

BROKERS = [Broker(number, f"broker-{number}", 9092) for number in range(6)]
PARTITIONS = 4
READ = 16
PATHS = (
    "",
    "/brokers",
    "/topics",
    "/topics?search=99",
    "/topics/topic-77",
    "/groups?sort=lag",
    "/groups/group-7",
    "/health",
)


def generated(topics: int, groups: int) -> ClusterSnapshot:
    """What a collector would have."""
    now = now_ms()
    there, starts, ends = {}, {}, {}
    for number in range(topics):
        name = f"topic-{number}"
        rows = []
        for partition in range(PARTITIONS):
            replicas = [(number + partition + each) % len(BROKERS) for each in range(3)]
            rows.append(PartitionMetadata(partition, replicas[0], 5, replicas, replicas, []))
            tp = TopicPartition(name, partition)
            starts[tp], ends[tp] = read(0, now), read(1000, now)
        there[name] = TopicDescription(name, ZERO_UUID, False, rows)
    listings: dict[int, list[GroupListing]] = {one.node_id: [] for one in BROKERS}
    described, positions, next_records, newest = {}, {}, {}, {}
    for number in range(groups):
        name, broker = f"group-{number}", BROKERS[number % len(BROKERS)]
        listings[broker.node_id].append(
            GroupListing(name, False, GroupState.STABLE, GroupType.CLASSIC, "consumer")
        )
        described[name] = read(
            GroupDescription(name, False, GroupType.CLASSIC, GroupState.STABLE, "range", broker, []), now
        )
        read_ones = [
            TopicPartition(f"topic-{(number * READ + each) // PARTITIONS % topics}", each % PARTITIONS)
            for each in range(READ)
        ]
        positions[name] = read({tp: OffsetAndMetadata(990) for tp in read_ones}, now)
        for tp in read_ones:
            next_records[tp, 990] = read(NextRecord(990, 1000, now - 5000), now)
            newest[tp] = read(now - 1000, now)
    return ClusterSnapshot(
        cluster=read(ClusterDescription("generated", BROKERS[0], BROKERS), now),
        topics=read(there, now),
        starts=starts,
        ends=ends,
        group_listings={broker: read(rows, now) for broker, rows in listings.items()},
        groups=described,
        positions=positions,
        newest_ms=newest,
        next_records=next_records,
        refreshed_ms=now,
    )


async def measured(console: Console, rounds: int) -> None:
    """Prints a line for each page."""
    transport = httpx.ASGITransport(application(console))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for path in PATHS:
            times = []
            for _ in range(rounds):
                begun = time.perf_counter()
                answer = await client.get(f"/c/large{path}")
                times.append((time.perf_counter() - begun) * 1000)
                assert answer.status_code == 200, answer.text[:300]
            p95 = statistics.quantiles(times, n=20)[-1]
            median, size = statistics.median(times), len(answer.content)
            print(f"{path or '/':<20} p50 {median:6.1f} ms  p95 {p95:6.1f} ms  {size} bytes")


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=2_500)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    watched = WatchedCluster("large", {"bootstrap.servers": "127.0.0.1:1"})
    collector = Collector(None, None, Pace())  # type: ignore[arg-type] - nothing is asked
    collector.snapshot = generated(given.topics, given.groups)
    watched._collector = collector  # noqa: SLF001 - the snapshot of a cluster that is not there
    begun = time.perf_counter()
    verdict = watched._judge(now_ms())  # noqa: SLF001
    print(f"a verdict takes {(time.perf_counter() - begun) * 1000:.0f} ms: {verdict.level}")
    over = threading.Event()

    def judge() -> None:
        while not over.wait(2):
            watched._judge(now_ms())  # noqa: SLF001

    thread = threading.Thread(target=judge)
    thread.start()
    try:
        asyncio.run(measured(Console({"large": watched}), given.rounds))
    finally:
        over.set()
        thread.join()
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")


if __name__ == "__main__":
    main()
