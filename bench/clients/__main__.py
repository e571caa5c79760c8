"""Clients of Python side by side, on one broker in one run: ours, confluent-kafka, aiokafka, kafka-python.

    python -m bench.clients [--records 200000] [--rounds 3] [--bootstrap HOST:PORT] [--only WORD]

Each program (`bench.clients.programs`) is a process of its own that sends records of 100 B to one partition,
or reads them. In a round all programs run once, in turn, so that a neighbour of this machine who computes for
a minute slows all of them. Printed are the medians: records a second, and microseconds of processor time that
the client's process took for a record; then what is bounded. Without --bootstrap a broker of ours is started.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.admin import Admin, NewTopic
from bench.clients.programs import CONSUMERS, PRODUCERS
from bench.mood import mood_meter

_WORTH: Final = {"barnabas send_arrow": 5, "barnabas poll_arrow": 5}
"""Programs that are so much faster that they get more records."""


class Figures(NamedTuple):
    """The medians of a program."""

    rate: float
    cost_us: float


class Budget(NamedTuple):
    """A bounded ratio, or a bounded rate where there is no other program."""

    kind: str
    what: str
    program: str
    other: str | None
    least: float
    of_cost: bool = False


BUDGETS: Final = (
    Budget("produce", "defaults, of the tuned ones' rate", "barnabas", "barnabas tuned", 0.7),
    Budget("produce", "defaults, of confluent-kafka's rate", "barnabas", "confluent-kafka", 0.4),
    Budget(
        "produce", "aiokafka's processor time, of the async one's", "barnabas async", "aiokafka", 2.0, True
    ),
    Budget("produce", "tuned, records/s", "barnabas tuned", None, 300_000),
    Budget("produce", "send_arrow, records/s", "barnabas send_arrow", None, 3_000_000),
    Budget("consume", "records/s", "barnabas", None, 350_000),
    Budget(
        "consume", "aiokafka's processor time, of the async one's", "barnabas async", "aiokafka", 2.0, True
    ),
    Budget("consume", "Arrow, records/s", "barnabas poll_arrow", None, 5_000_000),
    Budget("consume", "Arrow, of confluent-kafka's rate", "barnabas poll_arrow", "confluent-kafka", 10.0),
)


@contextlib.contextmanager
def broker(address: str | None) -> Iterator[str]:
    """The broker's address; one of ours that ends with the block, unless there is one."""
    if address is not None:
        yield address
        return
    with tempfile.TemporaryDirectory(prefix="bench-clients-") as data:
        command = [sys.executable, "-m", "barnabas", "serve", "--data", data, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().split()[1].removeprefix("PLAINTEXT://")
            finally:
                process.terminate()


def run(kind: str, name: str, bootstrap: str, topic: str, records: int) -> Figures:
    """One program, once."""
    records *= _WORTH.get(name, 1)
    command = [sys.executable, "-m", "bench.clients.programs", kind, name, bootstrap, topic, str(records)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    took = json.loads(done.stdout.splitlines()[-1])
    return Figures(records / took["wall_s"], took["processor_s"] / records * 1e6)


def _medians(found: list[Figures]) -> Figures:
    return Figures(*(statistics.median(each) for each in zip(*found, strict=True)))


def _report(kind: str, figures: dict[str, Figures]) -> None:
    print(f"\n| {kind} | records/s | processor time a record |\n|---|---|---|")
    for name, one in figures.items():
        print(f"| {name} | {one.rate:,.0f} | {one.cost_us:.2f} us |")


def verdicts(figures: dict[str, dict[str, Figures]]) -> Iterator[tuple[str, str, float, float, str]]:
    """What is bounded, of the programs that ran: kind, what, the budget, what was found, whether it holds."""
    for each in BUDGETS:
        mine = figures[each.kind].get(each.program)
        other = None if each.other is None else figures[each.kind].get(each.other)
        if mine is None or (each.other is not None and other is None):
            continue
        if other is None:
            found = mine.rate
        elif each.of_cost:
            found = other.cost_us / mine.cost_us
        else:
            found = mine.rate / other.rate
        yield each.kind, each.what, each.least, found, "holds" if found >= each.least else "MISSED"


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bootstrap")
    parser.add_argument("--only", default="", help="programs with this in their name")
    given = parser.parse_args()
    figures: dict[str, dict[str, Figures]] = {}
    with broker(given.bootstrap) as bootstrap, mood_meter() as meter:
        print(f"mood before: {meter.look()}")
        with Admin(bootstrap) as admin:
            admin.topics.create([NewTopic(name, 1, 1) for name in ("bench-clients", "bench-clients-read")])
            longest = given.records * max(_WORTH.values())
            run("produce", "barnabas tuned", bootstrap, "bench-clients-read", longest)
            for kind, programs, topic in (
                ("produce", PRODUCERS, "bench-clients"),
                ("consume", CONSUMERS, "bench-clients-read"),
            ):
                found: dict[str, list[Figures]] = {name: [] for name in programs if given.only in name}
                for _ in range(given.rounds):
                    for name, runs in found.items():
                        runs.append(run(kind, name, bootstrap, topic, given.records))
                figures[kind] = {name: _medians(runs) for name, runs in found.items()}
                _report(kind, figures[kind])
            admin.topics.delete(["bench-clients", "bench-clients-read"])
        print("\n| bounded | budget | found | |\n|---|---|---|---|")
        for kind_of, what, least, value, verdict in verdicts(figures):
            print(f"| {kind_of}: {what} | {least:,} | {value:,.2f} | {verdict} |")
        print(f"\nmood after: {meter.look()}")


if __name__ == "__main__":
    main()
