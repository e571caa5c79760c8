"""What quotas cost: processor time of a produce while its client is held to quotas of bytes and time, and
while nobody is held to any.

    python -m bench.quotas [--pairs 60] [--seconds 0.3] [--control]

One broker, one connection with 200 requests in flight. Its quotas are set and removed while it runs; the two
halves of a pair follow each other at once, in an order that alternates, so that what else the machine does
falls on both. The quotas are so large that nobody waits. Many short pairs tell more than a few long ones:
printed is the median of their ratios with the interval that it lies in at 95 % (by drawing pairs again), and
the budget is met, or missed, where all of that interval says so. With ``--control`` no half has quotas: how
far the method itself strays.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from barnabas.admin import Admin
from barnabas.admin.quotas import ClientQuotaAlteration
from barnabas.core import form
from bench import wire
from bench.processes import processor_time
from bench.raw import RawClient, produce_in_flight
from serving import ServeProcess

TOPIC = "quotas"
WINDOW = 200
LARGE = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e9}
NONE = dict.fromkeys(LARGE)
HEARD_S = 0.2
"""A broker alone has heard of quotas then."""
BUDGET = 5.0
"""Per cent more of processor time."""


def cost_us(pid: int, client: RawClient, seconds: float) -> float:
    """Processor time of one produce."""
    records = wire.batch(b"x" * 100, 1)
    before = processor_time(pid).total_s
    requests, _ = produce_in_flight([client], TOPIC, records, seconds, WINDOW)
    return (processor_time(pid).total_s - before) / requests * 1e6


def pairs_of(server: ServeProcess, count: int, seconds: float, *, control: bool) -> list[tuple[float, float]]:
    """(without, with) in us, of so many pairs."""
    found = []
    with Admin(f"127.0.0.1:{server.port}") as admin, RawClient(server.port) as client:
        client.create_topic(TOPIC)
        for _ in range(5):
            cost_us(server.process.pid, client, seconds)
        for turn in range(count):
            costs = {}
            for held in (False, True) if turn % 2 else (True, False):
                wanted = LARGE if held and not control else NONE
                admin.quotas.alter(ClientQuotaAlteration({"user": "ANONYMOUS"}, wanted))
                time.sleep(HEARD_S)
                costs[held] = cost_us(server.process.pid, client, seconds)
            found.append((costs[False], costs[True]))
    return found


def median_between(values: list[float]) -> tuple[float, float, float]:
    """The median, and between what it lies at 95 %."""
    rng = random.Random(1)
    drawn = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), drawn[50], drawn[-51]


def main() -> int:
    """The exit code: 0 where the budget is met, 1 where it is missed, 2 where the pairs do not tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--control", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
        server = ServeProcess(Path(folder) / "data")
        try:
            server.wait_until_ready()
            found = pairs_of(server, given.pairs, given.seconds, control=given.control)
        finally:
            server.stop()
    median, least, most = median_between([(held / free - 1) * 100 for free, held in found])
    free_us, held_us = (statistics.median(costs) for costs in zip(*found, strict=True))
    print(
        f"{form.describe()}: {median:+.1f} % ({least:+.1f} to {most:+.1f}, {len(found)} pairs), "
        f"{free_us:.2f} us a produce without and {held_us:.2f} with"
    )
    return 0 if most <= BUDGET else 1 if least > BUDGET else 2


if __name__ == "__main__":
    sys.exit(main())
