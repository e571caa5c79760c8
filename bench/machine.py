"""What a machine of N brokers costs (`serve --brokers N`): its start, memory, idle brokers, a request.

python -m bench.machine [--brokers 1,2,4,8,16] [--partitions 1000] [--seconds 2] [--rounds 3]
    [--compiled PATH]

Processor time and memory only, of the parent and all brokers together. Small produce requests come from a
client in C (bench/floor/client.c) over eight connections (one to each broker, where there are more), spread
over the brokers by leader, 25 in flight on each; so what a request costs may be compared between machines of
one broker and of many.
"""

import argparse
import contextlib
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.admin import Admin, NewTopic
from bench import wire
from bench.processes import processor_time, proportional_mb, tree_of
from bench.sides import CHECKOUT, ONE_RECORD, Installation, built, kafka_harness

CONNECTIONS: Final = 8
IN_FLIGHT: Final = 25
TOPIC: Final = "load"
READY_S: Final = 120
SETTLE_S: Final = 6
"""Behind a start or a load, what it leaves to do is done."""


class Cost(NamedTuple):
    """Of one machine."""

    start_s: float
    """Processor time until all are ready."""
    ready_s: float
    memory_mb: float
    """Shared pages counted once, of the parent too."""
    idle_share: float
    """Of one core, with the partitions and without clients."""
    request_us: float
    requests_per_s: float


class Machine:
    """One parent with its brokers; `machine` starts it."""

    def __init__(self, folder: Path, brokers: int, installation: Installation) -> None:
        self._began = time.monotonic()
        self.ports = [kafka_harness.free_port()]
        while len(self.ports) < brokers:
            # Consecutive ones; what is taken in the middle ends the start with its line.
            self.ports.append(self.ports[-1] + 1)
        self.folder = folder
        self.address = f"127.0.0.1:{self.ports[0]}"
        self.ready_s = 0.0
        """How long it took until all were ready."""
        serve = ["-m", "barnabas", "serve", "--brokers", str(brokers), "--port", str(self.ports[0])]
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            installation.command(*serve, "--data", str(folder / "data")),
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def wait(self) -> None:
        """Until all are ready."""
        assert self.process.stdout is not None
        if not self.process.stdout.readline().startswith(b"ready "):
            raise RuntimeError(f"the brokers are not ready: {Path(self._log.name).read_text()}")
        self.ready_s = time.monotonic() - self._began

    def used_s(self) -> float:
        return processor_time(self.process.pid).total_s

    def pid_of(self, broker: int) -> int | None:
        """The process of a broker; None while it has none."""
        for pid in tree_of(self.process.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == f"barnabas-{broker}":
                    return pid
        return None

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(READY_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


@contextlib.contextmanager
def machine(brokers: int, installation: Installation) -> Iterator[Machine]:
    """One whose brokers are ready, in a folder of its own. Raises RuntimeError with what it said instead."""
    folder = Path(tempfile.mkdtemp(prefix="barnabas-machine-"))
    started = Machine(folder, brokers, installation)
    try:
        started.wait()
        yield started
    finally:
        started.stop()
        shutil.rmtree(folder)


def cost_of(brokers: int, asked: argparse.Namespace, installation: Installation) -> Cost:
    """Of one machine, from its start on."""
    with machine(brokers, installation) as one:
        start_s = one.used_s()
        time.sleep(SETTLE_S)
        memory = proportional_mb(tree_of(one.process.pid))
        with Admin(one.address) as admin:
            admin.topics.create(NewTopic("many", asked.partitions, 1))
            create_load_topics(admin, one.ports)
        time.sleep(SETTLE_S)
        before, since = one.used_s(), time.monotonic()
        time.sleep(asked.idle)
        idle = (one.used_s() - before) / (time.monotonic() - since)
        loads = [_load(one, asked.seconds) for _ in range(asked.rounds)]
        request_us = statistics.median(us for us, _ in loads)
        return Cost(
            start_s, one.ready_s, memory, idle, request_us, statistics.median(rate for _, rate in loads)
        )


class Driven(NamedTuple):
    """What a load of small requests did."""

    requests: int
    requests_per_s: float
    client_s: float
    """Processor time of the clients."""


def drive(ports: Sequence[int], seconds: float) -> Driven:
    """Small produce requests over eight connections, spread over the brokers at these ports; each of them
    leads the topic of its place, as `create_load_topics` has made them.
    """
    client = built("client")
    clients, share = [], max(1, CONNECTIONS // len(ports))
    with tempfile.TemporaryDirectory() as folder:
        for place, port in enumerate(ports):
            topic = f"{TOPIC}-{place + 1}"
            frame = Path(folder) / topic
            frame.write_bytes(wire.produce(topic, ONE_RECORD))
            shape = wire.ProduceResponse(topic)
            words = [frame, shape.size, shape.error_at, IN_FLIGHT, seconds, share, port]
            clients.append(subprocess.Popen([client, *map(str, words)], stdout=subprocess.PIPE, text=True))
        said = [each.communicate()[0].split() for each in clients]
    if any(each.returncode for each in clients):
        raise RuntimeError("a client failed")
    rate = sum(int(words[0]) / float(words[1]) for words in said)
    return Driven(sum(int(words[0]) for words in said), rate, sum(float(words[2]) for words in said))


def create_load_topics(admin: Admin, ports: Sequence[int]) -> None:
    """One for each broker, led by it. Their names are of one length for less than ten brokers."""
    nodes = {each.port: each.node_id for each in admin.cluster.describe().brokers}
    for place, port in enumerate(ports):
        admin.topics.create(NewTopic(f"{TOPIC}-{place + 1}", assignment={0: [nodes[port]]}))


def _load(one: Machine, seconds: float) -> tuple[float, float]:
    """Processor time of all brokers a request in us, and requests a second."""
    before = one.used_s()
    driven = drive(one.ports, seconds)
    return (one.used_s() - before) / driven.requests * 1e6, driven.requests_per_s


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.machine", description=__doc__.partition("\n")[0])
    parser.add_argument("--brokers", default="1,2,4,8,16")
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--idle", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiled", type=Path, default=CHECKOUT, metavar="PATH", help="another tree")
    asked = parser.parse_args()
    installation = Installation.at(asked.compiled)
    print(f"Barnabas, {installation.form}")
    print("| brokers | start, processor time | ready after | memory | idle | a request | requests |")
    print("|---|---|---|---|---|---|---|")
    for brokers in map(int, asked.brokers.split(",")):
        cost = cost_of(brokers, asked, installation)
        print(
            f"| {brokers} | {cost.start_s:.2f} s | {cost.ready_s:.2f} s | {cost.memory_mb:.0f} MB | "
            f"{cost.idle_share:.2%} | {cost.request_us:.1f} us | {cost.requests_per_s:,.0f}/s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
