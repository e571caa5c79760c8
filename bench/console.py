"""The console's budgets with a large cluster: start, refresh, pages meanwhile, memory, and what a real broker
spends for it.

    python -m bench.console [--topics 10000] [--groups 2500] [--seconds 60]
    python -m bench.console --broker [--topics 1000] [--groups 250]
    python -m bench.console --frozen

`barnabas console` runs as its users run it, against brokers that answer about a cluster that does not exist
(`bench.generated_cluster`). Pages and REST are asked one after the other over HTTP while rounds go on.
With `--broker` it looks at a real broker of ours instead, and the broker's processor time is printed as a
share of one processor, beside what the broker spends without a console. With `--frozen` it looks at two
brokers, and one of them is stopped (SIGSTOP): how long each page takes then that asks the cluster.

On a machine that has other work the least time of a page and the processor time of a round say more than
the wall clock: all are printed, with the load.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition

PAGES = (
    "",
    "/brokers",
    "/topics",
    "/topics?search=99",
    "/topics?sort=size",
    "/topics/topic-77",
    "/groups?sort=lag",
    "/groups/group-7",
    "/health",
    "/log-dirs",
    "/history",
    "/configs",
    "/controller",
)
LIVE = (
    "/configs/broker/2",
    "/configs/topic/there",
    "/explain/partition/there-0",
    "/explain/coordinator/readers",
    "/messages?topic=there&start=earliest",
    "/transactions/hanging",
    "/quorum",
    "/users",
    "/acls",
    "/quotas",
    "/tokens",
)
"""What is asked of the cluster when it is opened."""
TICKS = os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """What a process has used of the processors."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mib(pid: int, name: str = "VmHWM") -> float:
    """The greatest resident size of a process so far."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextlib.contextmanager
def generated(topics: int, groups: int) -> Iterator[str]:
    """Brokers in a process of their own; yields their address."""
    command = [sys.executable, "-m", "bench.generated_cluster"]
    command += ["--topics", str(topics), "--groups", str(groups)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


class RunningConsole:
    """`barnabas console` as a process."""

    def __init__(self, bootstrap: str, data: Path) -> None:
        self._begun = time.perf_counter()
        command = [sys.executable, "-m", "barnabas", "console", "--bootstrap-server", bootstrap]
        command += ["--name", "large", "--port", "0", "--data", str(data)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.url = line.strip().rpartition(" ")[2].rstrip("/")
        self.get("/api/v1/healthz")
        self.start_s = time.perf_counter() - self._begun

    def get(self, path: str) -> bytes:
        """What it answers."""
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            data: bytes = answer.read()
        return data

    def overview(self) -> dict[str, Any]:
        """The cluster at a glance."""
        found: dict[str, Any] = json.loads(self.get("/api/v1/clusters/large"))
        return found

    def close(self) -> None:
        """Ends it."""
        self.process.terminate()
        self.process.wait(10)


def measure(console: RunningConsole, seconds: float) -> None:
    """Asks for pages and REST in turn, and prints the figures."""
    rounds: dict[int, int] = {}
    times: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}
    end = time.monotonic() + seconds
    paths = [f"/c/large{one}" for one in PAGES] + [f"/api/v1/clusters/large{one}" for one in PAGES]
    while time.monotonic() < end:
        for path in paths:
            begun = time.perf_counter()
            answer = console.get(path)
            times.setdefault(path, []).append((time.perf_counter() - begun) * 1000)
            sizes[path] = len(answer)
        found = json.loads(console.get("/api/v1/clusters/large"))
        rounds[found["requests"]] = found["round_ms"]
    for path, each in sorted(times.items(), key=lambda one: -max(one[1])):
        p95 = statistics.quantiles(each, n=20)[-1]
        print(
            f"{path:<42} least {min(each):6.1f} ms  p50 {statistics.median(each):6.1f} ms  p95 {p95:6.1f} ms"
            f"  {sizes[path]:>8} bytes"
        )
    every = [one for each in times.values() for one in each]
    print(f"pages and REST: p95 {statistics.quantiles(every, n=20)[-1]:.0f} ms of {len(every)}")
    static = sum(len(console.get(f"/static/{name}")) for name in ("console.css", "console.js", "icon.svg"))
    largest = max(size for path, size in sizes.items() if path.startswith("/c/"))
    print(f"a page the first time: at most {(largest + static) / 1000:.0f} kB")
    print(f"rounds: {sorted(set(rounds.values()))} ms")


def processor_of_rounds(console: RunningConsole, rounds: int) -> None:
    """Prints what the console's process spends for a round when nobody asks for pages."""

    def looked_s() -> float:
        """How long ago the last round was over."""
        return float(console.overview()["refreshed_s"]["value"])

    def wait_for_round() -> None:
        ago = looked_s()
        while ago <= (ago := looked_s()):
            time.sleep(0.5)

    wait_for_round()
    before = processor_s(console.process.pid)
    for _ in range(rounds):
        wait_for_round()
    spent = processor_s(console.process.pid) - before
    print(f"processor time of {rounds} rounds: {spent:.1f} s, {spent / rounds:.1f} s each")


def with_broker(topics: int, groups: int, seconds: float) -> None:
    """What a real broker spends for a console that looks every ten seconds."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "barnabas", "serve", "--port", "0", "--data", f"{folder}/broker"]
        command += ["--set", "offsets.topic.num.partitions=4"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as broker:
            assert broker.stdout is not None
            try:
                bootstrap = next(
                    found[1] for line in broker.stdout if (found := re.search(r"(127\.0\.0\.1:\d+)", line))
                )
                fill(bootstrap, topics, groups)
                shares = []
                for looked_at in (False, True):
                    console = RunningConsole(bootstrap, Path(folder) / "console") if looked_at else None
                    if console is not None:
                        time.sleep(15)
                    begun, before = time.monotonic(), processor_s(broker.pid)
                    time.sleep(seconds)
                    shares.append((processor_s(broker.pid) - before) / (time.monotonic() - begun))
                    if console is not None:
                        print(f"last round: {console.overview()['round_ms']} ms")
                        console.close()
                print(f"the broker uses {shares[0]:.2%} of a processor alone, {shares[1]:.2%} with a console")
            finally:
                broker.terminate()


def with_frozen() -> None:
    """Each page beside a broker that is stopped, and what it says."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        store = f"barnabas.metadata.path={folder}/metadata.sqlite"
        patient = ("--set", store, "--set", "zookeeper.session.timeout.ms=600000")
        brokers, addresses = [], []
        for number in ("1", "2"):
            command = [sys.executable, "-m", "barnabas", "serve", "--id", number, "--port", "0"]
            command += ["--data", f"{folder}/{number}", *patient]
            broker = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(broker.kill)
            brokers.append(broker)
            assert broker.stdout is not None
            addresses.append(
                next(found[1] for line in broker.stdout if (found := re.search(r"(127\.0\.0\.1:\d+)", line)))
            )
        with Admin(addresses[0]) as admin:
            admin.topics.create([NewTopic("there", assignment={0: [2], 1: [1]})])
            admin.groups.alter_offsets("readers", {TopicPartition("there", 0): 0})
        console = RunningConsole(",".join(addresses), Path(folder) / "console")
        stack.callback(console.close)
        while not console.overview()["round_ms"]:
            time.sleep(0.2)
        brokers[1].send_signal(signal.SIGSTOP)
        longest = 0.0
        for path in [one for _ in range(3) for one in (*LIVE, *PAGES[:4])]:
            begun = time.perf_counter()
            answer = json.loads(console.get(f"/api/v1/clusters/large{path}"))
            took_s = time.perf_counter() - begun
            longest = max(longest, took_s)
            state = answer.get("state") or {}
            print(f"{path:<40} {took_s * 1000:6.0f} ms  {state.get('state', '')} {state.get('why') or ''}")
        print(f"the longest: {longest * 1000:.0f} ms; load of the machine: {os.getloadavg()[0]:.1f}")
        brokers[1].send_signal(signal.SIGCONT)


def fill(bootstrap: str, topics: int, groups: int) -> None:
    """Topics with a record in each partition, groups with a position in sixteen of them."""
    names = [f"topic-{number}" for number in range(topics)]
    with Admin(bootstrap_servers=bootstrap) as admin:
        for start in range(0, topics, 100):
            admin.topics.create([NewTopic(name, partitions=4) for name in names[start : start + 100]])
        with Producer(bootstrap_servers=bootstrap) as producer:
            for name in names:
                for partition in range(4):
                    producer.send(name, b"a record", partition=partition)
        for number in range(groups):
            offsets = {
                TopicPartition(names[(number * 4 + each // 4) % topics], each % 4): 0 for each in range(16)
            }
            admin.groups.alter_offsets(f"group-{number}", offsets)


def with_generated(topics: int, groups: int, seconds: float) -> None:
    """The budgets of the console's own process."""
    with tempfile.TemporaryDirectory() as folder, generated(topics, groups) as bootstrap:
        console = RunningConsole(bootstrap, Path(folder))
        try:
            spent = processor_s(console.process.pid)
            print(f"start to the first answer: {console.start_s:.2f} s, {spent:.2f} s of a processor")
            while not (found := console.overview())["round_ms"]:
                time.sleep(0.2)
            print(f"first round: {found['round_ms']} ms")
            processor_of_rounds(console, 3)
            measure(console, seconds)
            print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
            print(f"memory: {memory_mib(console.process.pid):.0f} MiB at most")
        finally:
            console.close()


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=2_500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--broker", action="store_true")
    parser.add_argument("--frozen", action="store_true")
    given = parser.parse_args()
    if given.frozen:
        with_frozen()
        return
    run = with_broker if given.broker else with_generated
    run(given.topics, given.groups, given.seconds)


if __name__ == "__main__":
    main()
