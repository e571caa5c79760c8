"""Groups on Apache Kafka 3.9 and on Barnabas: the first record, a crowd of heartbeats, a big rebalance.

python -m bench.groups [--quick] [--only first,crowd,rebalance] [--ours]
"""

import argparse
import contextlib
import itertools
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from confluent_kafka import Consumer

from bench import members, wire
from bench.sides import ONE_RECORD, Side, ours_alone, two_sides

GROUPS, GROUP_SIZE, CONNECTIONS, PERIOD_S = 5000, 4, 2000, 3.0
BIG_GROUP = 500
_numbers = itertools.count(1)


def _row(measure: str, kafka: float | None, ours: float, unit: str, budget: str) -> None:
    beside = "" if kafka is None else f"Kafka {kafka:.4g} {unit}, "
    ratio = "" if kafka is None else f", ratio {ours / kafka:.2f}"
    print(f"{measure}: {beside}Barnabas {ours:.4g} {unit}{ratio} (budget {budget})", flush=True)


# --- an empty group to its first record -------------------------------------------------------------------


def _first_record_ms(side: Side) -> float:
    """From the making of a librdkafka consumer to its first record, in a group that never was."""
    name = f"first-{next(_numbers)}"
    started = time.perf_counter()
    consumer = Consumer(
        {"bootstrap.servers": side.running.bootstrap, "group.id": name, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["first"])
        message = consumer.poll(30)
        if message is None or message.error():
            raise RuntimeError(f"{side.name} gave no record: {message and message.error()}")
        return (time.perf_counter() - started) * 1000
    finally:
        consumer.close()


def first_record(sides: Sequence[Side], *, quick: bool) -> None:
    """The time to the first record, in rounds that turn the order."""
    for side in sides:
        for _ in range(5 if quick else 30):
            _first_record_ms(side)
    seen: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(5 if quick else 25):
        for side in sides if number % 2 == 0 else reversed(sides):
            seen[side.name].append(_first_record_ms(side))
    found = [statistics.median(times) for times in seen.values()]
    _row("empty group to first record", found[0] if len(found) > 1 else None, found[-1], "ms", "<= 1.0x")


# --- a crowd of heartbeats --------------------------------------------------------------------------------


def _produce_p99_ms(side: Side, seconds: float) -> float:
    with side.connect() as client:
        frame, taken = wire.produce("first", ONE_RECORD), []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            started = time.perf_counter()
            client.ask(frame)
            taken.append(time.perf_counter() - started)
            time.sleep(0.002)
    return sorted(taken)[int(len(taken) * 0.99)] * 1000


@contextlib.contextmanager
def _crowd(side: Side, seconds: float) -> Iterator[None]:
    """The members in a process of their own; the body runs while they beat."""
    command = [sys.executable, "-m", "bench.groups", "--crowd", f"{side.running.port}:{seconds}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    try:
        if child.stdout.readline().strip() != "beating":
            raise RuntimeError("the crowd could not form its groups")
        yield
        print(f"  {side.name}: {child.stdout.readline().strip()}", flush=True)
    finally:
        child.kill()
        child.wait()


def crowd(sides: Sequence[Side], *, quick: bool) -> None:
    """Processor time of the broker under heartbeats alone, and the p99 of a produce beside them."""
    seconds = 10.0 if quick else 30.0
    cores, slowdowns = [], []
    for side in sides:
        _produce_p99_ms(side, 3)
        alone = _produce_p99_ms(side, seconds / 2)
        with _crowd(side, 2 * seconds + 5):
            before = side.cpu_seconds()
            time.sleep(seconds)
            cores.append((side.cpu_seconds() - before) / seconds * 100)
            beside = _produce_p99_ms(side, seconds)
        slowdowns.append(beside / alone)
        print(
            f"  {side.name}: produce p99 alone {alone:.2f} ms, beside the crowd {beside:.2f} ms", flush=True
        )
    measure = (
        f"{GROUPS * GROUP_SIZE:,} members over {CONNECTIONS} connections, a heartbeat each {PERIOD_S:.0f} s"
    )
    beside_kafka = len(sides) > 1
    _row(f"{measure}: one core", cores[0] if beside_kafka else None, cores[-1], "%", "< 40 %")
    _row("p99 of a produce beside it", slowdowns[0] if beside_kafka else None, slowdowns[-1], "x", "<= 2 x")


def run_crowd(port: int, seconds: float) -> None:
    """What the child process does."""
    groups = [f"crowd-{number}" for number in range(GROUPS)]
    members.wait_for_coordinator(port, [f"warm-{number}" for number in range(200)])
    connections = members.connect(port, CONNECTIONS)
    everybody = [
        members.Member(group, connections[(number * GROUP_SIZE + place) % CONNECTIONS])
        for number, group in enumerate(groups)
        for place in range(GROUP_SIZE)
    ]
    members.form(everybody)
    print("beating", flush=True)
    sent, lost = members.beat(everybody, PERIOD_S, seconds)
    print(f"{sent / seconds:.0f} heartbeats a second, {lost:.1f} s lost", flush=True)


# --- a big rebalance --------------------------------------------------------------------------------------


def _rebalance_seconds(side: Side) -> float:
    group = f"big-{next(_numbers)}"
    members.wait_for_coordinator(side.running.port, [group])
    connections = members.connect(side.running.port, BIG_GROUP + 1)
    try:
        everybody = [members.Member(group, connection) for connection in connections]
        members.form(everybody[:-1])
        return members.rejoin(everybody[:-1], everybody[-1])
    finally:
        for connection in connections:
            connection.close()


def rebalance(sides: Sequence[Side], *, quick: bool) -> None:
    """From the newcomer's JoinGroup until all 501 have their assignment."""
    seen: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(2 if quick else 5):
        for side in sides if number % 2 == 0 else reversed(sides):
            seen[side.name].append(_rebalance_seconds(side))
    found = [statistics.median(times) for times in seen.values()]
    _row(f"rebalance of {BIG_GROUP} members", found[0] if len(found) > 1 else None, found[-1], "s", "< 1 s")


PARTS: dict[str, Callable[..., None]] = {"first": first_record, "rebalance": rebalance, "crowd": crowd}


def main() -> int:
    """Runs the parts, each on brokers that suit it."""
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short rounds: a look, not a result")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--ours", action="store_true", help="Barnabas alone (no Java needed)")
    parser.add_argument("--crowd", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    if asked.crowd:
        port, _, seconds = asked.crowd.partition(":")
        run_crowd(int(port), float(seconds))
        return 0
    for name in asked.only.split(","):
        # The members of a part that forms groups at once must find each other: a delay as in production.
        delay = {"group.initial.rebalance.delay.ms": 0 if name == "first" else 3000}
        folder = Path(tempfile.mkdtemp(prefix="barnabas-bench-"))
        start = ours_alone(folder, delay) if asked.ours else two_sides(folder, control=False, settings=delay)
        with start as sides:
            PARTS[name](sides, quick=asked.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
