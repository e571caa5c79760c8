"""What quotas cost: processor time of a produce while its client is held to quotas of bytes and time, and
while nobody is held to any.

    python -m bench.quotas [--pairs 8] [--seconds 2]

One broker, one connection with 200 requests in flight. Its quotas are set and removed while it runs; the two
halves of a pair follow each other at once, in an order that alternates, so that what else the machine does
falls on both. The quotas are so large that nobody waits.
"""

import argparse
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
HEARD_S = 1
"""Every broker has heard of quotas then."""


def cost_us(pid: int, client: RawClient, seconds: float) -> float:
    """Processor time of one produce."""
    records = wire.batch(b"x" * 100, 1)
    before = processor_time(pid).total_s
    requests, _ = produce_in_flight([client], TOPIC, records, seconds, WINDOW)
    return (processor_time(pid).total_s - before) / requests * 1e6


def pairs_of(server: ServeProcess, count: int, seconds: float) -> list[tuple[float, float]]:
    """(without, with) in us, of so many pairs."""
    found = []
    with Admin(f"127.0.0.1:{server.port}") as admin, RawClient(server.port) as client:
        client.create_topic(TOPIC)
        cost_us(server.process.pid, client, seconds)
        for turn in range(count):
            costs = {}
            for held in (False, True) if turn % 2 else (True, False):
                admin.quotas.alter(ClientQuotaAlteration({"user": "ANONYMOUS"}, LARGE if held else NONE))
                time.sleep(HEARD_S)
                costs[held] = cost_us(server.process.pid, client, seconds)
            found.append((costs[False], costs[True]))
            print(f"without {costs[False]:6.2f} us, with {costs[True]:6.2f} us", flush=True)
    return found


def main() -> int:
    """The exit code: 1 where quotas cost more than 5 %."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
        server = ServeProcess(Path(folder) / "data")
        try:
            server.wait_until_ready()
            found = pairs_of(server, given.pairs, given.seconds)
        finally:
            server.stop()
    more = [(held / free - 1) * 100 for free, held in found]
    median, least, most = statistics.median(more), min(more), max(more)
    print(f"{form.describe()}: {median:+.1f} % (median of {len(more)} pairs, {least:+.1f} to {most:+.1f})")
    return 0 if median <= 5 else 1


if __name__ == "__main__":
    sys.exit(main())
