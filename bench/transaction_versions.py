"""What transaction version 2 (KIP-890) saves: pairs of the same transactions by version 2 and by version 1.

python -m bench.transaction_versions [--pairs 12] [--transactions 200] [--partitions 1,10]

One broker of ours, whose level of `transaction.version` is changed between the turns of a pair, and our own
producer, one transaction of a record to each partition after the other. Of each pair: the ratio of the
times, and of the broker's processor times; printed is their median, with the interval that it lies in at
95 %. The versions take turns in going first, so that a busy machine meets both.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from barnabas.admin import Admin, NewTopic
from barnabas.admin.features import FeatureUpdate
from barnabas.client import Producer
from barnabas.protocol.upgrade_type import UpgradeType
from bench.processes import processor_time
from bench.quotas import median_between

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "jvm"))

from kafka_harness import Server, free_port

FEATURE: Final = "transaction.version"
NEW, OLD = 2, 1


def set_level(bootstrap: str, level: int) -> None:
    """Raises or lowers the feature, and waits until it is told to clients."""
    kind = UpgradeType.UPGRADE if level == NEW else UpgradeType.SAFE_DOWNGRADE
    with Admin(bootstrap) as admin:
        if admin.features.describe().finalized.get(FEATURE) != level:
            admin.features.update({FEATURE: FeatureUpdate(level, kind)})
        while admin.features.describe().finalized.get(FEATURE) != level:
            time.sleep(0.05)


def turn(server: Server, topic: str, partitions: int, transactions: int) -> tuple[float, float]:
    """ms and the broker's processor time in ms, of one transaction."""
    with Producer(server.bootstrap, transactional_id=topic, linger_ms=0) as producer:
        producer.init_transactions()

        def transaction() -> None:
            producer.begin_transaction()
            for partition in range(partitions):
                producer.send(topic, b"x" * 100, partition=partition)
            producer.commit_transaction()

        for _ in range(20):
            transaction()
        used, began = processor_time(server.process.pid).total_s, time.perf_counter()
        for _ in range(transactions):
            transaction()
        took, used = time.perf_counter() - began, processor_time(server.process.pid).total_s - used
    return took / transactions * 1000, used / transactions * 1000


def main() -> int:
    """Prints a line for each pair, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--transactions", type=int, default=200, help="of a turn")
    parser.add_argument("--partitions", default="1,10")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-versions-") as folder:
        port = free_port()
        command = [sys.executable, "-m", "barnabas", "serve", "--data", str(Path(folder, "data"))]
        command += ["--port", str(port), "--set", "transaction.state.log.num.partitions=1"]
        server = Server(command, port, Path(folder, "log")).wait_until_listening()
        try:
            for partitions in map(int, asked.partitions.split(",")):
                topic = f"to-{partitions}"
                with Admin(server.bootstrap) as admin:
                    admin.topics.create(NewTopic(topic, partitions=partitions))
                found: dict[int, list[tuple[float, float]]] = {NEW: [], OLD: []}
                for number in range(asked.pairs):
                    for level in (NEW, OLD) if number % 2 else (OLD, NEW):
                        set_level(server.bootstrap, level)
                        found[level].append(turn(server, topic, partitions, asked.transactions))
                pairs = list(zip(found[NEW], found[OLD], strict=True))
                for what, place in (("time", 0), ("broker processor time", 1)):
                    new, old = (
                        statistics.median(each[place] for each in found[level]) for level in (NEW, OLD)
                    )
                    median, least, most = median_between([one[place] / other[place] for one, other in pairs])
                    print(
                        f"{partitions} partitions, {what} of a transaction: {new:.2f} ms by version 2, "
                        f"{old:.2f} by version 1, {median:.2f}x ({least:.2f}-{most:.2f})",
                        flush=True,
                    )
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
